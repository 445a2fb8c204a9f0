"""Moves vectors and matrices that are indexed at run time to an array in each iteration's own memory.

In SSA form an access at such an index is one select for each element, and a loop carries all elements:

    v0' = select(i == 0, x, v0); v1' = select(i == 1, x, v1); ...    becomes    store @v[i], x
    y = select(i == 0, v0, select(i == 1, v1, ... v7))               becomes    load @v[i]

The adjoints of such accesses (`accesses.py` has their forms) become accesses, too. Otherwise a gradient would need a
select and an addition for each element where its kernel needs one load.

Each element that a loop carries, that an If results in, or that an access changes has a slot in the array. The rewriter
tracks, statement by statement, which value each slot holds. Before a slot is overwritten, its value is loaded if it is
still read later. If a slot does not hold the value that it should hold, the value is stored. If a value that is needed
can neither be loaded nor stored in time, the task stays as it is.

A read in a loop may choose among values that are computed before the loop. These are stored in a constant table before
the loop.
"""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.walk import walk

FEWEST = 8  # arrays with so many elements or more are faster in memory than as selects
FEWEST_SELECTS = FEWEST - 1  # a kernel with fewer selects has no array that goes to memory
_lowered = lazily("backends.lower.local_arrays.rewriter", "lowered")  # most kernels import nothing for arrays


def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """An optimisation: moves vectors and matrices to memory where this pays. There they are buffers of kind "private".
    """
    selects = sum(s.prim == "select" for s in walk(kernel.body))
    return _lowered(kernel) if selects >= FEWEST_SELECTS else kernel
