"""Ranges whose step is 0 when the loop begins: told where a session checks, and no trip elsewhere."""

import pytest
from sessions import EVERYWHERE, ended

import quadrants_lab as qd
from quadrants_lab.runtime.session import checking

end = ended


@qd.func
def counted(n, step):
    for _ in range(0, 6, step):
        n[None] += 1


def kernels():
    n, at = qd.field(qd.i32, ()), qd.field(qd.i32, 1)

    @qd.kernel
    def parallel(step: qd.i32):
        for _ in range(0, 6, step):
            n[None] += 1

    @qd.kernel
    def serial(step: qd.i32):
        qd.loop_config(serialize=True)
        for _ in range(0, 6, step):
            n[None] += 1

    @qd.kernel
    def inner(step: qd.i32):
        for i in range(3):
            for _ in range(i, i + 2, step):
                n[None] += 1

    @qd.kernel
    def from_memory(step: qd.i32):
        at[0] = step
        for i in range(1):
            for _ in range(6, 0, -at[i]):
                n[None] += 1

    @qd.kernel
    def in_a_func(step: qd.i32):
        counted(n, step)

    @qd.kernel
    def wide(step: qd.i64):
        for _ in range(0, 6, step):
            n[None] += 1

    return n, (parallel, serial, inner, from_memory, in_a_func, wide)


@pytest.mark.parametrize("how", EVERYWHERE)
def test_a_step_of_0(how):
    qd.init(**how)
    n, unchecked = kernels()
    for kernel in unchecked:
        n[None] = 0
        kernel(2)
        kernel(0)
        assert n[None] == 3, kernel.name
    qd.init(**how, debug=True)
    n, checked = kernels()
    for kernel in checked:
        n[None] = 0
        kernel(2)
        assert n[None] == 3, kernel.name
        with pytest.raises(qd.QuadrantsAssertionError, match="QL2070.*the step of this range is 0"):
            (kernel(0), qd.sync())
        assert n[None] == 3, kernel.name


def test_a_step_of_0_where_asserts_are_checked():
    """Cells check them, in any session: `notebook/test_magics.py`."""
    qd.init(arch=qd.cpu)
    _, made = kernels()
    for kernel in made:
        with checking("asserts"), pytest.raises(qd.QuadrantsAssertionError, match="the step of this range is 0"):
            kernel(0)
