"""The closure of a plan: Python source generated for the kernel's parameters, so a warm launch is one call of it, one
lock and one call into compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from quadrants_lab.frontend.specs import NdarraySpec, flat_specs
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.arguments import signature as A
from quadrants_lab.runtime.compile.compiled import BOTH, REVERSE
from quadrants_lab.runtime.memory.memory import Head

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

Launch = Callable[..., Any]


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
    "depths": "plan.depths",
    "standing": "plan.standing",
    "replays": "owner.replays",  # of which earlier launch this is a repetition, or whose gradient; 0 outside of a Tape
    "number": "plan.frame.launch_number",  # whose random draws it has; set by the launch
}


# what the caller of `closure` sets in its globals, beside ``late`` and ``slowly``
NAMES = ("hook", "copied", "note", "notes", "missed", "failed", "borrowed_back", "took", "mark", "find")


class Miss(Exception):
    """Raised within a closure that notes launches, where there was none after all."""


def noted(plan: Plan, under_tape: bool) -> Noted:
    """The head of what a closure notes."""
    draws, back = any(isinstance(s, N.Random) for s in walk(plan.kernel.body)), plan.compiled.mode == REVERSE
    names = [f"a{n}" for n, slot in enumerate(plan.slots) if not isinstance(slot, A.TemplateSlot)]
    names += ["depths", "standing"] * (plan.depths is not None) + ["replays"] * (under_tape or back)
    names += [f"kept {name}" for name in sorted(plan.scratch.keeps)]
    return Noted(plan, names + ["number"] * (draws or (under_tape and not back)), under_tape)


def closure(
    plan: Plan, prepare: Callable[..., bool] | None, miss: Launch, head: Noted | None = None, timed: bool = False
) -> Launch:
    """The function that launches ``plan``, as Python source for its arguments; ``miss`` gets calls that do not match.

    With ``head``, it also notes its launches. The caller sets these names in its globals: ``slowly`` launches instead
    when ``late``, a list, is not empty any more, and for an array whose memory is not ``recorded`` by ``hook``, unless
    ``copied`` returns what to note for it. ``note`` and ``notes`` are called with what is noted, one thing or several,
    ``missed`` if there was no launch after all, ``failed`` if an error ended it, ``borrowed_back`` if gradients were
    added up behind it, and with ``timed`` also ``took`` with its seconds. Memory of values that are kept for a gradient
    gets the ``mark``; if it has another one when the gradient finds it, ``find`` is called.
    """
    names = [f"a{n}" for n in range(len(plan.slots))]
    given = ", ".join(names)
    space: dict[str, Any] = {
        "lock": plan.session.lock, "entry": plan.entry, "finish": plan.finish, "miss": miss, "prepare": prepare,
        "returned": plan.returned, "owner": plan.owner, "plan": plan, "weak": plan.weak, "session": plan.session,
        "put_back": plan.scratch.put_back, "borrowed": plan.unbind, "bound": plan.bound,
        "unbind_gradients": plan.unbind_gradients, "plain": plan.owner.plain,
    }  # fmt: skip
    specs = [*flat_specs(plan.compiled.specs)]
    checks = _checks(plan, names, space)
    if prepare is not None:
        slots = zip(plan.slots, names, strict=True)
        strange = [f"{name}.__class__ not in plain" for slot, name in slots if isinstance(slot, A.ArraySlot)]
        if strange:  # `adopt` looks at their .grad
            checks.append(f"if {' or '.join(strange)}: return miss({given})")
    lost = f"return miss({given})" if head is None else "raise Miss"
    lines = [f"if not prepare({given}): {lost}"] if prepare is not None else []
    passed = []
    for slot, name, spec in zip(plan.slots, names, specs, strict=True):
        if isinstance(slot, A.ArraySlot) and isinstance(spec, NdarraySpec):
            element = spec.element_shape
            ours = f"ndarray{len(element)}"
            lines += [f"{name}_ = {name}", f"if {name}.__class__ is {ours}:"]
            lines.append(f"    {name}_ = {name}._memory")
            if not plan.session.backend.CAPABILITIES.on_host:  # another session's memory is another device's
                lines.append(f"    if {name}_.session is not session: {lost}")
            if slot.name in plan.writes:
                lines.append(f"    {name}_.version += 1")
            lines.append(f"    {name}_ = {name}_.operand")
            if element:  # the entry knows of no shapes
                lines.append(f"if getattr({name}_, 'shape', ())[-{len(element)}:] != {element}:")
                lines.append(f"    {lost}")
            passed.append(f"{name}_")
        elif isinstance(slot, A.ScalarSlot):
            passed.append(name)
    for n, written in enumerate(sorted(plan.writes & plan.fields.keys())):
        space[f"f{n}"] = plan.fields[written]
        lines.append(f"f{n}.version += 1")
    if plan.read_versions:
        space |= plan.read_versions.space
        lines.append(f"plan.launched = {', '.join(plan.read_versions.parts)},")
    if plan.compiled.mode == BOTH:  # an earlier launch is not the last one any more
        space["last"] = plan.last_launched
        lines.append("if last.plan is not None: last.plan.launched = ()")
    launch = f"r = entry({', '.join(passed)})"
    if plan.scratch.changes_memory:
        lines += ["try:", f"    {launch}", "except BaseException:"]
        lines += [f"    put_back(({given}{',' * bool(names)}))", "    raise"]
    else:
        lines.append(launch)
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
        text += _elsewhere(plan, names, space)
        text += ["    now = clock()"] * timed
        first, second = _notes(head, names, prepare is not None)
        lines = [*first, *lines[:1], *second, *lines[1:]] if prepare is not None else first + lines
        lines = ["try:", *(f"    {line}" for line in lines), "except Miss:", "    missed()"]
        lines += ["except BaseException:", "    failed()", "    raise"]
        space |= {"clock": perf_counter, "me": head, "Miss": Miss, "memories": plan.scratch.memories}
    text += ["    with lock:", *(f"        {line}" for line in (*checks, *lines))]
    text += [f"    return miss({given})"] * (head is not None)
    exec("\n".join(text), space)
    return cast("Launch", space["launch"])


def _elsewhere(plan: Plan, names: list[str], space: dict[str, Any]) -> list[str]:
    """The lines for launches that the closure does not note. ``a0n`` is what it notes of an array ``a0``."""
    given, strange, lines = ", ".join(names), ["late"], []
    for n, (slot, name, spec) in enumerate(zip(plan.slots, names, flat_specs(plan.compiled.specs), strict=True)):
        if not isinstance(slot, A.ArraySlot):
            continue
        ours = f"ndarray{len(getattr(spec, 'element_shape', ()))}"
        space[ours] = plan.owner.ndarray_classes[len(getattr(spec, "element_shape", ()))]
        known = [f"{name}.__class__ is {ours}", f"{name}._memory.recorded is hook"]
        known += [f"{name}.{of}._memory.recorded is hook" for at, of, _ in plan.gradient_args if at == n]
        lines += [f"if {' and '.join(known)}: {name}n = {name}", f"elif {name}.__class__ not in plain:"]
        lines += [f"    return miss({given})", f"else: {name}n = copied({name})"]
        strange.append(f"{name}n is None")
    lines += [f"if {' or '.join(strange)}:", f"    r = slowly({given})"]
    lines.append(f"    return miss({given}) if r is NotImplemented else r")
    return [f"    {line}" for line in lines]


def _notes(head: Noted, names: list[str], prepared: bool) -> tuple[list[str], list[str]]:
    """The lines that note a launch, before and after it is prepared."""
    plan, keeps = head.plan, sorted(head.plan.scratch.keeps)
    arrays = {name for name, slot in zip(names, plan.slots, strict=True) if isinstance(slot, A.ArraySlot)}
    first = ["me", *(f"{name}n" if name in arrays else name for name in head.names if name in names)]
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


def _checks(plan: Plan, names: list[str], space: dict[str, Any]) -> list[str]:
    """The lines that pass a call on whose arguments another plan serves."""
    given = ", ".join(names)
    lines = []
    if any(isinstance(slot, A.TemplateSlot) for slot in plan.slots):
        lines.append("owner.last_plan = weak")  # the dispatcher may have installed several plans
    if plan.distinct is not None and plan.distinct.fields:  # the entry knows of no fields
        space["met"] = plan.distinct.met
        lines.append(f"if session.exported and met(({given},)): return miss({given})")
    other: list[str] = []  # the launch of arrays with gradients may be another one, and their gradient asks for it
    for slot, name, spec in zip(plan.slots, names, flat_specs(plan.compiled.specs), strict=True):
        if isinstance(slot, A.ArraySlot) and isinstance(spec, NdarraySpec):
            ours = f"ndarray{len(spec.element_shape)}"
            space[ours] = plan.owner.ndarray_classes[len(spec.element_shape)]
            if slot.grad is None:
                has = f"{name}.__class__ is {ours} and {name}.grad is not None"
                other.append(f"not ({has})" if spec.grad else has)
    if other:
        lines.append(f"if {' or '.join(other)}: return miss({given})")
    return lines
