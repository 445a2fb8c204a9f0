"""Random draws, as `quadrants_lab.ir.draws` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body


def begin_iteration(b: Body, block: N.Block) -> None:
    """Every call site of the block has drawn nothing yet."""
    for s in walk(block):
        if isinstance(s, N.Random) and s.site not in b.draws:
            b.draws[s.site] = f"d{s.site}"
            b.out.put(f"uint d{s.site} = 0;")


def draw(b: Body, s: N.Random) -> None:
    t = X.name(s.type)
    text = f"{b.helper('qd_draw')}(f, {b.iteration}, {s.site}, {b.draws[s.site]}++)"
    if s.type.is_float:
        digits = {16: 11, 32: 24}[s.type.bits]
        text = f"float({text} >> {64 - digits}) * {2.0**-digits!r}f"
        text = f"{t}({text})" if t != "float" else text
    b.define(s, Expr(text, X.MUL, t), at_once=True)
