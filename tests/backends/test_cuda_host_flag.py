"""The flag in the host's memory that kernels set when they are done."""

from typing import Any

from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.backends._simt.host_flag import ALONE
from quadrants_lab.backends.cuda import driver
from quadrants_lab.runtime import session as S

session = session_of(sessions("cuda"))


def device() -> Any:
    return S.current().device


def counter() -> Any:
    """A field, and the kernel that increments it, after its first launch."""
    n = qd.field(qd.i32, shape=())

    @qd.kernel
    def count():
        n[None] += 1

    count()
    qd.sync()
    return n, count


def test_a_single_launch_is_awaited_by_its_flag() -> None:
    n, count = counter()
    if driver.probe():
        waits = device().driver.waits
        count()
        assert device().running == ALONE
        device().driver.wait("what the stand-in puts off")
        qd.sync()
        assert device().driver.waits == waits + 1
    for _ in range(100):
        count()
        assert device().running == ALONE
        qd.sync()
        assert not device().running
    assert n[None] == (102 if driver.probe() else 101)


def test_a_launch_without_a_signal_in_time_is_synchronised() -> None:
    n, count = counter()
    count()
    device().done.clear()  # as if it were still running
    qd.sync()
    assert not device().running
    assert n[None] == 2


def test_several_are_waited_for_together() -> None:
    n, count = counter()
    for _ in range(50):
        count()
    assert device().running != ALONE
    qd.sync()
    assert n[None] == 51


def test_work_queued_after_the_launch_is_awaited() -> None:
    n, count = counter()
    x = qd.field(qd.i32, shape=1000)
    qd.sync()
    count()
    x.fill(7)
    assert device().running != ALONE
    qd.sync()
    assert not device().running
    assert (n[None], x[999]) == (2, 7)


def test_which_kernels_signal() -> None:
    n, x = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=8)

    @qd.kernel
    def parallel():
        for i in x:
            x[i] += 1

    @qd.kernel
    def serial_at_the_end():
        for i in x:
            x[i] += 1
        n[None] = x[3]

    @qd.kernel
    def returns() -> qd.i32:
        return n[None]

    @qd.kernel
    def prints():
        print(n[None])

    stores = {}
    for kernel in (parallel, serial_at_the_end, returns, prints):
        kernel()
        qd.sync()
        stores[kernel.name] = kernel.code("ptx").count("st.release.sys")
        assert kernel.dispatcher.last.frame.exe.signals == bool(stores[kernel.name])
    assert stores == {"parallel": 0, "serial_at_the_end": 1, "returns": 0, "prints": 0}
    assert n[None] == 2


def test_every_session_has_its_own_flag() -> None:
    counter()
    first = device().done
    qd.init(arch=qd.cuda, simulate=True, enable_fallback=False, offline_cache=False)
    n, count = counter()
    assert device().done is not first
    count()
    qd.sync()
    assert n[None] == 2
