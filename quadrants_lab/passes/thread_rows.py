"""`thread_rows`: a loop over threads t that computes ``t // 16`` and ``t % 16`` becomes a loop over rows of 16
threads and a loop within the row, whose accesses are contiguous."""

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import rewrite, rewritten, substitute, types_of, walk


def thread_rows(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no loop over threads divides the number of the thread by just one constant. It is for backends
    that run a block in one thread."""
    b = Builder(kernel.next_id, types_of(kernel.body))

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        by = _row(s, consts) if isinstance(s, N.For) and s.threads else 0
        return b.made(_rows, b, s, by) if by else s

    consts = {s.id: s.value for s in walk(kernel.body) if isinstance(s, N.Const)}
    return rewritten(kernel, one, b)


def _row(loop: N.For, consts: dict[int, int | float]) -> int:
    """The constant by which the loop divides the number of the thread; 0 where there is none, or several."""
    if consts.get(loop.begin) != 0 or loop.carried:
        return 0
    by = {consts.get(s.args[1], 0) for s in walk(loop.body) if isinstance(s, N.Op) and _divides(s, loop.index.id)}
    (n,) = by if len(by) == 1 else (0,)
    return int(n) if n > 1 else 0


def _divides(s: N.Op, t: int) -> bool:
    return s.prim in ("floordiv", "mod") and s.args[0] == t


def _rows(b: Builder, loop: N.For, by: int) -> None:
    b.span, t, last = loop.span, loop.index.id, loop.body[-1]
    zero, size, row, place = b.const(0, i32), b.const(by, i32), b.param(i32, "row"), b.param(i32, "place")
    rows = b.op("floordiv", b.op("add", loop.end, b.const(by - 1, i32)), size)
    ids = {s.id: row.id if s.prim == "floordiv" else place.id
           for s in walk(loop.body) if isinstance(s, N.Op) and _divides(s, t)}  # fmt: skip
    with b.block() as outer:
        first = b.op("mul", row.id, size)
        threads = b.op("min", b.op("sub", loop.end, first), size)
        with b.block() as inner:
            ids[t] = b.op("add", first, place.id)
            b.stmts += substitute(rewrite(loop.body[:-1], lambda s: () if s.id in ids else s), ids)
            b.stmts.append(last)
        within = replace(loop, index=place, begin=zero, end=threads, body=tuple(inner), threads=False)
        b.add(replace(within, id=b.fresh()))
        b.yield_()
    b.add(replace(within, index=row, end=rows, body=tuple(outer)))
