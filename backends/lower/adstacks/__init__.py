"""Lowers adstacks to memory: allocas, pushes, pops and loads of the top become counters, slots, loads and stores.

The slots of a stack are a buffer of kind "heap", indexed [slot] where one iteration runs at a time and [slot][lane]
where many do, so that neighbouring lanes access neighbouring addresses. The number of slots is known only at launch:
the lowered kernel has two more scalar arguments for each stack, its capacity and the number of its last slot. The count
of slots in use is a buffer of kind "local". Flags are packed, 32 to a word.

Pushes are straight-line code: a push beyond capacity writes to the last slot and counts on. The adstack_guard, between
forward slice and reverse, becomes the only comparison of depths with capacities: an iteration that is over capacity on
any stack reports that (`Overflow`) and skips the reverse.

A backend chooses a `Layout`. `depths` has the counters, `slots` the memory, `guard` the comparison, `lockstep` stacks
that share a counter, and `loops` stacks whose slots are numbered by the trips of loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quadrants_lab.backends.lower.adstacks import depths, guard, slots
from quadrants_lab.backends.lower.adstacks.stack import Layout, Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import map_blocks, walk

__all__ = ["Layout", "lower_adstacks", "lowered", "stores_slots"]


def lower_adstacks(layout: Layout | Callable[[N.Kernel], Sequence[Layout]]) -> N.Pass:
    """The pass with one layout for all tasks, or with a function from the kernel to the layout of each task."""

    def lower_adstacks(kernel: N.Kernel) -> N.Kernel:
        """Guarantees that no adstack statement is left: stacks are counters and slots in memory, in the layout that the
        backend chooses. The id of a load of the top stays that of its value; a push and a pop give their id to the
        store that they become."""
        return lowered(kernel, [layout] * len(kernel.body) if isinstance(layout, Layout) else layout(kernel))

    return lower_adstacks


def lowered(kernel: N.Kernel, layouts: Sequence[Layout]) -> N.Kernel:
    """See `lower_adstacks`; ``layouts``: one for each task."""
    if not any(isinstance(s, N.AdStackAlloca) for s in walk(kernel.body)):
        return kernel
    buffers, args, next_id = dict(kernel.buffers), list(kernel.args), kernel.next_id
    body: list[N.Stmt] = []
    number = 0
    for task, layout in zip(kernel.tasks, layouts, strict=True):
        if any(isinstance(s, N.AdStackAlloca) for s in task.body):
            t = Task(layout, next_id, task, number)
            task = replace(task, body=_block(t, task.body))
            number, next_id = number + len(t.stacks), t.b.next_id
            for st in t.stacks.values():
                buffers |= {b.name: b for b in st.buffers()}
                args += t.args(st)
        body.append(task)
    return replace(kernel, buffers=buffers, args=tuple(args), body=tuple(body), next_id=next_id)


def stores_slots(kernel: N.Kernel, block: N.Block) -> bool:
    """Whether a block of a lowered kernel keeps values on adstacks."""
    return any(isinstance(s, N.Store) and kernel.buffers[s.buffer].kind == "heap" for s in walk(block))


def _block(t: Task, block: N.Block) -> N.Block:
    lower, outer = partial(_block, t), t.numbers
    t.numbers = dict(outer)
    with t.b.block() as out:
        for n, s in enumerate(block):
            if t.early_check and s is t.early_check.loop and not t.guarded:
                guard.lower_early(t, block[n:], lower)
                break
            t.b.span, t.b.adjoint_of = s.span, s.adjoint_of
            if type(s) in _RULES:
                _RULES[type(s)](t, s)
            elif isinstance(s, N.AdStackGuard):
                guard.lower(t, s, lower)
            else:
                out.append(map_blocks(s, lower))
                depths.after_loop(t, s)
    t.numbers = outer
    return tuple(out)


_RULES: dict[type, Callable[[Task, Any], None]] = {
    N.AdStackAlloca: depths.alloca,
    N.AdStackPush: slots.push,
    N.AdStackPop: depths.pop,
    N.AdStackLoadTop: slots.load_top,
    N.AdStackDepth: depths.depth,
}
