"""The lowering of a kernel's adstacks: each statement of a stack by what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quadrants_lab.backends.lower.adstacks import depths, guard, slots
from quadrants_lab.backends.lower.adstacks.layout import Layout
from quadrants_lab.backends.lower.adstacks.stack import Task
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import map_blocks


def lowered(kernel: N.Kernel, layouts: Sequence[Layout]) -> N.Kernel:
    """``layouts``: one for each task."""
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
