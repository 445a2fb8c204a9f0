"""The adstack statements. Slots lie in the device's heap (`heap`), counters in one array variable.

Pushes are straight-line: over capacity they write to the last slot and count on; `guard` compares counters with
capacities once, between forward slice and reverse. Flags take one bit a slot, 32 to a word. Stacks that are pushed in
step are the matter of `groups`; what is said here is of the others. Push, pop and load are a function of the module
each, a dtype, which drivers inline: a call is a fifth of what it stands for. A dtype that is pushed in one place alone
has them in line.

`BRANCHY` is for tests that compare sizes: no groups, pushes in line that branch on the capacity, and a counter
variable a stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from quadrants_lab.backends._gpu.steps import Steps, in_step
from quadrants_lab.backends._spirv import failures, heap, memory
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.groups import Group, Groups
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import STACK_ADJOINTS_AT, STACK_AT, STACK_CAPACITY, STACK_LAST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u32
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body

BRANCHY: ContextVar[bool] = ContextVar("quadrants_lab_branchy_pushes", default=False)


@dataclass(slots=True)
class Stack:
    """``number``: its place among the ``count`` AdStackAllocas of the kernel. ``counter`` points to a u32. ``base`` and
    ``adjoints`` point to this thread's first slot (0 where there is none); ``capacity`` and ``last`` are u32.
    ``alone``: no other push of the kernel is of this dtype."""

    number: int
    dtype: DType
    counter: int
    count: int
    base: int = 0
    adjoints: int = 0
    capacity: int = 0
    last: int = 0
    alone: bool = False

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
    dtypes = {a.id: a.type for a in layout.stacks}
    groups = b.groups = Groups(Steps((), {}) if BRANCHY.get() else in_step(block))
    grouped = {a.id: members[0].id for members in groups.steps.groups for a in members}
    pushes = Counter(
        dtypes[s.stack] for s in walk(b.frame.kernel.body) if isinstance(s, N.AdStackPush) and s.stack not in grouped
    )
    numbers = {a.id: k for k, a in enumerate(layout.stacks)}
    counters: dict[int, int] = {}
    with fn.at_start():
        for s in allocas:
            if grouped.get(s.id, s.id) != s.id:
                continue
            number = numbers[s.id]
            place = m.const(u32, number)
            counter = fn.local(m.type(u32)) if BRANCHY.get() else _counter(fn, len(layout.stacks), place)
            counters[s.id] = counter
            if s.id in grouped:
                continue
            st = b.stacks[s.id] = Stack(number, s.type, counter, len(layout.stacks))
            st.alone = pushes[s.type] == 1
            if s.count_only:
                continue
            at = layout.stack_at[s.id]
            st.capacity, st.last = b.frame.word(at + STACK_CAPACITY, u32), b.frame.word(at + STACK_LAST, u32)
            slots = heap.slots_of(b, st.last, s.type is u1)
            (st.base,) = heap.first_slot(b, st.kept, 1, at + STACK_AT, slots, thread)
            if s.id in layout.adjoint_stacks:
                (st.adjoints,) = heap.first_slot(b, st.kept, 1, at + STACK_ADJOINTS_AT, slots, thread)
        groups.open(b, numbers, counters, thread)


def _counter(fn: Function, count: int, number: int) -> int:
    """Pointer to one of the kernel's counters, all in one array."""
    m = fn.module
    array = m.variable("counters", "Private", m.array(m.type(u32), count))
    return fn.let("AccessChain", m.pointer("Private", m.type(u32)), array, number)


def alloca(b: Body, s: N.AdStackAlloca) -> None:
    group = b.groups.of.get(s.id)
    if group is None:
        b.fn.put("Store", b.stacks[s.id].counter, b.m.const(u32, 0))
    elif s.id == group.first:
        b.fn.put("Store", group.counter, b.m.const(u32, 0))


def _count(b: Body, st: Stack | Group) -> int:
    return b.fn.let("Load", b.m.type(u32), st.counter)


Maker = Callable[..., int]  # emits a function's body and returns its result, 0 for none


# --- push, pop and load: one function each, a dtype -------------------------------------------------------------


def _called(b: Body, st: Stack, what: str, more: list[tuple[int, int]], result: int, make: Maker) -> int:
    """Calls the function ``what`` of the stack's dtype on its number, its first slot, and ``more`` (type, value);
    ``make`` emits its body, given the parameters, and returns the result."""
    m = b.m
    if st.alone:
        return make(b.fn, _slots(b, st), *(v for _, v in more))
    args = [(m.type(u32), m.const(u32, st.number)), (heap.slot_pointer(m, st.kept), st.base), *more]
    key = (what, st.dtype)
    if key not in m.helpers:
        fn = Function(m, result, tuple(t for t, _ in args), f"{what}_{st.dtype}")
        m.decorate(fn.params[1], "Aliased")
        fn.stmt, fn.span = b.fn.stmt, b.fn.span
        number, base, *rest = fn.params
        value = make(fn, Slots(st.kept, _counter(fn, st.count, number), base), *rest)
        if value:
            fn.put("ReturnValue", value)
        else:
            fn.put("Return")
        m.helpers[key] = fn.close()
    return b.fn.let("FunctionCall", result, m.helpers[key], *(v for _, v in args))


@dataclass(slots=True)
class Slots:
    """A stack as the code that touches it sees it: dtype of an element, counter, this thread's first slot."""

    kept: DType
    counter: int
    base: int


def _pointer(fn: Function, s: Slots, index: int, base: int = 0) -> int:
    """Pointer to the element of this thread with that index."""
    return fn.let("PtrAccessChain", heap.slot_pointer(fn.module, s.kept), base or s.base, index)


def _flag(fn: Function, s: Slots, index: int) -> tuple[int, int]:
    """Pointer to the word that holds a flag, and the flag's place in it."""
    m = fn.module
    word = fn.let("ShiftRightLogical", m.type(u32), index, m.const(u32, 5))
    return _pointer(fn, s, word), fn.let("BitwiseAnd", m.type(u32), index, m.const(u32, 31))


def _keep(fn: Function, s: Slots, flags: bool, index: int, value: int) -> None:
    m = fn.module
    if not flags:
        fn.put("Store", _pointer(fn, s, index), value, C.ALIGNED, s.kept.nbytes)
        return
    t, one = m.type(u32), m.const(u32, 1)
    pointer, bit = _flag(fn, s, index)
    old = fn.let("Load", t, pointer, C.ALIGNED, 4)
    new = fn.let("Select", t, value, one, m.const(u32, 0))
    fn.put("Store", pointer, fn.let("BitFieldInsert", t, old, new, bit, one), C.ALIGNED, 4)


def _increment(fn: Function, counter: int) -> int:
    """Returns the count before."""
    m = fn.module
    n = fn.let("Load", m.type(u32), counter)
    fn.put("Store", counter, fn.let("IAdd", m.type(u32), n, m.const(u32, 1)))
    return n


def _decrement(fn: Function, counter: int) -> int:
    """Returns the count after."""
    m = fn.module
    n = fn.let("ISub", m.type(u32), fn.let("Load", m.type(u32), counter), m.const(u32, 1))
    fn.put("Store", counter, n)
    return n


def push(b: Body, s: N.AdStackPush) -> None:
    if s.stack in b.groups.of:
        b.groups.push(b, s)
        return
    st, m, value = b.stacks[s.stack], b.m, b.values[s.value]
    if not st.base:
        _increment(b.fn, st.counter)
        return
    flags = st.dtype is u1
    if BRANCHY.get():
        _branchy_push(b, st, _count(b, st), value)
        return

    def make(fn: Function, slots: Slots, last: int, value: int) -> int:
        n = _increment(fn, slots.counter)
        _keep(fn, slots, flags, fn.glsl("UMin", m.type(u32), n, last), value)
        return 0

    _called(b, st, "push", [(m.type(u32), st.last), (m.type(st.dtype), value)], m.void, make)
    if st.adjoints:
        pointer = _pointer(b.fn, _slots(b, st), _top(b, st), st.adjoints)
        memory.write(b, st.dtype, st.kept, pointer, m.const(st.dtype, 0))


def _slots(b: Body, st: Stack) -> Slots:
    return Slots(st.kept, st.counter, st.base)


def _branchy_push(b: Body, st: Stack, n: int, value: int) -> None:
    fn = b.fn
    fits, over, join = fn.label(), fn.label(), fn.label()
    fn.branch(fn.let("ULessThan", b.m.bool, n, st.capacity), fits, over, join)
    fn.start(fits)
    _keep(fn, _slots(b, st), st.dtype is u1, n, value)
    fn.put("Store", st.counter, fn.let("IAdd", b.m.type(u32), n, b.m.const(u32, 1)))
    fn.jump(join)
    fn.start(over)
    failures.set_status(b, Status.OVERFLOW)
    fn.jump(join)
    fn.start(join)


def pop(b: Body, s: N.AdStackPop) -> None:
    if s.stack in b.groups.of:
        b.groups.pop(b, s)
        return
    st, m = b.stacks[s.stack], b.m
    if BRANCHY.get() or st.alone:
        _decrement(b.fn, st.counter)
        return
    key = ("pop", None)
    if key not in m.helpers:
        fn = Function(m, m.void, (m.type(u32),), "pop")
        fn.stmt, fn.span = b.fn.stmt, b.fn.span
        _decrement(fn, _counter(fn, st.count, fn.params[0]))
        fn.put("Return")
        m.helpers[key] = fn.close()
    b.fn.let("FunctionCall", m.void, m.helpers[key], m.const(u32, st.number))


def _below(fn: Function, counter: int, last: int, pop: bool = False) -> int:
    """Index of the top slot, which may go with it; within the stack whatever the counter says, where ``last`` is
    given."""
    m = fn.module
    if pop:
        index = _decrement(fn, counter)
    else:
        index = fn.let("ISub", m.type(u32), fn.let("Load", m.type(u32), counter), m.const(u32, 1))
    return fn.glsl("UMin", m.type(u32), index, last) if last else index


def _top(b: Body, st: Stack) -> int:
    return _below(b.fn, st.counter, 0 if b.guarded else st.last)


def load_top(b: Body, s: N.AdStackLoadTop, pop: bool = False) -> None:
    """``pop``: the slot goes, too."""
    if s.stack in b.groups.of:
        b.groups.load(b, s)
        return
    st, m = b.stacks[s.stack], b.m
    flags = st.dtype is u1

    def make(fn: Function, slots: Slots, last: int = 0) -> int:
        index = _below(fn, slots.counter, last, pop)
        if not flags:
            return fn.let(
                "Load", m.type(slots.kept), _pointer(fn, slots, index), C.ALIGNED, slots.kept.nbytes
            )
        pointer, bit = _flag(fn, slots, index)
        t = m.type(u32)
        shifted = fn.let("ShiftRightLogical", t, fn.let("Load", t, pointer, C.ALIGNED, 4), bit)
        low = fn.let("BitwiseAnd", t, shifted, m.const(u32, 1))
        return fn.let("INotEqual", m.bool, low, m.const(u32, 0))

    last = [] if b.guarded else [(m.type(u32), st.last)]
    if BRANCHY.get():
        b.define(s.id, s.type, make(b.fn, _slots(b, st), *(v for _, v in last)))
        return
    name = ("pop_" if pop else "") + ("top" if b.guarded else "top_clamped")
    b.define(s.id, s.type, _called(b, st, name, last, m.type(st.dtype), make))


def pops_what_it_loads(s: N.Stmt, following: N.Stmt, b: Body) -> TypeGuard[N.AdStackLoadTop]:
    """Whether two statements are one step; not if `BRANCHY`, where each is by itself, nor in a group."""
    if not isinstance(s, N.AdStackLoadTop) or BRANCHY.get() or s.stack in b.groups.of:
        return False
    return isinstance(following, N.AdStackPop) and following.stack == s.stack


def load_top_adjoint(b: Body, s: N.AdStackLoadTopAdj) -> None:
    st = b.stacks[s.stack]
    b.define(
        s.id,
        s.type,
        memory.read(b, st.dtype, st.kept, _pointer(b.fn, _slots(b, st), _top(b, st), st.adjoints)),
    )


def accumulate(b: Body, s: N.AdStackAccAdjoint) -> None:
    st = b.stacks[s.stack]
    pointer = _pointer(b.fn, _slots(b, st), _top(b, st), st.adjoints)
    old = memory.read(b, st.dtype, st.kept, pointer)
    memory.write(b, st.dtype, st.kept, pointer, memory.combine(b, "add", st.dtype, old, b.values[s.value]))


def depth(b: Body, s: N.AdStackDepth) -> None:
    b.define(s.id, s.type, b.fn.let("UConvert", b.m.type(s.type), _count(b, b.stacks[s.stack])))


def guard(b: Body, s: N.AdStackGuard) -> None:
    fn, m = b.fn, b.m
    stored: list[Stack | Group] = [*b.groups.all, *(st for st in b.stacks.values() if st.base)]
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
    # a segment of a checkpointed loop pushes in the reverse, and is only checked by the guard behind it
    pushes = any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    outer, b.guarded = b.guarded, not pushes
    b.block(s.body)
    b.guarded = outer
    if join:
        fn.jump(join)
        fn.start(join)
