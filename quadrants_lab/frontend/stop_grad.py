"""`qd.stop_grad`: a value without its derivative, or a field whose derivative a loop does without."""

from __future__ import annotations

import ast
from dataclasses import replace

from quadrants_lab.frontend.context import Context
from quadrants_lab.frontend.rows import Builtin
from quadrants_lab.frontend.values import Lit, Mem, Num, Obj, StructMem, Value, mapped
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import rewrite


def _stop_grad(cx: Context, call: ast.Call, x: Value) -> Value:
    if isinstance(x, (Mem, StructMem)):
        cx.stopped |= _buffers(x)
        return Obj(None)

    def stop(leaf: Num | Lit) -> Num | Lit:
        if isinstance(leaf, Lit) or not leaf.type.is_float:
            return leaf
        cx.at(call)
        return Num(cx.b.op("custom_jvp", leaf.id, cx.const(0, leaf.type)), leaf.type)

    return mapped(cx.loaded(x, call), stop)  # type: ignore[no-any-return]  # it maps a value to a value


def _buffers(x: Mem | StructMem) -> set[str]:
    if isinstance(x, Mem):
        return {x.buffer.name}
    return {name for member in x.members.values() for name in _buffers(member)}


def without_derivatives(b: Builder, block: N.Block, stopped: set[str]) -> N.Block:
    """The block with no derivative flowing from what it loads from the ``stopped`` buffers."""
    if not stopped:
        return block

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if not isinstance(s, N.Load) or s.buffer not in stopped or not s.type.is_float:
            return s
        b.span = s.span
        with b.block() as made:
            value = b.add(replace(s, id=b.fresh()))
            zero = b.const(0, s.type)
            b.add(N.Op(s.id, s.type, "custom_jvp", (value, zero), name=s.name))
        return made

    return rewrite(block, one)


ROWS: tuple[Builtin, ...] = (
    Builtin(
        "stop_grad",
        ("x",),
        _stop_grad,
        "x without its derivative. Of a field, as a statement: no derivative flows from what the parallel loop around "
        "it reads from x; outside of a loop, from what the kernel reads.",
    ),
)
