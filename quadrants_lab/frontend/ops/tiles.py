"""Lowers `qd.simt.Tile16x16`, `qd.simt.Tile32x32` and `qd.outer`. A tile is a square of numbers, a row in each
thread of a subgroup."""

import ast
from collections.abc import Iterator
from typing import Any

from quadrants_lab.frontend.library import tiles
from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.syntax.tiles import inlined
from quadrants_lab.frontend.values import Obj, Value
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.tile import SUBGROUP, Outer, Tile, shared_array, use_blocks

SIZES = {"Tile16x16": 16, "Tile32x32": 32}


def _made(size: int, fill: Any) -> Lower:
    """The lowering of an operation that makes a tile of ``size`` rows and fills it by ``fill``. Raises QL1724 if a
    subgroup has fewer threads than the tile has rows."""

    def lower(cx: Context, call: ast.Call, dtype: Value | None) -> Value:
        use_blocks(cx, call)
        last = cx.block_threads % SUBGROUP or SUBGROUP
        if last < size:
            raise cx.fail("QL1724", call, n=size, threads=cx.block_threads, last=last)
        of = cx.options.default_fp if dtype is None else cx.dtype(dtype, argument_node(call, 0))
        tile = Tile(shared_array(cx, (cx.block_threads, size), of), call)
        inlined(cx, call, fill, tile.mem)
        return tile

    return lower


def _eye(cx: Context, call: ast.Call, tile: Value) -> Value:
    inlined(cx, call, tiles.eye, tile.tile.mem)
    return Obj(None)


def _real(cx: Context, call: ast.Call, name: str, tile: Tile) -> None:
    """Raises QL1403 for a tile of integers."""
    dtype = tile.mem.buffer.dtype
    if not dtype.is_float:
        raise cx.fail("QL1403", call, op=name, dtype=f"a tile of {dtype}", text="...")


def _cholesky(cx: Context, call: ast.Call, tile: Value, eps: Value) -> Value:
    _real(cx, call, "cholesky_", tile.tile)
    dtype = tile.tile.mem.buffer.dtype
    inlined(cx, call, tiles.cholesky, tile.tile.mem, cx.num(cx.argument(call, 1, eps), dtype))
    return Obj(None)


def _solve(cx: Context, call: ast.Call, tile: Value, b: Value, lower: Value | None) -> Value:
    _real(cx, call, "solve_triangular_", tile.tile)
    if b.tile is None or b.tile.size != tile.tile.size or b.tile is tile:
        raise cx.fail("QL1430", argument_node(call, 1), op="solve_triangular_",
                      want=f"another tile of {tile.tile.size} x {tile.tile.size}",
                      what="the same one" if b.tile is tile else b.describe())  # fmt: skip
    if lower is not None and cx.known(lower, "QL1610", call, op="solve_triangular_") is not True:
        raise cx.fail("QL1721", call)
    inlined(cx, call, tiles.solve_triangular, tile.tile.mem, b.tile.mem)
    return Obj(None)


def _outer(cx: Context, call: ast.Call, a: Value, b: Value) -> Value:
    row = b.slab is not None and b.slab.is_row
    return Outer(cx.num(cx.argument(call, 0, a)), b if row else cx.num(cx.argument(call, 1, b)))


def _rows() -> Iterator[Builtin]:
    for name, size in SIZES.items():
        for kind, what in (("zeros", "of zeros"), ("eye", "with ones on its diagonal, zeros elsewhere")):
            doc = f"A tile of {size} x {size} numbers {what}; dtype: default_fp unless it is given."
            lower = _made(size, getattr(tiles, kind))
            yield Builtin(f"{name}.{kind}", ("dtype=",), lower, doc, home=f"simt.{name}")


ROWS: tuple[Builtin, ...] = (
    *_rows(),
    Builtin("Tile.eye_", ("tile",), _eye, "Makes it the identity.", home="library"),
    Builtin("Tile.cholesky_", ("tile", "eps"), _cholesky, "Replaces the lower triangle by the Cholesky factor.",
            home="library"),
    Builtin("Tile.solve_triangular_", ("tile", "B", "lower="), _solve, "Replaces B by the X with X @ L.T = B.",
            home="library"),
    Builtin("outer", ("a", "b"), _outer, "For t -= qd.outer(a, b) and t += ...: each thread gives an element of the "
            "column a and of the row b, which may also be a row of an array, a[i, k:l]."),
)  # fmt: skip
