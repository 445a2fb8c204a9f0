"""How many slots a stack holds, or each of a group: a counter has it, or, where slots go by the trips of loops
(`lower.adstacks.loops`), the trip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u32

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function
    from quadrants_lab.backends._spirv.body import Body
    from quadrants_lab.backends.lower.adstacks.loops import Level, Trips


@dataclass(slots=True)
class Depth:
    """``number``: the stack's place among the AdStackAllocas of the kernel; of a group that of its first one.

    ``counter`` points to a u32. It is 0 where ``trips`` number the slots and the loop that pushes always runs: then
    ``total``, a u32, is what it came to, if that was not known ahead (`ahead`). ``capacity`` is a u32, 0 of a stack
    that only counts.
    """

    number: int
    trips: Trips | None
    counter: int = 0
    capacity: int = 0
    total: int = 0


def increment(fn: Function, counter: int) -> int:
    """Returns the count before."""
    m = fn.module
    n = fn.let("Load", m.type(u32), counter)
    fn.put("Store", counter, fn.let("IAdd", m.type(u32), n, m.const(u32, 1)))
    return n


def decrement(fn: Function, counter: int) -> int:
    """Returns the count after."""
    n = below(fn, counter)
    fn.put("Store", counter, n)
    return n


def below(fn: Function, counter: int) -> int:
    """One less than the count."""
    m = fn.module
    return fn.let("ISub", m.type(u32), fn.let("Load", m.type(u32), counter), m.const(u32, 1))


def reset(b: Body, d: Depth) -> None:
    if d.counter:
        b.fn.put("Store", d.counter, b.m.const(u32, 0))


def count(b: Body, d: Depth) -> int:
    return d.total or b.fn.let("Load", b.m.type(u32), d.counter)


def slot_pushed(b: Body, d: Depth) -> int:
    """Number of the slot that is pushed in this trip; 0 where a counter has it."""
    return b.trips[d.trips.there[-1].loop.id] if d.trips else 0


def slot_popped(b: Body, d: Depth) -> int:
    """Number of the slot that is popped in this trip; 0 where a counter has it."""
    return b.trips[d.trips.back[-1].loop.id] if d.trips else 0


def enter(b: Body, loop: N.For | N.While) -> None:
    """Numbers the trip of a loop that begins, where slots go by it."""
    for d in b.depths.values():
        for levels, by in ((d.trips.there, d.trips.push), (d.trips.back, d.trips.pop)) if d.trips else ():
            at = next((n for n, level in enumerate(levels) if level.loop.id == loop.id), -1)
            if at >= 0:
                with b.fn.owned(by.id):
                    b.trips[loop.id] = _number(b, levels[at], levels[at - 1].loop.id if at else N.NO_ID)
                return


def _number(b: Body, level: Level, around: int) -> int:
    """Of a trip, through all of those of the loops around."""
    own = _less(b, b.values[level.index], level.begin)
    if around == N.NO_ID:
        return own
    return b.fn.let("IAdd", b.m.type(u32), _times(b, b.trips[around], level.trips), own)


def _times(b: Body, value: int, factor: int) -> int:
    return value if factor == 1 else b.fn.let("IMul", b.m.type(u32), value, b.m.const(u32, factor))


def _less(b: Body, value: int, begin: int) -> int:
    return value if b.known.get(begin) == 0 else b.fn.let("ISub", b.m.type(u32), value, b.values[begin])


def will_exceed(b: Body, d: Depth) -> int:
    """Whether more will be pushed than fits, known ahead. Capacity is divided, for a product might not fit 32 bits."""
    trips, loop = _counted(d)
    inner = trips.inner()
    most = d.capacity
    if inner != 1:
        divided = partial(b.fn.let, "UDiv", b.m.type(u32), d.capacity, b.m.const(u32, inner))
        with b.fn.owned(trips.push.id):
            most = b.frame.once(("trips", d.number), divided)
    more = "SGreaterThan" if loop.index.type.kind == "i" else "UGreaterThan"
    return b.fn.let(more, b.m.bool, b.values[loop.end], most)


def foreseen(b: Body, d: Depth) -> int:
    """What will be pushed."""
    trips, loop = _counted(d)
    return _times(b, b.values[loop.end], trips.inner())


def _counted(d: Depth) -> tuple[Trips, N.For]:
    """The trips, and the loop whose end says how many there are."""
    assert d.trips is not None
    loop = d.trips.there[0].loop
    assert isinstance(loop, N.For)
    return d.trips, loop


def behind(b: Body, loop: N.For | N.While, last: int = 0) -> None:
    """Notes what has been pushed by a loop that ended; ``last``: what its index has come to, of a For."""
    for d in b.depths.values():
        if b.ahead or d.trips is None or d.trips.there[0].loop.id != loop.id:
            continue
        with b.fn.owned(d.trips.push.id):
            total = _less(b, b.values.get(d.trips.result, last), d.trips.there[0].begin)
            total = _times(b, total, d.trips.inner())
            if d.counter:
                b.fn.put("Store", d.counter, total)
            else:
                d.total = total
