"""What a stack holds: a slot a value, or a bit of a word of 32."""

from __future__ import annotations

from quadrants_lab.backends.lower.adstacks import counters
from quadrants_lab.backends.lower.adstacks.stack import Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u1, u32


def push(t: Task, s: N.AdStackPush) -> None:
    st, b = t.stacks[s.stack], t.b
    if st.slots is None:
        counters.increment(t, st, s.id)
        return
    slot = counters.clamp(t, st, counters.increment(t, st))
    if st.dtype is u1:
        _set_flag(t, st.slots, slot, s)
        return
    b.add(N.Store(s.id, st.slots.name, _index(t, slot), s.value))
    if st.adjoints is not None:
        b.store(st.adjoints, _index(t, slot), b.const(0, st.dtype))


def load_top(t: Task, s: N.AdStackLoadTop) -> None:
    st = t.stacks[s.stack]
    assert st.slots is not None
    slot = counters.top(t, st)
    if st.dtype is u1:
        _flag(t, st.slots, slot, s)
    else:
        t.b.add(N.Load(s.id, s.type, st.slots.name, _index(t, slot), name=s.name))


def load_top_adjoint(t: Task, s: N.AdStackLoadTopAdj) -> None:
    st = t.stacks[s.stack]
    assert st.adjoints is not None
    t.b.add(N.Load(s.id, s.type, st.adjoints.name, _index(t, counters.top(t, st)), name=s.name))


def accumulate(t: Task, s: N.AdStackAccAdjoint) -> None:
    st, b = t.stacks[s.stack], t.b
    assert st.adjoints is not None
    index = _index(t, counters.top(t, st))
    total = b.add(N.Op(b.fresh(), st.dtype, "add", (b.load(st.adjoints, index), s.value)))
    b.add(N.Store(s.id, st.adjoints.name, index, total))


def _index(t: Task, slot: int) -> tuple[int, ...]:
    return (slot, t.lane) if t.layout.lanes else (slot,)


# --- flags ------------------------------------------------------------------------------------------------------


def _bit(t: Task, slot: int) -> tuple[tuple[int, ...], int]:
    """Where the word of a flag is, and the flag's place in it, a u32."""
    b = t.b
    low = b.cast(slot, u32)
    return _index(t, b.op("shr", slot, b.const(5, t.layout.counter))), b.op("and", low, b.const(31, u32))


def _set_flag(t: Task, words: N.Buffer, slot: int, s: N.AdStackPush) -> None:
    b = t.b
    index, bit = _bit(t, slot)
    one = b.const(1, u32)
    others = b.op("and", b.load(words, index), b.op("not", b.op("shl", one, bit)))
    flag = b.add(N.Op(b.fresh(), u32, "cast", (s.value,)))
    word = b.op("or", others, b.op("shl", flag, bit))
    b.add(N.Store(s.id, words.name, index, word))


def _flag(t: Task, words: N.Buffer, slot: int, s: N.AdStackLoadTop) -> None:
    b = t.b
    index, bit = _bit(t, slot)
    low = b.op("and", b.op("shr", b.load(words, index), bit), b.const(1, u32))
    b.add(N.Op(s.id, u1, "ne", (low, b.const(0, u32)), name=s.name))
