"""How many iterations fill any stack at all, where a condition keeps others out: the heap needs lanes for no more."""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.adstack.counting import computes_temporaries
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, u1
from quadrants_lab.ir.walk import map_blocks, types_of, walk

PASSING = "passing"  # and the number of a task: how many of its iterations push
_COSTLY = (N.For, N.While, N.Random)  # what is not worth running twice


def gate_kernel(kernel: N.Kernel) -> N.Kernel | None:
    """For a sized reverse kernel: the kernel (mode "count") that leaves in an i32 "ret" buffer ``passing<number>`` how
    many iterations of that task push; None where no condition in front of all its pushes does. Simplify it, then see
    `is_cheap`."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    tasks: list[N.Stmt] = []
    gated = False
    for number, task in enumerate(kernel.body):
        assert isinstance(task, N.Offload)
        counted = _count(b, task, number, buffers)
        gated |= counted is not None
        if counted is not None or computes_temporaries(buffers, task):
            tasks.append(counted or task)
    if not gated:
        return None
    return replace(kernel, buffers=buffers, body=tuple(tasks), next_id=b.next_id, mode="count")


def is_cheap(gates: N.Kernel) -> bool:
    """Whether the conditions are settled without running a loop or drawing a number."""
    return not any(isinstance(s, _COSTLY) for s in walk(gates.body))


def _count(b: Builder, task: N.Offload, number: int, buffers: dict[str, N.Buffer]) -> N.Offload | None:
    stacks = {s.id for s in task.body if isinstance(s, N.AdStackAlloca)}
    ahead = tuple(s for s in task.body[:-1] if not isinstance(s, (N.AdStackAlloca, N.AdStackGuard)))
    if task.kind == "serial" or not stacks or stacks - {s.stack for s in walk(ahead) if isinstance(s, N.AdStackPush)}:
        return None  # a segment of a checkpointed loop may push what its forward slice does not
    body, passes = _flagged(b, ahead)
    if passes is None:
        return None
    name = f"{PASSING}{number}"
    buffers[name] = N.Buffer(name, "ret", i32, 0, ())
    with b.block() as tail:
        b.atomic("add", buffers[name], (), b.cast(passes, i32))
    return replace(task, body=(*body, *tail, task.body[-1]))


def _flagged(b: Builder, block: N.Block) -> tuple[list[N.Stmt], int | None]:
    """The block without pushes, and a flag (u1) that says whether it pushes; None: it does whenever it runs."""
    out: list[N.Stmt] = []
    flags: list[int] = []
    always = False
    for s in block:
        if isinstance(s, N.AdStackPush):
            always = True
        elif not any(isinstance(inner, N.AdStackPush) for inner in walk((s,))):
            out.append(s)
        elif isinstance(s, N.If):
            arms = [_arm(b, a) for a in s.blocks()]
            flag = b.param(u1)
            flags.append(flag.id)
            out.append(replace(s, then=arms[0], orelse=arms[1], results=(*s.results, flag)))
        else:  # a loop that pushes; what it computes may steer a later condition
            always = True
            out.append(map_blocks(s, without_pushes))
    if always:
        return out, None
    with b.block() as made:
        passes = flags[0] if flags else b.const(False, u1)
        for f in flags[1:]:
            passes = b.op("or", passes, f)
    return [*out, *made], passes


def _arm(b: Builder, block: N.Block) -> N.Block:
    end = block[-1]
    assert isinstance(end, N.Yield)
    body, passes = _flagged(b, block[:-1])
    with b.block() as made:
        flag = b.const(True, u1) if passes is None else passes
    return (*body, *made, replace(end, values=(*end.values, flag)))


def without_pushes(block: N.Block) -> N.Block:
    return tuple(map_blocks(s, without_pushes) for s in block if not isinstance(s, N.AdStackPush))
