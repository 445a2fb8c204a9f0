"""What is true of a kernel, whoever launches it."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any, TypeVar

from quadrants_lab.analysis import effects
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.analysis.trips import TripCount

T = TypeVar("T")


class Facts:
    """What functions find out about a kernel: each of them is called once."""

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
    """The buffers that a launch reads, and those that it changes, without its own scratch memory."""
    scratch = {b.name for b in kernel.buffers.values() if b.kind == "scratch"}
    reads, writes = effects.accesses(kernel)
    return reads - scratch, writes - scratch


def draws(kernel: N.Kernel) -> bool:
    """Whether a launch draws random numbers."""
    return any(isinstance(s, N.Random) for s in walk(kernel.body))


def statements(kernel: N.Kernel) -> dict[str, list[N.Access]]:
    """The loads, stores and atomics of each buffer, in program order."""
    found: dict[str, list[N.Access]] = {}
    for s in walk(kernel.body):
        if isinstance(s, N.Access):
            found.setdefault(s.buffer, []).append(s)
    return found


def memory_reads(kernel: N.Kernel) -> list[TripCount]:
    """The reads of fields and ndarrays, first those that trip counts depend on."""
    from quadrants_lab.analysis.trips import other_reads, trip_counts

    found = trip_counts(kernel)
    return found + other_reads(kernel, found)


def overwritten(kernel: N.Kernel) -> frozenset[str]:
    """The buffers of which a launch stores every element, whatever was there."""
    from quadrants_lab.analysis.accesses import accesses_of
    from quadrants_lab.analysis.overwritten import overwritten

    return frozenset(overwritten(accesses_of(kernel)))


def derivatives(kernel: N.Kernel, buffers: Set[str]) -> frozenset[str]:
    """Which derivatives, "grad" or "dual", any of these buffers has."""
    found = [b for b in kernel.buffers.values() if b.name in buffers]
    return frozenset(which for which in ("grad", "dual") if any(getattr(b, which) for b in found))
