"""Emits the loops by which a chunk function runs its part of a task's iterations. A chunk is a range of iterations
that one worker thread takes at a time."""

from collections.abc import Callable

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.text import Function, ty
from quadrants_lab.backends.cost import large
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.backends.cpu.lanes import loop_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i32

# a function that emits a run of iterations along the last axis (begin, end), and then a jump to a label (done)
Row = Callable[[CpuBody, N.Offload, str, str, str], None]


def saturated_product(fn: Function, a: str, b: str) -> str:
    """Emits the product of two i64 that are not negative; if it exceeds an i64, the greatest i64. Otherwise a loop that
    would take centuries could wrap around to a loop of no iterations."""
    return fn.call("i64", "llvm.smul.fix.sat.i64", ("i64", a), ("i64", b), ("i32", "0"))


def iterations(body: CpuBody, p: N.Param, block: N.Block, begin: str, end: str, done: str) -> None:
    """Emits the innermost parallel loop, over a range of i64 that is never empty. With lanes, a trip runs a group of
    iterations side by side; in the last trip, only as many lanes take part as there are iterations left."""
    fn, t, signed = body.fn, ty(p.type).text, p.type.kind == "i"
    if body.width > 1:
        with fn.loop("group", "i64", begin, end, done, body.stride, hoisting=not large(block)) as at:
            group(body, p, block, at, end)
        return
    begin, end = fn.narrowed(begin, p.type), fn.narrowed(end, p.type)
    add, less = ("add nsw", "slt") if signed else ("add nuw", "ult")
    with fn.loop("iteration", t, begin, end, done, add=add, less=less, hoisting=not large(block)) as index:
        body.define(p.id, p.type, index)
        body.block(block)


def group(body: CpuBody, p: N.Param, block: N.Block, at: str, end: str) -> None:
    """Emits one group of iterations, one a lane: those whose last index is ``at``, ``at`` + 1, ..., as far as it is
    below ``end``."""
    fn, outer = body.fn, body.offsets
    body.offsets = dict(outer)
    left = fn.let(f"sub i64 {end}, {at}")
    lanes = fn.extreme("umin", left, body.stride)
    few = body.splat(fn.let(f"trunc i64 {lanes} to i32"), i32)
    body.mask = fn.let(f"icmp ult {ty(i32, body.width).text} {body.numbers(i32)}, {few}")
    body.define(p.id, p.type, fn.narrowed(at, p.type))
    body.linear.add(p.id)
    body.block(block)
    body.offsets = outer


def aggregated(
    wide: CpuBody, pause: int, body: CpuBody, task: N.Offload, begin: str, end: str, done: str
) -> None:
    """Emits the same loop as `iterations`, for a task that only adds, perhaps to several arrays, at an index read
    from data. Successive iterations often have the same index: a hot cell, or sorted data. Such additions are slow
    one by one, since each waits for a round trip to the cache. So ``wide`` first looks at a group of iterations. If
    all have the same index, their sum is added at once. Otherwise ``body`` runs them and the groups after them one
    by one, ``pause`` iterations in all."""
    fn = body.fn
    for p in task.indices[:-1]:
        wide.define(p.id, p.type, body.values[p.id])
    head, after = fn.label("group"), fn.label("next")
    separate = wide.scattered = fn.label("separate")
    (at,), again = fn.cycle(head, ("i64", begin))
    group(wide, task.indices[-1], task.body, at, end)
    behind, together = fn.let(f"add i64 {at}, {wide.stride}"), fn.block
    fn.jump(after)
    fn.start(separate)
    far = fn.extreme("smin", fn.let(f"add i64 {at}, {pause}"), end)
    single = fn.label("single")
    iterations(body, task.indices[-1], task.body, at, far, single)
    fn.start(single)
    fn.enter(after)
    then = fn.phi("i64", (behind, together), (far, single))
    again(then)
    fn.branch(fn.let(f"icmp slt i64 {then}, {end}"), head, done)


def adaptive(
    narrow: CpuBody, wide: CpuBody, task: N.Offload, begin: str, end: str, done: str
) -> None:
    """Emits the same loop as `iterations`, for a task whose inner loop makes a number of trips that depends on
    data. In lanes, a group waits for its longest iteration. So each group runs either in lanes, by ``wide``, or one
    iteration after the other, by ``narrow``. `ir.traits.Scheduled.wait` decides from the trips that the group's
    iterations will make, so the choice depends only on the data."""
    found = loop_of(task)
    assert found is not None
    (block, loop), p, fn = found, task.indices[0], wide.fn
    narrow.types[p.id] = p.type
    look, weigh, together, separate, on = (fn.label(name) for name in ("trips", "weigh", "together", "separate", "on"))
    with fn.loop("group", "i64", begin, end, done, wide.stride) as at:
        high = fn.extreme("smin", fn.let(f"add i64 {at}, {wide.stride}"), end)
        outer, narrow.offsets = narrow.offsets, dict(narrow.offsets)
        (i, before, longest), again = fn.cycle(look, ("i64", at), ("i64", "0"), ("i64", "0"))
        narrow.define(p.id, p.type, fn.narrowed(i, p.type))
        narrow.block(block)
        made = fn.let(f"sub i64 {memory.widen(narrow, loop.end)}, {memory.widen(narrow, loop.begin)}")
        made = fn.extreme("smax", made, "0")
        following, trips = fn.let(f"add i64 {i}, 1"), fn.let(f"add i64 {before}, {made}")
        most = fn.extreme("smax", longest, made)
        again(following, trips, most)
        fn.branch(fn.let(f"icmp slt i64 {following}, {high}"), look, weigh)
        narrow.offsets = outer
        fn.start(weigh)
        all_, waiting = fn.let(f"mul i64 {trips}, 16"), fn.let(f"mul i64 {most}, {task.wait}")
        fn.branch(fn.let(f"icmp sge i64 {all_}, {waiting}"), together, separate)
        fn.start(together)
        group(wide, p, task.body, at, end)
        fn.jump(on)
        fn.start(separate)
        iterations(narrow, p, task.body, at, high, on)
        fn.start(on)


def rows(body: CpuBody, task: N.Offload, begin: str, end: str, row_of: Row) -> None:
    """Runs the iterations ``begin`` to ``end`` of the box in row-major order, then jumps to the label "leave". Only the
    first iteration's indices need divisions."""
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
    row, after = "row", "row_end"
    (done, *places), again = fn.cycle(row, ("i64", begin), *(("i64", start) for start in starts))
    for n in range(k - 1):
        p = task.indices[n]
        body.define(p.id, p.type, fn.narrowed(fn.let(f"add i64 {begins[n]}, {places[n]}"), p.type))
    left = fn.let(f"sub i64 {end}, {done}")
    of_row = fn.let(f"sub i64 {extents[-1]}, {places[-1]}")
    n_row = fn.extreme("umin", left, of_row)
    start = fn.let(f"add i64 {begins[-1]}, {places[-1]}")
    row_of(body, task, start, fn.let(f"add i64 {start}, {n_row}"), after)
    fn.start(after)
    new_done = fn.let(f"add i64 {done}, {n_row}")
    carry, nexts = "true", [""] * k
    nexts[-1] = "0"
    for n in reversed(range(k - 1)):
        step = fn.let(f"add i64 {places[n]}, {fn.let(f'zext i1 {carry} to i64')}")
        carry = fn.let(f"icmp eq i64 {step}, {extents[n]}")
        nexts[n] = fn.let(f"select i1 {carry}, i64 0, i64 {step}")
    again(new_done, *nexts)
    fn.branch(fn.let(f"icmp ult i64 {new_done}, {end}"), row, "leave")
