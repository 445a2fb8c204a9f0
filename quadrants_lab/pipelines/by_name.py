"""Every pass and every pipeline by its name, for `opt` and the panes of the notebook."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from quadrants_lab.adstack.counting import counting_kernel
from quadrants_lab.adstack.size import determine_ad_stack_size
from quadrants_lab.adstack.sparse_iterations import sparse_iterations
from quadrants_lab.autodiff.forward import forward
from quadrants_lab.autodiff.keeps import NOTHING, Keeps, put_back, save_overwritten
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.reverse import reverse_over, value_and_gradient
from quadrants_lab.autodiff.second import to_be_differentiated, with_tangents
from quadrants_lab.autodiff.sink import sink_sums
from quadrants_lab.autodiff.unroll import unroll
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends.lower.adstacks import Layout, lower_adstacks
from quadrants_lab.backends.lower.atomics import INTEGER, lower_atomics
from quadrants_lab.backends.lower.blocks import lower_blocks
from quadrants_lab.backends.lower.casts import FORMULAS, lower_casts, lower_formulas
from quadrants_lab.backends.lower.integers import lower_counts, lower_division, lower_integers, lower_orders
from quadrants_lab.backends.lower.local_arrays import lower_local_arrays
from quadrants_lab.backends.lower.long_sums import lower_long_sums
from quadrants_lab.backends.lower.math import lower_math
from quadrants_lab.backends.lower.near_sines import lower_near_sines
from quadrants_lab.backends.lower.random import lower_random
from quadrants_lab.backends.lower.tasks import lower_tasks
from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f32, u32, u64
from quadrants_lab.passes.check_bounds import check_bounds, check_division
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.licm import licm
from quadrants_lab.passes.lower_custom_jvp import lower_custom_jvp
from quadrants_lab.passes.lower_isqrt import lower_isqrt
from quadrants_lab.passes.narrow_stacks import narrow_stacks
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.over_cells import over_cells
from quadrants_lab.passes.plain_atomics import plain_atomics
from quadrants_lab.passes.privatize_atomics import privatize_atomics
from quadrants_lab.passes.reach import mark_reach
from quadrants_lab.passes.simplify import simplify
from quadrants_lab.passes.split_blocks import split_blocks
from quadrants_lab.passes.structure_exits import structure_exits
from quadrants_lab.passes.thread_rows import thread_rows
from quadrants_lab.passes.unroll_local_arrays import unroll_local_arrays
from quadrants_lab.passes.unroll_whiles import unroll_whiles
from quadrants_lab.passes.unused_gradients import drop_unused_gradients
from quadrants_lab.passes.watch_races import watch_races
from quadrants_lab.pipelines.derivatives import BOTH, COUNTING, TANGENT, gradient, kept_by
from quadrants_lab.pipelines.launch import CHECKED, FRONT, TASKS, Passes, primal


def _keeping(make: Callable[[Keeps], Pass]) -> Pass:
    """The pass that ``make`` returns for what its kernel saves for the gradient."""
    return wraps(make(NOTHING))(lambda kernel: make(kept_by(kernel))(kernel))


@wraps(counting_kernel)
def _counting(kernel: Kernel) -> Kernel:
    return counting_kernel(kernel) or replace(kernel, body=(), mode="count")


def list_pushing(kernel: Kernel) -> Kernel:
    """From a sized gradient, the kernel that lists the iterations which push; see `sparse_iterations`."""
    found = sparse_iterations(kernel)
    return found.lists if found is not None else replace(kernel, body=(), mode="count")


def split_pushing(kernel: Kernel) -> Kernel:
    """From a sized gradient, one that runs the iterations which push apart from the others; see `sparse_iterations`."""
    found = sparse_iterations(kernel)
    return found.split if found is not None else kernel


PASSES: dict[str, Pass] = {
    fn.__name__: fn
    for fn in (
        check_bounds, check_division, split_blocks, fold, cse, dce, simplify, structure_exits, offload,
        unroll_local_arrays, licm, plain_atomics, _keeping(save_overwritten), watch_races(suspect=True),
        lower_custom_jvp, privatize_atomics,
        mark_reach, over_cells, unroll_whiles, thread_rows, with_tangents, forward, to_be_differentiated,
        unroll((3, 3)), prepared, _keeping(reverse_over), value_and_gradient, sink_sums,
        narrow_stacks, determine_ad_stack_size, lower_isqrt, drop_unused_gradients, _counting, list_pushing,
        split_pushing, put_back, lower_blocks(64), lower_long_sums(32), lower_atomics({u32: INTEGER, f32: ("add",)}),
        lower_casts(), lower_failures, lower_counts, lower_division(),
        lower_formulas(*FORMULAS), lower_integers, lower_local_arrays, lower_math("exp", "log1p"), lower_near_sines,
        lower_orders, lower_random, lower_tasks(),
    )
} | {
    "lower_casts calls": lower_casts(calls=True),
    "lower_casts short": lower_casts(saturates=True, short=False),
    "lower_division calls": lower_division(calls=True),
    "lower_division remainder": lower_division(remainder=False),
    "lower_tasks group": lower_tasks({"add": (f32,)}),
}  # fmt: skip

# adstacks as memory: the layouts of CUDA and AMDGPU, of the CPU without lanes, and of Metal and Vulkan
PASSES |= {
    "lower_adstacks": lower_adstacks(Layout()),
    "lower_adstacks_alone": lower_adstacks(Layout(u64, lanes=False)),
    "lower_adstacks_lockstep": lower_adstacks(Layout(lockstep=True, numbered=True)),
}

PIPELINES: dict[str, Passes] = {
    "front": FRONT,
    "checked": CHECKED,
    "primal": (*TASKS, PASSES["save_overwritten"], *primal(CompileOptions())),
    "tangent": (*TASKS, *TANGENT),
    "gradient": (*TASKS, PASSES["reverse"], *gradient()[1:]),
    "both": (*TASKS, *BOTH),
    "counting": (PASSES["counting_kernel"], *COUNTING),
}


def passes_by_name(names: str) -> Passes:
    """The passes that a comma-separated text names; the name of a pipeline stands for its passes. The first unknown
    name is a KeyError."""
    keys = [name.strip().replace("-", "_") for name in names.split(",")]
    return tuple(fn for key in keys for fn in (PIPELINES.get(key) or (PASSES[key],)))
