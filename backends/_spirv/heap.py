"""Where a thread's slots lie in its stacks' regions of the heap: [block of threads][slot][thread of the block], so that
what neighbours touch at once is side by side, and what one thread touches in a row is near."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.ir.types import DType, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function
    from quadrants_lab.backends._spirv.body import Body


def slots_of(b: Body, last: int, flags: bool = False) -> int:
    """How many elements a thread has of a stack whose last slot has the number ``last``; flags are 32 to an element."""
    fn, t = b.fn, b.m.type(u32)
    if flags:
        last = b.frame.once(("words", last), lambda: fn.let("ShiftRightLogical", t, last, b.m.const(u32, 5)))
    return b.frame.once(("slots", last), lambda: fn.let("IAdd", t, last, b.m.const(u32, 1)))


def first_slot(b: Body, t: DType, width: int, at: int, slots: int, thread: int) -> int:
    """Pointer to this thread's first element of ``width`` values, ``slots`` of which it has; the region's place in the
    heap is the frame's word ``at``."""
    start = b.fn.let("IAdd", b.m.type(u64), b.frame.word(L.HEAP), b.frame.word(at))
    base = b.frame.pointer_to(t, start, width)
    return b.fn.let("PtrAccessChain", b.m.memory_pointer(t, width), base, _before(b, slots, thread))


def next_region(b: Body, t: DType, width: int, base: int, slots: int) -> int:
    """The same of the region that follows, of as many elements."""
    fn, word = b.fn, b.m.type(u32)
    whole = b.frame.once(("region", slots), lambda: fn.let("IMul", word, slots, b.frame.word(L.THREADS, u32)))
    return fn.let("PtrAccessChain", b.m.memory_pointer(t, width), base, whole)


def element(fn: Function, slot: int) -> int:
    """How many elements after a thread's first one a slot is."""
    m = fn.module
    return fn.let("IMul", m.type(u32), slot, m.const(u32, m.target.block))


def _before(b: Body, slots: int, thread: int) -> int:
    """How many elements there are in a region before this thread's first."""
    fn, m, block = b.fn, b.m, b.m.target.block
    word = m.type(u32)
    within = b.frame.once("in block", lambda: fn.let("BitwiseAnd", word, thread, m.const(u32, block - 1)))
    before = b.frame.once("blocks", lambda: fn.let("BitwiseAnd", word, thread, m.const(u32, -block)))

    def make() -> int:
        return fn.let("IAdd", word, fn.let("IMul", word, before, slots), within)

    return b.frame.once(("before", slots), make)
