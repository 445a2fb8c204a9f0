"""Defines tiles (squares of numbers of which each thread of a subgroup holds a row), and the parts of fields and
arrays from which tiles are loaded."""

from __future__ import annotations

import ast
from itertools import count
from typing import Any

from quadrants_lab.frontend.values.memory import Mem
from quadrants_lab.frontend.values.number import Num
from quadrants_lab.frontend.values.value import Lowering, Value
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import unused
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, i32

SUBGROUP = 32  # threads of a subgroup, on every backend


def use_blocks(cx: Lowering, node: ast.expr) -> None:
    """Notes that the parallel loop around ``node`` uses blocks of threads. Raises QL1712 outside of parallel loops."""
    if not cx.block_threads:
        raise cx.fail("QL1712", node, text=ast.unparse(getattr(node, "func", node)))
    cx.uses_blocks = True
    cx.at(node)


def shared_array(cx: Lowering, shape: tuple[int, ...], dtype: DType, element: tuple[int, ...] = ()) -> Mem:
    """Makes shared memory of this shape. Its elements are numbers, or vectors or matrices of the shape ``element``."""
    whole = (*shape, *element)
    name = unused((f"shared{n}" for n in count()), cx.buffers)
    cx.buffers[name] = buffer = N.Buffer(name, "shared", dtype, len(whole), whole)
    return Mem(buffer, "SharedArray", element)


def thread(cx: Lowering) -> int:
    """Emits the number of the running thread within its block."""
    return cx.b.add(N.Builtin(cx.b.fresh(), i32, "thread"))  # type: ignore[no-any-return]  # of a `Builder`


def of_threads(cx: Lowering, number: int, dtype: DType) -> Mem:
    """Emits shared memory with the number of each thread; the size is rounded up to whole subgroups."""
    made = shared_array(cx, (-(-cx.block_threads // SUBGROUP) * SUBGROUP,), dtype)
    cx.b.store(made.buffer, (thread(cx),), number)
    cx.b.add(N.Barrier(cx.b.fresh()))
    return made


class _NoNumber(Value):
    """The protocol of a value that only statements about tiles accept; ``cure`` names these statements in messages."""

    __slots__ = ()
    cure: str

    def number(self, cx: Lowering, node: ast.expr) -> Any:
        raise cx.fail("QL1723", node, what=self.describe(), cure=self.cure)


@dataclass(slots=True, eq=False)
class Tile(_NoNumber):
    """A square of numbers. ``mem`` is shared memory of the shape (threads of the block, columns): thread t holds row
    t % 32 of the tile of its subgroup in row t, which no other thread accesses. Devices may keep it in registers.
    ``maker`` is the call that has made the tile, as long as no variable holds it."""

    mem: Mem
    maker: ast.expr | None = None
    is_alias = True
    cure = "compute with t += qd.outer(a, b), t -= qd.outer(a, b) and the tile's methods; store it by a[i:j, k:l] = t"

    @property
    def size(self) -> int:
        return self.mem.buffer.shape[1]  # type: ignore[index]  # shared memory has a shape

    tile = property(lambda self: self)

    def describe(self) -> str:
        return f"a tile of {self.size} x {self.size}"

    def owned(self, cx: Lowering, node: ast.expr) -> Tile:
        """The tile for a new variable: the tile itself if the expression ``node`` has just made it, else a copy."""
        if self.maker is node:
            self.maker = None
            return self
        use_blocks(cx, node)
        made = Tile(shared_array(cx, (cx.block_threads, self.size), self.mem.buffer.dtype))
        made.overwrite(cx, self)
        return made

    def overwrite(self, cx: Lowering, new: Tile) -> None:
        """Emits the copy of the thread's row from the tile ``new`` to this tile."""
        b, t, own = cx.b, self.mem.buffer.dtype, thread(cx)
        column = b.param(i32, "c")
        zero, end = b.const(0, i32), b.const(self.size, i32)
        with b.block() as body:
            b.store(self.mem.buffer, (own, column.id), b.cast(b.load(new.mem.buffer, (own, column.id)), t))
            b.yield_()
        b.add(N.For(b.fresh(), column, zero, end, (), (), tuple(body), ()))


@dataclass(slots=True, eq=False)
class Slab(_NoNumber):
    """A slice of a field or array of numbers. ``rows`` and ``columns`` are each a begin and an end, or a single index.
    Of ``mem[at, i:j, k:l]`` thread t of a subgroup takes row t. Of the column ``mem[at, i:j, k]`` it takes number t, or
    0 beyond the end. The row ``mem[at, i, k:l]``, as an operand of `Outer`, is read by all threads."""

    mem: Mem
    at: tuple[Num, ...]
    rows: tuple[Num, ...]
    columns: tuple[Num, ...]
    words = "a slice of an array"
    cure = "load it into a tile, t[:] = a[i:j, k:l]; a column a[i:j, k] is a number in each thread"
    slab = property(lambda self: self)
    is_column = property(lambda self: len(self.columns) == 1)
    is_row = property(lambda self: len(self.rows) == 1)

    def load(self, cx: Lowering, node: ast.expr) -> Value:
        if not self.is_column:
            return self
        use_blocks(cx, node)
        b, buffer = cx.b, self.mem.buffer
        lane = b.op("mod", thread(cx), b.const(SUBGROUP, i32))
        row = b.op("add", cx.to(self.rows[0], i32), lane)
        extent = cx.to(cx.extent(buffer, len(self.at)), i32)
        found = b.param(buffer.dtype)
        with b.block() as then:
            b.yield_(b.load(buffer, (*(n.id for n in self.at), row, self.columns[0].id)))
        with b.block() as orelse:
            b.yield_(cx.const(0, buffer.dtype))
        inside = b.op("lt", row, b.op("min", cx.to(self.rows[1], i32), extent))
        b.add(N.If(b.fresh(), inside, tuple(then), tuple(orelse), (found,)))
        return Num(found.id, found.type)


@dataclass(slots=True, eq=False)
class Outer(_NoNumber):
    """The value of ``qd.outer(a, b)``, an outer product that a tile can add or subtract. Its element (r, c) is
    thread r's value of a times thread c's value of b, or, if b is a row (a `Slab`), times element c of the row."""

    a: Any
    b: Any
    words = "qd.outer(...)"
    cure = "write t += qd.outer(a, b) or t -= qd.outer(a, b) for a tile t, a statement for each product"


def is_place(place: Value) -> bool:
    """Whether the place is a tile or a slab, so that assignments to it are statements about tiles."""
    return place.tile is not None or place.slab is not None
