"""Lowers vectors and matrices whose index is computed at run time to memory of the iteration.

In SSA such an access is a select for each element, and a loop carries all elements:

    v0' = select(i == 0, x, v0); v1' = select(i == 1, x, v1); ...    becomes    store @v[i], x
    y = select(i == 0, v0, select(i == 1, v1, ... v7))               becomes    load @v[i]

The adjoints of such accesses (`accesses.py` has their forms) become accesses, too. Otherwise a gradient would need a
select and an addition for each element where its kernel needs one load.

Each element that a loop carries, an If results in or an access makes has a slot. The rewriter tracks, statement by
statement, which value each slot holds. If a slot gets another value, and its old value is used later, the old value is
loaded first. If a slot should hold a value and does not, the value is stored. If a value would be lost, the task stays
as it is.

A read in a loop may choose among values that are computed before the loop and change nowhere. These are stored to a
table before the loop.
"""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.walk import walk

FEWEST = 8  # from so many elements on, memory is faster than selects
FEWEST_SELECTS = FEWEST - 1  # the fewest selects of a kernel with an array that goes to memory
_lowered = lazily("backends.lower.local_arrays.rewriter", "lowered")  # most kernels import nothing for arrays


def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """An optimisation: moves vectors and matrices to memory where this pays. Their arrays are buffers of kind
    "private"."""
    selects = sum(s.prim == "select" for s in walk(kernel.body))
    return _lowered(kernel) if selects >= FEWEST_SELECTS else kernel
