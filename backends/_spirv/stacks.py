"""The adstack statements. Slots lie in the device's heap as [slot][thread], counters in one array variable.

Pushes are straight-line: over capacity they write to the last slot and count on; `guard` compares counters with
capacities once, between forward slice and reverse. Flags take one bit a slot, 32 to a word.

`BRANCHY` is for tests that compare sizes: pushes that branch on the capacity, and a counter variable a stack.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.stacks import element_bytes
from quadrants_lab.backends._spirv import failures, memory
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import STACK_ADJOINTS_AT, STACK_AT, STACK_CAPACITY, STACK_LAST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u32, u64
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body

BRANCHY: ContextVar[bool] = ContextVar("quadrants_lab_branchy_pushes", default=False)


@dataclass(slots=True)
class Stack:
    """``number``: its place among the kernel's AdStackAllocas. ``counter`` points to a u32. ``base`` and ``adjoints``
    point to this thread's first slot (0 where there is none); ``capacity`` and ``last`` are u32."""

    number: int
    dtype: DType
    counter: int
    base: int = 0
    adjoints: int = 0
    capacity: int = 0
    last: int = 0

    @property
    def kept(self) -> DType:
        """The dtype of an element of the heap."""
        return u32 if self.dtype is u1 else self.dtype


def open_stacks(b: Body, block: N.Block, thread: int) -> None:
    """Makes what the task's stacks need; ``thread`` is the number of this one, a u32."""
    fn, m = b.fn, b.m
    allocas = [s for s in walk(block) if isinstance(s, N.AdStackAlloca)]
    if not allocas:
        return
    layout = b.frame.layout.frame
    counters = 0 if BRANCHY.get() else fn.local(m.array(m.type(u32), len(allocas)))
    with fn.at_start():
        for n, s in enumerate(allocas):
            if counters:
                pointer = m.pointer("Function", m.type(u32))
                counter = fn.let("AccessChain", pointer, counters, m.const(u32, n))
            else:
                counter = fn.local(m.type(u32))
            number = next(k for k, a in enumerate(layout.stacks) if a.id == s.id)
            st = b.stacks[s.id] = Stack(number, s.type, counter)
            if s.count_only:
                continue
            at = layout.stack_at[s.id]
            st.base = _region(b, st, at + STACK_AT, thread)
            if s.id in layout.adjoint_stacks:
                st.adjoints = _region(b, st, at + STACK_ADJOINTS_AT, thread)
            st.capacity, st.last = b.frame.word(at + STACK_CAPACITY, u32), b.frame.word(at + STACK_LAST, u32)


def _region(b: Body, st: Stack, at: int, thread: int) -> int:
    """Pointer to this thread's first slot."""
    fn, m = b.fn, b.m
    wide = m.type(u64)
    start = fn.let("IAdd", wide, b.frame.word(L.HEAP), b.frame.word(at))
    mine = fn.let("IMul", m.type(u32), thread, m.const(u32, element_bytes(st.dtype)))
    start = fn.let("IAdd", wide, start, fn.let("UConvert", wide, mine))
    return b.frame.pointer_to(st.kept, start)


def alloca(b: Body, s: N.AdStackAlloca) -> None:
    b.fn.put("Store", b.stacks[s.id].counter, b.m.const(u32, 0))


def _count(b: Body, st: Stack) -> int:
    return b.fn.let("Load", b.m.type(u32), st.counter)


def _clamp(b: Body, st: Stack, index: int) -> int:
    return b.fn.glsl("UMin", b.m.type(u32), index, st.last)


def _top(b: Body, st: Stack) -> int:
    """Index of the top slot, within the stack whatever the counter says."""
    index = b.fn.let("ISub", b.m.type(u32), _count(b, st), b.m.const(u32, 1))
    return index if b.guarded else _clamp(b, st, index)


def _slot(b: Body, st: Stack, base: int, index: int) -> int:
    """Pointer to the element of this thread with that index."""
    place = b.fn.let("IMul", b.m.type(u32), index, b.frame.word(L.THREADS, u32))
    return b.fn.let("PtrAccessChain", b.m.memory_pointer(st.kept), base, place)


def _flag(b: Body, st: Stack, index: int) -> tuple[int, int]:
    """Pointer to the word that holds a flag, and the flag's place in it."""
    fn, t = b.fn, b.m.type(u32)
    word = fn.let("ShiftRightLogical", t, index, b.m.const(u32, 5))
    return _slot(b, st, st.base, word), fn.let("BitwiseAnd", t, index, b.m.const(u32, 31))


def push(b: Body, s: N.AdStackPush) -> None:
    st, fn, t = b.stacks[s.stack], b.fn, b.m.type(u32)
    n = _count(b, st)
    if BRANCHY.get() and st.base:
        _branchy_push(b, st, n, b.values[s.value])
        return
    fn.put("Store", st.counter, fn.let("IAdd", t, n, b.m.const(u32, 1)))
    if st.base:
        _keep(b, st, _clamp(b, st, n), b.values[s.value])


def _keep(b: Body, st: Stack, index: int, value: int) -> None:
    fn, t = b.fn, b.m.type(u32)
    if st.dtype is u1:
        pointer, bit = _flag(b, st, index)
        one = b.m.const(u32, 1)
        old = fn.let("Load", t, pointer, C.ALIGNED, 4)
        new = fn.let("Select", t, value, one, b.m.const(u32, 0))
        fn.put("Store", pointer, fn.let("BitFieldInsert", t, old, new, bit, one), C.ALIGNED, 4)
        return
    memory.write(b, st.dtype, st.kept, _slot(b, st, st.base, index), value)
    if st.adjoints:
        zero = b.m.const(st.dtype, 0)
        memory.write(b, st.dtype, st.kept, _slot(b, st, st.adjoints, index), zero)


def _branchy_push(b: Body, st: Stack, n: int, value: int) -> None:
    fn = b.fn
    fits, over, join = fn.label(), fn.label(), fn.label()
    fn.branch(fn.let("ULessThan", b.m.bool, n, st.capacity), fits, over, join)
    fn.start(fits)
    _keep(b, st, n, value)
    fn.put("Store", st.counter, fn.let("IAdd", b.m.type(u32), n, b.m.const(u32, 1)))
    fn.jump(join)
    fn.start(over)
    failures.set_status(b, Status.OVERFLOW)
    fn.jump(join)
    fn.start(join)


def pop(b: Body, s: N.AdStackPop) -> None:
    st = b.stacks[s.stack]
    b.fn.put("Store", st.counter, b.fn.let("ISub", b.m.type(u32), _count(b, st), b.m.const(u32, 1)))


def load_top(b: Body, s: N.AdStackLoadTop) -> None:
    st, fn, t = b.stacks[s.stack], b.fn, b.m.type(u32)
    index = _top(b, st)
    if st.dtype is u1:
        pointer, bit = _flag(b, st, index)
        shifted = fn.let("ShiftRightLogical", t, fn.let("Load", t, pointer, C.ALIGNED, 4), bit)
        low = fn.let("BitwiseAnd", t, shifted, b.m.const(u32, 1))
        b.define(s.id, s.type, fn.let("INotEqual", b.m.bool, low, b.m.const(u32, 0)))
        return
    b.define(s.id, s.type, memory.read(b, st.dtype, st.kept, _slot(b, st, st.base, index)))


def load_top_adjoint(b: Body, s: N.AdStackLoadTopAdj) -> None:
    st = b.stacks[s.stack]
    b.define(s.id, s.type, memory.read(b, st.dtype, st.kept, _slot(b, st, st.adjoints, _top(b, st))))


def accumulate(b: Body, s: N.AdStackAccAdjoint) -> None:
    st = b.stacks[s.stack]
    pointer = _slot(b, st, st.adjoints, _top(b, st))
    old = memory.read(b, st.dtype, st.kept, pointer)
    memory.write(b, st.dtype, st.kept, pointer, memory.combine(b, "add", st.dtype, old, b.values[s.value]))


def depth(b: Body, s: N.AdStackDepth) -> None:
    b.define(s.id, s.type, b.fn.let("UConvert", b.m.type(s.type), _count(b, b.stacks[s.stack])))


def guard(b: Body, s: N.AdStackGuard) -> None:
    fn, m = b.fn, b.m
    stored = [st for st in b.stacks.values() if st.base]
    join = 0
    if stored:
        depths = [_count(b, st) for st in stored]
        over = [fn.let("UGreaterThan", m.bool, n, st.capacity) for n, st in zip(depths, stored, strict=True)]
        any_over = over[0]
        for o in over[1:]:
            any_over = fn.let("LogicalOr", m.bool, any_over, o)
        bad, good, join = fn.label(), fn.label(), fn.label()
        fn.branch(any_over, bad, good, join)
        fn.start(bad)
        which, deep = m.const(u32, stored[0].number), depths[0]
        for o, n, st in zip(over[1:], depths[1:], stored[1:], strict=True):
            which = fn.let("Select", m.type(u32), o, m.const(u32, st.number), which)
            deep = fn.let("Select", m.type(u32), o, n, deep)
        failures.overflow(b, which, deep)
        fn.jump(join)
        fn.start(good)
    outer, b.guarded = b.guarded, True
    b.block(s.body)
    b.guarded = outer
    if join:
        fn.jump(join)
        fn.start(join)
