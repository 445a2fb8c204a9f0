"""The values of a stack in memory: each is a slot, or for flags a bit of a 32-bit word."""

from __future__ import annotations

from quadrants_lab.backends.lower.adstacks import depths
from quadrants_lab.backends.lower.adstacks.stack import Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u1, u32


def push(t: Task, s: N.AdStackPush) -> None:
    st, b = t.stacks[s.stack], t.b
    if st.slots is None:
        depths.move(t, st, "add", s.id)
        return
    slot = depths.pushed(t, st, s)
    if s.id in t.lockstep.segments:
        _push_chunk(t, s, slot)
        return
    if st.dtype is u1:
        _set_flag(t, st.slots, slot, s)
    else:
        b.add(N.Store(s.id, st.slots.name, _index(t, slot), s.value))
    depths.move(t, st, "add")


def _push_chunk(t: Task, s: N.AdStackPush, slot: int) -> None:
    """Stores the values of a chunk one after the other, once the last of them is pushed, so that an emitter can make
    one access of the stores."""
    t.waiting[s.stack] = s.value
    chunk = [a.id for a in t.chunk[s.stack]]
    if all(i in t.waiting for i in chunk):
        for i in chunk:
            id = s.id if i == s.stack else t.b.fresh()
            t.b.add(N.Store(id, t.stacks[i].name, _index(t, slot), t.waiting.pop(i)))


def load_top(t: Task, s: N.AdStackLoadTop) -> None:
    st = t.stacks[s.stack]
    slot = depths.top(t, st, s)
    if st.dtype is u1:
        _flag(t, st.name, slot, s)
    else:
        t.b.add(N.Load(s.id, s.type, st.name, _index(t, slot), name=s.name))


def _index(t: Task, slot: int) -> tuple[int, ...]:
    return (slot, t.lane) if t.layout.lanes else (slot,)


# --- flags ------------------------------------------------------------------------------------------------------


def _bit(t: Task, slot: int) -> tuple[tuple[int, ...], int]:
    """The index of the word of a flag, and a u32 with the flag's bit set; a shift uses five bits of its count."""
    b = t.b
    return _index(t, b.op("lshr", slot, b.const(5, b.types[slot]))), b.op("shl", b.const(1, u32), b.cast(slot, u32))


def _set_flag(t: Task, words: N.Buffer, slot: int, s: N.AdStackPush) -> None:
    """Sets a flag and clears those above it, which are of slots that are not in use."""
    b = t.b
    index, bit = _bit(t, slot)
    below = b.op("and", b.load(words, index), b.op("sub", bit, b.const(1, u32)))
    flag = b.op("select", s.value, bit, b.const(0, u32))
    b.add(N.Store(s.id, words.name, index, b.op("or", below, flag)))


def _flag(t: Task, words: str, slot: int, s: N.AdStackLoadTop) -> None:
    b = t.b
    index, bit = _bit(t, slot)
    word = b.add(N.Load(b.fresh(), u32, words, index))
    b.add(N.Op(s.id, u1, "ne", (b.op("and", word, bit), b.const(0, u32)), name=s.name))
