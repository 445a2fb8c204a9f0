"""The counting slice: the forward slice that only counts pushes, exact for any loop."""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.adstack.size import counted_stacks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i64
from quadrants_lab.ir.walk import map_blocks, types_of, walk

DEPTH = "depth"  # and the id of a stack: the "ret" buffer that gets its depth


def counting_kernel(kernel: N.Kernel) -> N.Kernel | None:
    """For a sized reverse kernel: the kernel (mode "count") that leaves the greatest depth of each stack that needs
    counting in an i64 "ret" buffer named `DEPTH` and the stack's id; None where no stack does. Run dead-code
    elimination on it: values that were pushed are replaced by zeros, so only what steers control flow survives."""
    counted = counted_stacks(kernel)
    if not counted:
        return None
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    for stack in sorted(counted):
        buffers[f"{DEPTH}{stack}"] = N.Buffer(f"{DEPTH}{stack}", "ret", i64, 0, ())
    tasks: list[N.Stmt] = []
    for task in kernel.body:
        assert isinstance(task, N.Offload)
        stacks = [s.id for s in task.body if isinstance(s, N.AdStackAlloca) and s.id in counted]
        if stacks:
            tasks.append(_count_task(b, task, stacks, buffers))
        elif computes_temporaries(buffers, task):
            tasks.append(task)
    return replace(kernel, name=kernel.name, buffers=buffers, body=tuple(tasks), next_id=b.next_id, mode="count")


def computes_temporaries(buffers: dict[str, N.Buffer], task: N.Offload) -> bool:
    """Whether the task of a reverse kernel recomputes launch temporaries of the forward one."""
    temps = {b.name for b in buffers.values() if b.kind == "temp"} - {b.grad for b in buffers.values()}
    return any(isinstance(s, (N.Store, N.Atomic)) and s.buffer in temps for s in walk((task,)))


def _count_task(b: Builder, task: N.Offload, stacks: list[int], buffers: dict[str, N.Buffer]) -> N.Offload:
    def block(stmts: N.Block) -> N.Block:
        out: list[N.Stmt] = []
        for s in stmts:
            if isinstance(s, N.AdStackGuard) or (isinstance(s, (N.AdStackAlloca, N.AdStackPush)) and skip(s)):
                continue
            if isinstance(s, N.AdStackAlloca):
                s = replace(s, count_only=True)
            elif isinstance(s, N.AdStackPush):
                with b.block() as made:
                    zero = b.const(0, b.types[s.value])
                out += made
                s = replace(s, value=zero)
            out.append(map_blocks(s, block))
        return tuple(out)

    def skip(s: N.AdStackAlloca | N.AdStackPush) -> bool:
        return (s.id if isinstance(s, N.AdStackAlloca) else s.stack) not in stacks

    with b.block() as tail:
        for stack in stacks:
            depth = b.add(N.AdStackDepth(b.fresh(), i64, stack))
            b.atomic("max", buffers[f"{DEPTH}{stack}"], (), depth)
    body = block(task.body)
    return replace(task, body=(*body[:-1], *tail, body[-1]))
