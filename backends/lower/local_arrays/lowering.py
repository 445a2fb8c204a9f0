"""The lowering of local vectors and matrices, task by task."""

from dataclasses import replace

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends.lower.local_arrays.accesses import accesses
from quadrants_lab.backends.lower.local_arrays.arrays import arrays_of, tables_of
from quadrants_lab.backends.lower.local_arrays.rewriter import Lost, Rewriter
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.walk import types_of


@deeply_recursive
def lowered(kernel: N.Kernel) -> N.Kernel:
    b, buffers, body = Builder(kernel.next_id, types_of(kernel.body)), dict(kernel.buffers), []
    for task in kernel.body:
        made = _lowered(b, kernel, task, buffers) if isinstance(task, N.Offload) else None
        body.append(task if made is None else made)
    if all(new is old for new, old in zip(body, kernel.body, strict=True)):
        return kernel
    return replace(kernel, buffers=buffers, body=tuple(body), next_id=b.next_id)


def _lowered(b: Builder, kernel: N.Kernel, task: N.Offload, buffers: dict[str, N.Buffer]) -> N.Offload | None:
    """None where the task has no array and no table, or has to stay as it is."""
    groups = accesses(task.body)
    if not groups:
        return None
    arrays = arrays_of(task.body, groups, b.types, buffers)
    tables = tables_of(task.body, groups, arrays, b.types, {*buffers})
    if not arrays and not tables:
        return None
    try:
        body = Rewriter(b, task.body, arrays, tables, Ranges(kernel)).run()
    except Lost:
        return None
    made = *(a.buffer for a in arrays), *(t.buffer for t in tables)
    buffers |= {b.name: b for b in made}
    return replace(task, body=body)
