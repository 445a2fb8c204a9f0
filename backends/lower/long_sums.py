"""A long loop that only adds up, shared by threads that run together, where a task has few iterations.

    offload struct_for bounds { yield 0, n } do (i) {
      for j in 0..m carry s = a { s + f(i, j) }
      store @y[i], s
    }                                                    becomes

    offload struct_for bounds { yield 0, 0, n, 32 } do (i, w) {
      for j in w..m step 32 carry p = (w == 0 ? a : -0) { p + f(i, j) }
      s = group_reduce add p
      if w == 0 { store @y[i], s }
    }

One thread for each of few iterations leaves most of a GPU without work, and waits for each element that it reads. The
sum is rounded in another order.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from quadrants_lab.analysis.alias import memory_classes
from quadrants_lab.analysis.effects import touched
from quadrants_lab.backends.lower.blocks import met
from quadrants_lab.backends.reductions import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import f32, f64, i32, u32
from quadrants_lab.ir.walk import end_of, rewrite, types_of, uses, walk

# Up to how many iterations a loop is shared, and from how many trips for each of the threads on, by what it reads: rows
# of its own, which threads that share it read at once, and one thread a line at a time; elements that neighbouring
# iterations read at once, and threads that share a loop do not; what all iterations read. Measured on an H200 by
# matrix-vector products, n-body sums and their gradients.
ROWS, COLUMNS, SAME = (1 << 22, 2), (1 << 12, 16), (1 << 15, 16)
ROWS_OF_SUMS = (1 << 22, 16)  # where the loop adds to elements too: neighbouring iterations meet there
SUMMED = (f32, f64, i32, u32)  # what threads that run together can add up
_ALONE = (N.Random, N.Builtin, N.Assert, N.Print, N.Barrier, N.AdStackAlloca, N.StackUse, N.Exit, N.While, N.Call)


@dataclass(frozen=True, slots=True)
class LowerLongSums(Parametrised):
    """Guarantees that no thread goes alone through a long loop that only adds up, in a task of few iterations, where
    both numbers are known. ``subgroup``: how many neighbouring threads run together, a power of two; 1: nothing is
    done."""

    subgroup: int = 1

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        found = [_found(kernel, task, self.subgroup) if self.subgroup > 1 else None for task in kernel.tasks]
        if not any(found):
            return kernel
        b = Builder(kernel.next_id, types_of(kernel.body))
        body = tuple(_task(b, t, at, self.subgroup) if at else t for t, at in zip(kernel.tasks, found, strict=True))
        return replace(kernel, body=body, next_id=b.next_id)


@dataclass(frozen=True, slots=True)
class _Sum:
    """The loop, and its first number; what stands before it and has no effect; and what one thread does afterwards."""

    loop: N.For
    begin: int
    before: N.Block
    after: N.Block


def _found(kernel: N.Kernel, task: N.Offload, subgroup_size: int) -> _Sum | None:
    """The one loop that takes the task's time, if threads can share it: what it does to memory is to add to elements
    that the task never reads, and no thread alone has an effect before it."""
    if task.kind not in ("range_for", "struct_for") or task.block_dim:
        return None
    if any(isinstance(s, _ALONE) for s in walk(task.body)):
        return None
    loops = [n for n, s in enumerate(task.body) if isinstance(s, N.Loop)]
    if len(loops) != 1:
        return None
    at, loop = loops[0], task.body[loops[0]]
    if not isinstance(loop, N.For) or loop.step != N.NO_ID or loop.threads:
        return None
    known = {s.id: s.value for s in (*task.bounds, *task.body) if isinstance(s, N.Const)}
    begin, end = known.get(loop.begin), known.get(loop.end)
    if begin is None or end is None or begin < 0:
        return None
    most, trips = _limits(task, loop)
    if end - begin < trips * subgroup_size or not loop.index.type.holds(end + subgroup_size):
        return None
    box = [(known[low], known[high]) for _, low, high in task.box() if low in known and high in known]
    if len(box) < len(task.indices) or not 0 < prod(high - low for low, high in box) <= most:
        return None
    classes = memory_classes(kernel)
    late = _late(task.body[:at], loop, classes)
    if late is None or not _adds(task, loop, classes):
        return None
    early = tuple(s for s in task.body[:at] if not isinstance(s, N.Effect))
    after = (*late, *task.body[at + 1 : -1])
    added = {classes[b] for b in touched(loop.body, N.Atomic)}
    after = rewrite(after, lambda s: met(s) if isinstance(s, N.Access) and classes[s.buffer] in added else s)
    return _Sum(loop, begin, early, after)


def _limits(task: N.Offload, loop: N.For) -> tuple[int, int]:
    """`ROWS`, `ROWS_OF_SUMS`, `COLUMNS` or `SAME`."""
    mine, limits = {p.id for p in task.indices}, SAME
    adds = any(isinstance(s, N.Effect) for s in walk(loop.body))
    about = {id: {id} for id in (*mine, loop.index.id)}  # a value -> the indices that it depends on
    for s in walk(task.body):
        about.setdefault(s.id, set()).update(*(about.get(i, ()) for i in s.operands()))
        if isinstance(s, N.Load) and s.index:
            last, *others = (about.get(i, set()) for i in reversed(s.index))
            if task.indices[-1].id in last and loop.index.id not in last:
                limits = COLUMNS if loop.index.id in set().union(*others) else limits
            elif loop.index.id in last and any(mine & o for o in others) and limits is SAME:
                limits = ROWS_OF_SUMS if adds else ROWS
    return limits


def _late(before: N.Block, loop: N.For, classes: Mapping[str, str]) -> list[N.Stmt] | None:
    """The effects of what stands before the loop, if they may come after it: what they write nothing else touches until
    then."""
    late: list[N.Stmt] = []
    written: set[str] = set()
    for s in (*before, loop):
        if any(classes[b] in written for b in touched((s,))):
            return None
        if isinstance(s, N.Store):
            late.append(s)
            written.add(classes[s.buffer])
        elif s is not loop and any(isinstance(inner, N.Effect) for inner in walk((s,))):
            return None
    return late


def _adds(task: N.Offload, loop: N.For, classes: Mapping[str, str]) -> bool:
    """Whether the loop only adds up, in values that it carries and in memory."""
    used, made = uses(task.body), {s.id: s for s in loop.body if isinstance(s, N.Op)}
    for p, last in zip(loop.carried, loop.body[-1].operands(), strict=True):
        sum = made.get(last)
        if p.type not in SUMMED or sum is None or sum.prim not in ("add", "sub") or used[last] != 1:
            return False
        if used.get(p.id) != 1 or (p.id != sum.args[0] and (sum.prim == "sub" or p.id != sum.args[1])):
            return False
    accesses = [s for s in walk(task.body) if isinstance(s, N.Access)]
    adds = {s.id for s in accesses if isinstance(s, N.Atomic) and s.op in ("add", "sub") and s.id not in used}
    others = {classes[s.buffer] for s in accesses if s.id not in adds}
    return all(
        isinstance(s, N.Atomic) and s.id in adds and classes[s.buffer] not in others
        for s in walk(loop.body) if isinstance(s, N.Effect)
    )  # fmt: skip


def _task(b: Builder, task: N.Offload, found: _Sum, subgroup_size: int) -> N.Offload:
    b.span = task.span
    ends, k = end_of(task.bounds).values, len(task.indices)
    with b.block() as bounds:
        b.stmts += task.bounds[:-1]
        b.yield_(*ends[:k], b.const(0, i32), *ends[k:], b.const(subgroup_size, i32))
    place, loop = b.param(i32, "w"), found.loop
    with b.block() as body:
        b.stmts += found.before
        b.span, t = loop.span, loop.index.type
        first = b.op("eq", place.id, b.const(0, i32))
        start = b.op("add", b.cast(place.id, t), b.const(found.begin, t))
        inits = tuple(
            b.op("select", first, init, b.const(identity("add", p.type), p.type))
            for p, init in zip(loop.carried, loop.inits, strict=True)
        )
        parts = tuple(b.param(p.type, p.name) for p in loop.results)
        shared = rewrite(loop.body, met)
        b.add(
            replace(loop, id=b.fresh(), begin=start, inits=inits, body=shared, results=parts, reverse=False,
                    step=b.const(subgroup_size, t))
        )  # fmt: skip
        for whole, part in zip(loop.results, parts, strict=True):
            b.add(N.GroupReduce(whole.id, whole.type, "add", part.id, threads=subgroup_size))
        if not loop.carried:  # the first thread may overwrite what others read, and waits for nobody without a sum
            here = b.add(N.GroupReduce(b.fresh(), i32, "add", b.cast(first, i32), threads=subgroup_size))
            first = b.op("and", first, b.op("ne", here, b.const(0, i32)))
        with b.when(first):
            b.stmts += found.after
        b.yield_()
    b.span = None
    return replace(task, bounds=tuple(bounds), indices=(*task.indices, place), body=tuple(body))
