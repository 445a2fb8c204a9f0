"""Lowers statements about tiles (squares of numbers, spread over the threads of a subgroup): ``t[:] = a[i:j,
k:l]``, ``a[i:j, k:l] = t``, ``t = u`` and ``t -= qd.outer(a, b)``."""

import ast
from typing import Any

from quadrants_lab.frontend.library import tiles
from quadrants_lab.frontend.syntax import funcs
from quadrants_lab.frontend.values import Mem, Num, Tuple, Value
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.tile import Outer, Tile, of_threads, use_blocks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType


def inlined(cx: Context, node: Any, fn: Any, *args: Value) -> None:
    """Inlines the library function ``fn``, so that its statements and errors are located at ``node``."""
    use_blocks(cx, node)
    funcs.inline(cx, node, fn.source, list(args), {}, hidden=True)


def write(cx: Context, place: Any, value: Value, node: ast.expr, source: ast.expr) -> None:
    """Lowers an assignment between tiles, or between a tile and rows and columns of memory, in either direction."""
    to, of = place.tile, value.tile
    tile, slab, fn = (of, place.slab, tiles.store) if to is None else (to, value.slab, tiles.load)
    if tile is not None and slab is not None and not slab.is_column and not slab.is_row:
        inlined(cx, node, fn, tile.mem, slab.mem, Tuple(slab.at), *slab.rows, *slab.columns)
    elif to is not None and of is not None and of.size == to.size:
        use_blocks(cx, node)
        to.overwrite(cx, of)
    else:
        raise cx.fail("QL1722", source, what=value.describe(), target=place.describe())


def update(cx: Context, place: Value, op: type, value: Value, node: ast.stmt, source: ast.expr) -> None:
    """Lowers ``tile += qd.outer(a, b)`` and ``tile -= ...``."""
    tile: Tile | None = place.tile
    if tile is None or not isinstance(value, Outer) or op not in (ast.Add, ast.Sub):
        raise cx.fail("QL1720", source, text=place.describe(), what=value.describe())
    cx.at(node)
    dtype = tile.mem.buffer.dtype
    a, b = cx.to(value.a, dtype), value.b
    if op is ast.Sub:
        a = cx.b.op("neg", a)
    use_blocks(cx, source)
    if b.slab is not None:
        args = (Num(a, dtype), b.mem, Tuple(b.at), *b.rows, *b.columns)
        inlined(cx, source, tiles.add_outer_of_row, tile.mem, *args)
    else:
        inlined(cx, source, tiles.add_outer, tile.mem, Num(a, dtype), _row(cx, cx.to(b, dtype), dtype))


def _row(cx: Context, number: int, dtype: DType) -> Mem:
    """Shared memory with the ``number`` of each thread. It is made once in a block of statements, so that several tiles
    can use it. The threads wait at a barrier before they write to it, because other threads may still read what the
    previous trip of a loop wrote."""
    block, row = cx.rows.get(number, (None, None))
    if row is None or block is not cx.b.stmts:
        cx.b.add(N.Barrier(cx.b.fresh()))
        row = of_threads(cx, number, dtype)
        cx.rows[number] = cx.b.stmts, row
    return row
