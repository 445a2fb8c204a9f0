"""Which passes run, in which order: data."""

from __future__ import annotations

from quadrants_lab.ir.nodes import Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.passes.check_bounds import check_bounds, check_division
from quadrants_lab.passes.hoist import hoist
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.simplify import simplify
from quadrants_lab.passes.structure_exits import structure_exits

SIMPLIFY: tuple[Pass, ...] = (simplify,)

# from the front end's kernel to tasks; what a check needs must be looked at before anything is folded away
FRONT: tuple[Pass, ...] = (simplify, structure_exits, offload, hoist, simplify)


def front(options: CompileOptions) -> tuple[Pass, ...]:
    """The passes between front end and backend (or derivative) under these options."""
    checks: tuple[Pass, ...] = ()
    if options.check_out_of_bound or options.debug:
        checks += (check_bounds,)
    if options.debug:
        checks += (check_division,)
    return (*checks, *FRONT)
