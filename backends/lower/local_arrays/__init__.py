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

from dataclasses import replace

from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.elements import Tests, select_element, select_result
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.nodes import Block, Choice, Element, Kernel, WithElement
from quadrants_lab.ir.passes import where
from quadrants_lab.ir.walk import find, map_blocks, same_or, types_of

FEWEST = 8  # arrays with so many elements or more are faster in memory than as selects
lower_local_arrays = where(
    Choice, "backends.lower.local_arrays.rewriter", "lower_local_arrays", lambda s: len(s.values) >= FEWEST
)


def lower_elements(kernel: Kernel) -> Kernel:
    """Guarantees that there is no `Element` and no `WithElement`: selects take their place."""
    if not any(find(kernel.body, Choice)):
        return kernel
    b = Builder(kernel.next_id, types_of(kernel.body))

    def block(stmts: Block, made: Tests) -> Block:
        with b.block() as out:
            for s in stmts:
                b.span, b.adjoint_of = s.span, s.adjoint_of
                if isinstance(s, Element):
                    select_element(b, s, made)
                elif isinstance(s, WithElement):
                    for k, r in enumerate(s.results):
                        select_result(b, s, k, r.id, made)
                else:
                    out.append(map_blocks(s, lambda inner: block(inner, dict(made))))
        return same_or(stmts, out)

    body = block(kernel.body, {})
    return replace(kernel, body=body, next_id=b.next_id)
