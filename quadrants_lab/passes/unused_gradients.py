"""`drop_unused_gradients`: removes buffers of derivatives that a kernel does not touch."""

from dataclasses import replace

from quadrants_lab.analysis.effects import touched
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def drop_unused_gradients(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that every gradient or dual buffer is used by a statement, or has a gradient that a statement uses,
    so that a launch provides no others. The memory that blocks share in a gradient stays, because the kernels that
    run before the gradient get it from there."""
    used = touched(kernel.body) | {s.buffer for s in walk(kernel.body) if isinstance(s, N.ShapeOf)}
    used |= {name for name, b in kernel.buffers.items() if b.grad in used}
    if kernel.mode in ("reverse", "count"):
        used |= {name for name, b in kernel.buffers.items() if b.role == "block"}
    unused = {d for b in kernel.buffers.values() for d in (b.grad, b.dual) if d} - used
    if not unused:
        return kernel
    kept = {
        name: replace(b, grad="" if b.grad in unused else b.grad, dual="" if b.dual in unused else b.dual)
        if unused & {b.grad, b.dual}
        else b
        for name, b in kernel.buffers.items()
        if name not in unused
    }
    return replace(kernel, buffers=kept)
