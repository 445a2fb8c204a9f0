"""Random draws, as `quadrants_lab.ir.draws` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm.text import Function, Ty, constant, ty
from quadrants_lab.ir import draws
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i64
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def mix(fn: Function, t: Ty, state: str, counter: str) -> str:
    """A step of the generator, on values of ``t``: i64 in any number of lanes."""
    name = f"qd.mix.{t.suffix}"
    if name not in fn.module.defined:
        c = {k: constant(t, v) for k, v in _CONSTANTS.items()}
        fn.module.helper(name, f"""\
define internal {t.text} @{name}({t.text} %state, {t.text} %counter) {{
  %x = xor {t.text} %state, %counter
  %x0 = add {t.text} %x, {c["golden"]}
  %s1 = lshr {t.text} %x0, {c["30"]}
  %x1 = xor {t.text} %x0, %s1
  %x2 = mul {t.text} %x1, {c["first"]}
  %s2 = lshr {t.text} %x2, {c["27"]}
  %x3 = xor {t.text} %x2, %s2
  %x4 = mul {t.text} %x3, {c["second"]}
  %s3 = lshr {t.text} %x4, {c["31"]}
  %x5 = xor {t.text} %x4, %s3
  ret {t.text} %x5
}}""")
    return fn.call(t.text, name, (t.text, state), (t.text, counter))


_CONSTANTS = {
    "golden": _signed(draws.GOLDEN), "first": _signed(draws.FIRST), "second": _signed(draws.SECOND),
    "30": 30, "27": 27, "31": 31,
}  # fmt: skip


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
    n = fn.let(f"load i64, ptr {counter}")
    fn.put(f"store i64 {fn.let(f'add i64 {n}, 1')}, ptr {counter}")
    bits = "0"
    for word in (*b.random_key(), str(s.site), n):
        bits = mix(fn, ty(i64), bits, word)
    b.define(s.id, s.type, value_of(fn, bits, ty(s.type)))


def value_of(fn: Function, bits: str, t: Ty) -> str:
    """The draw of type ``t`` that 64 bits make, a lane each."""
    wide = ty(i64, t.lanes)
    if not t.dtype.is_float:
        return bits if t.dtype.bits == 64 else fn.let(f"trunc {wide.text} {bits} to {t.text}")
    digits = {16: 11, 32: 24, 64: 53}[t.dtype.bits]
    high = fn.let(f"lshr {wide.text} {bits}, {constant(wide, 64 - digits)}")
    whole = fn.let(f"uitofp {wide.text} {high} to {t.text}")
    return fn.let(f"fmul {t.text} {whole}, {constant(t, 2.0**-digits)}")
