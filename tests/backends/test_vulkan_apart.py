"""Discrete Vulkan devices, whose memory the host cannot access: all is copied, in the order of launches."""

from typing import Any

import numpy as np
import pytest
from conformance.tasks import AXPY
from rigs import (
    apart,
    vulkan_rig,  # it skips where there is no Vulkan
)

import quadrants_lab as qd
from quadrants_lab.backends import vulkan
from quadrants_lab.backends.lower import lower
from quadrants_lab.backends.vulkan import memory as M
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.runtime.session import current

OWN, MAPPED, CACHED = M.DEVICE_LOCAL, M.HOST_VISIBLE | M.HOST_COHERENT, M.HOST_CACHED


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    apart.patch(monkeypatch)
    qd.init(arch=qd.vulkan, enable_fallback=False, default_fp=qd.f64)
    assert current().device.remote
    yield
    qd.reset()


@pytest.mark.parametrize(("types", "mapped", "staging", "remote"), [
    ([0, OWN, MAPPED, MAPPED | CACHED, OWN | MAPPED], 4, 3, 1),  # NVIDIA's H200
    ([OWN | MAPPED | CACHED], 0, 0, 0),  # lavapipe
    ([OWN, OWN | MAPPED, OWN | MAPPED | CACHED], 2, 2, 0),  # an integrated GPU
    ([OWN, MAPPED | CACHED], 1, 1, 0),  # one whose own memory the host cannot map
    ([OWN], None, None, 0),
])
def test_which_memory_is_chosen(types: list[int], mapped: int | None, staging: int | None, remote: int) -> None:
    everything = (1 << len(types)) - 1
    assert [kind.best(types, everything) for kind in (M.MAPPED, M.STAGING, M.REMOTE)] == [mapped, staging, remote]


@pytest.mark.parametrize(("dtype", "count"), [
    *((dtype, count) for dtype in ("i8", "u16", "f16", "f32", "i64", "f64") for count in (1, 3, 1000, 70_001)),
    ("f16", 9_000_001), ("f64", 9_000_001),
])  # fmt: skip
def test_arrays_come_back_as_they_went(session: None, dtype: str, count: int) -> None:
    """The largest array of f64 has more chunks than can be in flight."""
    x = qd.ndarray(getattr(qd, dtype), count)
    assert not x.to_numpy().any()
    values = np.arange(count) % 113
    x.from_numpy(values.astype(x.to_numpy().dtype))
    assert np.array_equal(x.to_numpy(), values)
    assert x[count - 1] == values[-1]
    for value in (0, 7, 2.5 if dtype[0] == "f" else 5):
        x.fill(value)
        assert (x.to_numpy() == value).all()


def test_writes_and_launches_keep_their_order(session: None) -> None:
    x, total, by = qd.field(qd.f32, 100), qd.field(qd.f32, ()), qd.field(qd.i32, ())
    @qd.kernel
    def add():
        for i in x:
            total[None] += x[i] * by[None]
    x.fill(0.5)
    for n in range(300):
        by[None] = n
        add()
    assert total[None] == 50 * sum(range(300))
    x[7] = 100.5
    by[None] = 1
    total[None] = 0.0
    add()
    assert total[None] == 150.0


def test_a_program_under_a_tape(session: None) -> None:
    """Values that launches overwrite are kept on the device."""
    x = qd.field(qd.f64, 64, needs_grad=True)
    loss = qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def step():
        for i in x:
            x[i] = qd.sin(x[i]) + 0.01 * x[i] * x[i]

    @qd.kernel
    def add():
        for i in x:
            loss[None] += x[i]

    start = np.linspace(-1, 1, 64)
    x.from_numpy(start)
    with qd.ad.Tape(loss):
        for _ in range(20):
            step()
        add()
    v, d = start, np.ones(64)
    for _ in range(20):
        v, d = np.sin(v) + 0.01 * v * v, d * (np.cos(v) + 0.02 * v)
    np.testing.assert_allclose(loss[None], v.sum(), rtol=1e-9)
    np.testing.assert_allclose(x.grad.to_numpy(), d, rtol=1e-7)


def test_arrays_of_the_host_prints_and_values(session: None, capfd: pytest.CaptureFixture[str]) -> None:
    @qd.kernel
    def double(a: qd.types.ndarray(dtype=qd.f32, ndim=2)) -> qd.f32:
        for i, j in a:
            a[i, j] = 2 * a[i, j]
        print("doubled", a[1, 2])
        return a[1, 1]
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert double(a) == 10.0
    assert a[2, 3] == 22.0
    there = qd.ndarray(qd.f32, (3, 4))
    there.from_numpy(a)
    assert double(there) == 20.0
    assert there[2, 3] == 44.0
    assert capfd.readouterr().out == "doubled 12.0\ndoubled 24.0\n"


@pytest.mark.parametrize("count", [1, 255, 300_001])
def test_short_iterations_in_step(session: None, count: int) -> None:
    """Every iteration runs exactly once, also the remainder."""
    x, y, total = qd.field(qd.f64, count), qd.field(qd.f64, (count, 3)), qd.field(qd.f64, ())

    @qd.kernel
    def run(n: qd.i32):
        for i in range(n):
            x[i] += 2.0 * i
        for i, j in y:
            y[i, j] += x[i] + j
        for i in range(2, n):
            total[None] += x[i]

    for _ in range(2):
        run(count)
    i = np.arange(count)
    assert np.array_equal(x.to_numpy(), 4.0 * i)
    assert np.array_equal(y.to_numpy(), 6.0 * i[:, None] + 2 * np.arange(3))
    assert total[None] == (2.0 * i + 4.0 * i)[2:].sum()


def test_the_passes_that_are_shown_are_those_of_the_device(session: None) -> None:
    task = lower(parse_kernel(AXPY), vulkan.lowering(vulkan_rig.FAST), vulkan_rig.FAST).tasks[0]
    assert sum(isinstance(s, N.For) for s in task.body) == 2  # iterations in step, and those that are left


def test_a_write_between_launches_waits_for_none(session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Python writes an element of a field, the rest of the field is not copied to the host."""
    x, y, fetched = qd.field(qd.f64, 3), qd.field(qd.f64, 16), []
    device = current().device
    fetch = device.download
    monkeypatch.setattr(device, "download", lambda *where: fetched.append(where) or fetch(*where))
    @qd.kernel
    def step():
        for i in y:
            y[i] += x[i % 3]
    for n in range(10):
        x[n % 3] = n
        step()
    assert not fetched
    assert y[4] == sum(max((m for m in range(n + 1) if m % 3 == 1), default=0) for n in range(10))


def test_host_and_device_write_by_turns(session: None) -> None:
    """Writes from Python, launches and reads come in random order."""
    x, rng, model = qd.field(qd.i32, 8), np.random.default_rng(4), np.zeros(8, np.int32)

    @qd.kernel
    def double(n: qd.i32):
        for i in range(n):
            x[i] = 2 * x[i] + 1

    for _ in range(400):
        n, what = int(rng.integers(8)), rng.integers(5)
        if what == 0:
            x[n] = model[n] = rng.integers(100)
        elif what == 1:
            double(n)
            model[:n] = (2 * model[:n] + 1) % 1009
            if model[:n].any():
                x.from_numpy(model)
        elif what == 2:
            double(n)
            model[:n] = 2 * model[:n] + 1
            assert x[0] == model[0]
            x.fill(7)
            model[:] = 7
        elif what == 3:
            assert x[n] == model[n]
        else:
            assert np.array_equal(x.to_numpy(), model)


def test_more_memory_than_there_is(session: None) -> None:
    with pytest.raises(MemoryError):
        qd.ndarray(qd.f64, 1 << 50)
    x = qd.ndarray(qd.f64, 10)
    x.fill(1.0)
    assert x.to_numpy().sum() == 10.0
