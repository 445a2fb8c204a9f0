"""How many slots a stack holds: a counter each. What a block knows of counts it does not load again."""

from __future__ import annotations

from quadrants_lab.backends.lower.adstacks.stack import Stack, Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u32


def alloca(t: Task, s: N.AdStackAlloca) -> None:
    """An empty stack, at the start of an iteration."""
    st, b = t.stacks[s.id], t.b
    if t.one == N.NO_ID:
        t.one = b.const(1, t.layout.counter)
        t.lane = b.add(N.Lane(b.fresh(), u32)) if t.layout.lanes else N.NO_ID
    loads = [b.add(N.ArgLoad(b.fresh(), a.type, a.name)) for a in st.args()]
    if loads:
        st.capacity, st.last = loads
    _set(t, st, b.const(0, t.layout.counter), s.id)


def count(t: Task, st: Stack) -> int:
    if st.number not in t.counts:
        t.counts[st.number] = t.b.load(st.count, ())
    return t.counts[st.number]


def _set(t: Task, st: Stack, value: int, id: int) -> None:
    t.b.add(N.Store(id, st.count.name, (), value))
    t.counts[st.number] = value
    t.tops.pop(st.number, None)


def increment(t: Task, st: Stack, id: int = N.NO_ID) -> int:
    """Returns the count before. ``id``: of the store."""
    n = count(t, st)
    _set(t, st, t.b.op("add", n, t.one), t.b.fresh() if id == N.NO_ID else id)
    t.tops[st.number] = n
    return n


def _below(t: Task, st: Stack) -> int:
    if st.number not in t.tops:
        t.tops[st.number] = t.b.op("sub", count(t, st), t.one)
    return t.tops[st.number]


def top(t: Task, st: Stack) -> int:
    """The number of the top slot, within the stack whatever the count says."""
    return _below(t, st) if t.guarded else clamp(t, st, _below(t, st))


def clamp(t: Task, st: Stack, slot: int) -> int:
    return t.b.op("min", slot, st.last)


def pop(t: Task, s: N.AdStackPop) -> None:
    st = t.stacks[s.stack]
    _set(t, st, _below(t, st), s.id)


def depth(t: Task, s: N.AdStackDepth) -> None:
    t.b.add(N.Op(s.id, s.type, "cast", (count(t, t.stacks[s.stack]),)))
