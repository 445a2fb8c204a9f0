"""Calls of a lowered kernel's functions. Each becomes a function of the module when it is first called."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm.text import ty
from quadrants_lab.ir import nodes as N

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body


def call(b: Body, s: N.Call) -> None:
    symbol = f"qd.{s.function}"
    if symbol not in b.fn.module.defined:
        _make(b, b.kernel.functions[s.function], symbol)
    args = ((ty(b.types[i]).text, b.values[i]) for i in s.args)
    b.define(s.id, s.type, b.fn.call(ty(s.type).text, symbol, *args))


def _make(caller: Body, f: N.Function, symbol: str) -> None:
    """Emits the function, without fast-math flags: some of its sums compute the rounding errors of other sums."""
    names = [f"%p{n}" for n in range(len(f.params))]
    params = ", ".join(f"{ty(p.type).text} {x}" for p, x in zip(f.params, names, strict=True))
    b = copy(caller)
    b.fn = caller.fn.module.function(symbol, f"define internal {ty(f.type).text} @{symbol}({params})")
    b.values, b.types, b.offsets, b.fast, b.polls = {}, {}, {}, "", False
    b.ranges = Ranges(replace(b.kernel, body=f.body))
    for p, x in zip(f.params, names, strict=True):
        b.define(p.id, p.type, x)
    (value,) = b.block(f.body)
    b.fn.put(f"ret {ty(f.type).text} {value}")
    b.fn.module.helper(symbol, "\n".join([*b.fn.lines, "}"]))
