"""Where the launches of one specialisation read and write. It is computed once, because a Tape needs it per launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from quadrants_lab.analysis.effects import accesses
from quadrants_lab.analysis.facts import overwritten
from quadrants_lab.analysis.regions import whole
from quadrants_lab.autodiff.dead_paths import integer_flows, value_flows
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.arguments.keys import Named, Specialisations
from quadrants_lab.runtime.call.signature import Elements, Footprint, call_key, footprint
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.observe.observers import CONSTANT, MODE
from quadrants_lab.runtime.session import CHECKS, current
from quadrants_lab.runtime.tape.written import span_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan


class AccessSummary:
    """``writes``: name, place, footprint and source line of each buffer that a launch writes. ``own_reads``: the
    elements that the launch reads. ``reads``: the elements that its gradient reads. ``reverse``: the plan of the
    gradient, if there is one. It only loads from the buffers ``loaded``, so that copies can stand in for them, and
    needs the memory itself of the others, ``used``. ``derivatives``: the touched buffers that have a gradient.
    ``fast``: two launches differ in nothing but their scalars and arrays. ``arrays``, and ``scalars`` that indices
    depend on: positions of the arguments that decide which elements are touched; ``numbers``: of all scalars;
    ``templates``: whether others decide by which plan it is launched.
    ``recomputable``: the launch can be repeated on memory as it was. ``keeps``: the launch saves values for its
    gradient. ``constants``: memory without a gradient whose values flow into the results or are overwritten."""

    def __init__(self, plan: Plan, args: Sequence[Any]) -> None:
        self.plan = plan
        self.name = plan.kernel.name
        self.weak = ref(self)
        self.placements = plan.session.placements
        places = plan.places(args)
        self.writes: list[tuple[str, A.Place, Footprint | None, Span | None]] = [
            (name, places[name], footprint(plan, name, writes=True), span_of(plan, name, N.Write))
            for name in plan.writes & places.keys()
        ]
        stmts = list(walk(plan.kernel.body))
        # the elements that the launch itself reads, by loads and by atomic operations
        self.own_reads: list[tuple[str, A.Place, Elements]] = [
            (name, places[name], _elements(plan, name, places[name], writes))
            for kind, writes in ((N.Load, False), (N.Atomic, True))
            for name in sorted({s.buffer for s in stmts if isinstance(s, kind)} & places.keys())
        ]
        buffers = plan.compiled.lowered.kernel.buffers
        touched = (plan.reads | plan.writes) & places.keys()
        self.derivatives = [(n, places[n]) for n, b in buffers.items() if b.grad and n in touched]
        passing = {source.buffer for source, _ in plan.facts.of(value_flows)} | plan.facts.of(overwritten)
        self.constants = [places[name] for name in passing & places.keys() if not buffers[name].grad]
        self.prints = any(isinstance(s, N.Print) for s in stmts)
        self.keeps = False
        self.reverse: Plan | None = None
        self.reads: list[tuple[str, A.Place, Elements]] = []
        self.loaded: list[tuple[str, A.Place]] = []
        self.used: list[A.Place] = []
        arrays = [a for s, a in zip(plan.slots, args, strict=True) if isinstance(s, A.ArraySlot)]
        ours = all(memory_of(a) is not None for a in arrays)
        self.recomputable = ours and not any(A.memory_at(p, args).foreign for p in places.values())
        self.fast = self.recomputable and _is_fast(plan)
        self.arrays = [n for n, slot in enumerate(plan.slots) if isinstance(slot, A.ArraySlot)]
        self.numbers = [n for n, slot in enumerate(plan.slots) if isinstance(slot, A.ScalarSlot)]
        self.templates = any(isinstance(slot, A.TemplateSlot) for slot in plan.slots)
        self.scalars: list[int] = []
        self._depend(plan)

    def differentiate(self, reverse: Plan, args: Sequence[Any]) -> None:
        """Sets the plan of the gradient."""
        self.reverse = reverse
        self.keeps = bool(self.plan.scratch)
        places = reverse.places(args)
        written = accesses(reverse.kernel)[1] if reverse.repeatable else places.keys()
        self.loaded = [(n, p) for n, p in places.items() if n not in written and not isinstance(p, tuple)]
        self.used = [p for n, p in places.items() if (n, p) not in self.loaded]
        self.reads = [
            (name, places[name], _elements(None if name in reverse.sized_by else reverse, name, places[name]))
            for name in reverse.primal_reads & places.keys()
        ]
        self._depend(reverse)

    def _depend(self, plan: Plan) -> None:
        """Adds the scalars on which footprints of the plan depend."""
        names = set().union(*(known.scalars for known in plan.footprints.values() if known is not None))
        self.scalars = sorted({*self.scalars, *(n for n, slot in enumerate(plan.slots) if slot.name in names)})

    def holds(self) -> bool:
        """Whether it is one of the current session, in which fields have not been placed since."""
        session = self.plan.session
        return session is current() and session.placements == self.placements


def _elements(plan: Plan | None, name: str, place: A.Place, writes: bool = False) -> Elements:
    """The elements of a buffer that launches of the plan read, or write; all elements if that is not known."""
    known = None if plan is None else footprint(plan, name, writes)
    return known.of if known is not None else lambda args: whole(A.memory_at(place, args).operand.shape)


class AccessSummaries:
    """The summaries of one kernel, by template arguments, kinds of arrays and classes of numbers. ``context``: launch
    modes, which must not have changed since."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.slots = len(dispatcher.slots)
        self.key = call_key(dispatcher.slots, dispatcher.ndarray_classes)
        self.context = context()
        self.known: Specialisations[AccessSummary] = Specialisations()

    def add(self, summary: AccessSummary, args: Sequence[Any]) -> None:
        if context() != self.context:
            self.known = Specialisations()
            self.context = context()
        named: Named = []
        self.known.add(self.key(args, named), named, summary.plan.compiled.reads, summary)

    def find(self, args: Sequence[Any]) -> AccessSummary | None:
        """The summary of a launch with these arguments; None if there is none or anything else has changed."""
        if len(args) != self.slots or context() != self.context:
            return None
        key = self.key(args, None)
        summary = self.known.plain.get(key) or self.known.find(key)
        return summary if summary is not None and summary.holds() else None


def context() -> tuple[Any, ...]:
    return MODE.get(), CONSTANT.get(), CHECKS.get()


def _is_fast(plan: Plan) -> bool:
    """Whether launches end no derivative (see `tape.dead_paths`) and take no array with 64-bit extents."""
    buffers = plan.compiled.lowered.kernel.buffers
    into = [buffers[to.buffer] for _, to in plan.facts.of(value_flows)]
    targets = [b for b in into if b.kind in ("field", "ndarray")]
    wide = any(b.wide for b in plan.kernel.buffers.values())
    return not wide and all(b.grad for b in targets) and not plan.facts.of(integer_flows)
