"""Programs of users (`user_programs`) and of the user guide (`guide`) compute what they are meant to, and what the peer
computes. By day each runs on the CPU and on one other kind of device, by night on all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lang import guide, user_programs, user_rows
from once import Once
from peer.process import printed
from sessions import in_turn, sessions

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsSyntaxError

ROWS, GUIDE = user_programs.ROWS, guide.GUIDE


@pytest.mark.parametrize("how", in_turn(sessions("cpu", "cuda", "vulkan", "metal", "wasm")))
@pytest.mark.parametrize("row", [*ROWS, *GUIDE], ids=lambda row: row.program.__name__)
def test_value(row: user_rows.Row, how: dict[str, Any]) -> None:
    if row.needs:
        pytest.importorskip(row.needs)
    qd.init(**{**how, **row.options})
    assert user_rows.numbers(row.program(qd)) == pytest.approx(row.want, rel=1e-5, abs=1e-5)


def test_the_table_of_the_guide() -> None:
    """Names of programs are their ids, and the pages that have programs are these."""
    assert len({row.program.__name__ for row in GUIDE}) == len(GUIDE) >= 150
    assert {row.page for row in GUIDE} >= {"autodiff", "compound_types", "graph", "matrix_vector", "tensor"}


@pytest.mark.peer
@pytest.mark.parametrize("page", [  # some by day: the peer compiles each for seconds, one for more than a minute
    pytest.param(page, marks=[pytest.mark.slow] * (page not in ("fields", "matrix_vector")))
    for page in ("", *dict.fromkeys(row.page for row in GUIDE))
])  # fmt: skip
def test_the_peer_agrees(page: str, kept: Once) -> None:
    """Compares the rows of a page of the guide, or the rows of no page."""
    rows = [row for row in GUIDE if row.page == page] or ROWS
    args = ("guide", "GUIDE", page) if page else ("user_programs", "ROWS")
    files = [path for path in Path(user_rows.__file__).parent.glob("*.py") if not path.name.startswith("test_")]
    said = printed(kept, user_rows.__file__, "quadrants", *args, of=sorted(files))
    for row in rows:
        got, meant = said[row.program.__name__], row.want if row.peer is None else row.peer
        if row.needs and str(got).startswith("ModuleNotFoundError"):
            continue
        if meant == "":
            assert isinstance(got, str), row.program.__name__
        else:
            assert got == pytest.approx(meant, rel=1e-5, abs=1e-5), row.program.__name__


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


def test_the_inverse_of_seven_rows_and_its_gradient() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    a = qd.Matrix.field(7, 7, qd.f64, shape=(), needs_grad=True)
    w, y = qd.Matrix.field(7, 7, qd.f64, shape=()), qd.field(qd.f64, shape=(), needs_grad=True)
    draw = np.random.default_rng(5)
    m, weights = draw.normal(size=(7, 7)), draw.normal(size=(7, 7))
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
