"""The order in which a chunk function runs the iterations of a task's box."""

from collections.abc import Callable
from typing import TypeVar

from quadrants_lab.backends._llvm.text import Function, ty
from quadrants_lab.backends.cost import large
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.ir import nodes as N

B = TypeVar("B", bound=CpuBody)
Row = Callable[[B, N.Offload, str, str, str], None]  # emits a run of the last index, then goes to a label


def saturated_product(fn: Function, a: str, b: str) -> str:
    """The product of two i64 that are not negative, or the greatest i64: a loop that would end after centuries must not
    wrap to one that runs nothing."""
    return fn.call("i64", "llvm.smul.fix.sat.i64", ("i64", a), ("i64", b), ("i32", "0"))


def iterations(body: CpuBody, p: N.Param, block: N.Block, begin: str, end: str, done: str) -> None:
    """The innermost parallel loop, over a range of i64 that is never empty."""
    fn, t, signed = body.fn, ty(p.type).text, p.type.kind == "i"
    if p.type.bits < 64:
        begin, end = fn.let(f"trunc i64 {begin} to {t}"), fn.let(f"trunc i64 {end} to {t}")
    add, less = ("add nsw", "slt") if signed else ("add nuw", "ult")
    with fn.loop("iteration", t, begin, end, done, add=add, less=less, hoisting=not large(block)) as index:
        body.define(p.id, p.type, index)
        body.block(block)


def rows(body: B, task: N.Offload, begin: str, end: str, row_of: Row[B]) -> None:
    """Runs the iterations ``begin`` to ``end`` of the box in row-major order, and leaves to the label "leave".
    Only the first iteration's indices take divisions."""
    fn, k = body.fn, len(task.indices)
    words = [body.bounds_at + 2 * n * L.WORD for n in range(k)]
    begins = [body.word(at) for at in words]
    extents = [body.word(at + L.WORD) if k > 1 else "" for at in words]
    for p in task.indices:
        body.types[p.id] = p.type
    if k == 1:
        first, past = (fn.let(f"add i64 {begins[0]}, {n}") for n in (begin, end))
        row_of(body, task, first, past, "leave")
        return
    rest, starts = begin, [""] * k
    for n in reversed(range(1, k)):
        starts[n] = fn.let(f"urem i64 {rest}, {extents[n]}")
        rest = fn.let(f"udiv i64 {rest}, {extents[n]}")
    starts[0] = rest
    before, row, after = fn.block, "row", "row_end"
    fn.jump(row)
    fn.start(row)
    done, done_line = fn.hole()
    places = [fn.hole() for _ in range(k)]
    for n in range(k - 1):
        p = task.indices[n]
        wide = fn.let(f"add i64 {begins[n]}, {places[n][0]}")
        value = wide if p.type.bits == 64 else fn.let(f"trunc i64 {wide} to {ty(p.type).text}")
        body.define(p.id, p.type, value)
    left = fn.let(f"sub i64 {end}, {done}")
    of_row = fn.let(f"sub i64 {extents[-1]}, {places[-1][0]}")
    n_row = fn.call("i64", "llvm.umin.i64", ("i64", left), ("i64", of_row))
    start = fn.let(f"add i64 {begins[-1]}, {places[-1][0]}")
    row_of(body, task, start, fn.let(f"add i64 {start}, {n_row}"), after)
    fn.start(after)
    new_done = fn.let(f"add i64 {done}, {n_row}")
    carry, nexts = "true", [""] * k
    nexts[-1] = "0"
    for n in reversed(range(k - 1)):
        step = fn.let(f"add i64 {places[n][0]}, {fn.let(f'zext i1 {carry} to i64')}")
        carry = fn.let(f"icmp eq i64 {step}, {extents[n]}")
        nexts[n] = fn.let(f"select i1 {carry}, i64 0, i64 {step}")
    fn.patch(done_line, f"{done} = phi i64 [{begin}, %{before}], [{new_done}, %{after}]")
    for (name, line), start, step in zip(places, starts, nexts, strict=True):
        fn.patch(line, f"{name} = phi i64 [{start}, %{before}], [{step}, %{after}]")
    fn.branch(fn.let(f"icmp ult i64 {new_done}, {end}"), row, "leave")
