"""The bound of the work in flight on a GPU, which Ctrl-C cannot cancel."""

from typing import Any

import numpy as np
import pytest
from conformance.tasks import AXPY
from rigs import cuda_rig, hip_stand_in
from rigs.cuda_stand_in import StandIn
from sessions import sessions

import quadrants_lab as qd
from quadrants_lab.backends._gpu.device import MOST, PART, Cost
from quadrants_lab.backends._simt.device import SimtDevice
from quadrants_lab.backends._simt.flight import Flight
from quadrants_lab.backends.amdgpu.hip import Device as AmdDevice
from quadrants_lab.backends.cuda.driver import Device as CudaDevice
from quadrants_lab.backends.vulkan import queue
from quadrants_lab.runtime.session import current

SECOND = 1_000_000_000


class Timed:
    """A driver whose launches take simulated time; the host takes 3 us for each. ``calls`` counts those for events."""

    name = "a device that takes time"
    threads_at_once = total_bytes = 1024

    def __init__(self) -> None:
        self.now = self.done = 0  # when what was launched will be done
        self.calls = 0
        self.unfinished: list[int] = []  # when each launch will be done

    def clock(self) -> int:
        return self.now

    def enter(self) -> None:
        pass

    def launch(self, takes: int) -> None:
        self.now += 3000
        self.done = max(self.done, self.now) + takes
        self.unfinished = [t for t in self.unfinished if t > self.now] + [self.done]

    def new_event(self) -> list[int]:
        return [0]

    def free_event(self, event: list[int]) -> None:
        pass

    def record_event(self, event: list[int]) -> None:
        self.calls += 1
        event[0] = self.done

    def await_event(self, event: list[int], what: str) -> None:
        self.calls += 1
        self.now = max(self.now, event[0])

    def wait(self, what: str) -> None:
        self.now = max(self.now, self.done)


@pytest.fixture
def timed() -> tuple[SimtDevice, Timed]:
    driver = Timed()
    device = SimtDevice(driver)
    device.flight = Flight(driver, driver.clock)
    return device, driver


def run(timed: tuple[SimtDevice, Timed], count: int, takes: int, cost: Cost) -> tuple[int, int]:
    """Launches ``count`` times; returns the most launches, and the most nanoseconds of work, in flight."""
    device, driver = timed
    most = longest = 0
    for _ in range(count):
        device.begin(cost)
        driver.launch(takes)
        most, longest = max(most, len(driver.unfinished)), max(longest, driver.done - driver.now)
    return most, longest


@pytest.mark.parametrize("takes", [1000, 5000, 100_000])
def test_short_launches_are_as_good_as_free(timed: tuple[SimtDevice, Timed], takes: int) -> None:
    cost = Cost()
    run(timed, 100, takes, cost)
    driver = timed[1]
    calls = driver.calls
    most, _ = run(timed, 64 * MOST, takes, cost)
    assert driver.calls - calls <= 2 * 64 + 2  # two calls a part
    assert most <= 2 * MOST + 1


@pytest.mark.parametrize("takes", [PART // 1000, PART // 10, PART // 5, PART, 3 * SECOND])
def test_long_launches_are_few(timed: tuple[SimtDevice, Timed], takes: int) -> None:
    """At most two parts are in flight once the cost is known, and five launches before."""
    cost = Cost()
    _, first = run(timed, 20, takes, cost)
    assert first <= max(5 * takes, 2 * (PART + takes))
    _, longest = run(timed, 500, takes, cost)
    assert longest <= max(3 * takes, 2 * (PART + takes))


def test_launches_that_turn_long_are_as_many_as_short_ones_at_most(timed: tuple[SimtDevice, Timed]) -> None:
    cost = Cost()
    run(timed, 10 * MOST, 1000, cost)
    most, _ = run(timed, 3 * MOST, SECOND, cost)
    assert most <= 2 * MOST + 1
    most, _ = run(timed, 10, SECOND, cost)
    assert most <= 3


# --- drivers ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("stand_in", "kind"), [(StandIn, CudaDevice), (hip_stand_in.StandIn, AmdDevice)])
def test_marks_of_a_driver(stand_in: Any, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = stand_in()
    monkeypatch.setattr("quadrants_lab.backends.cuda.driver.current", lambda number=None: driver)
    monkeypatch.setattr("quadrants_lab.backends.amdgpu.hip.current", lambda number=None: driver)
    device = kind()
    frame = cuda_rig.load(AXPY).frame(device)
    frame.cost.ns = PART // 8
    monkeypatch.setattr("quadrants_lab.backends._simt.flight.learn", lambda *args, **options: None)
    x, y = (device.allocate((100,), np.float32) for _ in range(2))
    for name, memory in (("x", x), ("y", y)):
        memory.write(np.ones(100, np.float32))
        frame.set_buffer(name, memory.address)
        frame.set_extents(name, memory.shape)
    frame.set_arg("a", 1.0)
    for n in range(100):
        frame.launch()
        assert len(driver._pending) <= 2 * 8 + 3
    assert driver.marks == 99 // 8
    assert y.read()[7] == 101


def test_ctrl_c_while_a_launch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted launch has not begun, and later ones are not affected."""
    driver = StandIn()
    monkeypatch.setattr("quadrants_lab.backends.cuda.driver.current", lambda number=None: driver)
    device = CudaDevice()
    bound = cuda_rig.bind(cuda_rig.load(AXPY), {n: np.ones(9, np.float32) for n in "xy"}, {"a": 1.0}, on=device)
    bound.memory["x"].write(np.ones(9, np.float32))
    frame = bound.frame
    frame.cost.ns = PART

    def interrupted(event: Any, what: str) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        frame.launch()
    with monkeypatch.context() as patch:
        patch.setattr(driver, "await_event", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                frame.launch()
    frame.launch()
    assert bound.memory["y"].read()[0] == 3


@pytest.fixture(params=sessions("vulkan"))
def vulkan(request: pytest.FixtureRequest) -> Any:
    qd.init(**request.param)
    yield current().device.logical.queue
    qd.reset()


def test_long_launches_on_vulkan_are_few(vulkan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = qd.field(qd.i32, 64)
    @qd.kernel
    def add():
        for i in x:
            x[i] += 1
    add()
    qd.sync()
    monkeypatch.setattr(queue, "learn", lambda *args, **options: None)
    add.dispatcher.last.frame.cost.ns = PART // 2
    for _ in range(50):
        add()
        assert len(vulkan._waiting) + sum(len(s.launches) for s in vulkan.running) <= 5
    assert x[3] == 51
