"""Emits how many slots of a stack are in use, and which slot a push fills and a pop empties. This number is in a
counter, or it follows from the trips of loops (`loops`). Stacks that are pushed and popped in lockstep form a group
with one counter; in each segment (`lockstep`) the counter changes where the group is accessed first."""

from quadrants_lab.backends.lower.adstacks.loops import Level
from quadrants_lab.backends.lower.adstacks.stack import Stack, Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i64, u32


def alloca(t: Task, s: N.AdStackAlloca) -> None:
    """Emits code that makes the stack empty at the start of an iteration."""
    st, b = t.stacks[s.id], t.b
    if t.one == N.NO_ID:
        t.one = b.const(1, t.layout.counter)
        t.lane = b.add(N.Lane(b.fresh(), u32)) if t.layout.lanes else N.NO_ID
    for a in t.args(st):
        value = b.add(N.ArgLoad(b.fresh(), a.type, a.name))
        if a.name.endswith(".last"):
            st.last = value
        else:
            st.capacity = value
    if st.count is not None:
        _set(t, st, b.const(0, t.layout.counter), s.id)


def count(t: Task, st: Stack) -> int:
    if st.count is not None:
        return t.b.load(st.count, ())
    assert st.trips is not None
    return _pushed(t, st)


def _set(t: Task, st: Stack, value: int, id: int = N.NO_ID) -> None:
    assert st.count is not None
    t.b.add(N.Store(t.b.fresh() if id == N.NO_ID else id, st.count.name, (), value))


def move(t: Task, st: Stack, op: str, id: int = N.NO_ID) -> None:
    """Emits an increment ("add") or decrement ("sub") of the stack's counter. ``id``: the id that the store gets."""
    if st.trips is None:
        _set(t, st, t.b.op(op, count(t, st), t.one), id)


def clamp(t: Task, st: Stack, slot: int) -> int:
    return t.b.op("min", _counted(t, slot), st.lead.last)


def pushed(t: Task, st: Stack, s: N.AdStackPush) -> int:
    """The index of the slot that the push ``s`` fills."""
    segment = t.lockstep.segments.get(s.id)
    if segment in t.slot:
        return t.slot[segment]
    slot = _number(t, st.trips.there) if st.trips else count(t, st.lead)
    slot = slot if t.early_check else clamp(t, st, slot)
    if segment is not None:
        t.slot[segment] = slot
        move(t, st.lead, "add")
    return slot


def top(t: Task, st: Stack, s: N.Stmt) -> int:
    """The index of the slot on top, which ``s`` reads or pops. It is limited to the stack's slots, whatever the counter
    says."""
    segment = t.lockstep.segments.get(s.id)
    if segment in t.slot:
        return t.slot[segment]
    slot = _number(t, st.trips.back) if st.trips else t.b.op("sub", count(t, st.lead), t.one)
    slot = slot if t.guarded else clamp(t, st, slot)
    if segment is not None:
        t.slot[segment] = slot
        if segment.kind == "o":
            move(t, st.lead, "sub")
    return slot


def pop(t: Task, s: N.AdStackPop) -> None:
    st = t.stacks[s.stack]
    if s.id in t.lockstep.segments:
        top(t, st, s)
    else:
        move(t, st, "sub", s.id)


def depth(t: Task, s: N.AdStackDepth) -> None:
    t.b.add(N.Op(s.id, s.type, "cast", (count(t, t.stacks[s.stack]),)))


# --- slots by the trips of loops --------------------------------------------------------------------------------


def _number(t: Task, levels: tuple[Level, ...]) -> int:
    """The index of the current trip of the innermost loop, counted over all trips of the loops around it (``levels``,
    outermost first)."""
    b, number = t.b, N.NO_ID
    key = levels[-1].loop.id, "slot"
    if key in t.numbers:
        return t.numbers[key]
    for level in levels:
        own = level.index if level.begin in t.zeros else b.op("sub", level.index, level.begin)
        if number == N.NO_ID:
            number = own
        else:
            around = b.op("mul", _counted(t, number), b.const(level.trips, t.layout.counter))
            number = b.op("add", around, _counted(t, own))
    # an index of i32 is not negative, so it can be a slot index as it is
    t.numbers[key] = number if t.layout.counter is u32 else _counted(t, number)
    return t.numbers[key]


def _counted(t: Task, value: int) -> int:
    """A count, or a 32-bit integer that is not negative, converted to the dtype of counters."""
    counter = t.layout.counter
    return value if t.b.types[value] is counter else t.b.cast(t.b.cast(value, u32), counter)


def _pushed(t: Task, st: Stack) -> int:
    """How many slots are filled once the outermost of the loops around the push has ended."""
    assert st.trips is not None
    b, first = t.b, st.trips.there[0]
    key = first.loop.id, "trips"
    if key in t.numbers:
        return _times(t, t.numbers[key], st.trips.inner())
    end = first.loop.end if isinstance(first.loop, N.For) else st.trips.result
    total = end if first.begin in t.zeros else b.op("sub", end, first.begin)
    if isinstance(first.loop, N.For):
        total = b.op("select", b.op("gt", end, first.begin), total, b.const(0, b.types[total]))
    t.numbers[key] = _counted(t, total)
    return _times(t, t.numbers[key], st.trips.inner())


def _times(t: Task, value: int, factor: int) -> int:
    return value if factor == 1 else t.b.op("mul", value, t.b.const(factor, t.layout.counter))


def after_loop(t: Task, loop: N.Stmt) -> None:
    """Emits, after a loop: stores how many values it has pushed, for stacks whose loops the adstack_guard cannot see.
    """
    for st in t.stacks.values():
        if st.lead is st and st.trips and st.count is not None and st.trips.there[0].loop.id == loop.id:
            _set(t, st, _pushed(t, st))


# --- compared with capacities -----------------------------------------------------------------------------------


def _ends(t: Task, st: Stack) -> int | None:
    """Returns the number of trips of the outermost loop (negative if there are none) as a value that is known at
    the guard or before the loops. None if there is no such value."""
    if st.count is None and st.trips is not None and isinstance(loop := st.trips.there[0].loop, N.For):
        return loop.end if st.trips.there[0].begin in t.zeros else None
    return None


def exceeds(t: Task, st: Stack) -> int:
    """Emits a flag that is true if the pushes exceed the stack's capacity. The capacity is divided by the trips of
    the inner loops, because a product might not fit in 32 bits."""
    b, trips = t.b, _ends(t, st)
    if trips is None:
        return b.op("gt", count(t, st), st.capacity)
    assert st.trips is not None
    inner = st.trips.inner()
    most = st.capacity if inner == 1 else b.op("raw_div", st.capacity, b.const(inner, t.layout.counter))
    compared = b.types[trips] if t.layout.counter is u32 else i64
    return b.op("gt", b.cast(trips, compared), b.cast(most, compared))


def exceeding(t: Task, st: Stack) -> int:
    """Emits how many values are pushed onto a stack that overflows, for the report."""
    trips = _ends(t, st)
    if trips is None:
        return count(t, st)
    assert st.trips is not None
    return _times(t, _counted(t, trips), st.trips.inner())
