"""Memory that a Tape or a FwdMode tracks: where Python and other libraries write to it between launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.interop.tensors import Tensor, TensorCopy
from quadrants_lab.runtime.launch.regions import Region, bounding_box, intersection, overlap
from quadrants_lab.runtime.memory.memory import SHARED, Imported, Memory
from quadrants_lab.runtime.tape.parts import Part


@dataclass(slots=True)
class Tracked:
    """Memory that a recorded gradient reads (in kernel ``reader`` at ``span``), or that a recorded launch used and that
    has a gradient (``grad``; with second derivatives also a ``tangent``).

    ``version``: version of the memory after the last launch. ``regions``: boxes whose union will be read again.
    ``written``: where Python wrote since then, with the old values if they may be read. ``shadow``: a copy of the data
    at ``version``, for foreign memory, which others can write to unnoticed.
    """

    memory: Memory
    name: str
    version: int
    reader: str = ""
    span: Span | None = None
    grad: Memory | None = None
    tangent: Tracked | None = None
    regions: list[Region] = field(default_factory=list)
    written: list[tuple[Any, npt.NDArray[Any] | None]] = field(default_factory=list)
    shadow: npt.NDArray[Any] | TensorCopy | None = None
    interrupt: Callable[[Tracked, Any], None] | None = None  # called by `watch` instead of its own work

    def watch(self, where: Any) -> None:
        """Called when Python is about to write there, or (``SHARED``) to give the array away."""
        if self.interrupt is not None:
            self.interrupt(self, where)
            return
        if where is SHARED:
            self.shadow = self.memory.copy()
            return
        self.written.append((where, np.array(self.memory.values()[where]) if self.regions else None))

    def unfollow(self) -> None:
        """Ends what `follow` began."""
        self.memory.watchers = tuple(w for w in self.memory.watchers if w != self.watch)

    def unseen(self) -> QuadrantsRuntimeError:
        """The error about a launch in another thread that wrote it."""
        return QuadrantsRuntimeError(
            f"{self.name} was written under a Tape by a launch that the Tape did not see",
            code="QL2094",
            help="launch in the thread that opened the Tape, or before it",
        )

    def overlap(self, region: Region) -> Region | None:
        """The smallest box around the part of the region that will be read again; None if there is none."""
        found = None
        for r in self.regions:
            if overlap(region, r):
                found = intersection(region, r) if found is None else bounding_box(found, intersection(region, r))
        return found

    def compare(self) -> None:
        """Finds out where foreign memory was written since the last launch."""
        shadow = self.shadow
        assert shadow is not None
        self.written = [(where, None) for where, _ in self.written]
        if not isinstance(shadow, TensorCopy) or shadow.differs():
            old = shadow.values() if isinstance(shadow, TensorCopy) else shadow
            bits = np.dtype(f"u{old.dtype.itemsize}")
            differs = old.view(bits) != self.memory.values().view(bits)
            if differs.any():
                where = np.nonzero(differs) if old.ndim else ()
                self.written.insert(0, (where, np.array(old[where])))
                self.update_shadow()
        if not self.written:
            self.version = self.memory.version

    def update_shadow(self) -> None:
        """Copies foreign memory as it is now."""
        if isinstance(self.shadow, TensorCopy):
            self.shadow.update()
        elif self.shadow is not None:
            self.shadow[...] = self.memory.values()


def follow(memory: Memory, name: str, trusted: tuple[type, ...] = ()) -> Tracked:
    """Begins to track memory. ``trusted``: kinds of foreign memory that count their writes and need not be compared."""
    found = Tracked(memory, name, memory.version)
    if memory.foreign and not isinstance(memory.foreign, trusted):
        if isinstance(memory, Imported) and isinstance(memory.foreign, Tensor):
            found.shadow = TensorCopy(memory)
        else:
            found.shadow = memory.copy()
    memory.watchers = (*memory.watchers, found.watch)
    return found


@dataclass(slots=True)
class PendingWrite:
    """A write to tracked memory, at ``span``, by a launch that is about to start. ``part``: the old values that will be
    read again (None: there are none, or they are saved already), of ``bytes`` bytes. ``scattered``: the data decides
    which elements are written."""

    tracked: Tracked
    span: Span | None
    part: Part | None = None
    scattered: bool = False
    bytes: int = 0
