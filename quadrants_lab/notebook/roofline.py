"""Computes the roofline of a launch: the bytes and operations that its IR needs, and the least time that the device
takes for these.

Samuel Williams, Andrew Waterman and David Patterson: Roofline: an insightful visual performance model for multicore
architectures, Communications of the ACM 52(4), 2009. The reference interpreter counts the work of some iterations of
each task. Touched elements of an array are counted as moved once, as with perfect caches. The limits of the device are
measured with the same backend, by a copy of as many bytes and by chains of multiplications and additions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.types import DTYPES, DType
from quadrants_lab.ir.walk import find
from quadrants_lab.notebook.compare import home
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.specialisation import load_cached
from quadrants_lab.runtime.interpret.interpreter import Box, Env, Lane
from quadrants_lab.runtime.interpret.partial import Partial
from quadrants_lab.runtime.launch.frames import make_frame
from quadrants_lab.runtime.memory.memory import allocate
from quadrants_lab.runtime.record.launch_data import LaunchData, launch_data
from quadrants_lab.runtime.record.records import LaunchRecord
from quadrants_lab.runtime.session import Session, Settings
from quadrants_lab.widgets.model import Lazy, RooflineView

SAMPLES = 5  # the number of iterations of a task whose work is counted
MOST_STEPS = 200_000  # the most statements that are counted
ROUNDS = 5  # measurements of the device, of which the best one is used
FUNCTION = 20  # operations of an elementary function: about as many as its polynomial has
_ONE = {"abs", "add", "div", "fma", "max", "min", "mod", "mul", "neg", "rcp", "rsqrt", "select", "sqrt", "sub"}
_FREE = {"bitcast", "cast"}
_CHAINS, _TRIPS = 1 << 16, 512


class _TooManySteps(Exception):
    """Raised after `MOST_STEPS` statements."""


@dataclass
class Work:
    """The bytes that a launch reads and writes, by buffer ("" for adstacks), and its floating-point operations."""

    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    operations: float = 0.0

    def moved(self, sizes: dict[str, int]) -> float:
        """The bytes that must move at least: for each buffer the bytes read and the bytes written, each at most the
        buffer's size. ``sizes``: name of a buffer -> its bytes."""
        both = (*self.read.items(), *self.written.items())
        return sum(min(size, sizes.get(name, size)) for name, size in both)


def sizes_of(record: LaunchRecord) -> dict[str, int]:
    """Name of each array of a launch -> its bytes."""
    buffers = record.plan.kernel.buffers
    return {name: prod(shape) * buffers[name].dtype.nbytes for name, shape in record.shapes.items()}


def work_of(launch: LaunchData) -> Work:
    """The work of a launch. Raises QuadrantsError if it cannot be repeated, `_TooManySteps` if it is too long."""
    parts, counter = Partial(launch), _Counter(launch.kernel)
    for n, task in enumerate(launch.kernel.body):
        if isinstance(task, N.Offload):
            parts.run(n, counter.observe, counter.iterations)
            counter.inside = False
    return counter.work


class _Counter:
    """Observer that adds up the work of some iterations of each task, weighted as if all others did the same."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.buffers, self.work, self.weight = kernel.buffers, Work(), 0.0
        self.stacks = {s.id: s.type.nbytes for s in find(kernel.body, N.AdStackAlloca)}
        self.steps = 0
        self.inside = False

    def iterations(self, task: N.Offload, box: Box) -> Iterable[Lane]:
        """Up to `SAMPLES` iterations of the task, at equal distances in row-major order."""
        shape = tuple(map(len, box))
        total = prod(shape)
        places = sorted({(2 * k + 1) * total // (2 * SAMPLES) for k in range(SAMPLES)}) if total else []
        self.weight, self.inside = total / max(1, len(places)), True
        return [tuple(a[int(k)] for a, k in zip(box, np.unravel_index(n, shape), strict=True)) for n in places]

    def observe(self, s: N.Stmt, value: Any, env: Env) -> None:
        if not self.inside:
            return
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _TooManySteps
        work = self.work
        if isinstance(s, N.Op) and s.type.is_float:
            work.operations += self.weight * (1 if s.prim in _ONE else 0 if s.prim in _FREE else FUNCTION)
        elif isinstance(s, N.AdStackPush):
            self._add(work.written, "", self.stacks[s.stack])
        elif isinstance(s, N.AdStackLoadTop):
            self._add(work.read, "", self.stacks[s.stack])
        elif isinstance(s, N.Access):
            size = self.buffers[s.buffer].dtype.nbytes
            if isinstance(s, N.Read):
                self._add(work.read, s.buffer, size)
            if isinstance(s, N.Write):
                self._add(work.written, s.buffer, size)
            if isinstance(s, N.Atomic) and s.type.is_float:
                work.operations += self.weight

    def _add(self, to: dict[str, float], buffer: str, size: int) -> None:
        to[buffer] = to.get(buffer, 0.0) + self.weight * size


@lru_cache(maxsize=32)
def limits(name: str, threads: int, dtype: DType, size: int) -> tuple[float, float]:
    """The measured limits of a device with this backend: bytes per second of a copy whose two arrays have ``size``
    bytes together, and operations per second."""
    session = Session(Settings(arch=name, backend=name, threads=threads))
    n = size // (2 * dtype.nbytes)
    try:
        copy = _seconds(session, _kernel("xy", dtype, n, "store @y[%3], %4"))
        chain = _seconds(session, _chain(dtype))
    finally:
        session.end()
    return 2 * n * dtype.nbytes / copy, _CHAINS * _TRIPS * 16 / chain


def _kernel(buffers: str, dtype: DType, n: int, body: str) -> str:
    """A kernel that loads each of ``n`` elements of the first of its ``buffers`` (names of one letter) as %4."""
    fields = "\n".join(f"  buffer @{name}: field {dtype}[{n}]" for name in buffers)
    return f"""kernel k() forward next %70 {{
{fields}
  offload struct_for bounds {{
    %0: i32 = const 0
    %1: i32 = const {n}
    yield %0, %1
  }} do (%3: i32 'i') {{
    %4: {dtype} = load @{buffers[0]}[%3]
    {body}
    yield
  }}
}}
"""


def _chain(dtype: DType) -> str:
    """A kernel with eight independent chains of operations in each iteration."""
    chains = range(8)
    starts = "\n".join(f"%{10 + k}: {dtype} = {'add' if k else 'mul'} %4, %{8 if k else 6}" for k in chains)
    carried = ", ".join(f"%{20 + k}: {dtype} = %{10 + k}" for k in chains)
    steps = "\n".join(f"%{30 + k}: {dtype} = mul %{20 + k}, %6\n%{40 + k}: {dtype} = add %{30 + k}, %7" for k in chains)
    sums = "\n".join(f"%{60 + k}: {dtype} = add %{59 + k if k > 1 else 50}, %{50 + k}" for k in chains[1:])
    return _kernel("x", dtype, _CHAINS, f"""%6: {dtype} = const 0.5
    %7: {dtype} = const 0.25
    %8: {dtype} = const 1.0
{starts}
    %18: i32 = const 0
    %19: i32 = const {_TRIPS}
    for %29: i32 in %18..%19 carry ({carried}) {{
{steps}
      yield {", ".join(f"%{40 + k}" for k in chains)}
    }} -> ({", ".join(f"%{50 + k}: {dtype}" for k in chains)})
{sums}
    store @x[%3], %67""")


def _seconds(session: Session, text: str) -> float:
    """The least seconds of a launch of the kernel on new data."""
    kernel = parse_kernel(text)
    options = CompileOptions()
    fields = {b.name: allocate(session, b.dtype, b.shape or ()) for b in kernel.buffers.values()}
    frame = make_frame(load_cached(kernel, options, session), fields, session)
    took = []
    for _ in range(ROUNDS + 1):  # the first one warms up
        start = perf_counter()
        frame.launch()
        session.finish()
        took.append(perf_counter() - start)
    return min(took[1:])


def roofline(launch: LaunchData, sizes: dict[str, int], seconds: float, session: Session) -> RooflineView:
    """How near a launch that took ``seconds`` is to the limits of its device; ``problem`` says why it is unknown.
    ``sizes``: result of `sizes_of`."""
    settings = session.settings
    dtype = _widest(launch.kernel)
    try:
        work = work_of(launch)
        used = sum(sizes.get(name, 0) for name in work.read.keys() | work.written.keys())
        bandwidth, rate = limits(settings.backend, settings.threads, dtype, _near(used))
    except _TooManySteps:
        return RooflineView(problem=f"an iteration takes more than {MOST_STEPS:,} steps, which are not counted")
    except (QuadrantsError, MemoryError) as e:
        return RooflineView(problem=str(e).splitlines()[0])
    if backend(settings.backend).CAPABILITIES.on_host:
        work.read.pop("", 0)  # the stacks of running iterations stay in the caches
        work.written.pop("", 0)
    return RooflineView(work.moved(sizes), work.operations, seconds, bandwidth, rate, str(dtype))


def roofline_of(record: LaunchRecord, seconds: float) -> Lazy[RooflineView]:
    """The roofline of a record, computed on demand. It holds no more data than `launch_data` does."""
    make = partial(roofline, launch_data(record), sizes_of(record), seconds, record.plan.session)
    return Lazy("the roofline", home(record), make)


def _near(size: int) -> int:
    """The next power of two, from 64 KiB to 128 MiB."""
    return min(max(1 << 16, 1 << (size - 1).bit_length() if size else 0), 1 << 27)


def _widest(kernel: N.Kernel) -> DType:
    """f64 if the kernel computes some value in f64, else f32."""
    wide = any(s.type is DTYPES["f64"] for s in find(kernel.body, N.Op))
    return DTYPES["f64" if wide else "f32"]
