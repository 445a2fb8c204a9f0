"""`simplify`: the cheap clean-up that runs before and after other passes."""

from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce
from quadrants_lab.passes.fold import fold


def simplify(kernel: Kernel) -> Kernel:
    """Guarantees what `fold`, `cse` and `dce` do, in this order."""
    return dce(cse(fold(kernel)))
