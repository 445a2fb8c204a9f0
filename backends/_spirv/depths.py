"""How many slots a stack holds, or each of a group: a counter has it, or, where slots go by the trips of loops
(`_gpu.trips`), the trip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u32

if TYPE_CHECKING:
    from quadrants_lab.backends._gpu.trips import Less, Trips
    from quadrants_lab.backends._spirv.assembler import Function
    from quadrants_lab.backends._spirv.body import Body


@dataclass(slots=True)
class Depth:
    """``number``: the stack's place among the AdStackAllocas of the kernel; of a group that of its first one.

    ``counter`` points to a u32. It is 0 where ``trips`` number the slots and the loop that pushes always runs: then
    ``total``, a u32, is what it came to. ``capacity`` is a u32, 0 of a stack that only counts.
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
    return _less(b, b.values[d.trips.pushed[0]], d.trips.pushed) if d.trips else 0


def slot_popped(b: Body, d: Depth) -> int:
    """Number of the slot that is popped in this trip; 0 where a counter has it."""
    return _less(b, b.values[d.trips.popped[0]], d.trips.popped) if d.trips else 0


def _less(b: Body, value: int, pair: Less) -> int:
    return value if b.known.get(pair[1]) == 0 else b.fn.let("ISub", b.m.type(u32), value, b.values[pair[1]])


def behind(b: Body, loop: N.For | N.While, last: int = 0) -> None:
    """Notes what has been pushed by a loop that ended; ``last``: what its index has come to, of a For."""
    for d in b.depths.values():
        if d.trips is None or d.trips.loop is not loop:
            continue
        owner, b.fn.stmt = b.fn.stmt, d.trips.push.id
        total = _less(b, b.values.get(d.trips.result, last), d.trips.pushed)
        if d.counter:
            b.fn.put("Store", d.counter, total)
        else:
            d.total = total
        b.fn.stmt = owner
