"""Collects facts about a kernel that are the same for all its launches."""

from collections.abc import Callable, Sequence, Set
from typing import Any, TypeVar

from quadrants_lab.analysis import effects
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import find, reached

T = TypeVar("T")


class Facts:
    """Caches what functions find out about a kernel, so that each function is called only once."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self._known: dict[Callable[[N.Kernel], Any], Any] = {}

    def of(self, compute: Callable[[N.Kernel], T]) -> T:
        known = self._known
        if compute not in known:
            known[compute] = compute(self.kernel)
        found: T = known[compute]
        return found


def touched(kernel: N.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """The buffers that a launch reads, and the buffers that it changes; scratch buffers are left out."""
    scratch = {b.name for b in kernel.buffers.values() if b.kind == "scratch"}
    reads, writes = effects.accesses(kernel)
    return reads - scratch, writes - scratch


def draws(kernel: N.Kernel) -> bool:
    """Whether a launch draws random numbers."""
    return any(find(kernel.body, N.Random))


def statements(kernel: N.Kernel) -> dict[str, list[N.Access]]:
    """Maps the name of each buffer to its loads, stores and atomics, in program order."""
    found: dict[str, list[N.Access]] = {}
    for s in find(kernel.body, N.Access):
        found.setdefault(s.buffer, []).append(s)
    return found


def overwritten(kernel: N.Kernel) -> frozenset[str]:
    """The buffers of which a launch stores every element, whatever the data."""
    from quadrants_lab.analysis.accesses import accesses_of, overwritten

    return frozenset(overwritten(accesses_of(kernel)))


def derivatives(kernel: N.Kernel, buffers: Set[str]) -> frozenset[str]:
    """Which of the derivatives "grad" and "dual" some of these buffers have."""
    found = [b for b in kernel.buffers.values() if b.name in buffers]
    return frozenset(which for which in ("grad", "dual") if any(getattr(b, which) for b in found))


@dataclass(frozen=True, slots=True)
class TripCount:
    """A read of ``buffer`` by the statement ``read`` on which the trip count of the loop at ``loop`` depends; if
    ``steers`` is false, a read on which no trip count depends."""

    buffer: str
    read: Span | None
    loop: Span | None
    steers: bool = True


def trip_counts(kernel: N.Kernel) -> list[TripCount]:
    """The reads on which trip counts depend: for each field and ndarray of integers that the kernel does not write, the
    first such read. Trip counts depend on the bounds of tasks and loops, and on the conditions of whiles."""
    from quadrants_lab.ir.loop_carried import computed_from

    written = effects.touched(kernel.body, N.Write)
    sources = computed_from(kernel.body)
    loads = {s.id: s for s in find(kernel.body, N.Load)}
    steered = [(v, s) for s in find(kernel.body, (N.Loop, N.Offload)) for v in s.deciding()]
    found: dict[str, TripCount] = {}
    for value, loop in steered:
        for v in reached([value], lambda v: sources.get(v, ())):
            load = loads.get(v)
            if load is None or not load.type.is_int or load.buffer in written:
                continue
            if kernel.buffers[load.buffer].kind in ("field", "ndarray"):
                found.setdefault(load.buffer, TripCount(load.buffer, load.span, loop.span))
    return list(found.values())


def other_reads(kernel: N.Kernel, known: Sequence[TripCount]) -> list[TripCount]:
    """For each other field and ndarray that the kernel reads, except derivatives, the first read."""
    leave = {c.buffer for c in known} | {d for b in kernel.buffers.values() for d in (b.grad, b.dual)}
    found: dict[str, TripCount] = {}
    for s in find(kernel.body, N.Load):
        if kernel.buffers[s.buffer].kind in ("field", "ndarray") and s.buffer not in leave:
            found.setdefault(s.buffer, TripCount(s.buffer, s.span, None, steers=False))
    return list(found.values())


def memory_reads(kernel: N.Kernel) -> list[TripCount]:
    """The reads of fields and ndarrays; those that trip counts depend on come first."""
    found = trip_counts(kernel)
    return found + other_reads(kernel, found)
