"""The programs of the table under `qd.ad`: which of them are warned about, and whole programs under a Tape."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracle.sines import slopes
from programs import PROGRAMS
from running import MADE, each, interpreted, job_of
from sessions import WITH_F64, session_of

import quadrants_lab as qd

WARNED = {"field_without_grad_stops_the_gradient": "QL0407"}


@each(p for p in PROGRAMS.values() if p.grad)
def test_only_what_deserves_it_is_warned_about(program) -> None:
    """u[t] to u[t + 1], sibling loops over one array, indices from fields that are only read: all silent."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MADE.clear()  # only a kernel that is made anew warns
        interpreted(job_of(program, program.cases[-1]))
    texts = [str(w.message) for w in caught if "QL04" in str(w.message)]
    assert len(texts) == (program.name in WARNED), texts
    assert all(WARNED[program.name] in text for text in texts)


session = session_of(WITH_F64, autouse=False, default_fp=qd.f64)


@pytest.mark.parametrize("writer", ["kernel", "python"])
def test_a_bound_that_is_rewritten_between_forward_and_gradient(session, writer) -> None:
    x, n, loss = qd.field(qd.f64, 3, needs_grad=True), qd.field(qd.i32, ()), qd.field(qd.f64, (), needs_grad=True)
    x.from_numpy(np.array([0.1, 0.5, 0.9]))

    @qd.kernel
    def steps():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v) + 0.1
            loss[None] += v

    @qd.kernel
    def shrink():
        n[None] = 2

    n[None] = 9
    with qd.ad.Tape(loss):
        steps()
        if writer == "kernel":
            shrink()
        else:
            n[None] = 2
        steps()
    assert n[None] == 2
    want = sum(slopes(x.to_numpy(), count, plus=0.1) for count in (9, 2))
    np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-12)
