"""Bytes of adstacks that one parallel iteration in flight takes, measured on both engines alike: how much the process
grows from a gradient of few trips to one of many, one thread and one iteration at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIPS = 1_000_000
FEW = 16
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class StackRow:
    """Bytes an iteration at `TRIPS` trips; None with the reason in ``why`` where the engine has none. ``reported`` is
    what our launch report says."""

    case: str
    ours: int | None
    reported: int | None
    peer: int | None
    why: str = ""


def memory() -> int:
    """Memory that this process has, in bytes. Both engines keep what stacks lie in. The most that it has had would
    include threads' stacks, which come and go."""
    line = next(s for s in STATUS.read_text().splitlines() if s.startswith("VmSize"))
    return int(line.split()[1]) * 1024


def measure(name: str) -> dict[str, int]:
    """In a worker: bytes of the case's gradient, and those that a launch report gives."""
    from benchmarks import engine

    engine.init(cpu_max_num_threads=1)
    from benchmarks.cases.loops import Space
    from benchmarks.cases.stacks import CASES, trips

    make, dtype = CASES[name]
    space = Space(getattr(engine.qd, dtype))
    kernel = space.kernel_of(make)
    before = 0
    for most in (FEW, TRIPS):
        before = memory()
        space.n[None] = trips(name, most)
        kernel()
        kernel.grad()
        engine.qd.sync()
    found = {"bytes": memory() - before}
    if hasattr(kernel, "sizes"):
        sizes = kernel.sizes()
        found["bytes"] //= sizes.lanes  # of "gated at 5 %", which has more than one iteration, several are in flight
        found["reported"] = sizes.bytes
    return found


def answer(case: str) -> Any:
    """What a worker answers: the names of the cases, or the bytes of one."""
    from benchmarks.cases.stacks import CASES

    return measure(case) if case else list(CASES)


# --- on an NVIDIA GPU -------------------------------------------------------------------------------------------

DEVICE_ITERATIONS, DEVICE_TRIPS = 1 << 20, 256
DEVICE_CASES = {"sin, f32": ("sin", "f32"), "8 carried, f32": ("8 carried", "f32"), "sin, f64": ("sin", "f64")}


def on_device(case: str) -> Any:
    """What a worker answers: the names of the cases, or by how many bytes the device's memory shrinks from a gradient
    of one trip to one of `DEVICE_TRIPS`."""
    if not case:
        return list(DEVICE_CASES)
    from benchmarks import engine

    engine.init("cuda")
    from benchmarks.cases.loops import LOOPS

    name, dtype = DEVICE_CASES[case]
    loop = LOOPS[name](DEVICE_ITERATIONS, 1, getattr(engine.qd, dtype))
    free = []
    for trips in (1, DEVICE_TRIPS):
        loop.n[None] = trips
        loop.kernel()
        loop.kernel.grad()
        engine.qd.sync()
        free.append(device_bytes_free())
    return {"bytes": free[0] - free[1]}


def device_bytes_free() -> int:
    """Of the first GPU, as its driver sees it."""
    import ctypes

    cuda = ctypes.CDLL("libcuda.so.1")
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    for result in (
        cuda.cuInit(0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        cuda.cuCtxPushCurrent_v2(context),
        cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context)),
        cuda.cuDevicePrimaryCtxRelease_v2(0),
    ):
        assert result == 0, f"the driver's error {result}"
    return free.value
