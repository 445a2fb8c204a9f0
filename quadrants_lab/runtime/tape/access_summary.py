"""Summarises what the launches of one specialisation of a kernel read and write. It does so once, because a Tape
needs it for each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from quadrants_lab.analysis.effects import accesses
from quadrants_lab.analysis.facts import overwritten
from quadrants_lab.analysis.regions import whole
from quadrants_lab.autodiff.dead_paths import integer_flows, value_flows
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import function
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import of_kind, walk
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.arguments.keys import Named, Specialisations, state, template_key
from quadrants_lab.runtime.compile.specialisation import DUAL, FORWARD
from quadrants_lab.runtime.launch.signature import Elements, Footprint
from quadrants_lab.runtime.memory.identity import Place, memory_at, memory_of
from quadrants_lab.runtime.tape.recording import surroundings
from quadrants_lab.runtime.tape.written import span_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.session import Session


class AccessSummary:
    """What launches of a plan read and write. ``writes``: (name, place, footprint, source line) of each buffer that
    a launch writes. ``own_reads``: the elements that the launch itself reads; ``reads``: those that its gradient
    reads. ``reverse``: the plan of the gradient, if there is one. ``loaded``: the buffers that the gradient only
    loads from, so that it can read copies; ``used``: the buffers whose own memory it needs. ``derivatives``: the
    accessed buffers that have a gradient. ``places``: the places of all buffers. ``surroundings`` and ``state``
    (values of the attributes that the kernel reads): what the choice of its plan depends on besides the arguments,
    see `holds`. ``equal``: two launches can differ only in their scalars and arrays. ``ends_nothing``: no
    derivative ends in it (`tape.dead_paths`), so no launch has to be examined for that. ``arrays``, and the
    ``scalars`` that indices depend on: positions of the arguments that decide which elements are accessed;
    ``numbers``: positions of all scalars; ``templates``: whether there are template arguments. ``recomputable``:
    the launch can be repeated on the memory from before it. ``keeps``: the launch saves values for its gradient.
    ``constants``: memory without a gradient whose values, reals or integers, flow into the results or are
    overwritten."""

    def __init__(self, plan: Plan, args: Sequence[Any]) -> None:
        self.plan = plan
        self.name = plan.kernel.name
        self.weak = ref(self)
        self.surroundings, self.state = surroundings(plan.session), state(plan.compiled.reads)
        places = plan.places(args)
        self.places = [*places.items()]
        self.writes: list[tuple[str, Place, Footprint | None, Span | None]] = [
            (name, places[name], plan.footprint(name, writes=True), span_of(plan, name, N.Write))
            for name in plan.writes & places.keys()
        ]
        stmts = list(walk(plan.kernel.body))
        # the elements that the launch itself reads, by loads and by atomic operations
        self.own_reads: list[tuple[str, Place, Elements]] = [
            (name, places[name], _elements(plan, name, places[name], writes))
            for kind, writes in ((N.Load, False), (N.Atomic, True))
            for name in sorted({s.buffer for s in of_kind(stmts, kind)} & places.keys())
        ]
        buffers = plan.compiled.lowered.kernel.buffers
        touched = (plan.reads | plan.writes) & places.keys()
        self.derivatives = [(n, places[n]) for n, b in buffers.items() if b.grad and n in touched]
        flows = (*plan.facts.of(value_flows), *plan.facts.of(integer_flows))
        intermediate = {source.buffer for source, _ in flows} | plan.facts.of(overwritten)
        self.constants = [places[name] for name in intermediate & places.keys() if not buffers[name].grad]
        self.prints = any(of_kind(stmts, N.Print))
        self.keeps = False
        self.reverse: Plan | None = None
        self.reads: list[tuple[str, Place, Elements]] = []
        self.loaded: list[tuple[str, Place]] = []
        self.used: list[Place] = []
        arrays = [a for s, a in zip(plan.slots, args, strict=True) if s.kind == "array"]
        ours = all(memory_of(a) is not None for a in arrays)
        owned = not any(memory_at(p, args).foreign for p in places.values())
        self.recomputable = ours and owned
        wide = any(b.wide for b in plan.kernel.buffers.values())
        alike = owned and not wide and plan.compiled.mode in (FORWARD, DUAL)
        self.equal = alike and all(memory_of(a) is not None or a.__class__ is np.ndarray for a in arrays)
        self.ends_nothing = _ends_nothing(plan)
        self.arrays = [n for n, slot in enumerate(plan.slots) if slot.kind == "array"]
        self.numbers = [n for n, slot in enumerate(plan.slots) if slot.kind == "scalar"]
        self.templates = len(self.numbers) + len(self.arrays) < len(plan.slots)
        self.scalars: list[int] = []
        self._depend(plan)

    def holds(self) -> bool:
        """Whether the same plan would still be chosen for a launch with such arguments."""
        around, reads = surroundings(self.plan.session), self.plan.compiled.reads
        return around is not None and around == self.surroundings and (not reads or state(reads) == self.state)

    def repeats(self, inner: bool) -> bool:
        """Whether later launches can be recorded with this summary. ``inner``: they are launches within a function with
        a custom gradient."""
        return self.equal and (inner or self.ends_nothing)

    def differentiate(self, reverse: Plan, args: Sequence[Any]) -> None:
        """Adds what the gradient, whose plan is ``reverse``, reads."""
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
        """Adds the scalars that footprints of the plan depend on."""
        names = set().union(*(known.scalars for known in plan.footprints.values() if known is not None))
        self.scalars = sorted({*self.scalars, *(n for n, slot in enumerate(plan.slots) if slot.name in names)})


def _elements(plan: Plan | None, name: str, place: Place, writes: bool = False) -> Elements:
    """The elements of a buffer that launches of the plan read, or with ``writes`` write; all elements if this is not
    known."""
    known = None if plan is None else plan.footprint(name, writes)
    return known.of if known is not None else lambda args: whole(memory_at(place, args).operand.shape)


def call_key(slots: Sequence[A.Slot], classes: Sequence[type]) -> Callable[[Sequence[Any], Named | None], Any]:
    """Makes a function that takes a call's arguments and returns a key: of its templates, the kinds of its arrays and
    the classes of its numbers; None if an array belongs to another library. The objects that the key mentions are
    appended to the function's second argument."""
    xs = [(f"a{n}", slot) for n, slot in enumerate(slots)]
    strange = [f"{x}.__class__ not in arrays" for x, slot in xs if slot.kind == "array"]
    ours = "({0}.dtype, len({0}.shape), {0}.element_shape, {0}.grad is None)"
    parts = {
        A.TemplateSlot: "key({0}, named)", A.ScalarSlot: "{0}.__class__",
        A.ArraySlot: ours + " if {0}.__class__ in classes else ({0}.dtype, {0}.ndim)",
    }  # fmt: skip
    text = "def call(args, named):\n" + f"    {''.join(f'{x}, ' for x, _ in xs)} = args\n" * bool(xs)
    text += f"    if {' or '.join(strange)}: return None\n" * bool(strange)
    text += f"    return ({''.join(parts[type(slot)].format(x) + ', ' for x, slot in xs)})"
    return function("call", text, {"key": template_key, "classes": classes, "arrays": (*classes, np.ndarray)})


class AccessSummaries:
    """The summaries of one kernel in one session. They are found by template arguments, kinds of arrays and classes of
    numbers, by surroundings and attributes, and by whether the launch is within a function with a custom gradient
    (``inner``), where it has no gradient of its own."""

    def __init__(self, dispatcher: Dispatcher, session: Session) -> None:
        self.session = session
        self.slots = len(dispatcher.slots)
        self.key = call_key(dispatcher.slots, dispatcher.of.ndarray_classes)
        self.known: Specialisations[AccessSummary] = Specialisations()

    def add(self, summary: AccessSummary, args: Sequence[Any], inner: bool) -> None:
        named: Named = []
        key = self.key(args, named), summary.surroundings, inner
        self.known.add(key, named, summary.plan.compiled.reads, summary)

    def find(self, args: Sequence[Any], inner: bool) -> AccessSummary | None:
        """The summary for a launch with these arguments; None if there is none, or if its plan would no longer be
        chosen."""
        if len(args) != self.slots or (around := surroundings(self.session)) is None:
            return None
        key = self.key(args, None), around, inner
        return self.known.plain.get(key) or self.known.find(key)


def _ends_nothing(plan: Plan) -> bool:
    """Whether no derivative ends in a launch of the plan, see `tape.dead_paths`."""
    buffers = plan.compiled.lowered.kernel.buffers
    into = [buffers[to.buffer] for _, to in plan.facts.of(value_flows)]
    targets = [b for b in into if b.kind in ("field", "ndarray")]
    cut = any(buffers[source.buffer].dtype.is_float for source, _ in plan.facts.of(integer_flows))
    return all(b.grad for b in targets) and not cut
