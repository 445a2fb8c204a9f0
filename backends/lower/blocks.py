"""Lowers loops over the threads of a block to work that the threads of a group share, with barriers.

    offload range_for .. do (block) { for threads t in 0..n { A } .. }    becomes, for groups of 64,

    offload range_for block_dim 64 .. do (block, w) { for t in w..n step 64 { A }  barrier .. }

The pass `split_blocks` has made these loops. Statements between them are computed by each thread of the group. The
threads wait for each other behind each loop, and behind each load between loops.
"""

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import end_of, rewrite, types_of, walk


@dataclass(frozen=True, slots=True)
class LowerBlocks(Parametrised):
    """Guarantees that a task over blocks in which nothing but the loops over threads has an effect is one of groups of
    threads. Several threads then run an iteration, so none of its atomics is private. ``group``: threads of a group; 0
    on devices where they cannot wait for each other: the pass does nothing then."""

    group: int = 0

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        fits = [self.group > 0 and _fits(task) for task in kernel.tasks]
        if not any(fits):
            return kernel
        b = Builder(kernel.next_id, types_of(kernel.body))
        body = tuple(_task(b, t, self.group) if fit else t for t, fit in zip(kernel.tasks, fits, strict=True))
        return replace(kernel, body=body, next_id=b.next_id)


def _fits(task: N.Offload) -> bool:
    """Whether groups may run the task: all effects are in loops over threads that carry no values, no thread can leave
    such a loop early, and none depends on how many random numbers another has drawn."""
    alone = (N.Assert, N.Random, N.AdStackAlloca, N.StackUse)
    one = task.kind == "range_for" and len(task.indices) == 1  # as `split_blocks` makes them
    loops = [s for s in walk(task.body) if isinstance(s, N.For) and s.threads] if one else []
    inside = {id(s) for loop in loops for s in walk(loop.body)}
    return bool(loops) and not any(loop.carried for loop in loops) and all(
        not isinstance(s, alone) and (id(s) in inside or not isinstance(s, N.Effect)) for s in walk(task.body)
    )


def _task(b: Builder, task: N.Offload, group: int) -> N.Offload:
    b.span = task.span
    begin, end = end_of(task.bounds).values
    with b.block() as bounds:
        b.stmts += task.bounds[:-1]
        b.yield_(begin, b.const(0, i32), end, b.const(group, i32))
    place = b.param(i32, "w")

    written = {s.buffer for s in walk(task.body) if isinstance(s, N.Write)}

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if isinstance(s, N.Load) and s.buffer in written:  # all threads read it before the first one changes it
            return [s, N.Barrier(b.fresh(), span=s.span)]
        return b.made(_shared, b, s, place.id, group) if isinstance(s, N.For) and s.threads else s

    indices = (*task.indices, place)
    return replace(task, bounds=tuple(bounds), indices=indices, body=rewrite(task.body, one), block_dim=group)


def _shared(b: Builder, loop: N.For, place: int, group: int) -> None:
    """The threads of the group share the loop and wait for each other behind it. A loop with a step compares unsigned
    numbers, but in a block that is not full a loop may end before 0, hence the max."""
    b.span = loop.span
    first, end, step = b.op("add", loop.begin, place), b.op("max", loop.end, b.const(0, i32)), b.const(group, i32)
    body = rewrite(loop.body, met)
    b.add(replace(loop, begin=first, end=end, body=body, step=step, reverse=False, threads=False))
    b.add(N.Barrier(b.fresh()))


def met(s: N.Stmt) -> N.Stmt:
    """An atomic whose element only this iteration changed, but several threads run the iteration now."""
    return replace(s, private=False, distance=-1, fission=0) if isinstance(s, N.Atomic) else s
