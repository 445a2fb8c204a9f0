"""Metal's runtime against stand-ins for Apple's objects: the calls and their order, and errors."""

import platform
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from child import run
from conformance.tasks import AXPY, stacked
from conftest import ROOT
from rigs import metal_rig
from sessions import NIGHT

from quadrants_lab.backends.metal import apple, simulator
from quadrants_lab.backends.metal.apple import ERROR
from quadrants_lab.backends.metal.device import Device, open_device
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.source import Span

TWO_TASKS = """kernel two() forward {
  buffer @n: temp i32[]
  buffer @y: field i32[]
  offload serial bounds {
    yield
  } do () {
    %1: i32 = const 5
    store @n[], %1
    yield
  }
  offload range_for bounds {
    %2: i32 = const 0
    %3: i32 = load @n[]
    yield %2, %3
  } do (%4: i32) {
    %5: i32 = atomic add @y[], %4
    yield
  }
}"""


class Options:
    """An MTLCompileOptions; ``modern``: whether of macOS 15."""

    modern = True

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    @classmethod
    def alloc(cls) -> Any:
        return SimpleNamespace(init=cls)

    def respondsToSelector_(self, name: str) -> bool:
        assert name == "setMathMode:"
        return self.modern

    def setLanguageVersion_(self, version: int) -> None:
        self.said["language"] = version

    def setMathMode_(self, mode: int) -> None:
        self.said["math"] = mode

    def setFastMathEnabled_(self, on: bool) -> None:
        self.said["fast"] = on


class Gpu(simulator._Device):
    """The simulated device with the methods that only a real one needs."""

    metal3 = True

    def name(self) -> str:
        return "Apple M9"

    def supportsFamily_(self, family: int) -> bool:
        assert family == 5001
        return self.metal3

    def newLibraryWithSource_options_error_(self, source: str, options: Any, error: None) -> Any:
        self.options = options
        return super().newLibraryWithSource_options_error_(source, None, error)


class Pool:
    open = 0

    def __enter__(self) -> None:
        Pool.open += 1

    def __exit__(self, *error: object) -> None:
        Pool.open -= 1


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Makes the system look like a Mac to this backend."""
    made = Gpu()
    metal, objc = ModuleType("Metal"), ModuleType("objc")
    metal.__dict__.update(MTLCreateSystemDefaultDevice=lambda: made, MTLCompileOptions=Options)
    metal.__spec__ = objc.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    objc.__dict__["autorelease_pool"] = Pool
    monkeypatch.setitem(sys.modules, "Metal", metal)
    monkeypatch.setitem(sys.modules, "objc", objc)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.5", ("", "", ""), "arm64"))
    monkeypatch.setattr(apple, "probe", apple.probe.__wrapped__)
    return made


def test_probe(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    assert apple.probe() == ""
    gpu.metal3 = False  # type: ignore[misc]
    assert apple.probe() == "The GPU Apple M9 does not support Metal 3."
    monkeypatch.setattr(sys.modules["Metal"], "MTLCreateSystemDefaultDevice", lambda: None)
    assert apple.probe() == "Metal finds no GPU here."
    monkeypatch.delitem(sys.modules, "Metal")
    assert "pip install pyobjc-framework-Metal" in apple.probe()
    monkeypatch.setattr(platform, "mac_ver", lambda: ("12.7", ("", "", ""), "arm64"))
    assert apple.probe() == "The metal backend needs macOS 13 or later."
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert "macOS" in apple.probe()


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("fast", [True, False])
def test_a_kernel_on_a_mac(gpu: Gpu, modern: bool, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Options, "modern", modern)
    own = open_device()
    assert not own.simulated
    assert own.name == "Apple M9"
    x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
    exe = metal_rig.load(AXPY, metal_rig.FAST if fast else metal_rig.EXACT)
    bound = metal_rig.bind(exe, {"x": x, "y": y}, {"a": 2.0}, on=own)
    assert bound.launch() == 0
    assert np.array_equal(y, 2 * x + 1)
    math = {"math": int(fast)} if modern else {"fast": False}  # never the mode that assumes that there is no NaN
    assert gpu.options.said == {"language": 196608, **math}
    assert Pool.open == 0


class Recorded:
    """Calls of command encoders, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        for name in dir(simulator._Encoder):
            if not name.startswith("__"):
                monkeypatch.setattr(simulator._Encoder, name, self._watched(name))

    def _watched(self, name: str) -> Any:
        original = getattr(simulator._Encoder, name)

        def call(encoder: Any, *args: Any) -> Any:
            self.calls.append((name, args))
            return original(encoder, *args)

        return call


def test_a_launch_is_one_command_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    y = np.zeros((), np.int32)
    bound = metal_rig.run(TWO_TASKS, {"y": y})
    assert y == 10
    run = "dispatchThreadgroups_threadsPerThreadgroup_"
    indirect = "dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_"
    step = ["setComputePipelineState_", run, "memoryBarrierWithScope_"]
    names = [name for name, _ in recorded.calls]
    want = ["setBuffer_offset_atIndex_", "useResource_usage_", *step, *step, *step, "endEncoding"]
    want[9] = indirect
    assert names == want
    (used,) = [args for name, args in recorded.calls if name == "useResource_usage_"]
    assert used == (bound.memory["y"].buffer, 3)


def test_the_heap_is_a_resource_and_empty_tasks_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    exe = metal_rig.load(stacked("f32", 64).replace("{OP}", "add %9, %9"))
    arrays = {
        "x": np.ones(64, np.float32), "count": np.full(64, 5, np.int32), "y": np.zeros((64, 8), np.float32)
    }  # fmt: skip
    bound = metal_rig.bind(exe, arrays, stacks=[5])
    assert bound.launch() == 0
    used = [args[0] for name, args in recorded.calls if name == "useResource_usage_"]
    assert len(used) == 4
    assert bound.device.buffer_at(bound.device.heap_address) in used
    recorded.calls.clear()
    empty = metal_rig.bind(metal_rig.load(AXPY), {n: np.zeros(0, np.float32) for n in "xy"}, {"a": 1.0})
    assert empty.launch() == 0
    assert not any(name.startswith("dispatch") for name, _ in recorded.calls)


# --- what can go wrong --------------------------------------------------------------------------------------------

def system(**methods: Any) -> Device:
    """A simulated device with replaced methods."""
    made = simulator.Simulator()
    for name, fn in methods.items():
        setattr(made.device, name, fn)
    return Device(made)


def test_a_launch_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    own = metal_rig.fresh()
    x = np.ones(4, np.float32)
    bound = metal_rig.bind(metal_rig.load(AXPY), {"x": x, "y": x.copy()}, {"a": 1.0}, on=own)
    error = SimpleNamespace(localizedDescription=lambda: "Caused GPU Hang Error")
    with monkeypatch.context() as m:
        m.setattr(simulator._CommandBuffer, "status", lambda self: ERROR)
        m.setattr(simulator._CommandBuffer, "error", lambda self: error)
        with pytest.raises(QuadrantsRuntimeError, match="did not finish kernel 'axpy': Caused GPU Hang Error"):
            bound.launch()
    assert not own.busy
    assert bound.launch() == 0


def test_ctrl_c_ends_the_waiting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = metal_rig.fresh()
    x = np.ones(4, np.float32)
    bound = metal_rig.bind(metal_rig.load(AXPY), {"x": x, "y": x.copy()}, {"a": 1.0}, on=own)
    waited = []

    def status(self: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(simulator._CommandBuffer, "status", status)
        m.setattr(simulator._CommandBuffer, "waitUntilCompleted", lambda self: waited.append(self))
        with pytest.raises(KeyboardInterrupt):
            bound.launch()
        assert own.busy
        bound.memory["x"].read()  # waits for what runs
        assert len(waited) == 1
        assert not own.busy
    assert bound.launch() == 0


def test_a_pipeline_that_does_not_build_names_the_line() -> None:
    kernel = parse_kernel(AXPY)
    (task,) = kernel.body
    assert isinstance(task, N.Offload)
    for stmt in task.body:
        stmt.span = Span(__file__, 3, 0, 3, 9)
    line = metal_rig.load(kernel).source.split("\n").index("    y[i] = a * x[i] + y[i];") + 1
    words = f"program_source:{line}:9: error: use of undeclared identifier 'i'"
    error = SimpleNamespace(localizedDescription=lambda: words)
    own = system(newLibraryWithSource_options_error_=lambda *args: (None, error))
    with pytest.raises(QuadrantsRuntimeError) as caught:
        metal_rig.load(kernel).frame(own)
    assert words in str(caught.value)
    assert f"{__file__}, line 3" in str(caught.value)


def test_groups_that_do_not_fit() -> None:
    pipeline = SimpleNamespace(maxTotalThreadsPerThreadgroup=lambda: 32)
    own = system(newComputePipelineStateWithFunction_error_=lambda *args: (pipeline, None))
    with pytest.raises(QuadrantsRuntimeError, match="task0 needs too many registers for a group of 64 threads"):
        metal_rig.load(AXPY).frame(own)


def test_memory_that_is_not_there() -> None:
    with pytest.raises(MemoryError, match="64 bytes are more than simulated Metal GPU has in one buffer"):
        system(maxBufferLength=lambda: 60).allocate((16,), np.float32)
    with pytest.raises(MemoryError, match="no 64 bytes of memory left"):
        system(newBufferWithLength_options_=lambda n, options: None).allocate((16,), np.float32)


# --- built simulations, on disk -----------------------------------------------------------------------------------

PROGRAM = """
import quadrants_lab as qd
qd.init(arch=qd.metal, simulate=True, offline_cache=False, enable_fallback=False)
x = qd.field(qd.i32, 100)

@qd.kernel
def fill():
    for i in x:
        x[i] = 3 * i

fill()
print(x[33])
"""


def test_a_damaged_simulation_is_built_again(tmp_path: Path) -> None:
    """Loading a truncated or damaged library could crash the process."""
    program, folder = tmp_path / "program.py", tmp_path / "quadrants_lab" / "simulated-metal"
    program.write_text(PROGRAM)

    def launch() -> Path:
        done = run(sys.executable, program, env={"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)})
        assert done.output == "99\n"
        (kept,) = folder.iterdir()
        return kept

    whole = launch().read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damaged in (flipped, whole[: len(whole) // 3], b"")[: 3 if NIGHT else 1]:
        launch().write_bytes(damaged)
        kept = launch()
        assert kept.read_bytes() != damaged
        made = kept.stat().st_ino
        assert launch().stat().st_ino == made  # and not again
