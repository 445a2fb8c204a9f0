"""The adstack statements. A stack is a counter and a stretch of memory; pushes are straight-line code.

A push over capacity writes to the last slot and counts on; `guard` compares counters with capacities once, between
forward slice and reverse. Truth values take one bit a slot, 32 to a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.text import constant, memory_type, ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body


@dataclass(slots=True)
class Stack:
    """``number``: its place among the kernel's AdStackAllocas. ``counter`` is the address of an integer of type
    ``index``; ``base`` and ``adjoints`` of its slots ("" where there are none); ``capacity`` and ``last``
    (max(capacity, 1) - 1) are of that type too, as is ``stride``: how many elements on the next one is ("": one)."""

    number: int
    dtype: DType
    counter: str
    base: str
    adjoints: str
    capacity: str
    last: str
    tag: str  # its alias scope
    adjoints_tag: str
    index: str = "i64"
    stride: str = ""


def slot_bytes(t: DType, slots: int) -> int:
    """Memory of a stack of at least one slot."""
    slots = max(slots, 1)
    return (slots + 31) // 32 * 4 if t.kind == "b" else slots * t.nbytes


def alloca(b: Body, s: N.AdStackAlloca) -> None:
    st = b.stacks[s.id]
    b.fn.put(f"store {st.index} 0, ptr {st.counter}")


def _count(b: Body, st: Stack) -> str:
    return b.fn.let(f"load {st.index}, ptr {st.counter}")


def _clamp(b: Body, st: Stack, index: str) -> str:
    return b.fn.call(st.index, f"llvm.umin.{st.index}", (st.index, index), (st.index, st.last))


def _top(b: Body, st: Stack) -> str:
    """Index of the top slot, within the stack whatever the counter says."""
    index = b.fn.let(f"sub {st.index} {_count(b, st)}, 1")
    return index if b.guarded else _clamp(b, st, index)


def _slot(b: Body, st: Stack, base: str, index: str) -> str:
    return b.fn.let(f"getelementptr inbounds {memory_type(st.dtype)}, ptr {base}, i64 {_place(b, st, index)}")


def _place(b: Body, st: Stack, index: str) -> str:
    """Number of an element, an i64; a device that strides keeps it below 2**31."""
    if st.stride:
        index = b.fn.let(f"mul nuw nsw {st.index} {index}, {st.stride}")
    return index if st.index == "i64" else b.fn.let(f"zext nneg {st.index} {index} to i64")


def _word(b: Body, st: Stack, index: str) -> tuple[str, str]:
    """Address of the word that holds a truth value, and the bit's place in it (i32)."""
    word = b.fn.let(f"lshr {st.index} {index}, 5")
    low = b.fn.let(f"trunc i64 {index} to i32") if st.index == "i64" else index
    bit = b.fn.let(f"and i32 {low}, 31")
    return b.fn.let(f"getelementptr inbounds i32, ptr {st.base}, i64 {_place(b, st, word)}"), bit


def push(b: Body, s: N.AdStackPush) -> None:
    st, fn = b.stacks[s.stack], b.fn
    n = _count(b, st)
    fn.put(f"store {st.index} {fn.let(f'add nuw {st.index} {n}, 1')}, ptr {st.counter}")
    if not st.base:
        return
    index, value = _clamp(b, st, n), b.values[s.value]
    if st.dtype.kind == "b":
        ptr, bit = _word(b, st, index)
        old = fn.let(f"load i32, ptr {ptr}{st.tag}")
        mask = fn.let(f"shl i32 1, {bit}")
        others = fn.let(f"and i32 {old}, {fn.let(f'xor i32 {mask}, -1')}")
        new = fn.let(f"shl i32 {fn.let(f'zext i1 {value} to i32')}, {bit}")
        fn.put(f"store i32 {fn.let(f'or i32 {others}, {new}')}, ptr {ptr}{st.tag}")
        return
    memory.write(b, st.dtype, _slot(b, st, st.base, index), value, st.tag)
    if st.adjoints:
        memory.write(
            b, st.dtype, _slot(b, st, st.adjoints, index), constant(ty(st.dtype), 0), st.adjoints_tag
        )


def pop(b: Body, s: N.AdStackPop) -> None:
    st = b.stacks[s.stack]
    n = _count(b, st)
    b.fn.put(f"store {st.index} {b.fn.let(f'sub {st.index} {n}, 1')}, ptr {st.counter}")


def load_top(b: Body, s: N.AdStackLoadTop) -> None:
    st, fn = b.stacks[s.stack], b.fn
    index = _top(b, st)
    if st.dtype.kind == "b":
        ptr, bit = _word(b, st, index)
        shifted = fn.let(f"lshr i32 {fn.let(f'load i32, ptr {ptr}{st.tag}')}, {bit}")
        b.define(s.id, s.type, fn.let(f"trunc i32 {shifted} to i1"))
        return
    b.define(s.id, s.type, memory.read(b, st.dtype, _slot(b, st, st.base, index), st.tag))


def load_top_adjoint(b: Body, s: N.AdStackLoadTopAdj) -> None:
    st = b.stacks[s.stack]
    ptr = _slot(b, st, st.adjoints, _top(b, st))
    b.define(s.id, s.type, memory.read(b, st.dtype, ptr, st.adjoints_tag))


def accumulate(b: Body, s: N.AdStackAccAdjoint) -> None:
    st = b.stacks[s.stack]
    ptr = _slot(b, st, st.adjoints, _top(b, st))
    old = memory.read(b, st.dtype, ptr, st.adjoints_tag)
    memory.write(
        b, st.dtype, ptr, memory.combine(b, "add", st.dtype, old, b.values[s.value]), st.adjoints_tag
    )


def depth(b: Body, s: N.AdStackDepth) -> None:
    st = b.stacks[s.stack]
    n = _count(b, st)
    bits = int(st.index[1:])
    if s.type.bits != bits:
        n = b.fn.let(f"{'zext' if s.type.bits > bits else 'trunc'} {st.index} {n} to {ty(s.type).text}")
    b.define(s.id, s.type, n)


def guard(b: Body, s: N.AdStackGuard) -> None:
    fn = b.fn
    stored = [st for st in b.stacks.values() if st.base]
    depths = [_count(b, st) for st in stored]
    over = [fn.let(f"icmp ugt {st.index} {n}, {st.capacity}") for n, st in zip(depths, stored, strict=True)]
    if over:
        any_over = over[0]
        for o in over[1:]:
            any_over = fn.let(f"or i1 {any_over}, {o}")
        bad, good, join = fn.label("over"), fn.label("fits"), fn.label("join")
        fn.branch(any_over, bad, good)
        fn.start(bad)
        which, how_deep = str(stored[0].number), depths[0]
        for o, n, st in zip(over[1:], depths[1:], stored[1:], strict=True):
            which = fn.let(f"select i1 {o}, i64 {st.number}, i64 {which}")
            how_deep = fn.let(f"select i1 {o}, {st.index} {n}, {st.index} {how_deep}")
        if stored[0].index != "i64":
            how_deep = fn.let(f"zext {stored[0].index} {how_deep} to i64")
        b.overflow(which, how_deep)
        fn.jump(join)
        fn.start(good)
    # a segment of a checkpointed loop pushes in the reverse, and is only checked by the guard behind it
    pushes = any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    outer, b.guarded = b.guarded, not pushes
    b.block(s.body)
    b.guarded = outer
    if over:
        fn.jump(join)
        fn.start(join)
