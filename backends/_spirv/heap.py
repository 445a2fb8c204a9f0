"""Where a thread's slots lie in the heap: [block of threads][slot][element][thread of the block], so that what
neighbours touch at once is side by side, and what one thread touches in a row is near. A slot of a stack alone is one
element; of stacks in step, as many of equal size as their values fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.ir.types import DType, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Module
    from quadrants_lab.backends._spirv.body import Body


def slots_of(b: Body, last: int, flags: bool = False) -> int:
    """How many elements a thread has of a stack whose last slot has the number ``last``; flags are 32 to an element."""
    fn, t = b.fn, b.m.type(u32)
    if flags:
        last = b.frame.once(("words", last), lambda: fn.let("ShiftRightLogical", t, last, b.m.const(u32, 5)))
    return b.frame.once(("slots", last), lambda: fn.let("IAdd", t, last, b.m.const(u32, 1)))


def slot_pointer(m: Module, t: DType, width: int = 1, count: int = 1) -> int:
    """Type of a pointer to an element of ``width`` values, ``count`` of which are a slot; it steps by slots."""
    return m.memory_pointer(t, width, m.target.block * count)


def first_slot(b: Body, t: DType, width: int, at: int, slots: int, thread: int, count: int = 1) -> list[int]:
    """Pointers to the elements of this thread's first slot; it has ``slots`` of them, whose place in the heap is the
    frame's word ``at``."""
    fn, m = b.fn, b.m
    start = fn.let("IAdd", m.type(u64), b.frame.word(L.HEAP), b.frame.word(at))
    base = b.frame.pointer_to(t, start, width)
    before = _before(b, slots, thread, count)
    pointer = slot_pointer(m, t, width, count)
    if count == 1:
        return [fn.let("PtrAccessChain", pointer, base, before)]
    mine = fn.let("PtrAccessChain", m.memory_pointer(t, width), base, before)
    places = (m.const(u32, n * m.target.block) for n in range(count))
    return [fn.let("PtrAccessChain", pointer, mine, place) for place in places]


def _before(b: Body, slots: int, thread: int, count: int) -> int:
    """How many elements there are before this thread's first."""
    fn, m, block = b.fn, b.m, b.m.target.block
    word = m.type(u32)
    within = b.frame.once("in block", lambda: fn.let("BitwiseAnd", word, thread, m.const(u32, block - 1)))
    before = b.frame.once("blocks", lambda: fn.let("BitwiseAnd", word, thread, m.const(u32, -block)))

    def make() -> int:
        all_before = fn.let("IMul", word, before, slots)
        if count > 1:
            all_before = fn.let("IMul", word, all_before, m.const(u32, count))
        return fn.let("IAdd", word, all_before, within)

    return b.frame.once(("before", slots, count), make)
