"""Programs of users (`user_programs`) compute what they are meant to, on every kind of device, and what the peer
computes."""

import json

import numpy as np
import pytest
from child import run
from conftest import peer_python
from lang import user_programs, user_rows
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsSyntaxError

ROWS = user_programs.ROWS
session = session_of(sessions("cpu", "vulkan", "metal", "wasm"), autouse=False)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.program.__name__)
def test_value(row: user_rows.Row, session: str) -> None:
    assert [float(v) for v in row.program(qd)] == pytest.approx(row.want, abs=1e-5)


@pytest.mark.peer
def test_the_peer_agrees() -> None:
    said = json.loads(run(peer_python(), user_rows.__file__, "quadrants").stdout.splitlines()[-1])
    for program, want, other in ROWS:
        got, meant = said[program.__name__], want if other is None else other
        if meant == "":
            assert isinstance(got, str), program.__name__
        else:
            assert got == pytest.approx(meant, abs=1e-5), program.__name__


def test_a_local_that_is_read_after_the_loop_has_no_last_value() -> None:
    """The iterations' own locals are those whose last value nobody sees."""
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, shape=4)

    @qd.kernel
    def after() -> qd.f32:
        r = 100.0
        for i in x:
            r = i * 1.0
        return r

    @qd.kernel
    def before():
        r = 100.0
        for i in x:
            if i > 1:
                r = i * 1.0
            x[i] = r

    @qd.kernel
    def around():
        r = 100.0
        for _ in qd.static(range(2)):
            x[0] = r
            for i in x:
                r = i * 1.0

    for kernel in (after, before, around):
        with pytest.raises(QuadrantsSyntaxError, match="QL1704"):
            kernel()


def test_the_inverse_of_twelve_rows_and_its_gradient() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    a = qd.Matrix.field(12, 12, qd.f64, shape=(), needs_grad=True)
    w, y = qd.Matrix.field(12, 12, qd.f64, shape=()), qd.field(qd.f64, shape=(), needs_grad=True)
    draw = np.random.default_rng(5)
    m, weights = draw.normal(size=(12, 12)), draw.normal(size=(12, 12))
    a.from_numpy(m)
    w.from_numpy(weights)

    @qd.kernel
    def k():
        for _ in range(1):
            y[None] += (a[None].inverse() * w[None]).sum()

    with qd.ad.Tape(y):
        k()
    inverse = np.linalg.inv(m)
    assert y[None] == pytest.approx((inverse * weights).sum(), rel=1e-10)
    np.testing.assert_allclose(a.grad.to_numpy(), -inverse.T @ weights @ inverse.T, rtol=1e-9, atol=1e-9)
