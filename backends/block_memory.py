"""Memory that the threads of a block share, placed near the processor: in variables of the CPU's worker, which stay in
the nearest cache, or in shared memory of a GPU. The runtime's own memory for these buffers stays unused then."""

from dataclasses import replace
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.ir.walk import find


def own_memory(kernel: N.Kernel, task: N.Offload, most: int) -> dict[str, N.Buffer]:
    """The buffers of role "block" that only this task uses, as buffers of kind "shared" with the shape of one block's
    part; none where they take more than ``most`` bytes. Adjoints stay in global memory, because they must be 0 before a
    block begins."""
    found = {name: x for name, x in kernel.buffers.items() if x.role == "block"}
    if not found:
        return {}
    others = {x.grad for x in found.values()}
    others |= {s.buffer for t in kernel.tasks if t is not task for s in find((t,), N.Access)}
    used = {s.buffer for s in find((task,), N.Access)}
    own = {}
    for name, x in found.items():
        if name in others or name not in used:
            continue
        shape = tuple(n.value for n in x.extents[1:] if isinstance(n, SizeConst))
        own[name] = replace(x, kind="shared", shape=shape, extents=(), ndim=len(shape), role="")
    size = sum(prod(x.shape or ()) * x.dtype.nbytes for x in own.values())
    return own if size <= most else {}
