"""What a Tape needs to record a launch once more: of a kernel whose arrays are all fields, most of it is as before."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.observe import CONSTANT, MODE
from quadrants_lab.runtime.regions import Footprint, Region, footprint, whole
from quadrants_lab.runtime.session import CHECKS, current
from quadrants_lab.runtime.signature import ArraySlot, TemplateSlot, template_key

if TYPE_CHECKING:
    from quadrants_lab.runtime.dispatch import Dispatcher
    from quadrants_lab.runtime.memory import Memory
    from quadrants_lab.runtime.plan import Plan


class Again:
    """A launch that was recorded, to be recorded with other scalars. ``writes`` and ``reads``: the memory that the
    launch writes, and that its gradient reads, with the elements; ``gradient``: of what the reverse is, if there is
    one."""

    __slots__ = ("classes", "gradient", "placements", "plan", "reads", "writes")

    def __init__(self, plan: Plan, reverse: Plan | None, args: Sequence[Any]) -> None:
        self.plan = plan
        self.placements = plan.session.placements
        self.classes = [arg.__class__ for arg in args]
        self.gradient = None if reverse is None else plan.owner.gradient
        self.writes: list[tuple[str, Memory, Footprint | None]] = [
            (name, plan.fields[name], footprint(plan, name, writes=True))
            for name in plan.writes
            if name in plan.fields
        ]
        self.reads: list[tuple[Memory, Callable[[Sequence[Any]], Region]]] = []
        if reverse is not None:
            memories = {name: reverse.fields[name] for name in reverse.primal_reads & reverse.fields.keys()}
            self.reads = [(memory, elements_read(reverse, name, memory)) for name, memory in memories.items()]

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the arguments are of the same kinds, in the same session."""
        session = self.plan.session
        return (
            session is current()
            and session.placements == self.placements
            and self.classes == [arg.__class__ for arg in args]
        )


def elements_read(reverse: Plan, name: str, memory: Memory) -> Callable[[Sequence[Any]], Region]:
    """What gives, for a launch's arguments, the elements of a buffer, in ``memory``, that its gradient reads."""
    read = None if name in reverse.sized_by else footprint(reverse, name, writes=False)
    if read is not None:
        return read.of
    everything = whole(memory.operand.shape)
    return lambda args: everything


class Routes:
    """The launches of one kernel, by template arguments. ``context``: what else must be as it was."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.templates = [n for n, slot in enumerate(dispatcher.slots) if isinstance(slot, TemplateSlot)]
        self.context = _context()
        self.table: dict[Hashable, Again] = {}

    def add(self, known: Again, args: Sequence[Any]) -> None:
        if _context() != self.context:
            self.table.clear()
            self.context = _context()
        self.table[self._key(args)] = known

    def find(self, dispatcher: Dispatcher, args: Sequence[Any]) -> Again | None:
        """What was recorded for such arguments; None where anything else is another."""
        if len(args) != len(dispatcher.slots) or _context() != self.context:
            return None
        known = self.table.get(self._key(args))
        return known if known is not None and known.fits(args) else None

    def _key(self, args: Sequence[Any]) -> Hashable:
        return tuple([template_key(args[n]) for n in self.templates])


def _context() -> tuple[Any, ...]:
    return MODE.get(), CONSTANT.get(), CHECKS.get()


def can_be_recorded_again(plan: Plan) -> bool:
    """Whether nothing but scalars tells a launch from the one before."""
    buffers = plan.compiled.lowered.kernel.buffers
    flows = [buffers[b] for pair in plan.value_flows for b in pair if b in plan.fields]
    return (
        not any(isinstance(slot, ArraySlot) for slot in plan.slots)
        and not plan.compiled.lowered.reads
        and not plan.scratch
        and not any(memory.foreign for memory in plan.fields.values())
        and all(b.grad for b in flows)
        and not plan.integer_flows
    )
