"""The adstack statements. Slots lie in the device's heap (`heap`), counters in one array variable.

Pushes are straight-line: over capacity they write to the last slot and count on; `guard` compares depths with
capacities once, between forward slice and reverse. Where the trips of loops number the slots, there is no counter
(`depths`); where their counts are known ahead of the first of these loops, they are compared there, and pushes only
write. Flags take one bit a slot, 32 to a word. Stacks that are pushed in step are the matter of `groups`; what is
said here is of the others. Push, pop and load are a function of the module each, a dtype, which drivers inline: a call
is a fifth of what it stands for. A dtype that is pushed in one place or two has them in line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.backends._spirv import depths, failures, heap, memory
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.depths import Depth
from quadrants_lab.backends._spirv.groups import Groups
from quadrants_lab.backends.layout import STACK_ADJOINTS_AT, STACK_AT, STACK_CAPACITY, STACK_LAST
from quadrants_lab.backends.lower.adstacks.lockstep import in_step, pop_behind
from quadrants_lab.backends.lower.adstacks.loops import ahead, by_trips
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u32
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body
    from quadrants_lab.backends.lower.adstacks.loops import Ahead, Trips

_SHARED = {False: 3, True: 6}  # pushes from which on functions are shorter: with a counter, and with numbered slots


@dataclass(slots=True)
class Stack:
    """``base`` and ``adjoints`` point to this thread's first slot (0 where there is none); ``last``, a u32, is the
    number of the last one. ``in_line``: the kernel pushes too few of this dtype, with a counter or without, for
    functions to pay."""

    dtype: DType
    depth: Depth
    base: int = 0
    adjoints: int = 0
    last: int = 0
    in_line: bool = False

    @property
    def kept(self) -> DType:
        """The dtype of an element of the heap."""
        return u32 if self.dtype is u1 else self.dtype


def open_stacks(b: Body, block: N.Block, thread: int) -> None:
    """Makes what the task's stacks need; ``thread`` is the number of this one, a u32."""
    fn = b.fn
    allocas = [s for s in walk(block) if isinstance(s, N.AdStackAlloca)]
    if not allocas:
        return
    layout = b.frame.layout.frame
    groups = b.groups = Groups(in_step(block))
    grouped = {a.id: members[0].id for members in groups.steps.groups for a in members}
    trips = _by_trips(block, groups)
    dtypes = {a.id: a.type for a in layout.stacks}
    pushes = Counter(
        (dtypes[s.stack], s.stack in trips)
        for s in walk(b.frame.kernel.body)
        if isinstance(s, N.AdStackPush) and s.stack not in grouped
    )
    with fn.at_start():
        for s in allocas:
            if grouped.get(s.id, s.id) != s.id:
                continue
            depth = b.depths[s.id] = _depth(b, s, trips.get(s.id), block)
            if s.id in grouped:
                continue
            numbered = s.id in trips
            st = b.stacks[s.id] = Stack(s.type, depth, in_line=pushes[s.type, numbered] < _SHARED[numbered])
            if s.count_only:
                continue
            at = layout.stack_at[s.id]
            st.last = b.frame.word(at + STACK_LAST, u32)
            slots = heap.slots_of(b, st.last, s.type is u1)
            (st.base,) = heap.first_slot(b, st.kept, 1, at + STACK_AT, slots, thread)
            if s.id in layout.adjoint_stacks:
                (st.adjoints,) = heap.first_slot(b, st.kept, 1, at + STACK_ADJOINTS_AT, slots, thread)
        groups.open(b, thread)
    b.ahead = ahead(block, trips)


def _by_trips(block: N.Block, groups: Groups) -> dict[int, Trips]:
    """Of a group all or none."""
    trips = by_trips(block)
    apart = {a.id for members in groups.steps.groups if any(x.id not in trips for x in members) for a in members}
    return {i: t for i, t in trips.items() if i not in apart}


def _depth(b: Body, s: N.AdStackAlloca, trips: Trips | None, block: N.Block) -> Depth:
    layout = b.frame.layout.frame
    d = Depth(next(n for n, a in enumerate(layout.stacks) if a.id == s.id), trips)
    if not s.count_only:
        d.capacity = b.frame.word(layout.stack_at[s.id] + STACK_CAPACITY, u32)
    if trips is None or all(x is not trips.there[0].loop for x in block):
        d.counter = _counter(b.fn, len(layout.stacks), b.m.const(u32, d.number))
    return d


def _counter(fn: Function, count: int, number: int) -> int:
    """Pointer to one of the kernel's counters, all in one array."""
    m = fn.module
    array = m.variable("counters", "Private", m.array(m.type(u32), count))
    return fn.let("AccessChain", m.pointer("Private", m.type(u32)), array, number)


def alloca(b: Body, s: N.AdStackAlloca) -> None:
    if s.id in b.depths:
        depths.reset(b, b.depths[s.id])


Maker = Callable[..., int]  # emits a function's body and returns its result, 0 for none


# --- push, pop and load: one function each, a dtype -------------------------------------------------------------


def _called(
    b: Body, st: Stack, slot: int, what: str, more: list[tuple[int, int]], result: int, make: Maker
) -> int:
    """Calls the function ``what`` of the stack's dtype on its number, or that of the slot where it is known, its first
    slot, and ``more`` (type, value); ``make`` emits its body, given the parameters, and returns the result."""
    m = b.m
    if st.in_line:
        return make(b.fn, _slots(st, slot), *(v for _, v in more))
    args = [(m.type(u32), slot or m.const(u32, st.depth.number)), (heap.slot_pointer(m, st.kept), st.base), *more]
    key = (what, st.dtype, bool(slot))
    if key not in m.helpers:
        name = f"{what}_{'at_' if slot else ''}{st.dtype}"
        fn = Function(m, result, tuple(t for t, _ in args), name, b.fn.stmt, b.fn.span)
        m.decorate(fn.params[1], "Aliased")
        number, base, *rest = fn.params
        stacks = len(b.frame.layout.frame.stacks)
        slots = Slots(st.kept, base, slot=number) if slot else Slots(st.kept, base, _counter(fn, stacks, number))
        value = make(fn, slots, *rest)
        if value:
            fn.put("ReturnValue", value)
        else:
            fn.put("Return")
        m.helpers[key] = fn.close()
    return b.fn.let("FunctionCall", result, m.helpers[key], *(v for _, v in args))


@dataclass(slots=True)
class Slots:
    """A stack as the code that touches it sees it: dtype of an element, this thread's first slot, and the counter or
    the number of the slot."""

    kept: DType
    base: int
    counter: int = 0
    slot: int = 0


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


def push(b: Body, s: N.AdStackPush) -> None:
    if s.stack in b.groups.of:
        b.groups.push(b, s)
        return
    st, m, value = b.stacks[s.stack], b.m, b.values[s.value]
    if not st.base:
        depths.increment(b.fn, st.depth.counter)
        return
    flags = st.dtype is u1
    def make(fn: Function, slots: Slots, value: int, last: int = 0) -> int:
        n = slots.slot or depths.increment(fn, slots.counter)
        _keep(fn, slots, flags, fn.glsl("UMin", m.type(u32), n, last) if last else n, value)
        return 0

    last = [] if b.ahead else [(m.type(u32), st.last)]
    name = "push" if last else "push_fitting"
    more = [(m.type(st.dtype), value), *last]
    _called(b, st, depths.slot_pushed(b, st.depth), name, more, m.void, make)
    if st.adjoints:
        pointer = _pointer(b.fn, _slots(st), _top(b, st), st.adjoints)
        memory.write(b, st.dtype, st.kept, pointer, m.const(st.dtype, 0))


def _slots(st: Stack, slot: int = 0) -> Slots:
    return Slots(st.kept, st.base, st.depth.counter, slot)


def pop(b: Body, s: N.AdStackPop) -> None:
    if s.stack in b.groups.of:
        b.groups.pop(b, s)
        return
    st, m = b.stacks[s.stack], b.m
    if st.depth.trips:
        return
    if st.in_line:
        depths.decrement(b.fn, st.depth.counter)
        return
    key = ("pop", None)
    if key not in m.helpers:
        fn = Function(m, m.void, (m.type(u32),), "pop", b.fn.stmt, b.fn.span)
        depths.decrement(fn, _counter(fn, len(b.frame.layout.frame.stacks), fn.params[0]))
        fn.put("Return")
        m.helpers[key] = fn.close()
    b.fn.let("FunctionCall", m.void, m.helpers[key], m.const(u32, st.depth.number))


def _top(b: Body, st: Stack) -> int:
    """Index of the top slot, within the stack whatever the counter says."""
    index = depths.below(b.fn, st.depth.counter)
    return index if b.guarded else b.fn.glsl("UMin", b.m.type(u32), index, st.last)


def load_top(b: Body, s: N.AdStackLoadTop, pop: bool = False) -> None:
    """``pop``: the slot goes, too."""
    if s.stack in b.groups.of:
        b.groups.load(b, s)
        return
    st, m = b.stacks[s.stack], b.m
    flags = st.dtype is u1

    def make(fn: Function, slots: Slots, last: int = 0) -> int:
        index = slots.slot or (depths.decrement if pop else depths.below)(fn, slots.counter)
        if last:
            index = fn.glsl("UMin", m.type(u32), index, last)
        if not flags:
            return fn.let(
                "Load", m.type(slots.kept), _pointer(fn, slots, index), C.ALIGNED, slots.kept.nbytes
            )
        pointer, bit = _flag(fn, slots, index)
        t = m.type(u32)
        word = fn.let("Load", t, pointer, C.ALIGNED, 4)
        low = fn.let("BitFieldUExtract", t, word, bit, m.const(u32, 1))
        return fn.let("INotEqual", m.bool, low, m.const(u32, 0))

    last = [] if b.guarded else [(m.type(u32), st.last)]
    slot = depths.slot_popped(b, st.depth)
    name = ("pop_" if pop and not slot else "") + ("top" if b.guarded else "top_clamped")
    b.define(s.id, s.type, _called(b, st, slot, name, last, m.type(st.dtype), make))


def taken_with(b: Body, load: N.AdStackLoadTop, block: N.Block, at: int) -> int:
    """The id of a pop that is one step with the load at that place of the block, else NO_ID; in a group each is by
    itself."""
    return N.NO_ID if load.stack in b.groups.of else pop_behind(load.stack, block, at)


def load_top_adjoint(b: Body, s: N.AdStackLoadTopAdj) -> None:
    st = b.stacks[s.stack]
    b.define(
        s.id,
        s.type,
        memory.read(b, st.dtype, st.kept, _pointer(b.fn, _slots(st), _top(b, st), st.adjoints)),
    )


def accumulate(b: Body, s: N.AdStackAccAdjoint) -> None:
    st = b.stacks[s.stack]
    pointer = _pointer(b.fn, _slots(st), _top(b, st), st.adjoints)
    old = memory.read(b, st.dtype, st.kept, pointer)
    memory.write(b, st.dtype, st.kept, pointer, memory.combine(b, "add", st.dtype, old, b.values[s.value]))


def depth(b: Body, s: N.AdStackDepth) -> None:
    b.define(s.id, s.type, b.fn.let("UConvert", b.m.type(s.type), depths.count(b, b.stacks[s.stack].depth)))


# --- the comparison with capacities -----------------------------------------------------------------------------


def guard(b: Body, s: N.AdStackGuard) -> None:
    fn, m = b.fn, b.m
    stored = [] if b.ahead else [d for d in b.depths.values() if d.capacity and (d.counter or d.total)]
    join = 0
    if stored:
        counts = [depths.count(b, d) for d in stored]
        over = [fn.let("UGreaterThan", m.bool, n, d.capacity) for n, d in zip(counts, stored, strict=True)]
        join = _unless(b, over, stored, lambda: counts)
    # a segment of a checkpointed loop pushes in the reverse, and is only checked by the guard behind it
    pushes = any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    outer, b.guarded = b.guarded, not pushes
    b.block(s.body)
    b.guarded = outer
    if join:
        fn.jump(join)
        fn.start(join)


def guard_ahead(b: Body, known: Ahead) -> int:
    """Compares what will be pushed; returns the label behind what follows."""
    stored = list(b.depths.values())
    with b.fn.owned(known.guard.id):
        over = [depths.will_exceed(b, d) for d in stored]
        join = _unless(b, over, stored, lambda: [depths.foreseen(b, d) for d in stored])
    b.guarded = True
    return join


def _unless(b: Body, over: list[int], stored: list[Depth], counts: Callable[[], list[int]]) -> int:
    """Begins what is for a thread none of whose stacks is ``over`` its capacity, and reports one that is, with its
    count; returns the label behind."""
    fn, m = b.fn, b.m
    any_over = over[0]
    for o in over[1:]:
        any_over = fn.let("LogicalOr", m.bool, any_over, o)
    bad, good, join = fn.label(), fn.label(), fn.label()
    fn.branch(any_over, bad, good, join)
    fn.start(bad)
    found = counts()
    which, deep = m.const(u32, stored[0].number), found[0]
    for o, n, d in zip(over[1:], found[1:], stored[1:], strict=True):
        which = fn.let("Select", m.type(u32), o, m.const(u32, d.number), which)
        deep = fn.let("Select", m.type(u32), o, n, deep)
    failures.overflow(b, which, deep)
    fn.jump(join)
    fn.start(good)
    return join
