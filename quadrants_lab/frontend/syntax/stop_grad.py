"""`qd.stop_grad` of a field: loads from it have no derivative in the current loop or kernel."""

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import rewrite


def without_derivatives(b: Builder, block: N.Block, stopped: set[str]) -> N.Block:
    """The block, with loads from the ``stopped`` buffers replaced by values whose derivative is 0."""
    if not stopped:
        return block

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if not isinstance(s, N.Load) or s.buffer not in stopped or not s.type.is_float:
            return s
        b.span = s.span
        with b.block() as made:
            value = b.add(replace(s, id=b.fresh()))
            zero = b.const(0, s.type)
            b.add(N.Op(s.id, s.type, "custom_jvp", (value, zero), name=s.name))
        return made

    return rewrite(block, one)
