"""Puts loops into the form that reverse mode needs: a While counts its trips, a While with a checkpoint becomes a
For, and induction variables become formulas."""

from dataclasses import replace
from functools import partial

from quadrants_lab.autodiff.diagnostics import check_again
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import (
    end_of,
    find,
    of_kind,
    renamed,
    rewrite_in,
    rewritten,
    rules,
    substitute,
    types_of,
    uses,
    walk,
)


def prepared(kernel: N.Kernel) -> N.Kernel:
    """The kernel after `count_whiles`, `measure_whiles` and `rewrite_inductions`, which change loops only."""
    if not any(find(kernel.body, N.Loop)):
        return kernel
    return rewrite_inductions(measure_whiles(count_whiles(kernel)))


def count_whiles(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that the last carried value of every While is an i32 that counts its iterations from 0."""
    b = Builder(kernel.next_id)
    return rewritten(kernel, rules({N.While: lambda s: b.made(_counted, b, s)}), b, inner_first=True)


def _counted(b: Builder, loop: N.While) -> None:
    b.span = loop.span
    zero = b.const(0, i32)
    count, result = b.param(i32, "trips"), b.param(i32, "trips")
    end = end_of(loop.body)
    with b.block() as tail:
        b.yield_(*end.values, b.op("add", count.id, b.const(1, i32)))
    carried, inits, results = (*loop.carried, count), (*loop.inits, zero), (*loop.results, result)
    b.stmts.append(replace(loop, carried=carried, inits=inits, body=(*loop.body[:-1], *tail), results=results))


def measure_whiles(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no While has a checkpoint. Such a While becomes two loops: a While that only counts the
    iterations, and a For with a checkpoint that runs as many. Runs after `count_whiles`. Raises
    QuadrantsCompilationError if the loop draws random numbers or uses the value that an atomic in it returned."""
    b = Builder(kernel.next_id)

    def measured(s: N.While) -> N.Stmt | list[N.Stmt]:
        return b.made(_measured, b, s) if s.checkpoint else s

    return rewritten(kernel, rules({N.While: measured}), b, inner_first=True)


def _measured(b: Builder, loop: N.While) -> None:
    b.span = loop.span
    used = uses(loop.blocks()[0]) | uses(loop.blocks()[1])
    for s in walk((*loop.cond, *loop.body)):
        check_again(s, loop, s.id in used)
    first = renamed(_without_effects(replace(loop, checkpoint=False)), b.fresh)
    b.add(first)
    zero = b.const(0, i32)
    count, end = loop.carried[-1], end_of(loop.body)
    body = (*loop.body[:-1], replace(end, values=end.values[:-1]))
    carried, inits, results = loop.carried[:-1], loop.inits[:-1], loop.results[:-1]
    trips = first.results[-1].id
    b.add(N.For(loop.id, count, zero, trips, carried, inits, body, results, checkpoint=True, span=loop.span))


def _without_effects(s: N.While) -> N.While:
    """A copy of the loop without effects on memory. Each load in the copy names the load that it repeats."""

    dropped = dict.fromkeys((N.Write, N.Assert, N.Print), lambda i: ())
    return rewrite_in(s, rules({**dropped, N.Load: lambda i: replace(i, adjoint_of=i.id)}))


def rewrite_inductions(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that an integer carried as ``p = p + c``, with c from outside the loop, is read in the body as
    ``init + c * iteration``, which reverse mode recomputes instead of stashing. (In wrapping arithmetic both are the
    same value.) Runs after `count_whiles`, since the iteration of a While is its counter."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    return rewritten(kernel, rules({N.Loop: partial(induction_formulas, b)}), b)


def induction_formulas(b: Builder, loop: N.For | N.While) -> N.For | N.While:
    """The loop with formulas in place of its induction variables, as `rewrite_inductions` guarantees."""
    inside = {i for s in walk(loop.body) for i, _ in s.defs()} | {p.id for p in loop.params()}
    consts = {s.id: s for s in of_kind(loop.body, N.Const)}
    defs = {s.id: s for s in of_kind(loop.body, N.Op)}
    end = end_of(loop.body)
    ids: dict[int, int] = {}
    b.span = loop.span
    with b.block() as made:
        for n, p in enumerate(loop.carried):
            if p is loop.counter:
                continue
            step = defs.get(end.values[n])
            if not p.type.is_int or step is None or step.prim not in ("add", "sub") or p.id not in step.args:
                continue
            other = step.args[1] if step.args[0] == p.id else step.args[0]
            if other == p.id or (step.prim == "sub" and step.args[0] != p.id):
                continue
            if other in consts:
                c = b.const(consts[other].value, p.type)
            elif other not in inside:
                c = other
            else:
                continue
            moved = b.op("mul", b.cast(_iteration(b, loop), p.type), c)
            ids[p.id] = b.op(step.prim, loop.inits[n], moved, name=p.name)
    if not ids:
        return loop
    body = (*made, *substitute(loop.body[:-1], ids), end)
    body = (*body[:-1], end.with_operands(tuple(ids.get(v, v) for v in end.values)))
    return replace(loop, body=body)


def _iteration(b: Builder, loop: N.For | N.While) -> int:
    if isinstance(loop, N.While):
        return loop.carried[-1].id
    if loop.reverse:
        return b.op("sub", b.op("sub", loop.end, b.const(1, loop.index.type)), loop.index.id)
    return b.op("sub", loop.index.id, loop.begin)
