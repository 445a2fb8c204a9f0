"""What the threads of a block share, and put aside, in memory of whoever runs the block: variables of the CPU's
worker, which stay in the nearest cache, or shared memory of the multiprocessor. Nothing else overlaps it, and the
memory that the runtime has for it is not touched."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.ir.walk import walk


def own_memory(kernel: N.Kernel, task: N.Offload, most: int) -> dict[str, N.Buffer]:
    """The buffers of role "block" that the task alone uses, with the shape of a block's part; none where they take more
    than so many bytes. Adjoints stay where they are: they must be 0 before a block begins."""
    found = {name: x for name, x in kernel.buffers.items() if x.role == "block"}
    if not found:
        return {}
    kept = {x.grad for x in found.values()}
    kept |= {s.buffer for t in kernel.tasks if t is not task for s in walk((t,)) if isinstance(s, N.Access)}
    own = {}
    for name, x in found.items():
        shape = tuple(n.value for n in x.extents[1:] if isinstance(n, SizeConst))
        if name not in kept:
            own[name] = replace(x, kind="shared", shape=shape, extents=(), ndim=len(shape), role="")
    size = sum(prod(x.shape or ()) * x.dtype.nbytes for x in own.values())
    return own if size <= most else {}
