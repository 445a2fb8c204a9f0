"""Where the launches of one specialisation read and write. It is computed once, because a Tape needs it per launch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.effects import accesses
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.arguments import signature as A
from quadrants_lab.runtime.launch.dispatch import state
from quadrants_lab.runtime.launch.observe import CONSTANT, MODE
from quadrants_lab.runtime.launch.regions import Footprint, Region, footprint, whole
from quadrants_lab.runtime.session import CHECKS, current
from quadrants_lab.runtime.tape.written import span_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan

_TURNS = 4  # summaries that differ in attributes alone
Elements = Callable[[Sequence[Any]], Region]  # arguments of a launch -> the elements that it touches


class AccessSummary:
    """``writes``: name, place, footprint and source line of each buffer that a launch writes. ``own_reads``: the
    elements that the launch reads. ``reads``: the elements that its gradient reads. ``reverse``: the plan of the
    gradient, if there is one. It only loads from the buffers ``loaded``, so that copies can stand in for them, and
    needs the memory itself of the others, ``used``. ``derivatives``: the touched buffers that have a gradient.
    ``fast``: two launches differ in nothing but their scalars and arrays. ``arrays``, and ``scalars`` that indices
    depend on: positions of the arguments that decide which elements are touched. ``recomputable``: the launch can be
    repeated on memory as it was. ``keeps``: the launch saves values for its gradient. ``constants``: memory without a
    gradient whose values flow into the results or are overwritten."""

    def __init__(self, plan: Plan, args: Sequence[Any]) -> None:
        self.plan = plan
        self.placements = plan.session.placements
        self.classes = [arg.__class__ for arg in args]
        self.state = state(plan.compiled.lowered.reads)
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
        passing = ({source.buffer for source, _ in plan.value_flows} | plan.overwritten) & places.keys()
        self.constants = [places[name] for name in passing if not buffers[name].grad]
        self.prints = any(isinstance(s, N.Print) for s in stmts)
        self.keeps = False
        self.reverse: Plan | None = None
        self.reads: list[tuple[str, A.Place, Elements]] = []
        self.loaded: list[tuple[str, A.Place]] = []
        self.used: list[A.Place] = []
        arrays = [a for s, a in zip(plan.slots, args, strict=True) if isinstance(s, A.ArraySlot)]
        ours = all(A.memory_of(a) is not None for a in arrays)
        self.recomputable = ours and not any(A.memory_at(p, args).foreign for p in places.values())
        self.fast = self.recomputable and _is_fast(plan)
        self.arrays = [n for n, slot in enumerate(plan.slots) if isinstance(slot, A.ArraySlot)]
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
        names = set().union(*(known.scalars() for known in plan.footprints.values() if known is not None))
        self.scalars = sorted({*self.scalars, *(n for n, slot in enumerate(plan.slots) if slot.name in names)})

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the arguments have the same classes, in the same session."""
        session = self.plan.session
        reads = self.plan.compiled.lowered.reads
        return (
            session is current()
            and (not reads or state(reads) == self.state)
            and session.placements == self.placements
            and self.classes == [arg.__class__ for arg in args]
        )


def _elements(plan: Plan | None, name: str, place: A.Place, writes: bool = False) -> Elements:
    """The elements of a buffer that launches of the plan read, or write; all elements if that is not known."""
    known = None if plan is None else footprint(plan, name, writes)
    return known.of if known is not None else lambda args: whole(A.memory_at(place, args).operand.shape)


class AccessSummaries:
    """The summaries of one kernel, by template arguments and kinds of arrays: the last few of each, since attributes
    that the kernel reads may take turns. ``context``: launch modes, which must not have changed since."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.templates = [n for n, slot in enumerate(dispatcher.slots) if isinstance(slot, A.TemplateSlot)]
        self.arrays = [n for n, slot in enumerate(dispatcher.slots) if isinstance(slot, A.ArraySlot)]
        self.several = bool(self.templates or self.arrays)
        self.slots = len(dispatcher.slots)
        self.ours = dispatcher.ndarray_classes
        self.context = context()
        self.table: dict[Hashable, deque[AccessSummary]] = {}

    def add(self, summary: AccessSummary, args: Sequence[Any]) -> None:
        if context() != self.context:
            self.table.clear()
            self.context = context()
        self.table.setdefault(self._key(args), deque(maxlen=_TURNS)).appendleft(summary)

    def find(self, args: Sequence[Any]) -> AccessSummary | None:
        """The summary of a launch with these arguments; None if there is none or anything else has changed."""
        if len(args) != self.slots or context() != self.context:
            return None
        for n in self.arrays:
            if args[n].__class__ not in self.ours:
                return None
        for summary in self.table.get(self._key(args) if self.several else (), ()):
            if summary.fits(args):
                return summary
        return None

    def _key(self, args: Sequence[Any]) -> Hashable:
        templates = [A.template_key(args[n]) for n in self.templates]
        arrays = [(a.dtype, len(a.shape), a.element_shape, a.grad is None) for a in map(args.__getitem__, self.arrays)]
        return (*templates, *arrays)


def context() -> tuple[Any, ...]:
    return MODE.get(), CONSTANT.get(), CHECKS.get()


def _is_fast(plan: Plan) -> bool:
    """Whether launches end no derivative (see `lint.cross_kernel`) and take no array with 64-bit extents."""
    buffers = plan.compiled.lowered.kernel.buffers
    targets = [buffers[to.buffer] for _, to in plan.value_flows if buffers[to.buffer].kind in ("field", "ndarray")]
    wide = any(b.wide for b in plan.kernel.buffers.values())
    return not wide and all(b.grad for b in targets) and not plan.integer_flows
