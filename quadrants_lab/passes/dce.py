"""Removes dead code: `dce` removes statements, `drop_unused_gradients` the buffers of derivatives."""

from dataclasses import replace

from quadrants_lab.analysis.effects import touched
from quadrants_lab.analysis.needs import Needs, only
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find, reached, uses

_OUTSIDE = -1


def dce(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that every statement has a side effect, or defines something that one needs, directly or for its
    control flow. So there is no unused value, result or carried value; no If, loop (endless or not) or task without
    side effect; no write to a launch temporary that nothing reads; and no temporary that no statement accesses."""
    temps = {name for name, b in kernel.buffers.items() if b.kind == "temp"}
    unread = temps and temps - touched(kernel.body, N.Load)
    if unread and (atomics := [s for s in find(kernel.body, N.Atomic) if s.buffer in unread]):
        used = uses(kernel.body)
        unread -= {s.buffer for s in atomics if s.id in used}

    def effect(s: N.Stmt) -> bool:
        return isinstance(s, N.Effect) and not (unread and isinstance(s, N.Write) and s.buffer in unread)

    needs = Needs(effect)
    needs.of[_OUTSIDE] = ()
    needs.collect(kernel.body, _OUTSIDE, _OUTSIDE)
    body = only(kernel.body, reached(needs.effects, needs.of.__getitem__), effect)
    if body is kernel.body:
        return kernel
    made = replace(kernel, body=body, buffers=_named(kernel.buffers, body))
    return dce(made) if temps else made  # what was removed may have been the last read of a temporary


def _named(buffers: dict[str, N.Buffer], body: N.Block) -> dict[str, N.Buffer]:
    """The buffers without those temporaries that no statement accesses and that are neither grad nor dual of another
    buffer."""
    if all(b.kind != "temp" for b in buffers.values()):
        return buffers
    named = touched(body)
    named |= {of for n, b in buffers.items() if n in named or b.kind != "temp" for of in (b.grad, b.dual)}
    return {n: b for n, b in buffers.items() if b.kind != "temp" or n in named}


def drop_unused_gradients(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that every gradient or dual buffer is used by a statement, or has a gradient that a statement uses, so
    that a launch need not provide others. In a gradient kernel, the memory that the threads of a block share is not
    removed, because the kernels that run before the gradient get this memory from it."""
    used = touched(kernel.body) | {s.buffer for s in find(kernel.body, N.ShapeOf)}
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
