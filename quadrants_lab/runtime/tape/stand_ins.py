"""Lets gradients read saved copies (stand-ins) in place of the memory itself, because restoring a copy takes as
long as making it took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.memory.identity import Place, memory_at
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import OBSERVERS, open_recording
from quadrants_lab.runtime.tape.custom_ends import Left
from quadrants_lab.runtime.tape.parts import CellPart, DevicePart, Part, WholePart
from quadrants_lab.runtime.tape.step import Step, launch_gradient

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.frames import KeptBuffers
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.access_summary import AccessSummary


Whole = WholePart | DevicePart | CellPart
# the copies that replace buffers of a gradient: (name of the buffer, its place, the copy)
Found = list[tuple[str, Place, Whole]]


class StandIns:
    """The copies of whole memories that were not restored yet in a backward pass, although a gradient may read them. If
    a gradient does more with such a memory than load from it, the copy is restored first.

    Copies that are left at the end are dropped, because the caller then restores all memory.
    """

    def __init__(self) -> None:
        self.parts: dict[int, Whole] = {}  # id of a memory -> its copy
        self.left = Left()
        self.watched = bool(OBSERVERS.get())  # observers read the memory itself

    def after(self, parts: Sequence[Part]) -> list[Part]:
        """The parts (saved copies) to restore now, in this order: a part that was saved first is restored last. The
        other parts are restored when they are needed."""
        now: list[Part] = []
        for part in reversed(parts):
            if isinstance(part, (WholePart, DevicePart, CellPart)) and part.is_whole and not self.watched:
                self.parts[id(part.memory)] = part
            else:
                now += [*self._needed(part.memory), part]
        return now

    def before(self, summary: AccessSummary, args: Sequence[Any]) -> tuple[list[Whole], Found]:
        """The copies to restore before the gradient of a launch, and the copies that the gradient reads in place of
        its buffers."""
        if not self.parts or summary.reverse is None:
            return [], []
        now = [part for place in summary.used for part in self._needed(memory_at(place, args))]
        loaded = ((name, place, self.parts.get(id(memory_at(place, args)))) for name, place in summary.loaded)
        return now, [(name, place, part) for name, place, part in loaded if part is not None]

    def _needed(self, memory: Memory) -> list[Whole]:
        part = self.parts.pop(id(memory), None)
        return [] if part is None else [part]

    def flushed(self) -> list[Whole]:
        """All copies, to be restored before a function that may read any memory."""
        parts = [*self.parts.values()]
        self.parts.clear()
        return parts

    def flush(self) -> None:
        """Restores all copies."""
        restore(self.flushed())

    def differentiate(self, step: Step) -> None:
        """Runs the gradient of a step."""
        summary = step.summary
        if step.gradient is not None:
            self.flush()
            self.left.run_gradient(step)
        elif summary is not None and summary.reverse is not None:
            assert step.launch is not None
            _, args, number = step.launch
            self.left.launch(summary, args)
            now, found = self.before(summary, args)
            restore(now)
            launch_by(found, summary.reverse, args, number, step.kept)


def restore(parts: Iterable[Part]) -> None:
    for part in parts:
        part.put()


def launch_by(found: Found, reverse: Plan, args: tuple[Any, ...], number: int, kept: KeptBuffers) -> None:
    """Launches the gradient of launch ``number``, which saved the buffers ``kept``, with stand-ins for its buffers."""
    if not found:
        launch_gradient(reverse, args, number, kept)
        return
    with reverse.session.lock:  # another thread may differentiate launches of the same kernel
        operands = [part.memory.operand for _, _, part in found]
        try:
            for name, place, part in found:
                _bind(reverse, name, place, part.memory, part.values, part.address)
            if open_recording() is not None:
                reverse.standing = {name: part.lent() for name, _, part in found}
            launch_gradient(reverse, args, number, kept)
        finally:
            reverse.standing = None
            for (name, place, part), operand in zip(found, operands, strict=True):
                _bind(reverse, name, place, part.memory, operand, part.memory.address)


def _bind(plan: Plan, name: str, place: Place, memory: Memory, array: object, address: int) -> None:
    """Binds ``array`` in place of a buffer's memory, for later launches of the plan."""
    if isinstance(place, int):  # for an argument, the launch's closure reads the memory's ``operand``
        memory.operand = array
    else:
        plan.frame.set_buffer(name, address)
