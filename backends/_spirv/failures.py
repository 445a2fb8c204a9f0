"""Asserts, overflows and prints: what a thread leaves behind for the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._spirv import memory
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import UNSIGNED
from quadrants_lab.backends.launch import Status
from quadrants_lab.backends.layout import VALUES, WORD
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u1, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body


def set_status(b: Body, bit: int) -> None:
    memory.at_once(b, "AtomicOr", u32, b.frame.at(L.STATUS, u32), b.m.const(u32, bit))


def _record(b: Body, bit: int, what: int, count: int, values: Callable[[], None]) -> None:
    """Sets the status; the first thread to fail also says what failed."""
    fn, m = b.fn, b.m
    set_status(b, bit)
    first, join = fn.label(), fn.label()
    old = memory.compare_exchange(b, u32, b.frame.at(L.FAILED, u32), m.const(u32, bit), m.const(u32, 0))
    fn.branch(fn.let("IEqual", m.bool, old, m.const(u32, 0)), first, join, join)
    fn.start(first)
    for at, value in ((L.FAIL_WHAT, what), (L.FAIL_COUNT, count)):
        memory.write(b, u64, u64, b.frame.at(at, u64), fn.let("UConvert", m.type(u64), value))
    values()
    fn.jump(join)
    fn.start(join)


def overflow(b: Body, s: N.Overflow) -> None:
    _record(b, Status.OVERFLOW, b.values[s.stack], b.values[s.depth], lambda: None)


def report_cut(b: Body, cut: int) -> None:
    """Says so where the driver ended a loop."""
    fn = b.fn
    bad, join = fn.label(), fn.label()
    fn.branch(cut, bad, join, join)
    fn.start(bad)
    set_status(b, L.CUT)
    fn.jump(join)
    fn.start(join)


def check(b: Body, s: N.Assert) -> None:
    """A failed assert ends the thread."""
    fn, m = b.fn, b.m
    bad, good = fn.label(), fn.label()
    fn.branch(b.values[s.cond], good, bad, good)
    fn.start(bad)
    number = b.frame.layout.frame.numbers[s.id]
    kept = s.args[:VALUES]

    def values() -> None:
        for n, i in enumerate(kept):
            memory.write(b, u64, u64, b.frame.at(L.FAIL_VALUES + n * WORD, u64), raw(b, i))

    _record(b, Status.ASSERT, m.const(u32, number), m.const(u32, len(kept)), values)
    fn.put("Return")
    fn.start(good)


def raw(b: Body, id: int) -> int:
    """A value's bits in the low part of a u64."""
    fn, m, t, value = b.fn, b.m, b.types[id], b.values[id]
    if t is u1:
        return fn.let("Select", m.type(u64), value, m.const(u64, 1), m.const(u64, 0))
    if t.is_float:
        value = fn.let("Bitcast", m.type(UNSIGNED[t.bits]), value)
    return value if t.bits == 64 else fn.let("UConvert", m.type(u64), value)


def print_(b: Body, s: N.Print) -> None:
    """Takes room for a record in the print block and writes it."""
    fn, m = b.fn, b.m
    set_status(b, Status.PRINTED)
    words = [m.const(u64, b.frame.layout.frame.numbers[s.id]), *(raw(b, i) for i in s.operands())]
    block = b.frame.word(L.PRINTS)
    as_u32 = b.frame.once("prints", lambda: b.frame.pointer_to(u32, block))
    as_u64 = b.frame.once("print words", lambda: b.frame.pointer_to(u64, block))
    t, count = m.type(u32), m.const(u32, len(words))

    def head(at: int) -> int:
        return fn.let("PtrAccessChain", m.memory_pointer(u32), as_u32, m.const(u32, at // 4))

    at = memory.at_once(b, "AtomicIAdd", u32, head(L.PRINT_USED), count)
    room = fn.let("Load", t, head(L.PRINT_ROOM), C.ALIGNED, 4)
    fits, lost, join = fn.label(), fn.label(), fn.label()
    end = fn.let("IAdd", t, at, count)
    fn.branch(fn.let("ULessThanEqual", m.bool, end, room), fits, lost, join)
    fn.start(fits)
    for n, word in enumerate(words):
        place = fn.let("IAdd", t, at, m.const(u32, L.PRINT_DATA // WORD + n))
        pointer = fn.let("PtrAccessChain", m.memory_pointer(u64), as_u64, place)
        memory.write(b, u64, u64, pointer, word)
    fn.jump(join)
    fn.start(lost)
    memory.at_once(b, "AtomicIAdd", u32, head(L.PRINT_LOST), m.const(u32, 1))
    fn.jump(join)
    fn.start(join)
