"""Emits sine and cosine of f32 by the GPU's special function unit, for `fast_math`.

The unit is most accurate in -pi .. pi, where its error is at most 2**-21; beyond, its error grows with the argument. So
it gets r, which is x minus a multiple of 2 pi, computed by two fused operations; the first of them is exact. From 2**22
turns on f32 cannot represent such a multiple: then the result lies between -1 and 1 and means nothing. The unit rounds
sines to multiples of about 2**-22, so for a small x the sine is x itself.

The unit takes an eighth of a warp at a time. If a block has several sines to compute, reducing each argument just
before its sine would keep the unit waiting. So the arguments are reduced together, or not at all if none of them needs
it: then r is x. Loops whose arguments never need a reduction have none (`lower.near_sines`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from quadrants_lab.backends._llvm.ops import Ctx
from quadrants_lab.backends._llvm.text import Function, Module, constant, ty
from quadrants_lab.backends.cuda.sine import PI, ROUND
from quadrants_lab.backends.lower.functions import SMALL
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import f32

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.body import SimtBody

LARGE = 2.0**22 * 2 * float(PI)  # larger arguments are not reduced
FEW = 4  # with fewer arguments in a block, there is no test whether all reductions can be skipped
WINDOW = 128  # other sines of the block are looked for in the next so many statements
_TWO = 1 << 30  # the bit that is set in the bits of floats of 2 and more

_REDUCED = """\
define internal float @qd.reduced.f32(float %x) alwaysinline #1 {{
  %rounded = call float @llvm.fma.f32(float %x, float {inverse}, float {round})
  %turns = fsub float %rounded, {round}
  %r1 = call float @llvm.fma.f32(float %turns, float {turn0}, float %x)
  %r = call float @llvm.fma.f32(float %turns, float {turn1}, float %r1)
  ret float %r
}}"""
# a helper function around the unit's instruction; for a small argument it returns the argument itself as the sine
_TEXTS = {
    "sin": """\
define internal float @qd.unit.sin.f32(float %r, float %x) alwaysinline #1 {{
  %y = {unit}
  %size = call float @llvm.fabs.f32(float %x)
  %is_small = fcmp olt float %size, {small}
  %sine = select i1 %is_small, float %x, float %y
  ret float %sine
}}""",
    "cos": """\
define internal float @qd.unit.cos.f32(float %r, float %x) alwaysinline #1 {{
  %y = {unit}
  ret float %y
}}""",
}


def _reduced_text() -> str:
    t = ty(f32)
    high = float(np.nextafter(np.float32(float(2 * PI)), np.float32(0)))  # less than 2 pi: -0 stays -0
    low = float(2 * PI - Fraction(high))
    inverse, round = constant(t, float(1 / (2 * PI))), constant(t, ROUND)
    return _REDUCED.format(inverse=inverse, round=round, turn0=constant(t, -high), turn1=constant(t, -low))


def _declare(module: Module) -> None:
    module.declare("llvm.fma.f32", "float", ("float",) * 3)
    module.helper("qd.reduced.f32", _reduced_text())
    module.declare("llvm.fabs.f32", "float", ("float",))
    for name, text in _TEXTS.items():
        module.helper(f"qd.unit.{name}.f32", text.format(unit=_approx(name, "%r"), small=constant(ty(f32), SMALL)))


def _approx(name: str, r: str) -> str:
    return f'call float asm "{name}.approx.ftz.f32 $0, $1;", "=f,f"(float {r})'


def unit(name: str) -> Callable[[Ctx], str]:
    """Emits the sine or cosine, for arguments in -pi .. pi."""
    return lambda c: c.fn.let(_approx(name, c.args[0]))


def _reduced(fn: Function, x: str) -> str:
    return fn.call("float", "qd.reduced.f32", ("float", x))


def _unit(fn: Function, name: str, r: str, x: str) -> str:
    """Emits the sine or cosine of x from r, which is x minus whole turns. The test for small arguments looks at x, not
    r: near a multiple of pi the unit is accurate enough."""
    return fn.call("float", f"qd.unit.{name}.f32", ("float", r), ("float", x))


def quick(name: str, otherwise: Callable[[Ctx], str]) -> Callable[[Ctx], str]:
    """Emits a sine or cosine of f32 with fast math; in all other cases ``otherwise`` emits it."""

    def sequence(c: Ctx) -> str:
        if not c.fast or c.t.dtype is not f32:
            return otherwise(c)
        _declare(c.fn.module)
        return _unit(c.fn, name, _reduced(c.fn, c.args[0]), c.args[0])

    return sequence


# --- several sines in a block -----------------------------------------------------------------------------------


def in_company(body: SimtBody, stmt: N.Stmt) -> bool:
    """Emits a sine or cosine whose argument is reduced together with others of its block; at the first of them, it
    also emits the reduction of all. For any other statement it returns False and emits nothing."""
    if not (body.fast and _is_one(stmt)):
        return False
    x = body.values[stmt.operands()[0]]
    if x not in body.reduced:
        ready = _ready(body, stmt)
        if len(ready) < FEW:
            return False
        _declare(body.fn.module)
        _reduce(body, ready)
    body.define(stmt.id, f32, _unit(body.fn, stmt.prim, body.reduced[x], x))
    return True


def _is_one(stmt: N.Stmt) -> bool:
    return type(stmt) is N.Op and stmt.prim in _TEXTS and stmt.type is f32


def _ready(body: SimtBody, first: N.Stmt) -> list[str]:
    """The arguments of ``first`` and of later sines in its block, of those that are computed already but not reduced.
    """
    start = next((n for n, s in enumerate(body.inside) if s is first), len(body.inside))
    later: set[int] = set()
    found: dict[str, None] = {}
    for s in islice(body.inside, start, start + WINDOW):
        if _is_one(s) and s.operands()[0] not in later:
            found[body.values[s.operands()[0]]] = None
        later |= {i for i, _ in s.defs()}
    return [x for x in found if x not in body.reduced]


def _reduce(body: SimtBody, ready: list[str]) -> None:
    """Emits the reduction of several arguments. Arguments within -2 .. 2 need none: they lack the bit `_TWO`."""
    fn = body.fn
    all_bits = ""
    for x in ready:
        bits = fn.let(f"bitcast float {x} to i32")
        all_bits = fn.let(f"or i32 {all_bits}, {bits}") if all_bits else bits
    far = fn.let(f"icmp ne i32 {fn.let(f'and i32 {all_bits}, {_TWO}')}, 0")
    before = fn.block
    with fn.when(far, "far", "near"):
        made = [_reduced(fn, x) for x in ready]
        last = fn.block
    for x, r in zip(ready, made, strict=True):
        body.reduced[x] = fn.phi("float", (x, before), (r, last))
