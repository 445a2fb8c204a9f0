"""Random draws, as `quadrants_lab.ir.draws` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm.text import constant, ty
from quadrants_lab.ir import draws
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i64
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


_MIX = f"""\
define internal i64 @qd.mix(i64 %state, i64 %counter) {{
  %x = xor i64 %state, %counter
  %x0 = add i64 %x, {_signed(draws.GOLDEN)}
  %s1 = lshr i64 %x0, 30
  %x1 = xor i64 %x0, %s1
  %x2 = mul i64 %x1, {_signed(draws.FIRST)}
  %s2 = lshr i64 %x2, 27
  %x3 = xor i64 %x2, %s2
  %x4 = mul i64 %x3, {_signed(draws.SECOND)}
  %s3 = lshr i64 %x4, 31
  %x5 = xor i64 %x4, %s3
  ret i64 %x5
}}"""


def open_sites(b: Body, block: N.Block) -> None:
    """Makes the counters of the block's call sites; in the entry block."""
    for s in walk(block):
        if isinstance(s, N.Random) and s.site not in b.draws:
            b.draws[s.site] = b.fn.alloca("i64")


def begin_iteration(b: Body) -> None:
    for counter in b.draws.values():
        b.fn.put(f"store i64 0, ptr {counter}")


def draw(b: Body, s: N.Random) -> None:
    fn, counter = b.fn, b.draws[s.site]
    fn.module.helper("qd.mix", _MIX)
    n = fn.let(f"load i64, ptr {counter}")
    fn.put(f"store i64 {fn.let(f'add i64 {n}, 1')}, ptr {counter}")
    bits = "0"
    for word in (*b.random_key(), str(s.site), n):
        bits = fn.call("i64", "qd.mix", ("i64", bits), ("i64", word))
    t = ty(s.type)
    if not s.type.is_float:
        value = bits if s.type.bits == 64 else fn.let(f"trunc i64 {bits} to {t.text}")
        b.define(s.id, s.type, value)
        return
    digits = {16: 11, 32: 24, 64: 53}[s.type.bits]
    high = fn.let(f"lshr {ty(i64).text} {bits}, {64 - digits}")
    whole = fn.let(f"uitofp i64 {high} to {t.text}")
    b.define(s.id, s.type, fn.let(f"fmul {t.text} {whole}, {constant(t, 2.0**-digits)}"))
