"""Calls of a lowered kernel's functions, each of which is emitted where it is first called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.ir import nodes as N

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body


def call(b: Body, s: N.Call) -> None:
    m = b.m
    if s.function not in m.helpers:
        m.helpers[s.function] = _made(b, m.callable[s.function])
    args = (b.values[i] for i in s.args)
    b.define(s.id, s.type, b.fn.let("FunctionCall", m.type(s.type), m.helpers[s.function], *args))


def _made(caller: Body, f: N.Function) -> int:
    """Emits a function, without contraction: error-compensated sums must stay exactly as they are."""
    m = caller.m
    fn = Function(m, m.type(f.type), tuple(m.type(p.type) for p in f.params), f.name.replace(".", "_"))
    fn.stmt, fn.span = caller.fn.stmt, caller.fn.span
    body = type(caller)(fn, None, None, True)
    for p, id in zip(f.params, fn.params, strict=True):
        body.define(p.id, p.type, id)
    (value,) = body.block(f.body)
    fn.put("ReturnValue", value)
    return fn.close()
