"""Control flow that is decided twice. A gradient's forward slice pushes along the arms and trips that it takes. The
reverse computes the conditions again, and pops along the arms and trips that these say. If the compiler contracts or
reorders floating-point operations, the two computations may be rounded differently. A condition at its edge can then
be true in one and false in the other, so that a pop takes the value of another push, or finds an empty stack."""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import reached, walk

_NEVER_ROUNDED = ("neg", "abs", "min", "max", "select")


def decides_again(kernel: N.Kernel) -> bool:
    """Whether the task has stacks, and its reverse computes a condition of the forward slice again by float
    arithmetic."""
    return any(decides_by_arithmetic(s.body) for s in walk(kernel.body) if isinstance(s, N.AdStackGuard))


def decides_by_arithmetic(block: N.Block) -> bool:
    """Whether a condition or a loop bound in the block is computed from results of float arithmetic."""
    ops = {s.id: s for s in walk(block) if isinstance(s, N.Op)}
    decisions = [s.cond for s in walk(block) if isinstance(s, N.If)]
    decisions += [v for s in walk(block) if isinstance(s, N.For) for v in (s.begin, s.end)]
    steps = reached(decisions, lambda v: ops[v].args if v in ops else ())
    return any(v in ops and ops[v].type.is_float and ops[v].prim not in _NEVER_ROUNDED for v in steps)
