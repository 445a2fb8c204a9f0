"""Tracks memory under a Tape or a FwdMode: notices where Python and other libraries write to it between launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.regions import Region
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.interop.tensors import TensorCopy
from quadrants_lab.runtime.memory.memory import SHARED, Celled, Memory
from quadrants_lab.runtime.tape.parts import Account, CellPart, Hold, HostPart, Part, index_bytes, part_at

Watcher = tuple[Callable[[Any], None]]  # one function, in the form in which `Memory.watchers` has it


def _any_number(nbytes: int) -> Account:
    return Account()


@dataclass(slots=True)
class Tracked:
    """Memory that is tracked because a recorded gradient reads it (in kernel ``reader`` at ``span``), or because a
    recorded launch used it and it has a gradient (``grad``; with second derivatives also a ``tangent``).

    ``version``: the memory's version after the last launch. ``regions``: boxes whose elements will be read again.
    ``written``: where Python wrote since then, with the old values if they may be read. ``shadow``: a copy of the data
    at ``version``, for foreign memory, which other libraries can write to unnoticed, and the copy's ``hold``.
    ``account_for``: returns the account, after making room in it for so many bytes.
    """

    memory: Memory
    name: str
    version: int
    reader: str = ""
    span: Span | None = None
    grad: Memory | None = None
    tangent: Tracked | None = None
    regions: list[Region] = field(default_factory=list)
    written: list[tuple[Any, Part | None]] = field(default_factory=list)
    account_for: Callable[[int], Account] = _any_number
    shadow: npt.NDArray[Any] | TensorCopy | None = None
    hold: Hold | None = None

    def watch(self, where: Any) -> None:
        """Called when Python is about to write at ``where``, or (``SHARED``) to give the array to other code."""
        if where is SHARED:
            self.follow_others()
            return
        self.written.append((where, self._saved(where) if self.regions else None))

    def _saved(self, where: Any) -> Part:
        memory = self.memory
        if isinstance(memory, Celled) and where is ...:
            return CellPart(memory, self.account_for(memory.operand.nbytes))
        return self._part(where, memory.part(where))

    def _part(self, where: Any, values: npt.NDArray[Any]) -> HostPart:
        return part_at(self.memory, where, values, self.account_for(values.nbytes + index_bytes(where)))

    def follow_others(self) -> None:
        """Makes a copy of memory that other code can write to from now on, to compare it later."""
        memory = self.memory
        account = self.account_for(memory.operand.nbytes)
        self.hold = account.hold(memory.operand.nbytes)
        if account.short:
            return
        if memory.imported and memory.tensor is not None:
            self.shadow = TensorCopy(memory)
        else:
            self.shadow = memory.copy()

    def unfollow(self) -> None:
        """Ends what `follow` began."""
        detach(self.memory, (self.watch,))

    def unseen(self) -> QuadrantsRuntimeError:
        """The error for a launch in another thread that wrote this memory."""
        return QuadrantsRuntimeError(
            f"{self.name} was written under a Tape by a launch that the Tape did not see",
            code="QL2094",
            help="launch in the thread that opened the Tape, or before it",
        )

    def compare(self) -> None:
        """Finds out, for foreign memory, which elements were written since the last launch."""
        shadow = self.shadow
        assert shadow is not None
        self.written = [(where, None) for where, _ in self.written]
        if not isinstance(shadow, TensorCopy) or shadow.differs():
            old = shadow.values() if isinstance(shadow, TensorCopy) else shadow
            bits = np.dtype(f"u{old.dtype.itemsize}")
            differs = old.view(bits) != self.memory.values().view(bits)
            if differs.any():
                where = np.nonzero(differs) if old.ndim else ()
                self.written.insert(0, (where, self._part(where, old[where])))
                self.update_shadow()
        if not self.written:
            self.version = self.memory.version

    def update_shadow(self) -> None:
        """Copies the present content of foreign memory, for the next comparison."""
        if isinstance(self.shadow, TensorCopy):
            self.shadow.update()
        elif self.shadow is not None:
            self.shadow[...] = self.memory.values()


def follow(
    memory: Memory, name: str, trusted: tuple[type, ...] = (), account_for: Callable[[int], Account] = _any_number
) -> Tracked:
    """Begins to track memory. ``trusted``: kinds of foreign memory that count their writes, so they need not be
    compared."""
    found = Tracked(memory, name, memory.version, account_for=account_for)
    if memory.foreign and not isinstance(memory.foreign, trusted):
        found.follow_others()
    attach(memory, (found.watch,))
    return found


def attach(memory: Memory, watcher: Watcher) -> None:
    """From now on until `detach`, calls ``watcher`` before Python writes to the memory."""
    watchers = memory.watchers
    memory.watchers = (*watchers, *watcher) if watchers else watcher


def detach(memory: Memory, watcher: Watcher) -> None:
    watchers = memory.watchers
    memory.watchers = () if watchers == watcher else tuple([one for one in watchers if one != watcher[0]])


@dataclass(slots=True)
class PendingWrite:
    """A write to tracked memory, at source position ``span``, by a launch that is about to start. ``region``: the
    written elements that will be read again (None: there are none). ``parts``: the old values of elements that are not
    saved yet. ``scattered``: the data decide which elements are written."""

    tracked: Tracked
    span: Span | None
    region: Region | None = None
    parts: Sequence[Part] = ()
    scattered: bool = False
