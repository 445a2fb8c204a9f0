"""Memory that a Tape follows, because gradients read it or launches that are made again do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.launch.regions import Region, around, common, meet
from quadrants_lab.runtime.memory.memory import SHARED, Memory
from quadrants_lab.runtime.tape.parts import Part


@dataclass(slots=True)
class Followed:
    """Memory that a recorded gradient reads (``reader`` is the kernel, ``span`` the line), or a recorded launch used or
    gave a value that has a gradient (``grad``; ``tangent``: where it is to be differentiated twice).

    ``version``: as of the last launch. ``regions``: what will be read again, together. ``written``: where Python wrote
    since then, and what was there, if it may be read. ``shadow``: the data as of ``version``, of memory that others may
    write to without telling.
    """

    memory: Memory
    name: str
    version: int
    reader: str = ""
    span: Span | None = None
    grad: Memory | None = None
    tangent: Followed | None = None
    regions: list[Region] = field(default_factory=list)
    written: list[tuple[Any, npt.NDArray[Any] | None]] = field(default_factory=list)
    shadow: npt.NDArray[Any] | None = None
    interrupt: Callable[[Followed, Any], None] | None = None  # in the place of what `watch` does

    def watch(self, where: Any) -> None:
        """Python is about to write there, or to give the array away."""
        if self.interrupt is not None:
            self.interrupt(self, where)
            return
        if where is SHARED:
            self.shadow = self.memory.copy()
            return
        self.written.append((where, np.array(self.memory.values()[where]) if self.regions else None))

    def meets(self, region: Region) -> Region | None:
        """The smallest box around what will be read of the region; None where none of it will."""
        found = None
        for r in self.regions:
            if meet(region, r):
                found = common(region, r) if found is None else around(found, common(region, r))
        return found

    def compare(self) -> None:
        """Finds what was written to memory of another library."""
        assert self.shadow is not None
        old, now = self.shadow, self.memory.values()
        bits = np.dtype(f"u{old.dtype.itemsize}")
        differs = old.view(bits) != now.view(bits)
        self.written = [(where, None) for where, _ in self.written]
        if differs.any():
            where = np.nonzero(differs) if old.ndim else ()
            self.written.insert(0, (where, np.array(old[where])))
            self.shadow[where] = now[where]
        elif not self.written:
            self.version = self.memory.version


@dataclass(slots=True)
class Before:
    """What a launch is about to write, of followed memory, at ``span``. ``part``: what will be read of it (None:
    nothing, or it is kept already). ``scattered``: data decides where it writes. ``bytes``: of that part, in any
    case."""

    followed: Followed
    span: Span | None
    part: Part | None = None
    scattered: bool = False
    bytes: int = 0
