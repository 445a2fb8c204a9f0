"""The signature of a specialisation: one list of parts, its arguments, and the functions that are made of it.

They are Python source, generated in time linear in the number of parts. `launch_function` makes the closure of a plan:
it decides whether a call fits, binds its arguments, notes the versions of the memory that it reads, and starts the
entry, so that a warm launch is one call of it, one lock and one call into compiled code. `Signature.stamp` makes
functions that tell whether a call is like the last one: `ReadVersions` and a gradient's guard. `by_templates` finds a
specialisation by its template arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.facts import draws
from quadrants_lab.analysis.regions import Region
from quadrants_lab.frontend.specs import flat_specs
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass, function
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.arguments.keys import Named, template_key
from quadrants_lab.runtime.compile.compiled import BOTH, REVERSE
from quadrants_lab.runtime.memory.identity import content_version, field_version, memory_of, same_as_then
from quadrants_lab.runtime.memory.memory import Head, Memory

if TYPE_CHECKING:
    from quadrants_lab.adstack.evaluate import Live
    from quadrants_lab.analysis.accesses import Access, Accesses
    from quadrants_lab.analysis.facts import TripCount
    from quadrants_lab.runtime.launch.plan import Plan

Launch = Callable[..., Any]
Stamp = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One argument, ``x`` in generated functions. Of an array, ``ours`` is the name of the class of ndarrays there that
    it can be, ``element`` the shape of its elements, ``has_gradient`` whether it has a gradient, or None if its
    annotation says so; ``derivatives``: those that the kernel touches."""

    x: str
    slot: A.Slot
    element: tuple[int, ...]
    written: bool
    has_gradient: bool | None
    derivatives: tuple[str, ...]

    @property
    def ours(self) -> str:
        return f"ndarray{len(self.element)}"

    def value(self) -> str:
        """The number; None if it is none of Python's."""
        return f"({self.x} if {self.x}.__class__ is int or {self.x}.__class__ is float else None)"

    def shape(self) -> str:
        return f"getattr({self.x}, 'shape', None)"

    def version(self, but: str = "") -> str:
        """Which memory an ndarray has, and how often it was written; None for other arrays. ``but``: a condition."""
        return f"(((m := {self.x}._memory).serial, m.version) if {self.x}.__class__ is {self.ours}{but} else None)"

    def known_version(self) -> str:
        """The same; None also if others can write to the memory."""
        return self.version(f" and not {self.x}._memory.foreign")

    def content(self) -> str:
        """The version of an array of any kind, with a checksum where others can write to it."""
        return f"content_version({self.x})"


class Signature:
    """``parts``: the arguments; ``arrays``: of these the arrays, by name."""

    def __init__(
        self, slots: Sequence[A.Slot], specs: Iterable[Any], classes: Sequence[type],
        written: Iterable[str] = (), derivatives: Iterable[tuple[int, str, str]] = (),
    ) -> None:  # fmt: skip
        touched: dict[int, list[str]] = {}
        for n, of, _ in derivatives:
            touched.setdefault(n, []).append(of)
        writes = {*written}
        self.parts = [
            Part(
                f"a{n}", slot, getattr(spec, "element_shape", ()), slot.name in writes,
                getattr(spec, "grad", None) if getattr(slot, "grad", None) is None else None, (*touched.get(n, ()),),
            )
            for n, (slot, spec) in enumerate(zip(slots, flat_specs(specs), strict=True))
        ]  # fmt: skip
        self.arrays = {p.slot.name: p for p in self.parts if isinstance(p.slot, A.ArraySlot)}
        self.given = ", ".join(p.x for p in self.parts)
        self.space: dict[str, Any] = {"content_version": content_version, "field_version": field_version}
        self.space |= {p.ours: classes[len(p.element)] for p in self.arrays.values()}

    def field(self, memory: Memory) -> str:
        """The name of a field's memory in generated functions."""
        self.space[f"f{memory.serial}"] = memory
        return f"f{memory.serial}"

    def field_version(self, memory: Memory, otherwise: str) -> str:
        """The version of a field, and ``otherwise`` if others can write to it."""
        f = self.field(memory)
        return f"({f}.version if not {f}.foreign else {otherwise.format(f)})"

    def stamp(self, parts: Iterable[str], **space: Any) -> Callable[..., Stamp]:
        """A function of the arguments to the values of these parts."""
        text = f"def stamp({self.given}): return ({''.join(f'{part}, ' for part in parts)})"
        return function("stamp", text, self.space | space)


def by_templates(
    slots: Sequence[A.Slot], field: type, find: Callable[..., Launch | None], otherwise: Launch
) -> Launch:
    """A function of the arguments that calls what ``find`` returns for the key of its template arguments."""
    at = [n for n, slot in enumerate(slots) if isinstance(slot, A.TemplateSlot)]
    keys = "".join(f"a{n}.number if a{n}.__class__ is field else key(a{n}), " for n in at)
    given = ", ".join(f"a{n}" for n in range(len(slots)))
    text = f"def call({given}): return (find(({keys})) or otherwise)({given})"
    return function("call", text, {"field": field, "key": template_key, "find": find, "otherwise": otherwise})


def call_key(slots: Sequence[A.Slot], classes: Sequence[type]) -> Callable[[Sequence[Any], Named | None], Any]:
    """A function of a call's arguments to a key of its templates, the kinds of its ndarrays and the classes of its
    numbers; None where an array is no ndarray. Its second argument gets the objects that the key names."""
    xs = [(f"a{n}", slot) for n, slot in enumerate(slots)]
    strange = [f"{x}.__class__ not in classes" for x, slot in xs if isinstance(slot, A.ArraySlot)]
    parts = {
        A.TemplateSlot: "key({0}, named)", A.ScalarSlot: "{0}.__class__",
        A.ArraySlot: "({0}.dtype, len({0}.shape), {0}.element_shape, {0}.grad is None)",
    }  # fmt: skip
    text = "def call(args, named):\n" + f"    {''.join(f'{x}, ' for x, _ in xs)} = args\n" * bool(xs)
    text += f"    if {' or '.join(strange)}: return None\n" * bool(strange)
    text += f"    return ({''.join(parts[type(slot)].format(x) + ', ' for x, slot in xs)})"
    return function("call", text, {"key": template_key, "classes": classes})


# --- versions -----------------------------------------------------------------------------------------------------


class ReadVersions:
    """Versions of the memory that a differentiable plan reads, by which a gradient outside of a Tape notices that it
    was written since: a launch stores ``now`` of its arguments in `Plan.launched`. For trip counts in memory that
    others can write to without telling, a version includes a checksum of the content.

    ``counts``: what is read, trip counts first; ``fields``: the memory of those in fields; ``of_arguments``: whether
    some are in array arguments; ``parts``: their versions as expressions of the arguments."""

    def __init__(self, plan: Plan) -> None:
        signature = plan.signature
        found: list[TripCount] = []
        if plan.owner.gradient is not None and plan.differentiable:
            from quadrants_lab.analysis.facts import other_reads, trip_counts

            found = trip_counts(plan.kernel)
            found += other_reads(plan.kernel, found)
        self.counts = [c for c in found if c.buffer in plan.fields or c.buffer in signature.arrays]
        self.fields = [plan.fields[c.buffer] for c in self.counts if c.buffer in plan.fields]
        self.of_arguments = len(self.fields) < len(self.counts)
        self.parts: list[str] = []
        for c in self.counts:
            if (memory := plan.fields.get(c.buffer)) is not None:
                f = signature.field(memory)
                self.parts.append(signature.field_version(memory, "field_version({})") if c.steers else f"{f}.version")
            else:
                part = signature.arrays[c.buffer]
                self.parts.append(part.content() if c.steers else part.version())
        self.now = signature.stamp(self.parts)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def changed(self, launched: Stamp, args: Sequence[Any]) -> list[tuple[TripCount, Any]]:
        """What was written since the launch that stored ``launched``, with its version then. Passing a different array
        is not a change."""
        return [
            (count, then)
            for count, then, this in zip(self.counts, launched, self.now(*args), strict=True)
            if then != this and same_as_then(then, this)
        ]


# --- regions ------------------------------------------------------------------------------------------------------

Elements = Callable[[Sequence[Any]], Region]  # arguments of a launch -> the elements that it touches


class Footprint:
    """The elements of one buffer that some accesses of a plan's kernel touch, as a box. ``of``: a function from a
    launch's arguments to the region; ``everywhere``: along some axis the indices depend on data; ``scalars``: the
    scalar arguments that it depends on."""

    def __init__(self, plan: Plan, info: Accesses, accesses: Sequence[Access]) -> None:
        from quadrants_lab.adstack.evaluate import compiled, reads
        from quadrants_lab.analysis.boxes import box_of

        self.box = box_of(info, accesses)
        self.everywhere = any(
            info.bound(form, low=low) is None for a in accesses for form in a.at for low in (True, False)
        )
        self.scalars = set[str]().union(*(reads(e)[0] for e in (*self.box.low, *self.box.high)))
        names = {p.slot.name: p.x for p in plan.signature.parts}
        names |= {grad: f"a{n}" for n, _, grad in plan.gradient_args}  # which have the array's shape
        fields = {name: memory.operand.shape for name, memory in plan.fields.items()}
        ends = list(zip(self.box.low, self.box.high, strict=True))
        self.of: Elements = compiled(ends, plan.signature.given, names, fields, shape_of)

    def live(self, live: Live) -> Region | None:
        """The region of a launch with this data; None where that lacks something."""
        from quadrants_lab.adstack.evaluate import evaluated

        with suppress(LookupError):
            ends = zip(self.box.low, self.box.high, strict=True)
            return tuple((evaluated(low, live), evaluated(high, live)) for low, high in ends)
        return None


def footprint(plan: Plan, buffer: str, writes: bool) -> Footprint | None:
    """The elements of the buffer that launches of the plan write, or read; None where they touch none."""
    key = buffer, writes
    if key not in plan.footprints:
        from quadrants_lab.analysis.accesses import Accesses

        info = plan.facts.of(Accesses)
        found = [a for a in info.of.values() if a.stmt.buffer == buffer and isinstance(a.stmt, N.Load) != writes]
        plan.footprints[key] = Footprint(plan, info, found) if found else None
    return plan.footprints[key]


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of an argument as its kernel sees it: with the axes of its elements."""
    memory = memory_of(array)
    shape: tuple[int, ...] = (array if memory is None else memory.operand).shape
    return shape


# --- the closure of a plan ----------------------------------------------------------------------------------------


class Noted(Head):
    """Heads what a launch of the plan notes for a recording: this object, and a value for each of ``names``; ``step``
    items in all. These are ``a0``, ``a1``, ... for arguments, those of `EXTRAS`, and ``kept`` with the name of a
    buffer. ``under_tape``: whether launches of a Tape are noted so, too."""

    __slots__ = ("names", "plan", "step", "under_tape")

    def __init__(self, plan: Plan, names: Sequence[str], under_tape: bool = False) -> None:
        self.plan = plan
        self.under_tape = under_tape
        self.names = tuple(names)
        self.step = 1 + len(self.names)

    def place(self, name: str) -> int:
        """How far behind it the value of a name is; 0 where there is none."""
        return self.names.index(name) + 1 if name in self.names else 0


EXTRAS = {
    "depths": "plan.stacks.depths",
    "standing": "plan.standing",
    "replays": "owner.replays",  # of which earlier launch this is a repetition, or whose gradient; 0 outside of a Tape
    "number": "plan.frame.launch_number",  # whose random draws it has; set by the launch
}
# what the caller of `launch_function` sets in its globals, beside ``late`` and ``slowly``
NAMES = ("hook", "copied", "note", "notes", "missed", "failed", "borrowed_back", "took", "mark", "find")


class Miss(Exception):
    """Raised within a closure that notes launches, where there was none after all."""


def noted(plan: Plan, under_tape: bool) -> Noted:
    """The head of what a closure notes."""
    random, back = plan.facts.of(draws), plan.compiled.mode == REVERSE
    names = [p.x for p in plan.signature.parts if not isinstance(p.slot, A.TemplateSlot)]
    names += ["depths", "standing"] * (plan.stacks is not None) + ["replays"] * (under_tape or back)
    names += [f"kept {name}" for name in sorted(plan.scratch.keeps)]
    return Noted(plan, names + ["number"] * (random or (under_tape and not back)), under_tape)


def launch_function(
    plan: Plan, prepare: Callable[..., bool] | None, miss: Launch, head: Noted | None = None, timed: bool = False
) -> Launch:
    """The closure of ``plan``; ``miss`` gets calls that do not fit.

    With ``head``, it also notes its launches. The caller sets these names in its globals: ``slowly`` launches instead
    when ``late``, a list, is not empty any more, and for an array whose memory is not ``recorded`` by ``hook``, unless
    ``copied`` returns what to note for it. ``note`` and ``notes`` are called with what is noted, one thing or several,
    ``missed`` if there was no launch after all, ``failed`` if an error ended it, ``borrowed_back`` if gradients were
    added up behind it, and with ``timed`` also ``took`` with its seconds. Memory of values that are kept for a gradient
    gets the ``mark``; if it has another one when the gradient finds it, ``find`` is called.
    """
    of, given = plan.signature, plan.signature.given
    lost = f"return miss({given})" if head is None else "raise Miss"
    lines = [f"if not prepare({given}): {lost}"] if prepare is not None else []
    passed = []
    for p in of.parts:
        if p.slot.name in of.arrays:
            lines += _binding(p, lost, plan.session.backend.CAPABILITIES.on_host)
        if not isinstance(p.slot, A.TemplateSlot):
            passed.append(f"{p.x}_" if p.slot.name in of.arrays else p.x)
    lines += [f"{of.field(plan.fields[name])}.version += 1" for name in sorted(plan.writes & plan.fields.keys())]
    if plan.read_versions:
        lines.append(f"plan.launched = {', '.join(plan.read_versions.parts)},")
    if plan.compiled.mode == BOTH:  # an earlier launch is not the last one any more
        lines.append("if last.plan is not None: last.plan.launched = ()")
    launch = f"r = entry({', '.join(passed)})"
    if plan.scratch.changes_memory:
        launch = f"try: {launch}\nexcept BaseException: put_back(({given}{',' * bool(of.parts)})); raise"
    lines += launch.split("\n")
    if prepare is not None and plan.gradient_args:
        lines.append("bound.clear()")
        lines.append("if borrowed: unbind_gradients()" + ("; borrowed_back()" if head is not None else ""))
    if head is not None:
        done = [f"note({EXTRAS['number']})"] * ("number" in head.names) + ["took(clock() - now)"] * timed
        lines += [f"if r is not NotImplemented: {'; '.join(done)}"] * bool(done)
    if plan.single_return():
        lines.append("if r is not NotImplemented and r is not Ellipsis: return r")
    else:
        lines.append(f"if r is None: return {'returned()' if plan.compiled.returns else 'None'}")
    lines += [f"if r is NotImplemented: {lost}", f"return finish({given})"]
    text = [f"def launch({given}):"]
    if head is not None:
        text += [*_elsewhere(of), *["    now = clock()"] * timed]
        first, second = _notes(head, prepare is not None)
        lines = [*first, *lines[:1], *second, *lines[1:]] if prepare is not None else first + lines
        lines = ["try:", *(f"    {line}" for line in lines), "except Miss: missed()"]
        lines += ["except BaseException: failed(); raise"]
    text += ["    with lock:", *(f"        {line}" for line in (*_checks(plan, prepare is not None), *lines))]
    text += [f"    return miss({given})"] * (head is not None)
    space = of.space | {
        "lock": plan.session.lock, "entry": plan.entry, "finish": plan.finish, "miss": miss, "prepare": prepare,
        "returned": plan.returned, "owner": plan.owner, "plan": plan, "weak": plan.weak, "session": plan.session,
        "put_back": plan.scratch.put_back, "borrowed": plan.unbind, "bound": plan.bound, "last": plan.last_launched,
        "unbind_gradients": plan.unbind_gradients, "plain": plan.owner.plain, "clock": perf_counter, "me": head,
        "Miss": Miss, "memories": plan.scratch.memories, "met": None if plan.distinct is None else plan.distinct.met,
    }  # fmt: skip
    return function("launch", "\n".join(text), space)


def _binding(p: Part, lost: str, on_host: bool) -> list[str]:
    """The lines that bind an array. Another session's memory may be another device's; the entry knows of no shapes."""
    return [
        f"{p.x}_ = {p.x}",
        f"if {p.x}.__class__ is {p.ours}:",
        f"    {p.x}_ = {p.x}._memory",
        *[f"    if {p.x}_.session is not session: {lost}"] * (not on_host),
        *[f"    {p.x}_.version += 1"] * p.written,
        f"    {p.x}_ = {p.x}_.operand",
        *[f"if getattr({p.x}_, 'shape', ())[-{len(p.element)}:] != {p.element}: {lost}"] * bool(p.element),
    ]


def _checks(plan: Plan, prepared: bool) -> list[str]:
    """The lines that pass a call on whose arguments another plan serves."""
    of, given = plan.signature, plan.signature.given
    lines = []
    if any(isinstance(p.slot, A.TemplateSlot) for p in of.parts):
        lines.append("owner.last_plan = weak")  # the dispatcher may have installed several plans
    if plan.distinct is not None and plan.distinct.fields:  # the entry knows of no fields
        lines.append(f"if session.exported and met(({given},)): return miss({given})")
    other: list[str] = []  # the launch of arrays with gradients may be another one, and their gradient asks for it
    for p in of.arrays.values():
        has = f"({p.x}.__class__ is {p.ours} and {p.x}.grad is not None)"
        other += [f"not {has}" if p.has_gradient else has] * (p.has_gradient is not None)
    if prepared:  # `adopt` looks at their .grad
        other += [f"{p.x}.__class__ not in plain" for p in of.arrays.values()]
    return lines + [f"if {' or '.join(other)}: return miss({given})"] * bool(other)


def _elsewhere(of: Signature) -> list[str]:
    """The lines for launches that the closure does not note. ``a0n`` is what it notes of an array ``a0``."""
    lines = []
    for p in of.arrays.values():
        hooked = [f"{p.x}.__class__ is {p.ours}", f"{p.x}._memory.recorded is hook"]
        hooked += [f"{p.x}.{which}._memory.recorded is hook" for which in p.derivatives]
        lines += [f"if {' and '.join(hooked)}: {p.x}n = {p.x}", f"elif {p.x}.__class__ not in plain:"]
        lines += [f"    return miss({of.given})", f"else: {p.x}n = copied({p.x})"]
    lines += [f"if {' or '.join(['late', *(f'{p.x}n is None' for p in of.arrays.values())])}:"]
    lines += [f"    r = slowly({of.given})", f"    return miss({of.given}) if r is NotImplemented else r"]
    return [f"    {line}" for line in lines]


def _notes(head: Noted, prepared: bool) -> tuple[list[str], list[str]]:
    """The lines that note a launch, before and after it is prepared."""
    plan, keeps = head.plan, sorted(head.plan.scratch.keeps)
    of = {p.x: f"{p.x}n" if p.slot.name in plan.signature.arrays else p.x for p in plan.signature.parts}
    first = ["me", *(of[name] for name in head.names if name in of)]
    second = [EXTRAS[name] for name in head.names if name in EXTRAS and name != "number"]
    second += [f"k{n}" for n in range(len(keeps))]
    if not prepared:
        first, second = first + second, []
    lines = [f"k{n} = memories[{name!r}]" for n, name in enumerate(keeps)]
    marked = "if k{0}.recorded is not mark: find(k{0})" if plan.compiled.mode == REVERSE else "k{0}.recorded = mark"
    lines += [marked.format(n) for n in range(len(keeps))]
    return _noting(first), lines + _noting(second)


def _noting(what: list[str]) -> list[str]:
    return [f"notes(({', '.join(what)}))"] if len(what) > 2 else [f"note({x})" for x in what]
