"""CUDA's runtime against a stand-in for the driver: asynchronous launches, memory that the host cannot access, frames
that are too long for a parameter, lack of memory."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from conformance.tasks import AXPY, reduction, stacked
from rigs import cuda_rig
from rigs.cuda_stand_in import StandIn

import quadrants_lab as qd
from quadrants_lab.backends import cuda
from quadrants_lab.backends.cuda import driver
from quadrants_lab.backends.launch import ArrayParam, ScalarParam

pytestmark = pytest.mark.skipif(not driver.probe(), reason="a device is here; the stand-in is for machines without")


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    before = driver.stand_in()
    made = StandIn()
    driver.register(made)
    yield made
    qd.reset()
    driver.register(before)


@pytest.fixture
def session(stand_in: StandIn) -> StandIn:
    qd.init(arch=qd.cuda, simulate=True, enable_fallback=False, offline_cache=False)
    return stand_in


def axpy(stand_in: StandIn, n: int = 1000) -> SimpleNamespace:
    device = cuda_rig.fresh()
    frame = cuda_rig.load(AXPY).frame(device)
    x, y = (device.allocate((n,), np.float32) for _ in range(2))
    x.write(np.arange(n, dtype=np.float32))
    y.write(np.float32(1))
    return SimpleNamespace(device=device, frame=frame, x=x, y=y, entry=frame.entry(
        [ScalarParam("a"), ArrayParam("x"), ArrayParam("y")]
    ))  # fmt: skip


def test_launches_are_not_waited_for(stand_in: StandIn) -> None:
    k = axpy(stand_in)
    waits = stand_in.waits
    for _ in range(3):
        assert k.entry(2.0, k.x, k.y) is None
    assert stand_in.waits == waits
    assert k.device.busy
    assert np.array_equal(k.y.read(), 1 + 6 * np.arange(1000, dtype=np.float32))
    k.device.finish()
    assert not k.device.busy


def test_a_launch_keeps_its_arguments(stand_in: StandIn) -> None:
    """Arguments of a launch do not change earlier launches that may not have begun."""
    k = axpy(stand_in)
    k.entry(1.0, k.x, k.y)
    k.entry(10.0, k.x, k.y)
    assert np.array_equal(k.y.read(), 1 + 11 * np.arange(1000, dtype=np.float32))


def test_entry_refuses_what_does_not_match(stand_in: StandIn) -> None:
    k = axpy(stand_in)
    launches = stand_in.launches
    wrong = k.device.allocate((1000,), np.float64)
    host = np.zeros(1000, np.float32)
    strange = (wrong, [1.0], host[::2])
    for args in ((1, k.x), ("1", k.x, k.y), (1e300, k.x, k.y), *((1.0, a, k.y) for a in strange)):
        assert k.entry(*args) is NotImplemented
    assert stand_in.launches == launches
    assert k.entry(3.0, k.x, host) is None  # the host's arrays are copied there and back
    assert np.array_equal(host, 3 * np.arange(1000, dtype=np.float32))


def test_group_counts_follow_the_shapes(stand_in: StandIn) -> None:
    k = axpy(stand_in)
    k.entry(1.0, k.x, k.y)
    launches = stand_in.launches
    none = k.device.allocate((0,), np.float32)
    k.entry(1.0, none, none)
    assert stand_in.launches == launches
    for n in (1, 128, 129, 100_000):
        x, y = (k.device.allocate((n,), np.float32) for _ in range(2))
        x.write(np.float32(2))
        k.entry(4.0, x, y)
        assert (y.read() == 8).all()


def test_frames_longer_than_a_parameter(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.SHAPE, "by_value", 8)
    k = axpy(stand_in)
    for a in (1.0, 10.0):
        k.entry(a, k.x, k.y)
    assert np.array_equal(k.y.read(), 1 + 11 * np.arange(1000, dtype=np.float32))


def test_out_of_memory_is_an_error_and_the_device_lives_on(stand_in: StandIn) -> None:
    device = cuda_rig.fresh()
    before = stand_in.used
    with pytest.raises(MemoryError, match="allocating"):
        device.allocate((1 << 30,), np.float64)
    assert stand_in.used == before
    y = np.zeros((), np.float32)
    cuda_rig.run(reduction("add", "f32", 1000), {"x": np.ones(1000, np.float32), "y": y}, on=device)
    assert y == 1000


def test_freed_memory_is_the_next_array_of_its_size_or_returns_to_the_driver(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = cuda_rig.fresh()
    before = stand_in.used
    for _ in range(3):
        m = device.allocate((1000,), np.int64)
        np.testing.assert_array_equal(m.read(), np.zeros(1000))
        m.write(np.ones(1000))
        del m
    assert stand_in.used - before == 8000
    monkeypatch.setattr("quadrants_lab.backends._simt.device._MOST_SPARE", 8000)
    m = device.allocate((1001,), np.int64)
    del m
    assert stand_in.used - before == 8000
    device.drop_spare()
    assert stand_in.used == before


# --- fields and ndarrays over memory that the host does not see ---------------------------------------------------

def test_fields_follow_kernels_and_python(session: StandIn) -> None:
    x = qd.field(qd.f32, shape=(3000,))
    total = qd.field(qd.f32, shape=())

    @qd.kernel
    def double() -> None:
        for i in x:
            x[i] *= 2.0
            total[None] += x[i]

    x.fill(1.0)
    x[7] = 5.0
    assert x[7] == 5.0
    double()
    assert x[7] == 10.0
    assert x[8] == 2.0
    assert total[None] == 2 * 2999 + 10
    x[8] = 100.0
    x[9] += 1.0
    double()
    assert x.to_numpy()[6:10].tolist() == [4.0, 20.0, 200.0, 6.0]
    x.from_numpy(np.full(3000, 3.0))
    double()
    assert (x.to_numpy() == 6.0).all()


def test_kernels_run_without_copies_in_between(session: StandIn) -> None:
    x = qd.field(qd.f32, shape=(3000,))
    a = qd.ndarray(qd.f32, shape=(3000,))
    @qd.kernel
    def step(a: qd.types.ndarray(), by: qd.f32) -> None:
        for i in x:
            x[i] += by
            a[i] = x[i]
    step(a, 1.0)
    waits = session.waits
    for _ in range(3):
        step(a, 1.0)
    assert session.waits == waits
    qd.sync()
    assert session.waits == waits + 1
    assert a[2999] == 4.0


def test_large_adstacks_are_for_fewer_threads() -> None:
    """A heap above `LARGE_HEAP` bytes has room for `FEW` threads of each multiprocessor, a smaller one for all."""
    device = cuda_rig.fresh()
    most, few = device.stack_threads, device.few_threads
    assert few == min(most, driver.FEW * device.driver.multiprocessors)
    exe = cuda_rig.load(stacked("f32", 10**6).replace("{OP}", "sin %9"))
    frame = exe.frame(device)
    fits = driver.LARGE_HEAP // (4 * most)
    assert frame.heap_bytes([fits]) == 4 * most * fits
    assert frame.heap_bytes([fits + 1]) == 4 * few * (fits + 1)


def test_an_element_that_python_writes_is_copied_alone(session, monkeypatch) -> None:
    """Up to a few elements are copied one by one, whatever is read, filled or launched in between."""
    x = qd.field(qd.f32, shape=(64, 64))
    moved: list[int] = []
    for name in ("upload", "download"):
        plain = getattr(session, name)
        monkeypatch.setattr(session, name, lambda a, b, n, plain=plain: (moved.append(n), plain(a, b, n)))

    @qd.kernel
    def double():
        for i, j in x:
            x[i, j] *= 2

    want = np.zeros((64, 64), np.float32)
    for count, whole in ((1, False), (5, False), (40, True)):
        moved.clear()
        for n in range(count):
            x[n, 3 * n % 64] = n + 0.5
            want[n, 3 * n % 64] = n + 0.5
        double()
        want *= 2
        qd.sync()
        assert (max(moved) > 4) is whole
        x[0, 1] = want[0, 1] = 3
        assert x[0, 1] == 3
        assert x[1, 3] == want[1, 3]
        assert np.array_equal(x.to_numpy(), want)
        double()
        want *= 2
        assert np.array_equal(x.to_numpy(), want)
    x[5, 5] = 7
    x.fill(1)
    x[63, 2] = 8
    double()
    want[:] = 2
    want[63, 2] = 16
    assert np.array_equal(x.to_numpy(), want)
