"""The adstack statements. Slots lie in the device's heap as [slot][thread]; ``top`` is one array of counters.

A push is one line: over capacity it writes to the last slot and counts on; `guard` compares counters with capacities
once, between forward slice and reverse. Flags take one bit a slot, 32 to a word. Stacks that are pushed in step are the
matter of `groups`; what is said here is of the others.

A task of many stacks keeps pointers and limits in arrays, which are filled in a line: nothing is longer for a stack
more than its pushes and pops.

`BRANCHY` is for tests that compare sizes: no groups, pushes that branch on the capacity, a counter variable a stack,
and a line for each load and each pop; an overflow there is only flagged.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.groups import Group, Groups
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.lower.adstacks.lockstep import Steps, in_step, pop_behind
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body

_IN_A_LINE = 8
_IN_LINE = 3  # counters that are compared where they are, and not by a helper
BRANCHY: ContextVar[bool] = ContextVar("quadrants_lab_branchy_msl", default=False)


@dataclass(slots=True)
class Stack:
    """``place``: its number among the task's. All others are expressions: ``slots`` and ``adjoints`` point to this
    thread's first ("" where there are none), ``limit`` is the number of the last slot (the capacity if `BRANCHY`)."""

    place: int
    dtype: DType
    counter: str
    slots: str = ""
    adjoints: str = ""
    limit: str = ""

    def clamp(self, index: str) -> str:
        return f"min({index}, {self.limit})"


def open_stacks(b: Body, block: N.Block, lane: str) -> None:
    """Makes what the task's stacks need; ``lane`` is the number of this thread."""
    allocas = [s for s in walk(block) if isinstance(s, N.AdStackAlloca)]
    if not allocas:
        return
    stored = [s for s in allocas if not s.count_only]
    if stored and len(stored) < len(allocas):
        raise ValueError("a task whose adstacks partly only count")
    branchy = BRANCHY.get()
    groups = b.groups = Groups(Steps((), {}) if branchy else in_step(block))
    places = {s.id: n for n, s in enumerate(allocas)}
    followers = {a.id for members in groups.steps.groups for a in members[1:]}
    counted = [s for s in allocas if s.id not in followers]
    b.counted = [places[s.id] for s in counted]
    counters = {s.id: f"c{n}" if branchy else f"top[{n}]" for n, s in enumerate(counted)}
    if branchy:
        _declare(b, list(counters.values()))
    limits = _limits(b, counted, places, allocas) if stored else dict.fromkeys(counters, "")
    for members in groups.steps.groups:
        first = members[0].id
        groups.open(b, members, Group(counters[first], limits[first]), places, lane)
    alone = [s for s in counted if s.id not in groups.of]
    for s in alone:
        b.stacks[s.id] = Stack(places[s.id], s.type, counters[s.id], limit=limits[s.id])
    if stored:
        _open_alone(b, alone, lane)


def _limits(
    b: Body, counted: list[N.AdStackAlloca], places: dict[int, int], allocas: list[N.AdStackAlloca]
) -> dict[int, str]:
    """The variables with the number of the last slot (the capacity if `BRANCHY`), by the id of a stack."""
    b.once("stride", "uint", b.frame.head(L.THREADS))
    b.once("s", "device Stack*", b.frame.stacks(b.number, allocas))
    name, member = ("k", "capacity") if BRANCHY.get() else ("m", "last")
    if len(counted) == len(allocas) > _IN_A_LINE:
        b.start.append(f"uint {name}[{len(allocas)}];")
        b.start.append(f"for (uint n = 0; n < {len(allocas)}; ++n) {name}[n] = s[n].{member};")
        return {a.id: f"{name}[{n}]" for n, a in enumerate(allocas)}
    _declare(b, [f"{name}{places[a.id]} = s[{places[a.id]}].{member}" for a in counted])
    return {a.id: f"{name}{places[a.id]}" for a in counted}


def _open_alone(b: Body, alone: list[N.AdStackAlloca], lane: str) -> None:
    """The slots of stacks that are in no group."""
    slots = b.helper("qd_slots") if alone else ""
    kept = ["uint" if a.type is u1 else X.name(a.type) for a in alone]
    places = [b.stacks[a.id].place for a in alone]
    for first, count in _runs(list(zip(kept, places, strict=True))):
        at = places[first]
        made = f"{slots}<{kept[first]}>(f, s[{{}}], {lane})"
        if count > _IN_A_LINE:
            b.start.append(f"device {kept[first]}* s{at}[{count}];")
            b.start.append(f"for (uint k = 0; k < {count}; ++k) s{at}[k] = {made.format(_sum('k', at))};")
        for n in range(count):
            st = b.stacks[alone[first + n].id]
            st.slots = f"s{at}[{n}]" if count > _IN_A_LINE else b.once(f"s{at + n}", "auto", made.format(at + n))
    adjoints = b.frame.layout.frame.adjoint_stacks
    for a, t in zip(alone, kept, strict=True):
        if a.id in adjoints:
            n = b.stacks[a.id].place
            b.stacks[a.id].adjoints = b.once(f"a{n}", "auto", f"{b.helper('qd_adjoints')}<{t}>(f, s[{n}], {lane})")


def _runs(kinds: list[tuple[str, int]]) -> list[tuple[int, int]]:
    """Where equal ones begin whose places follow each other, and how many they are."""
    out: list[tuple[int, int]] = []
    for n, (kind, place) in enumerate(kinds):
        if n and kinds[n - 1] == (kind, place - 1):
            out[-1] = (out[-1][0], out[-1][1] + 1)
        else:
            out.append((n, 1))
    return out


def _sum(index: str, more: int) -> str:
    return f"{index} + {more}" if more else index


def _declare(b: Body, variables: list[str]) -> None:
    """Declares variables of type uint, several a line."""
    for n in range(0, len(variables), _IN_A_LINE):
        b.start.append(f"uint {', '.join(variables[n : n + _IN_A_LINE])};")


def alloca(b: Body, s: N.AdStackAlloca) -> None:
    if BRANCHY.get():
        b.out.put(f"{b.stacks[s.id].counter} = 0;")
    elif s.id == b.first_stack:
        b.out.put(f"uint top[{len(b.counted)}] = {{}};")


def _slot(st: Stack, slots: str, index: str) -> str:
    return f"{slots}[{index} * stride]"


def _top(b: Body, st: Stack, index: str) -> str:
    """The index of the top slot, within the stack whatever the counter says."""
    return index if b.guarded or BRANCHY.get() else st.clamp(index)


def push(b: Body, s: N.AdStackPush) -> None:
    if s.stack in b.groups.of:
        b.groups.push(b, s)
        return
    st, value = b.stacks[s.stack], b.values[s.value]
    if not st.slots:
        b.out.put(f"++{st.counter};")
    elif BRANCHY.get():
        _branchy_push(b, st, value)
    elif st.adjoints:
        _keep(b, st, st.clamp(st.counter), value)
        b.out.put(f"{_slot(st, st.adjoints, st.clamp(st.counter + '++'))} = {X.literal(st.dtype, 0).text};")
    else:
        _keep(b, st, st.clamp(st.counter + "++"), value)


def _keep(b: Body, st: Stack, index: str, value: Expr) -> None:
    if st.dtype is u1:
        b.out.put(f"{b.helper('qd_set_flag')}({st.slots}, stride, {index}, {value.text});")
    else:
        b.out.put(f"{_slot(st, st.slots, index)} = {value.text};")


def _branchy_push(b: Body, st: Stack, value: Expr) -> None:
    out = b.out
    out.put(f"if ({st.counter} < {st.limit}) {{")
    with out.nest():
        _keep(b, st, st.counter, value)
        if st.adjoints:
            out.put(f"{_slot(st, st.adjoints, st.counter)} = {X.literal(st.dtype, 0).text};")
        out.put(f"{st.counter} += 1;")
    out.put("} else {")
    with out.nest():
        status = b.frame.head(L.STATUS)
        out.put(f"atomic_fetch_or_explicit(&{status}, {Status.OVERFLOW}u, memory_order_relaxed);")
    out.put("}")


def pop(b: Body, s: N.AdStackPop) -> None:
    if s.stack in b.groups.of:
        b.groups.pop(b, s)
        return
    b.out.put(f"--{b.stacks[s.stack].counter};")


def _read(b: Body, st: Stack, index: str) -> Expr:
    if st.dtype is u1:
        index = index[1:-1] if index[0] == "(" else index
        return Expr(f"{b.helper('qd_flag')}({st.slots}, stride, {index})", X.PRIMARY, "bool")
    return Expr(_slot(st, st.slots, index), X.PRIMARY, X.name(st.dtype))


def _below(st: Stack) -> str:
    return f"({st.counter} - 1)"


def load_top(b: Body, s: N.AdStackLoadTop) -> None:
    if s.stack in b.groups.of:
        b.groups.load(b, s)
        return
    st = b.stacks[s.stack]
    b.define(s, _read(b, st, _top(b, st, _below(st))), at_once=b.read(s.id))


def taken_with(b: Body, load: N.AdStackLoadTop, block: N.Block, at: int) -> int:
    """The id of a pop that is one step with the load at that place of the block, else NO_ID; in a group each is by
    itself."""
    return N.NO_ID if load.stack in b.groups.of else pop_behind(load.stack, block, at)


def load_and_pop(b: Body, s: N.AdStackLoadTop) -> None:
    """A load of the top with the pop that takes it."""
    st = b.stacks[s.stack]
    if BRANCHY.get():
        load_top(b, s)
        b.out.put(f"{st.counter} -= 1;")
    elif b.read(s.id):
        b.define(s, _read(b, st, _top(b, st, f"--{st.counter}")), at_once=True)
    else:
        b.out.put(f"--{st.counter};")


def load_top_adjoint(b: Body, s: N.AdStackLoadTopAdj) -> None:
    st = b.stacks[s.stack]
    e = Expr(_slot(st, st.adjoints, _top(b, st, _below(st))), X.PRIMARY, X.name(st.dtype))
    b.define(s, e, at_once=b.read(s.id))


def accumulate(b: Body, s: N.AdStackAccAdjoint) -> None:
    st = b.stacks[s.stack]
    b.out.put(f"{_slot(st, st.adjoints, _top(b, st, _below(st)))} += {b.values[s.value].text};")


def depth(b: Body, s: N.AdStackDepth) -> None:
    b.define(s, Expr(b.stacks[s.stack].counter, X.PRIMARY, "uint"), at_once=b.read(s.id))


def guard(b: Body, s: N.AdStackGuard) -> None:
    out = b.out
    stored = bool(b.groups.of) or any(st.slots for st in b.stacks.values())
    # a segment of a checkpointed loop pushes in the reverse, and is only checked by the guard behind it
    pushes = any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    outer, b.guarded = b.guarded, not pushes
    if not stored or BRANCHY.get():
        b.block(s.body)
    else:
        _open_guard(b)
        with out.nest():
            b.block(s.body)
        out.put("}")
    b.guarded = outer


def _open_guard(b: Body) -> None:
    """Compares depths with capacities; what follows is for a thread whose stacks all fit."""
    out = b.out
    first = next(n for n, a in enumerate(b.frame.layout.frame.stacks) if a.id == b.first_stack)
    if len(b.counted) > _IN_LINE:
        which = ", ".join(map(str, b.counted))
        out.put(f"if ({b.helper('qd_fits')}<{which}>(f, top, s, {first}u)) {{")
        return
    fail = b.helper("qd_fail")
    for n, place in enumerate(b.counted):
        out.put(f"{'} else ' if n else ''}if (top[{n}] > s[{place}].capacity) {{")
        with out.nest():
            out.put(f"{fail}(f, {Status.OVERFLOW}u, {first + place}u, top[{n}]);")
    out.put("} else {")
