"""Moves vectors and matrices that are indexed at run time to an array in each iteration's own memory.

In SSA form an access at such an index reads all elements, a write makes all of them anew, and a loop carries all:

    %9, %10, ... = with_element [%i] = %x of (8) %1, %2, ...    becomes    store @v[%i], %x
    %y = element [%i] of (8) %1, %2, ...                         becomes    load @v[%i]

Each element that a loop carries, that an If results in, or that an access changes has a slot in the array. The rewriter
tracks, statement by statement, which value each slot holds. Before a slot is overwritten, its value is loaded if it is
still read later. If a slot does not hold the value that it should hold, the value is stored. If a value that is needed
can neither be loaded nor stored in time, the task stays as it is.

A read in a loop may choose among values that are computed before the loop. These are stored in a constant table before
the loop. `lower_elements` turns all other accesses into selects.
"""

from quadrants_lab.ir.nodes import Choice
from quadrants_lab.ir.passes import where

FEWEST = 8  # arrays with so many elements or more are faster in memory than as selects
_REWRITER = "backends.lower.local_arrays.rewriter"
lower_local_arrays = where(Choice, _REWRITER, "lower_local_arrays", lambda s: len(s.values) >= FEWEST)
lower_elements = where(Choice, "ir.elements", "lower_elements")
