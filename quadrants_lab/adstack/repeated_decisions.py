"""Control flow that is decided twice: a gradient's forward slice pushes along the arms and trips that it takes, and the
reverse pops along those that it computes again. Contraction and the like round one computation in two ways, and then
a condition at its edge is true in one place and false in the other: the pops belong to other pushes, or to none."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import reached, walk

_NEVER_ROUNDED = ("neg", "abs", "min", "max", "select")


def decides_again(kernel: N.Kernel) -> bool:
    """Whether the reverse of a task with stacks decides by arithmetic what the forward slice has decided."""
    return any(decides_by_arithmetic(s.body) for s in walk(kernel.body) if isinstance(s, N.AdStackGuard))


def decides_by_arithmetic(block: N.Block) -> bool:
    """Whether the block computes a condition or a loop bound of its own from results of float arithmetic."""
    ops = {s.id: s for s in walk(block) if isinstance(s, N.Op)}
    decisions = [s.cond for s in walk(block) if isinstance(s, N.If)]
    decisions += [v for s in walk(block) if isinstance(s, N.For) for v in (s.begin, s.end)]
    steps = reached(decisions, lambda v: ops[v].args if v in ops else ())
    return any(v in ops and ops[v].type.is_float and ops[v].prim not in _NEVER_ROUNDED for v in steps)
