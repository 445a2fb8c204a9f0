"""Measures the bytes of adstacks for one running parallel iteration, in the same way for both engines: how much the
process grows from a gradient with few trips to one with many. One thread runs one iteration at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIPS = 1_000_000
FEW = 16
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class StackRow:
    """One case. ``ours`` and ``peer``: bytes for an iteration of `TRIPS` trips in quadrants_lab and in the peer, or
    None with the reason in ``why``. ``reported``: the bytes that the launch report of quadrants_lab says."""

    case: str
    ours: int | None
    reported: int | None
    peer: int | None
    why: str = ""


def memory() -> int:
    """The present memory of this process in bytes. That is enough, because both engines keep the memory of adstacks
    after a launch. The peak would include the stacks of threads that have ended."""
    line = next(s for s in STATUS.read_text().splitlines() if s.startswith("VmSize"))
    return int(line.split()[1]) * 1024


def measure(name: str) -> dict[str, int]:
    """Runs in a worker process. Returns the measured bytes of the case's gradient, and the bytes in the launch
    report."""
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
        found["bytes"] //= sizes.lanes  # several iterations of "gated at 5 %" run at the same time
        found["reported"] = sizes.bytes
    return found


def answer(case: str) -> Any:
    """The answer of a worker: the names of all cases, or, if ``case`` is given, the bytes of this case."""
    from benchmarks.cases.stacks import CASES

    return measure(case) if case else list(CASES)


# --- on an NVIDIA GPU -------------------------------------------------------------------------------------------

DEVICE_ITERATIONS, DEVICE_TRIPS = 1 << 20, 256
DEVICE_CASES = {"sin, f32": ("sin", "f32"), "8 carried, f32": ("8 carried", "f32"), "sin, f64": ("sin", "f64")}


def on_device(case: str) -> Any:
    """The answer of a worker: the names of all cases; or, for one case, how many bytes of device memory a gradient of
    `DEVICE_TRIPS` trips takes more than one of a single trip."""
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
    """The free memory of the first GPU in bytes, as its driver reports it."""
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
