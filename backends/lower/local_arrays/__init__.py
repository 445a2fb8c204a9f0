"""Lowers vectors and matrices whose index is computed at run time to memory of the iteration.

In SSA such an access is a select for each element, and a loop carries all elements:

    v0' = select(i == 0, x, v0); v1' = select(i == 1, x, v1); ...    becomes    store @v[i], x
    y = select(i == 0, v0, select(i == 1, v1, ... v7))               becomes    load @v[i]

Each element that a loop carries, that an If results in or that a write makes has a slot. The rewriter follows,
statement by statement, which value each slot holds. A value that is used after its slot has another one is loaded
before that; what a slot should hold and does not is stored. Where a value would be lost, the task stays as it is.
"""

from dataclasses import replace

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends.lower.local_arrays.accesses import accesses
from quadrants_lab.backends.lower.local_arrays.arrays import arrays_of
from quadrants_lab.backends.lower.local_arrays.rewriter import Lost, Rewriter
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.walk import types_of


@deeply_recursive
def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """Guarantees nothing about single selects: it is an optimisation. Buffers of kind "private" are its arrays."""
    b, buffers, body = Builder(kernel.next_id, types_of(kernel.body)), dict(kernel.buffers), []
    for task in kernel.body:
        made = _lowered(b, kernel, task, buffers) if isinstance(task, N.Offload) else None
        body.append(task if made is None else made)
    if all(new is old for new, old in zip(body, kernel.body, strict=True)):
        return kernel
    return replace(kernel, buffers=buffers, body=tuple(body), next_id=b.next_id)


def _lowered(b: Builder, kernel: N.Kernel, task: N.Offload, buffers: dict[str, N.Buffer]) -> N.Offload | None:
    """None where the task has no such array, or has to stay as it is."""
    groups = accesses(task.body)
    if not groups:
        return None
    arrays = arrays_of(task.body, groups, b.types, buffers)
    if not arrays:
        return None
    try:
        body = Rewriter(b, task.body, arrays, Ranges(kernel)).run()
    except Lost:
        return None
    buffers |= {a.buffer.name: a.buffer for a in arrays}
    return replace(task, body=body)
