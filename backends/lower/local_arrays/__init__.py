"""Lowers vectors and matrices whose index is computed at run time to memory of the iteration.

In SSA such an access is a select for each element, and a loop carries all elements:

    v0' = select(i == 0, x, v0); v1' = select(i == 1, x, v1); ...    becomes    store @v[i], x
    y = select(i == 0, v0, select(i == 1, v1, ... v7))               becomes    load @v[i]

The adjoints of such accesses (`accesses.py` has their forms) become accesses, too. Otherwise a gradient would take a
select and an addition for each element where its kernel takes one load.

Each element that a loop carries, that an If results in or that an access makes has a slot. The rewriter follows,
statement by statement, which value each slot holds. A value that is used after its slot has another one is loaded
before that; what a slot should hold and does not is stored. Where a value would be lost, the task stays as it is.

A read in a loop may choose among values that are computed before the loop and change nowhere. These are stored to a
table before the loop.
"""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.walk import walk

FEWEST = 8  # elements from which on memory is faster than selects
FEWEST_SELECTS = FEWEST - 1  # of a kernel with an array that is put in memory
_lowered = lazily("backends.lower.local_arrays.rewriter", "lowered")  # most kernels import nothing for arrays


def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """Guarantees nothing about single selects: it is an optimisation. Buffers of kind "private" are its arrays."""
    selects = sum(s.prim == "select" for s in walk(kernel.body))
    return _lowered(kernel) if selects >= FEWEST_SELECTS else kernel
