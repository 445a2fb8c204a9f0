"""Kept copies that gradients read where they lie: to put one back would take as long as to keep it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.runtime.arguments.signature import Place, memory_at
from quadrants_lab.runtime.launch.observe import OBSERVERS
from quadrants_lab.runtime.tape.parts import Part, WholePart
from quadrants_lab.runtime.tape.step import Step, launch_gradient

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory


class StandIns:
    """On a way back, copies of whole memories that are what these hold by now, though nothing wrote it there yet. Where
    a gradient does more than to read such a memory by loads, the copy is put back first.

    What is left at the end of the way is dropped: memory is put back as it was by whoever began.
    """

    def __init__(self) -> None:
        self.parts: dict[int, WholePart] = {}  # by the id of the memory
        self.watched = bool(OBSERVERS.get())  # by observers, who look into the memory itself

    def put(self, part: Part) -> None:
        """Makes the memory what the part keeps."""
        if isinstance(part, WholePart) and not self.watched:
            self.parts[id(part.memory)] = part
        else:
            self._settle(part.memory)
            part.put()

    def settle(self) -> None:
        """Puts back all copies."""
        for part in self.parts.values():
            part.put()
        self.parts.clear()

    def _settle(self, memory: Memory) -> None:
        part = self.parts.pop(id(memory), None)
        if part is not None:
            part.put()

    def differentiate(self, step: Step) -> None:
        """Runs the derivative of a step."""
        route = step.route
        if step.gradient is not None:
            self.settle()
            step.gradient()
        elif route is not None and route.reverse is not None:
            assert step.launch is not None
            _, args, number = step.launch
            reverse = route.reverse
            found = []
            if self.parts:
                for place in route.used:
                    self._settle(memory_at(place, args))
                for name, place in route.loaded:
                    part = self.parts.get(id(memory_at(place, args)))
                    if part is not None:
                        found.append((name, place, part))
            with reverse.session.lock:  # another thread may differentiate launches of the same kernel
                try:
                    for name, place, part in found:
                        _bind(reverse, name, place, part.memory, part.values, part.address)
                    launch_gradient(reverse, args, number, step.kept)
                finally:
                    for name, place, part in found:
                        _bind(reverse, name, place, part.memory, part.memory.array, part.memory.address)


def _bind(plan: Plan, name: str, place: Place, memory: Memory, array: object, address: int) -> None:
    """Lets launches of the plan find the memory's data in the array."""
    if isinstance(place, int):  # which the closure of the launch asks for
        memory.operand = array
    else:
        plan.frame.set_buffer(name, address)
