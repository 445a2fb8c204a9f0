"""The table that says which function emits each class of statement as LLVM instructions; and the shortest of these
functions."""

from collections.abc import Callable
from typing import Any

from quadrants_lab.analysis.divergence import counts_up
from quadrants_lab.backends._llvm import calls, control, memory, ops
from quadrants_lab.backends._llvm.body import Body
from quadrants_lab.backends._llvm.text import constant, ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily

_DIVIDES = ("quot", "rem")


def _op(b: Body, s: N.Op) -> None:
    counts = bool(b.linear) and counts_up(s, b.linear, b.divergent)
    lanes = 1 if counts else b.lanes(s.id)
    types = tuple(ty(b.types[i], lanes) for i in s.args)
    args = tuple(b.value(i, lanes) for i in s.args)
    # Of an integer that grows by one from lane to lane, only the first lane's value is computed. That lane may not take
    # part, so what is known about the operands' ranges does not hold for it.
    unknown = counts or types[0].dtype.is_float
    known = (None,) * len(args) if unknown else tuple([b.ranges.range(i) for i in s.args])
    if lanes > 1 and s.prim in _DIVIDES and not b.uniform(s.args[1]):
        # in a lane that does not take part the divisor may be 0 or poison, and the division would trap
        args = args[0], b.select(b.mask, args[1], constant(types[1], 1), types[1].dtype)
    if lanes > 1 and ops.is_library(s.prim, types[0].dtype):
        value = calls.lane_by_lane(b, s.prim, ty(s.type, lanes), args)
    else:
        value = ops.emit(b.fn, s.prim, ty(s.type, lanes), types, args, known, b.fast)
    b.define(s.id, s.type, value)
    if counts:
        b.linear.add(s.id)


def _shape(b: Body, s: N.ShapeOf) -> None:
    wide = b.extent(s.buffer, s.axis)
    value = wide if s.type.bits == 64 else b.fn.let(f"trunc nuw nsw i64 {wide} to {ty(s.type).text}")
    b.define(s.id, s.type, value)


def _builtin(b: Body, s: N.Builtin) -> None:
    value = b.builtin(s.what)
    b.define(s.id, s.type, value if b.uniform(s.id) else b.count_up(value, s.type))


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: lambda b, s: b.define(s.id, s.type, constant(ty(s.type), s.value)),
    N.Op: _op,
    N.Call: calls.call,
    N.ArgLoad: lambda b, s: b.define(s.id, s.type, b.arg(s.arg, s.type)),
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: lazily("backends._llvm.atomics", "atomic"),
    N.ThreadExit: lambda b, s: None,  # `control.if_` emits the jump
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.define(s.id, s.type, b.thread if b.uniform(s.id) else b.numbers(s.type)),
    # on GPUs, earlier passes have removed asserts and prints
    N.Assert: lambda b, s: b.check(s),
    N.Print: lambda b, s: b.print(s),
    N.Overflow: lambda b, s: b.overflow(s),
}
