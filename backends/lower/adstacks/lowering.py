"""Lowers a kernel's adstacks: replaces each statement that uses a stack by counters, loads and stores."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from quadrants_lab.backends.lower.adstacks import LowerAdstacks, depths
from quadrants_lab.backends.lower.adstacks.stack import Stack, Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u1, u32
from quadrants_lab.ir.walk import find, map_blocks, of_kind


def lowered(kernel: N.Kernel, layout: LowerAdstacks) -> N.Kernel:
    buffers, args, next_id = dict(kernel.buffers), list(kernel.args), kernel.next_id
    body: list[N.Stmt] = []
    number = 0
    for task in kernel.tasks:
        if any(of_kind(task.body, N.AdStackAlloca)):
            t = Task(replace(layout, lanes=layout.lanes or task.lanes > 0), next_id, task, number)
            task = replace(task, body=_block(t, task.body))
            number, next_id = number + len(t.stacks), t.b.next_id
            for st in t.stacks.values():
                buffers |= {b.name: b for b in st.buffers()}
                args += t.args(st)
        body.append(task)
    return replace(kernel, buffers=buffers, args=tuple(args), body=tuple(body), next_id=next_id)


def _block(t: Task, block: N.Block) -> N.Block:
    lower, outer = partial(_block, t), t.numbers
    t.numbers = dict(outer)
    with t.b.block() as out:
        for n, s in enumerate(block):
            if t.early_check and s is t.early_check.loop and not t.guarded:
                _unless_over(t, t.early_check.guard, block[n:], _checked(t), True, lower)
                t.b.yield_()
                break
            t.b.span, t.b.adjoint_of = s.span, s.adjoint_of
            if type(s) in _RULES:
                _RULES[type(s)](t, s)
            elif isinstance(s, N.AdStackGuard):
                # in a loop that runs in segments (checkpointing), the reverse runs a segment again, which pushes; the
                # guard after the segment checks these pushes
                pushes = any(find(s.body, N.AdStackPush))
                _unless_over(t, s, s.body, [] if t.early_check else _checked(t), not pushes, lower)
            else:
                out.append(map_blocks(s, lower))
                depths.after_loop(t, s)
    t.numbers = outer
    return tuple(out)


# --- the comparison with capacities ---------------------------------------------------------------------------------
#
# It stands between forward slice and reverse, or before the first loop that pushes if the ends of the loops tell
# there how much will be pushed.


def _checked(t: Task) -> list[Stack]:
    """The stacks to compare with their capacities: one for each counter."""
    return [st for st in t.stacks.values() if st.slots is not None and st.lead is st]


def _unless_over(
    t: Task, guard: N.AdStackGuard, block: N.Block, stored: list[Stack], guarded: bool,
    lower: Callable[[N.Block], N.Block],
) -> None:  # fmt: skip
    """Lowers a block that runs only if no stack exceeds its capacity. ``guarded``: nothing in the block needs another
    check."""
    b = t.b
    b.span, b.adjoint_of = guard.span, guard.adjoint_of
    over = [depths.exceeds(t, st) for st in stored]
    outer, t.guarded = t.guarded, guarded
    body = lower(block)
    t.guarded = outer
    b.span, b.adjoint_of = guard.span, guard.adjoint_of
    if over:
        _unless(t, guard.id, stored, over, body)
    else:
        b.stmts += body[:-1]


def _unless(t: Task, id: int, stored: list[Stack], over: list[int], body: N.Block) -> None:
    """Emits code that runs ``body`` if no stack exceeds its capacity, and otherwise reports the last stack that does.
    ``over``: for each stack in ``stored``, the id of a flag that is true if the stack exceeds its capacity."""
    b = t.b
    any_over = b.reduced("or", over)
    with b.block() as report:
        which, deep = b.const(stored[0].number, u32), depths.exceeding(t, stored[0])
        for st, o in zip(stored[1:], over[1:], strict=True):
            which = b.op("select", o, b.const(st.number, u32), which)
            deep = b.op("select", o, depths.exceeding(t, st), deep)
        b.add(N.Overflow(b.fresh(), which, deep))
        b.yield_()
    b.add(N.If(id, any_over, tuple(report), body, ()))


# --- values: a slot each, or for flags a bit of a 32-bit word -------------------------------------------------------


def _push(t: Task, s: N.AdStackPush) -> None:
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
    """When the last value of a chunk is pushed, stores the chunk's values one after the other, so that an emitter can
    join the stores to one access."""
    t.waiting[s.stack] = s.value
    chunk = [a.id for a in t.chunk[s.stack]]
    if all(i in t.waiting for i in chunk):
        for i in chunk:
            id = s.id if i == s.stack else t.b.fresh()
            t.b.add(N.Store(id, t.stacks[i].name, _index(t, slot), t.waiting.pop(i)))


def _load_top(t: Task, s: N.AdStackLoadTop) -> None:
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
    """The place of a flag: the index of its word, and a u32 with only the flag's bit set. A shift uses the low five
    bits of the slot's index."""
    b = t.b
    return _index(t, b.op("lshr", slot, b.const(5, b.types[slot]))), b.op("shl", b.const(1, u32), b.cast(slot, u32))


def _set_flag(t: Task, words: N.Buffer, slot: int, s: N.AdStackPush) -> None:
    """Stores a flag in its word, and clears the bits above it, whose slots are not in use."""
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


_RULES: dict[type, Callable[[Task, Any], None]] = {
    N.AdStackAlloca: depths.alloca, N.AdStackPush: _push, N.AdStackPop: depths.pop,
    N.AdStackLoadTop: _load_top, N.AdStackDepth: depths.depth,
}  # fmt: skip
