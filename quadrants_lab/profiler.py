"""Implements `qd.profiler`, which counts launches, their times and the bytes that they used, in a session with
``qd.init(kernel_profiler=True)``. The profiler waits for each launch, which makes launches slower."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from weakref import WeakKeyDictionary

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.elsewhere import missing_attribute
from quadrants_lab.runtime import session
from quadrants_lab.runtime.compile.specialisation import CLOCKS
from quadrants_lab.runtime.observe.observers import watch

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


_MAX_TRACE = 1 << 16  # the most launches in the trace

__all__ = [
    "CuptiMetric", "KernelProfilerQueryResult", "clear_kernel_profiler_info",
    "clear_scoped_profiler_info", "collect_kernel_profiler_metrics", "get_kernel_profiler_total_time",
    "get_predefined_cupti_metrics", "print_kernel_profiler_info", "print_memory_profiler_info",
    "print_scoped_profiler_info", "query_kernel_profiler_info", "set_kernel_profiler_metrics",
    "set_kernel_profiler_toolkit",
]  # fmt: skip


@dataclass
class KernelProfilerQueryResult:
    """The number of launches of a kernel, and their shortest, longest, total and average time in milliseconds.
    ``bytes``: the size of the memory that the last launch read or wrote."""

    counter: int = 0
    min: float = 0.0
    max: float = 0.0
    total: float = 0.0
    bytes: int = 0

    @property
    def avg(self) -> float:
        return self.total / self.counter if self.counter else 0.0

    def add(self, ms: float, bytes: int) -> None:
        self.min = min(self.min, ms) if self.counter else ms
        self.max = max(self.max, ms)
        self.counter, self.total, self.bytes = self.counter + 1, self.total + ms, bytes


@dataclass
class Profile:
    """An observer of the launches of a session. ``trace``: (kernel, start in ms, milliseconds) of the last launches."""

    kernels: dict[str, KernelProfilerQueryResult] = field(default_factory=dict)
    trace: deque[tuple[str, float, float]] = field(default_factory=lambda: deque(maxlen=_MAX_TRACE))
    begin: float = field(default_factory=perf_counter)
    of_session: ClassVar[bool] = True

    def before(self, plan: Plan, args: tuple[Any, ...]) -> float:
        plan.session.finish()
        return perf_counter()

    def after(self, plan: Plan, args: tuple[Any, ...], token: float, failed: bool) -> None:
        plan.session.finish()
        ms = (perf_counter() - token) * 1e3
        name = plan.kernel.name if plan.owner.mode == "forward" else f"{plan.kernel.name} ({plan.owner.mode})"
        used = [memory for n, memory in plan.memories(args).items() if n in plan.reads | plan.writes]
        size = sum(prod(memory.operand.shape) * memory.dtype.nbytes for memory in used)
        self.kernels.setdefault(name, KernelProfilerQueryResult()).add(ms, size)
        self.trace.append((name, (token - self.begin) * 1e3, ms))


_profiles: WeakKeyDictionary[session.Session, Profile] = WeakKeyDictionary()
_profile = Profile()  # the profile of the last default session that had a profiler


@contextmanager
def profiling(now: session.Session) -> Iterator[None]:
    """Makes a ``with`` in which launches are added to the profile of the session ``now``."""
    global _profile
    _profile = _profiles.setdefault(now, Profile())
    with watch(_profile):
        yield


def clear_kernel_profiler_info() -> None:
    """Forgets all launches."""
    _profile.kernels.clear()
    _profile.trace.clear()
    _profile.begin = perf_counter()


def query_kernel_profiler_info(name: str) -> KernelProfilerQueryResult:
    """Counts and times of the launches of the kernel ``name``. Launches of its gradient have the name "NAME
    (reverse)"."""
    return _profile.kernels.get(name, KernelProfilerQueryResult())


def get_kernel_profiler_total_time() -> float:
    """The total time of all launches in seconds."""
    return sum(k.total for k in _profile.kernels.values()) / 1e3


def print_kernel_profiler_info(mode: str = "count") -> None:
    """Prints a row for each kernel, the longest total time first; with ``mode="trace"``, a row for each of the last
    65,536 launches in order."""
    if mode == "trace":
        print("start ms      ms  kernel")
        for name, start, ms in _profile.trace:
            print(f"{start:8.3f}{ms:8.3f}  {name}")
        return
    if mode != "count":
        raise ValueError(f"mode={mode!r} is neither 'count' nor 'trace'")
    total = get_kernel_profiler_total_time() or 1.0
    print("     %  total s   count      min      avg      max ms        bytes  kernel")
    for name, k in sorted(_profile.kernels.items(), key=lambda item: -item[1].total):
        print(
            f"{k.total / total / 10:6.2f}{k.total / 1e3:9.3f}{k.counter:8}{k.min:9.3f}{k.avg:9.3f}{k.max:9.3f}"
            f"{k.bytes:16,}  {name}"
        )


def print_memory_profiler_info() -> None:
    """Prints the fields of the session and their sizes in bytes, the largest first."""
    sizes = {f: prod(f.shape + f.element_shape) * f.dtype.nbytes for f in session.current().fields if f.placed}
    for f, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size:16,}  {f!r}")
    print(f"{sum(sizes.values()):16,}  bytes in {len(sizes)} fields")


def print_scoped_profiler_info() -> None:
    """Prints how long compilation took, in milliseconds: the total for each stage, then a row for each of the last
    kernels."""
    stages = ("front", "passes", "code")
    print("front end   passes  machine code     whole ms  kernel")
    for name, clocks in (("all", [c for _, c in CLOCKS]), *((name, [c]) for name, c in CLOCKS)):
        front, passes, code = (sum(getattr(c, stage) for c in clocks) * 1e3 for stage in stages)
        print(f"{front:9.3f}{passes:9.3f}{code:14.3f}{sum(c.whole for c in clocks) * 1e3:13.3f}  {name}")


def clear_scoped_profiler_info() -> None:
    """Forgets the times of compilation so far."""
    CLOCKS.clear()


@dataclass
class CuptiMetric:
    """The name of a hardware counter of CUPTI, and how it is shown. No counter is read here: see
    `set_kernel_profiler_metrics`."""

    name: str = ""
    header: str = "unnamed_header"
    val_format: str = "     {:8.0f} "
    scale: float = 1.0


def set_kernel_profiler_toolkit(toolkit_name: str = "default") -> bool:
    """Whether the profiler has this toolkit; there is only "default"."""
    return toolkit_name == "default"


def set_kernel_profiler_metrics(metric_list: Any = ()) -> None:
    if metric_list:
        collect_kernel_profiler_metrics()


def collect_kernel_profiler_metrics(metric_list: Any = ()) -> NoReturn:
    raise QuadrantsRuntimeError(
        "hardware counters (CUPTI) are not read", code="QL2056", help="use NVIDIA Nsight Compute, which reads them all"
    )


def get_predefined_cupti_metrics(name: str = "") -> NoReturn:
    collect_kernel_profiler_metrics()


def __getattr__(name: str) -> object:
    return missing_attribute("qd.profiler", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
