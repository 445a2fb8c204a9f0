"""In a task with few iterations, lets the threads of a group share a long loop that only sums.

    offload struct_for bounds { yield 0, n } do (i) {
      for j in 0..m carry s = a { s + f(i, j) }
      store @y[i], s
    }                                                    becomes

    offload struct_for bounds { yield 0, 0, n, 32 } do (i, w) {
      for j in w..m step 32 carry p = (w == 0 ? a : -0) { p + f(i, j) }
      s = group_reduce add p
      if w == 0 { store @y[i], s }
    }

With one thread for each of few iterations, most of a GPU would be idle, and each thread would wait for every element
that it reads. The shared loop adds in another order, so the sum is rounded differently.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from quadrants_lab.analysis.effects import memory_classes, touched
from quadrants_lab.backends.lower.blocks import met
from quadrants_lab.backends.lower.sums import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import f32, f64, i32, u32
from quadrants_lab.ir.walk import constants, end_of, find, of_kind, rewrite, rules, types_of, uses, walk

# The limits (most iterations of the task, fewest trips for each thread) within which a loop is shared. They depend on
# what the loop reads. ROWS: each iteration reads its own row; the threads that share the loop read a row together,
# while a single thread would read one cache line at a time. COLUMNS: neighbouring iterations read neighbouring
# elements, the threads that share a loop do not. SAME: all iterations read the same elements. Measured on an H200 with
# matrix-vector products, n-body sums and their gradients.
ROWS, COLUMNS, SAME = (1 << 22, 2), (1 << 12, 16), (1 << 15, 16)
# limits if the loop also adds to elements of memory: neighbouring iterations add to the same ones
ROWS_OF_SUMS = (1 << 22, 16)
SUMMED = (f32, f64, i32, u32)  # the dtypes that the threads of a group can sum
_ALONE = (N.Random, N.Builtin, N.Assert, N.Print, N.Barrier, N.AdStackAlloca, N.StackUse, N.Exit, N.While, N.Call)


def lower_long_sums(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that the threads of a group share the loop of every task whose ``long_sum`` is set."""
    if not any(task.long_sum and task.kind != "threads" for task in kernel.tasks):
        return kernel
    b, classes = Builder(kernel.next_id, types_of(kernel.body)), memory_classes(kernel)
    body = tuple(_task(b, t, classes) if t.long_sum else t for t in kernel.tasks)
    return replace(kernel, body=body, next_id=b.next_id)


def is_long_sum(kernel: N.Kernel, task: N.Offload, subgroup_size: int) -> bool:
    """Whether one loop takes most of the time of a task with few iterations, and ``subgroup_size`` threads can share
    it. The loop may change memory only by additions to elements that the task never reads, and nothing before the loop
    may have a side effect that each thread would repeat. The numbers of iterations and trips must be known."""
    if task.kind not in ("range_for", "struct_for") or task.block_dim:
        return False
    if any(find(task.body, _ALONE)):
        return False
    loops = [n for n, s in enumerate(task.body) if isinstance(s, N.Loop)]
    if len(loops) != 1:
        return False
    at, loop = loops[0], task.body[loops[0]]
    if not isinstance(loop, N.For) or loop.step != N.NO_ID or loop.threads:
        return False
    known = constants((*task.bounds, *task.body))
    begin, end = known.get(loop.begin), known.get(loop.end)
    if begin is None or end is None or begin < 0:
        return False
    most, trips = _limits(task, loop)
    if end - begin < trips * subgroup_size or not loop.index.type.holds(end + subgroup_size):
        return False
    box = [(known[low], known[high]) for _, low, high in task.box() if low in known and high in known]
    if len(box) < len(task.indices) or not 0 < prod(high - low for low, high in box) <= most:
        return False
    classes = memory_classes(kernel)
    return _may_follow(task.body[:at], loop, classes) and _adds(task, loop, classes)


def _limits(task: N.Offload, loop: N.For) -> tuple[int, int]:
    """The limits within which the loop is shared (`ROWS`, `ROWS_OF_SUMS`, `COLUMNS` or `SAME`), chosen by how its
    iterations read memory."""
    mine, limits = {p.id for p in task.indices}, SAME
    adds = any(find(loop.body, N.Effect))
    about = {id: {id} for id in (*mine, loop.index.id)}  # id of a value -> the indices that it depends on
    for s in walk(task.body):
        about.setdefault(s.id, set()).update(*(about.get(i, ()) for i in s.operands()))
        if isinstance(s, N.Load) and s.index:
            last, *others = (about.get(i, set()) for i in reversed(s.index))
            if task.indices[-1].id in last and loop.index.id not in last:
                limits = COLUMNS if loop.index.id in set().union(*others) else limits
            elif loop.index.id in last and any(mine & o for o in others) and limits is SAME:
                limits = ROWS_OF_SUMS if adds else ROWS
    return limits


def _may_follow(before: N.Block, loop: N.For, classes: Mapping[str, str]) -> bool:
    """Whether the side effects of the statements before the loop may happen after it, because nothing in between
    accesses the elements that they write."""
    written: set[str] = set()
    for s in (*before, loop):
        if any(classes[b] in written for b in touched((s,))):
            return False
        if isinstance(s, N.Store):
            written.add(classes[s.buffer])
        elif s is not loop and any(find((s,), N.Effect)):
            return False
    return True


def _adds(task: N.Offload, loop: N.For, classes: Mapping[str, str]) -> bool:
    """Whether the loop only sums, in the values that it carries and in memory."""
    used, made = uses(task.body), {s.id: s for s in of_kind(loop.body, N.Op)}
    for p, last in zip(loop.carried, loop.body[-1].operands(), strict=True):
        sum = made.get(last)
        if p.type not in SUMMED or sum is None or sum.prim not in ("add", "sub") or used[last] != 1:
            return False
        if used.get(p.id) != 1 or (p.id != sum.args[0] and (sum.prim == "sub" or p.id != sum.args[1])):
            return False
    accesses = [*find(task.body, N.Access)]
    adds = {s.id for s in accesses if s.atomic in ("add", "sub") and s.id not in used}
    others = {classes[s.buffer] for s in accesses if s.id not in adds}
    effects = find(loop.body, N.Effect)
    return all(isinstance(s, N.Atomic) and s.id in adds and classes[s.buffer] not in others for s in effects)


def _task(b: Builder, task: N.Offload, classes: Mapping[str, str]) -> N.Offload:
    b.span = task.span
    ends, k = end_of(task.bounds).values, len(task.indices)
    at, loop = next((n, s) for n, s in enumerate(task.body) if isinstance(s, N.For))
    early, late = ([s for s in task.body[:at] if isinstance(s, N.Effect) == acts] for acts in (False, True))
    added = {classes[b] for b in touched(loop.body, N.Atomic)}
    after = rewrite(
        (*late, *task.body[at + 1 : -1]),
        rules({N.Atomic: lambda s: met(s) if classes[s.buffer] in added else s}),
    )
    with b.block() as bounds:
        b.stmts += task.bounds[:-1]
        b.yield_(*ends[:k], b.const(0, i32), *ends[k:], b.const(task.long_sum, i32))
    place = b.param(i32, "w")
    with b.block() as body:
        b.stmts += early
        b.span, t = loop.span, loop.index.type
        first = b.op("eq", place.id, b.const(0, i32))
        start = b.op("add", b.cast(place.id, t), loop.begin)
        inits = tuple(
            b.op("select", first, init, b.const(identity("add", p.type), p.type))
            for p, init in zip(loop.carried, loop.inits, strict=True)
        )
        parts = tuple(b.param(p.type, p.name) for p in loop.results)
        shared = rewrite(loop.body, rules({N.Atomic: met}))
        b.add(
            replace(loop, id=b.fresh(), begin=start, inits=inits, body=shared, results=parts, reverse=False,
                    step=b.const(task.long_sum, t))
        )  # fmt: skip
        for whole, part in zip(loop.results, parts, strict=True):
            b.add(N.GroupReduce(whole.id, whole.type, "add", part.id, threads=task.long_sum))
        # such a loop has no sum for which threads wait, so the first thread could overwrite what others still read
        if not loop.carried:
            here = b.add(N.GroupReduce(b.fresh(), i32, "add", b.cast(first, i32), threads=task.long_sum))
            first = b.op("and", first, b.op("ne", here, b.const(0, i32)))
        with b.when(first):
            b.stmts += after
        b.yield_()
    b.span = None
    return replace(task, bounds=tuple(bounds), indices=(*task.indices, place), body=tuple(body))
