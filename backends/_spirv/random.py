"""Random draws, as `quadrants_lab.ir.draws` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import f16, f32, u32, u64
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body


def begin_iteration(b: Body, block: N.Block) -> None:
    """Every call site of the block has drawn nothing yet."""
    for s in walk(block):
        if isinstance(s, N.Random) and s.site not in b.draws:
            b.draws[s.site] = b.fn.local(b.m.type(u32))
    for counter in b.draws.values():
        b.fn.put("Store", counter, b.m.const(u32, 0))


def draw(b: Body, s: N.Random) -> None:
    fn, m, counter = b.fn, b.m, b.draws[s.site]
    n = fn.let("Load", m.type(u32), counter)
    fn.put("Store", counter, fn.let("IAdd", m.type(u32), n, m.const(u32, 1)))
    seed, launch = b.frame.word(L.SEED), b.frame.word(L.LAUNCH)
    nth = fn.let("UConvert", m.type(u64), n)
    bits = m.const(u64, 0)
    for word in (seed, launch, b.iteration, m.const(u64, s.site), nth):
        bits = m.library(fn, "mix", u64, (bits, word), True)
    b.define(s.id, s.type, _value(b, s, bits))


def _value(b: Body, s: N.Random, bits: int) -> int:
    fn, m, t = b.fn, b.m, s.type
    if not t.is_float:
        return bits if t.bits == 64 else fn.let("UConvert", m.type(t), bits)
    digits = {16: 11, 32: 24, 64: 53}[t.bits]
    high = fn.let("ShiftRightLogical", m.type(u64), bits, m.const(u32, 64 - digits))
    if t.bits == 64:
        return fn.let("FMul", m.type(t), fn.let("ConvertUToF", m.type(t), high), m.const(t, 2.0**-digits))
    high = fn.let("UConvert", m.type(u32), high)
    value = fn.let("FMul", m.type(f32), fn.let("ConvertUToF", m.type(f32), high), m.const(f32, 2.0**-digits))
    return fn.let("FConvert", m.type(t), value) if t is f16 else value
