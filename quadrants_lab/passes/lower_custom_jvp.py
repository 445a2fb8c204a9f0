"""`lower_custom_jvp`: after differentiation, a custom_jvp is replaced by its value."""

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import rewritten, substitute, walk
from quadrants_lab.passes.dce import dce


def lower_custom_jvp(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no ``custom_jvp``: each is replaced by its first operand, and what was computed only for
    the second one is dropped. Runs after the last derivative is taken."""
    ids: dict[int, int] = {}
    for s in walk(kernel.body):
        if isinstance(s, N.Op) and s.prim == "custom_jvp":
            ids[s.id] = ids.get(s.args[0], s.args[0])
    if not ids:
        return kernel
    return dce(rewritten(replace(kernel, body=substitute(kernel.body, ids)), lambda s: () if s.id in ids else s))
