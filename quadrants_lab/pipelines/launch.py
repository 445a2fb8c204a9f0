"""Lists the passes of a forward launch, in order: from the front end's kernel to tasks, and from tasks to code that
computes values. Nothing here imports what only derivatives need, nor passes that few kernels need."""

from quadrants_lab.ir.buffers import Buffer
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.nodes import Choice, Exit, For, If, Kernel, Offload, Pass, Store, While
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.passes import where
from quadrants_lab.passes.atomics import plain_atomics, privatize_atomics
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce, drop_unused_gradients
from quadrants_lab.passes.distances import mark_distances
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.licm import licm
from quadrants_lab.passes.lower_prims import lower_custom_jvp
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.trust_bounds import trust_bounds

Passes = tuple[Pass, ...]

# passes of debug builds
check_bounds = lazily("passes.check_bounds", "check_bounds")
check_division = lazily("passes.check_bounds", "check_division")

split_blocks = where(Offload, "passes.split_blocks", "split_blocks", lambda s: s.block_dim)
structure_exits = where(Exit, "passes.structure_exits", "structure_exits")
unroll_local_arrays = where(Choice, "passes.unroll_local_arrays", "unroll_local_arrays")
over_cells = where(If, "passes.over_cells", "over_cells")
spare_pages = where(Store, "passes.over_cells", "spare_pages")
peel_edges = where(For, "passes.peel_edges", "peel_edges")
unroll_whiles = where(While, "passes.host_loops", "unroll_whiles")
thread_rows = where(For, "passes.host_loops", "thread_rows", lambda s: s.threads)


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
ON_HOST: Passes = (over_cells, spare_pages, peel_edges, unroll_whiles, thread_rows)


def for_host(buffers: dict[str, Buffer]) -> Passes:
    """`ON_HOST` for a kernel with such a layout, or with memory in pages or of such blocks, else nothing."""
    return ON_HOST if any(b.role == "block" or b.counts_cells or b.order for b in buffers.values()) else ()


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
