"""Defines numbers: SSA values that the kernel computes, literals, arguments, and local variables that parallel
iterations share.

`Num` and `Lit` are numbers that are loaded. Their common protocol:

dtype_in    the dtype; a literal without one has default_ip, default_fp or u1
to, num     the number cast to a dtype: its id, or a `Num`
as_index    the number as an index or loop bound: narrow dtypes as i32, u32 as i64
is_within   whether a literal fits the dtype, or a number has it
constant    the number, for a literal; None otherwise. Only literals have a ``dtype`` of their own, which ``typed``
            sets, and a ``node``
"""

from __future__ import annotations

import ast
from dataclasses import field, replace
from enum import Enum
from typing import Any

from quadrants_lab.frontend.values.value import Leaf, Lowering
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, convert, i32, i64, u1, u32, u64


@dataclass(slots=True, eq=False)
class Num(Leaf):
    """An SSA value."""

    id: int = field()
    type: DType = field()
    fixed: str = ""
    dtype = node = None
    is_number = is_held = True
    is_local = property(lambda self: not self.fixed)

    def describe(self) -> str:
        return f"a number of dtype {self.type}"

    def number(self, cx: Lowering, node: ast.expr) -> Num:
        return self

    def pinned(self, why: str, node: ast.AST | None = None) -> Num:
        return Num(self.id, self.type, why)

    def dtype_in(self, options: CompileOptions) -> DType:
        return self.type

    def to(self, cx: Lowering, dtype: DType) -> int:
        return self.id if self.type is dtype else cx.b.op("cast", self.id, type=dtype)

    def num(self, cx: Lowering, dtype: DType | None) -> Num:
        return self if dtype is None or dtype is self.type else Num(self.to(cx, dtype), dtype)

    def typed(self, dtype: DType) -> Num:
        return self

    def is_within(self, dtype: DType) -> bool:
        return self.type is dtype

    def as_index(self, cx: Lowering) -> Num:
        return self if self.type.bits == 64 else cx.num(self, i64 if self.type is u32 else i32)


@dataclass(slots=True, eq=False)
class Lit(Leaf):
    """A number that is known at compile time. As an operand it has the dtype ``dtype``, or, if that is None, default_ip
    or default_fp. Extents beyond i32, and numbers computed from them, have a ``dtype``."""

    value: Any  # bool, int or float
    node: ast.AST | None = None
    fixed: str = ""
    dtype: DType | None = None
    member: Enum | None = None
    is_number = is_held = True
    constant = static_key = property(lambda self: self.value)

    def describe(self) -> str:
        return f"the number {self.value}"

    def number(self, cx: Lowering, node: ast.expr) -> Lit:
        return self

    def pinned(self, why: str, node: ast.AST | None = None) -> Lit:
        return replace(self, fixed=why, node=node or self.node)

    def dtype_in(self, options: CompileOptions) -> DType:
        kind = type(self.value)
        if self.dtype is not None and kind is int:
            return self.dtype
        return u1 if kind is bool else options.default_fp if kind is float else options.default_ip

    def to(self, cx: Lowering, dtype: DType) -> int:
        natural = self.dtype_in(cx.options)
        number = cx.fit(self, natural)
        if natural is not dtype:
            number = convert(number, dtype)
        span = cx.b.span
        if self.node is not None:
            cx.at(self.node)
        result: int = cx.b.add(N.Const(cx.b.fresh(), dtype, number))
        cx.b.span = span
        return result

    def num(self, cx: Lowering, dtype: DType | None) -> Num:
        t = dtype or self.dtype_in(cx.options)
        return Num(self.to(cx, t), t)

    def typed(self, dtype: DType) -> Lit:
        return Lit(self.value, self.node, dtype=dtype)

    def is_within(self, dtype: DType) -> bool:
        return dtype.holds(self.value)

    def as_index(self, cx: Lowering) -> Lit:
        number = int(self.value)
        return Lit(number, self.node, dtype=next((t for t in (i32, i64, u64) if t.holds(number)), None))

    def python(self, cx: Lowering) -> Any:
        return self.value


@dataclass(slots=True, eq=False)
class ArgRef(Leaf):
    """A scalar argument of the kernel that has not been loaded yet."""

    name: str
    type: DType
    fixed = "a kernel argument"

    def describe(self) -> str:
        return f"a number of dtype {self.type}"

    def load(self, cx: Lowering, node: ast.expr) -> Num:
        cx.at(node)
        return Num(cx.b.add(N.ArgLoad(cx.b.fresh(), self.type, self.name, name=self.name)), self.type)


@dataclass(slots=True, eq=False)
class Temp(Leaf):
    """A number of a local that the iterations of a parallel loop share: the loop accumulates into it, or sets it to a
    constant. ``reduced`` has the operation and the place of the first change in the loop; a change by another operation
    is an error, because the two would not commute. ``iteration``: the ids of the indices of the loop. ``private_copy``:
    a hidden local with this iteration's copy of the vector or matrix, whose elements at the loop's index are right; ""
    if there is none.
    """

    buffer: N.Buffer
    name: str
    reduced: tuple[str, Span] | None = None
    iteration: frozenset[int] = frozenset()
    private_copy: str = ""
    words = "a shared local"
    is_local = is_shared = is_held = True

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        raise cx.fail("QL1705", node, name=self.name)


Number = Num | Lit


def id_of(cx: Lowering, index: Any, dtype: DType) -> int:
    """The id of ``index``. An int becomes a constant of the dtype; any other index has an id already."""
    return cx.const(index, dtype) if isinstance(index, int) else index.id  # type: ignore[no-any-return]  # an int


@dataclass(slots=True, eq=False)
class Index:
    """An index that the kernel computes, as an object with the arithmetic operators that `SNode.find` uses."""

    cx: Lowering
    id: int

    def __floordiv__(self, by: int) -> Index:
        return self._op("floordiv", by) if by > 1 else self

    def __mod__(self, by: int) -> Index:
        return self._op("mod", by)

    def __mul__(self, by: int) -> Index:
        return self._op("mul", by)

    def __add__(self, by: Index | int) -> Index:
        if isinstance(by, int):
            return self._op("add", by)
        t = self.cx.b.types[self.id]
        return Index(self.cx, self.cx.b.op("add", self.id, self.cx.b.cast(by.id, t)))

    def _op(self, prim: str, by: int) -> Index:
        return Index(self.cx, self.cx.b.op(prim, self.id, self.cx.const(by, self.cx.b.types[self.id])))
