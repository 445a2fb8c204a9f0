"""The passes of a launch: from the front end's kernel to tasks, and from tasks to what computes values. Nothing here
imports what only derivatives need."""

from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.passes.atomics import plain_atomics, privatize_atomics
from quadrants_lab.passes.check_bounds import check_bounds, check_division
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce, drop_unused_gradients
from quadrants_lab.passes.distances import mark_distances
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.host_loops import thread_rows, unroll_whiles
from quadrants_lab.passes.licm import licm
from quadrants_lab.passes.lower_prims import lower_custom_jvp
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.over_cells import over_cells
from quadrants_lab.passes.spare_pages import spare_pages
from quadrants_lab.passes.split_blocks import split_blocks
from quadrants_lab.passes.structure_exits import structure_exits
from quadrants_lab.passes.trust_bounds import trust_bounds
from quadrants_lab.passes.unroll_local_arrays import unroll_local_arrays

Passes = tuple[Pass, ...]


def simplify(kernel: Kernel) -> Kernel:
    """The cheap clean-up before and after other passes. Guarantees what `fold`, `cse` and `dce` do, in this order."""
    return dce(cse(fold(kernel)))


SIMPLIFY: Passes = (simplify,)

# From the front end's kernel to tasks. Checks come first, because folding would remove what they look at.
FRONT: Passes = (split_blocks, simplify, structure_exits, offload, unroll_local_arrays, licm, simplify)
CHECKED: Passes = (check_bounds, check_division, *FRONT)

# From tasks to what `primal` and the derivatives start from.
TASKS: Passes = (plain_atomics,)

MARKS: Passes = (privatize_atomics, mark_distances)

# The last passes for backends of the host: they lower sparse layouts and blocks of threads.
ON_HOST: Passes = (over_cells, spare_pages, unroll_whiles, thread_rows)


def front(options: CompileOptions) -> Passes:
    """The passes from the front end's kernel to tasks, under these options."""
    bounds = check_bounds if options.check_out_of_bound or options.debug else trust_bounds
    return (bounds, check_division, *FRONT) if options.debug else (bounds, *FRONT)


def primal(options: CompileOptions) -> Passes:
    """The passes from tasks to the kernel that computes values."""
    watched: Passes = ()
    if options.check_races or options.debug:
        from quadrants_lab.passes.watch_races import WatchRaces

        watched = (WatchRaces(options.aliases, options.suspect_races), dce, *SIMPLIFY)
    return (*watched, lower_custom_jvp, *MARKS, drop_unused_gradients)
