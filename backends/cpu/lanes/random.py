"""Random draws over lanes: each lane counts its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm.random import mix, value_of
from quadrants_lab.backends._llvm.text import ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i64
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.lanes.body import LaneBody


def open_sites(b: LaneBody, block: N.Block) -> None:
    for s in walk(block):
        if isinstance(s, N.Random) and s.site not in b.draws:
            b.draws[s.site] = b.fn.alloca(ty(i64, b.width).text)


def begin_group(b: LaneBody) -> None:
    for counter in b.draws.values():
        b.fn.put(f"store {ty(i64, b.width).text} zeroinitializer, ptr {counter}")


def draw(b: LaneBody, s: N.Random) -> None:
    fn, counter, v = b.fn, b.draws[s.site], ty(i64, b.width)
    n = fn.let(f"load {v.text}, ptr {counter}")
    one = fn.let(f"zext {b.truth} {b.mask} to {v.text}")
    fn.put(f"store {v.text} {fn.let(f'add {v.text} {n}, {one}')}, ptr {counter}")
    seed, launch, first = b.random_key()
    shared = mix(fn, ty(i64), mix(fn, ty(i64), "0", seed), launch)
    iteration = fn.let(f"add {v.text} {b.splat(first, i64)}, {b.numbers(i64)}")
    bits = b.splat(shared, i64)
    for word in (iteration, b.splat(str(s.site), i64), n):
        bits = mix(fn, v, bits, word)
    b.define(s.id, s.type, value_of(fn, bits, ty(s.type, b.width)))
