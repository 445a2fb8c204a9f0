"""Stand-ins: saved copies that gradients read directly, because restoring a copy takes as long as making it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.arguments.slots import Place, memory_at
from quadrants_lab.runtime.observe.observers import OBSERVERS, open_recording
from quadrants_lab.runtime.tape.parts import DevicePart, Part, WholePart
from quadrants_lab.runtime.tape.step import Step, launch_gradient

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.frames import KeptBuffers
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.tape.access_summary import AccessSummary


class StandIns:
    """The copies of whole memories that should have been restored by now in a backward pass, but were not yet. If a
    gradient does more with such a memory than load from it, its copy is restored first.

    Copies that are left at the end are dropped, because the caller restores all memory then.
    """

    def __init__(self) -> None:
        self.parts: dict[int, WholePart | DevicePart] = {}  # id of a memory -> its copy
        self.watched = bool(OBSERVERS.get())  # by observers, which look into the memory itself

    def put(self, parts: Sequence[Part]) -> None:
        """Restores the parts, those saved first last, now or when they are needed."""
        for part in reversed(parts):
            if isinstance(part, (WholePart, DevicePart)) and part.is_whole and not self.watched:
                self.parts[id(part.memory)] = part
            else:
                self._flush(part.memory)
                part.put()

    def flush(self) -> None:
        """Restores all copies."""
        for part in self.parts.values():
            part.put()
        self.parts.clear()

    def _flush(self, memory: Memory) -> None:
        part = self.parts.pop(id(memory), None)
        if part is not None:
            part.put()

    def differentiate(self, step: Step) -> None:
        """Runs the gradient of a step."""
        summary = step.summary
        if step.gradient is not None:
            self.flush()
            step.gradient()
        elif summary is not None and summary.reverse is not None:
            assert step.launch is not None
            _, args, number = step.launch
            self.launch(summary, args, number, step.kept)

    def launch(self, summary: AccessSummary, args: tuple[Any, ...], number: int, kept: KeptBuffers) -> None:
        """Launches the gradient of the launch ``number``, which kept these buffers."""
        reverse, found = summary.reverse, []
        assert reverse is not None
        if self.parts:
            for place in summary.used:
                self._flush(memory_at(place, args))
            for name, place in summary.loaded:
                part = self.parts.get(id(memory_at(place, args)))
                if part is not None:
                    found.append((name, place, part, part.memory.operand))
        with reverse.session.lock:  # another thread may differentiate launches of the same kernel
            try:
                for name, place, part, _ in found:
                    _bind(reverse, name, place, part.memory, part.values, part.address)
                if found and open_recording() is not None:
                    reverse.standing = {name: part.lent() for name, _, part, _ in found}
                launch_gradient(reverse, args, number, kept)
            finally:
                reverse.standing = None
                for name, place, part, operand in found:
                    _bind(reverse, name, place, part.memory, operand, part.memory.address)


def _bind(plan: Plan, name: str, place: Place, memory: Memory, array: object, address: int) -> None:
    """Lets launches of the plan find the memory's data in ``array``."""
    if isinstance(place, int):  # an argument: the closure of the launch reads the operand
        memory.operand = array
    else:
        plan.frame.set_buffer(name, address)
