"""Lowers primitives that only derivatives and sizes of stacks use. After differentiation `lower_custom_jvp`
replaces each of `RENAMED` by its value. `lower_isqrt` replaces an integer square root by a loop over the bits of
its result."""

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import RENAMED
from quadrants_lab.ir.walk import find, rewritten, substitute, types_of, walk
from quadrants_lab.passes.dce import dce


def lower_custom_jvp(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no ``custom_jvp`` and no ``carried``: each is replaced by its first operand, and the
    statements that only its second operand needed are dropped. Runs after the last derivative is taken."""
    ids: dict[int, int] = {}
    for s in find(kernel.body, N.Op):
        if s.prim in RENAMED:
            ids[s.id] = ids.get(s.args[0], s.args[0])
    if not ids:
        return kernel
    return dce(rewritten(replace(kernel, body=substitute(kernel.body, ids)), lambda s: () if s.id in ids else s))


def lower_isqrt(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no ``isqrt``. Runs after `determine_ad_stack_size`, whose sizes may contain ``isqrt``
    but no loop."""
    if not any(s.prim == "isqrt" for s in walk(kernel.body)):
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))
    return rewritten(kernel, lambda s: b.made(_isqrt, b, s) if s.prim == "isqrt" else s, b)


def _isqrt(b: Builder, s: N.Op) -> None:
    """Emits one plus the greatest r with r * r <= a - 1, or 0 if a < 1; r is found bit by bit from the highest bit. The
    dtype is i32 or i64."""
    b.span, b.adjoint_of = s.span, s.adjoint_of
    t = s.type
    zero, one = b.const(0, t), b.const(1, t)
    below = b.op("sub", b.op("max", s.args[0], one), one)
    bit, root, result = b.param(t), b.param(t), b.param(t)
    with b.block() as body:
        more = b.op("or", root.id, b.op("shl", one, bit.id))
        # tests more * more > below, without overflow
        fits = b.op("le", more, b.op("floordiv", below, more))
        b.yield_(b.op("select", fits, more, root.id))
    bits = b.const(t.bits // 2, t)
    b.add(N.For(b.fresh(), bit, zero, bits, (root,), (zero,), tuple(body), (result,), reverse=True))
    grown = b.op("add", result.id, one)
    b.add(N.Op(s.id, t, "select", (b.op("gt", s.args[0], zero), grown, zero), name=s.name))
