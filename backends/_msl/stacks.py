"""The adstack statements. Slots lie in the device's heap as [slot][thread]; ``top`` is one array of counters.

A push is one line: over capacity it writes to the last slot and counts on; `guard` compares counters with capacities
once, between forward slice and reverse. Flags take one bit a slot, 32 to a word.

A task of many stacks keeps pointers and limits in arrays, which are filled in a line: nothing is longer for a stack
more than its pushes and pops.

`BRANCHY` is for tests that compare sizes: pushes that branch on the capacity, a counter variable a stack, and a line
for each load and each pop; an overflow there is only flagged.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends.launch import Status
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body

_IN_A_LINE = 8
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
    layout = b.frame.layout.frame
    branchy = BRANCHY.get()
    for n, s in enumerate(allocas):
        b.stacks[s.id] = Stack(n, s.type, f"c{n}" if branchy else f"top[{n}]")
    if branchy:
        _declare(b, [f"c{n}" for n in range(len(allocas))])
    if not stored:
        return
    b.once("stride", "uint", b.frame.head(L.THREADS))
    b.once("s", "device Stack*", b.frame.stacks(b.number, allocas))
    slots = b.helper("qd_slots")
    kept = ["uint" if a.type is u1 else X.name(a.type) for a in allocas]
    for first, count in _runs(kept):
        made = f"{slots}<{kept[first]}>(f, s[{{}}], {lane})"
        if count > _IN_A_LINE:
            b.start.append(f"device {kept[first]}* s{first}[{count}];")
            b.start.append(f"for (uint k = 0; k < {count}; ++k) s{first}[k] = {made.format(_sum('k', first))};")
        for n in range(first, first + count):
            st = b.stacks[allocas[n].id]
            st.slots = f"s{first}[{n - first}]" if count > _IN_A_LINE else b.once(f"s{n}", "auto", made.format(n))
    for n, a in enumerate(allocas):
        if a.id in layout.adjoint_stacks:
            made = f"{b.helper('qd_adjoints')}<{kept[n]}>(f, s[{n}], {lane})"
            b.stacks[a.id].adjoints = b.once(f"a{n}", "auto", made)
    limit, member = ("k", "capacity") if branchy else ("m", "last")
    array = len(allocas) > _IN_A_LINE
    for n, a in enumerate(allocas):
        b.stacks[a.id].limit = f"{limit}[{n}]" if array else f"{limit}{n}"
    if array:
        b.start.append(f"uint {limit}[{len(allocas)}];")
        b.start.append(f"for (uint n = 0; n < {len(allocas)}; ++n) {limit}[n] = s[n].{member};")
    else:
        _declare(b, [f"{limit}{n} = s[{n}].{member}" for n in range(len(allocas))])


def _runs(kinds: list[str]) -> list[tuple[int, int]]:
    """Where equal ones begin that stand side by side, and how many they are."""
    out: list[tuple[int, int]] = []
    for n, kind in enumerate(kinds):
        if n and kind == kinds[n - 1]:
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
    st = b.stacks[s.id]
    if BRANCHY.get():
        b.out.put(f"{st.counter} = 0;")
    elif st.place == 0:
        b.out.put(f"uint top[{len(b.stacks)}] = {{}};")


def _slot(st: Stack, slots: str, index: str) -> str:
    return f"{slots}[{index} * stride]"


def _top(b: Body, st: Stack, index: str) -> str:
    """The index of the top slot, within the stack whatever the counter says."""
    return index if b.guarded or BRANCHY.get() else st.clamp(index)


def push(b: Body, s: N.AdStackPush) -> None:
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
    b.out.put(f"--{b.stacks[s.stack].counter};")


def _read(b: Body, st: Stack, index: str) -> Expr:
    if st.dtype is u1:
        index = index[1:-1] if index[0] == "(" else index
        return Expr(f"{b.helper('qd_flag')}({st.slots}, stride, {index})", X.PRIMARY, "bool")
    return Expr(_slot(st, st.slots, index), X.PRIMARY, X.name(st.dtype))


def _below(st: Stack) -> str:
    return f"({st.counter} - 1)"


def load_top(b: Body, s: N.AdStackLoadTop) -> None:
    st = b.stacks[s.stack]
    b.define(s, _read(b, st, _top(b, st, _below(st))), at_once=b.read(s.id))


def load_and_pop(b: Body, s: N.AdStackLoadTop) -> None:
    """A load of the top that a pop follows."""
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
    stored = [st for st in b.stacks.values() if st.slots]
    # a segment of a checkpointed loop pushes in the reverse, and is only checked by the guard behind it
    pushes = any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    outer, b.guarded = b.guarded, not pushes
    if not stored or BRANCHY.get():
        b.block(s.body)
    else:
        allocas = [a for a in b.frame.layout.frame.stacks if a.id in b.stacks]
        first = next(n for n, a in enumerate(b.frame.layout.frame.stacks) if a.id == allocas[0].id)
        stacks = b.frame.stacks(b.number, allocas)
        out.put(f"if ({b.helper('qd_fits')}<{len(stored)}>(f, top, {stacks}, {first}u)) {{")
        with out.nest():
            b.block(s.body)
        out.put("}")
    b.guarded = outer
