"""Statements over lanes. A uniform value is a scalar, as in any other body. A divergent one is a vector or, where it
grows by one from lane to lane, the scalar of the first lane until somebody needs the vector."""

from collections.abc import Callable
from typing import Any

from quadrants_lab.backends._llvm import control as scalar_control, ops
from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Function, Ty, constant, ty
from quadrants_lab.backends.cpu.body import HANDLERS, CpuBody
from quadrants_lab.backends.cpu.lanes import control, functions, memory
from quadrants_lab.backends.cpu.lanes.divergence import Divergence, counts_up
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1

_DIVIDES = ("quot", "rem")


class LaneBody(CpuBody):
    """``width``: the number of lanes. ``mask``: a vector of u1, true in the lanes that take part; wherever code runs at
    least one does. ``stride``: from one slot of a lane's adstack to the next, in slots, an i64."""

    def __init__(self, fn: Function, unit: Unit, found: Divergence, width: int) -> None:
        super().__init__(fn, unit, True)
        self.width = width
        self.divergent = found.divergent
        self.per_lane = found.per_lane
        self.mask = ""
        self.stride = str(width)
        self.linear: dict[int, str] = {}  # value in the first lane, of integers that count up from lane to lane
        self.lane = "0"  # the lane that `reported` takes values of
        self.scratch_at = self.scratch_values = ""  # room for an address and a value of each lane
        self.apart: str | None = None  # see `one_place`: where a group goes on whose sums go to several elements

    # --- values -------------------------------------------------------------------------------------------------

    @property
    def truth(self) -> str:
        """The type of a mask."""
        return ty(u1, self.width).text

    def uniform(self, *ids: int) -> bool:
        """Whether all these values are uniform."""
        return self.divergent.isdisjoint(ids)

    def vector(self, id: int) -> str:
        """A value as a vector."""
        t = self.types[id]
        if id in self.linear:
            return self.once(("vector", id), lambda: self._count_up(self.linear[id], t))
        return self.values[id] if id in self.divergent else self.splat(self.values[id], t)

    def _count_up(self, first: str, t: DType) -> str:
        return self.fn.let(f"add {ty(t, self.width).text} {self.splat(first, t)}, {self.numbers(t)}")

    def splat(self, value: str, t: DType) -> str:
        """A scalar in every lane."""
        if value[0] != "%":
            return f"splat ({ty(t).text} {value})"
        return self.once(("splat", value), lambda: self._spread(value, ty(t).text))

    def spread_pointer(self, pointer: str) -> str:
        return self.once(("splat", pointer), lambda: self._spread(pointer, "ptr"))

    def _spread(self, value: str, t: str) -> str:
        w = self.width
        one = self.fn.let(f"insertelement <{w} x {t}> poison, {t} {value}, i64 0")
        return self.fn.let(f"shufflevector <{w} x {t}> {one}, <{w} x {t}> poison, <{w} x i32> zeroinitializer")

    def numbers(self, t: DType) -> str:
        """0, 1, 2, ..."""
        return "<" + ", ".join(f"{ty(t).text} {n}" for n in range(self.width)) + ">"

    def select(self, cond: str, a: str, b: str, t: DType) -> str:
        """In each lane ``a`` where the mask ``cond`` holds, else ``b``."""
        v = ty(t, self.width).text
        return self.fn.let(f"select {self.truth} {cond}, {v} {a}, {v} {b}")

    def masked(self, mask: str, cond: str) -> str:
        """The lanes of ``mask`` where ``cond`` holds. In other lanes ``cond`` may be poison."""
        return self.select(mask, cond, "zeroinitializer", u1)

    def any(self, mask: str) -> str:
        return self.fn.call("i1", f"llvm.vector.reduce.or.v{self.width}i1", (self.truth, mask))

    def lowest(self, bits: str) -> str:
        """The number of the lowest set bit of a mask that is an integer, as i64."""
        t = f"i{self.width}"
        n = self.fn.call(t, f"llvm.cttz.{t}", (t, bits), ("i1", "true"))
        return n if self.width == 64 else self.fn.let(f"zext {t} {n} to i64")

    def reduce(self, name: str, t: DType, value: str) -> str:
        """The scalar that llvm.vector.reduce makes of a vector."""
        v = ty(t, self.width)
        start = {"fadd": "-0.0", "fmul": "1.0"}.get(name)
        first = ((ty(t).text, start),) if start else ()
        flags = "reassoc " if start else ""
        return self.fn.call(ty(t).text, f"llvm.vector.reduce.{name}.{v.suffix}", *first, (v.text, value), flags=flags)

    # --- what `Body` asks for -----------------------------------------------------------------------------------

    def type_of_param(self, p: N.Param) -> Ty:
        return ty(p.type, self.width if p.id in self.divergent else 1)

    def given(self, takers: tuple[N.Param, ...], ids: tuple[int, ...]) -> tuple[str, ...]:
        both = zip(takers, ids, strict=True)
        return tuple(self.vector(i) if p.id in self.divergent else self.values[i] for p, i in both)

    def statement(self, stmt: N.Stmt) -> None:
        LANES.get(type(stmt), HANDLERS[type(stmt)])(self, stmt)

    def iteration(self) -> str:
        """Number of the first lane's iteration."""
        last = self.indices[-1].id
        self.values[last] = self.linear[last]
        return super().iteration()

    def reported(self, id: int) -> str:
        if self.uniform(id):
            return self.values[id]
        v = ty(self.types[id], self.width).text
        return self.fn.let(f"extractelement {v} {self.vector(id)}, i64 {self.lane}")

    def local(self, b: N.Buffer) -> str:
        return self.fn.alloca(ty(b.dtype, self.width if b.name in self.per_lane else 1).text)

    def in_slab(self, at: str) -> str:
        return self.fn.let(f"mul i64 {at}, {self.stride}")


def _op(b: LaneBody, s: N.Op) -> None:
    if b.uniform(s.id):
        HANDLERS[N.Op](b, s)
        return
    known = tuple(map(b.ranges.range, s.args))
    first = b.types[s.args[0]]
    if counts_up(s, b.linear, b.divergent):
        args = tuple(b.linear.get(i, b.values.get(i, "")) for i in s.args)
        t = ty(s.type)
        # the first lane may take no part, so the ranges of the operands do not hold for it
        b.linear[s.id] = ops.emit(b.fn, s.prim, t, (t, t), args, (None, None), "")
        b.define(s.id, s.type, "")
        return
    types = tuple(ty(b.types[i], b.width) for i in s.args)
    values = [b.vector(i) for i in s.args]
    if s.prim in _DIVIDES and not b.uniform(s.args[1]):  # a lane that takes no part may hold 0 or poison
        values[1] = b.select(b.mask, values[1], constant(types[1], 1), first)
    out = ty(s.type, b.width)
    if functions.is_library(s.prim, first):
        value = functions.lane_by_lane(b, s.prim, out, tuple(values))
    else:
        value = ops.emit(b.fn, s.prim, out, types, tuple(values), known, b.fast)
    b.define(s.id, s.type, value)


def _builtin(b: LaneBody, s: N.Builtin) -> None:
    value = b.builtin(s.what)
    b.define(s.id, s.type, value if b.uniform(s.id) else b._count_up(value, s.type))


LANES: dict[type, Callable[[Any, Any], None]] = {
    N.Op: _op,
    N.Call: functions.call,
    N.Builtin: _builtin,
    N.Assert: control.check,
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: memory.atomic,
    N.If: lambda b, s: (scalar_control.if_ if b.uniform(s.cond) else control.if_)(b, s),
    N.For: lambda b, s: (scalar_control.for_ if b.uniform(s.begin, s.end) else control.for_)(b, s),
    N.While: lambda b, s: (scalar_control.while_ if control.together(b, s) else control.while_)(b, s),
    N.Lane: lambda b, s: b.define(s.id, s.type, b.numbers(s.type)),
    N.Overflow: control.overflow,
}
