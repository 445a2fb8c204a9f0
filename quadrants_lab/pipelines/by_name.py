"""Lists every pass and every pipeline by its name, for `opt` and the panes of the notebook."""

import re
from dataclasses import replace

from quadrants_lab.adstack import counting
from quadrants_lab.adstack.size import determine_ad_stack_size, narrow_stacks
from quadrants_lab.adstack.sparse_iterations import sparse_iterations
from quadrants_lab.autodiff.keeps import put_back
from quadrants_lab.autodiff.prepare import prepared
from quadrants_lab.autodiff.reverse import value_and_gradient
from quadrants_lab.autodiff.second import to_be_differentiated, with_tangents
from quadrants_lab.autodiff.sink import sink_sums
from quadrants_lab.autodiff.unroll import Unroll
from quadrants_lab.backends._gpu.failures import lower_failures
from quadrants_lab.backends._gpu.schedule import GpuSchedule
from quadrants_lab.backends.cpu.lanes import lower_lanes
from quadrants_lab.backends.cpu.schedule import CpuSchedule
from quadrants_lab.backends.lower import devices
from quadrants_lab.backends.lower.adstacks import LowerAdstacks
from quadrants_lab.backends.lower.aggregated_atomics import AggregateAtomics
from quadrants_lab.backends.lower.asserts import trust_asserts
from quadrants_lab.backends.lower.atomics import LowerAtomics
from quadrants_lab.backends.lower.blocks import LowerBlocks
from quadrants_lab.backends.lower.casts import LowerCasts, LowerFormulas
from quadrants_lab.backends.lower.cells import LowerCells
from quadrants_lab.backends.lower.far_values import SpillFarValues
from quadrants_lab.backends.lower.integers import LowerDivision, lower_counts, lower_integers, lower_orders
from quadrants_lab.backends.lower.local_arrays.rewriter import lower_local_arrays
from quadrants_lab.backends.lower.long_sums import lower_long_sums
from quadrants_lab.backends.lower.math import MATH, LowerMath
from quadrants_lab.backends.lower.near_sines import lower_near_sines
from quadrants_lab.backends.lower.offsets import LowerOffsets
from quadrants_lab.backends.lower.random import lower_random
from quadrants_lab.backends.lower.shallow import Shallow
from quadrants_lab.backends.lower.tasks import LowerTasks
from quadrants_lab.backends.wasm.lanes import LaneSchedule
from quadrants_lab.ir.elements import lower_elements
from quadrants_lab.ir.nodes import Kernel, Pass
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.passes import with_arguments
from quadrants_lab.ir.types import f32
from quadrants_lab.passes.atomics import plain_atomics, privatize_atomics
from quadrants_lab.passes.check_bounds import check_bounds, check_division
from quadrants_lab.passes.cse import cse
from quadrants_lab.passes.dce import dce, drop_unused_gradients
from quadrants_lab.passes.distances import mark_distances
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.host_loops import thread_rows, unroll_whiles
from quadrants_lab.passes.licm import licm
from quadrants_lab.passes.lower_prims import lower_custom_jvp, lower_isqrt
from quadrants_lab.passes.offload import offload
from quadrants_lab.passes.over_cells import over_cells, spare_pages
from quadrants_lab.passes.peel_edges import peel_edges
from quadrants_lab.passes.split_blocks import split_blocks
from quadrants_lab.passes.structure_exits import structure_exits
from quadrants_lab.passes.trust_bounds import trust_bounds
from quadrants_lab.passes.unroll_local_arrays import unroll_local_arrays
from quadrants_lab.passes.watch_races import WatchRaces
from quadrants_lab.pipelines.derivatives import (
    BOTH,
    COUNTING,
    TANGENT,
    Reverse,
    SaveOverwritten,
    forward,
    gradient,
)
from quadrants_lab.pipelines.launch import CHECKED, FRONT, TASKS, Passes, primal, simplify


def counting_kernel(kernel: Kernel) -> Kernel:
    """Makes, from a sized gradient, the kernel that counts the pushes of each stack; see `adstack.counting`."""
    return counting.counting_kernel(kernel) or replace(kernel, body=(), mode="count")


def list_pushing(kernel: Kernel) -> Kernel:
    """Makes, from a sized gradient, the kernel that lists the iterations which push; see `sparse_iterations`."""
    found = sparse_iterations(kernel)
    return found.lists if found is not None else replace(kernel, body=(), mode="count")


def split_pushing(kernel: Kernel) -> Kernel:
    """Makes, from a sized gradient, a gradient that runs pushing iterations separately; see `sparse_iterations`."""
    found = sparse_iterations(kernel)
    return found.split if found is not None else kernel


PASSES: dict[str, Pass] = {
    fn.__name__: fn
    for fn in (
        check_bounds, trust_bounds, check_division, split_blocks, fold, cse, dce, simplify, structure_exits, offload,
        unroll_local_arrays, licm, plain_atomics, SaveOverwritten(), WatchRaces(),
        lower_custom_jvp, privatize_atomics, mark_distances, over_cells, spare_pages, peel_edges, unroll_whiles,
        thread_rows, with_tangents, forward, to_be_differentiated,
        Unroll(), prepared, Reverse(), value_and_gradient, sink_sums,
        narrow_stacks, determine_ad_stack_size, lower_isqrt, drop_unused_gradients, counting_kernel, list_pushing,
        split_pushing, put_back, LowerBlocks(), lower_long_sums, LowerAtomics(), LowerCasts(), lower_failures,
        lower_counts, LowerDivision(), LowerFormulas(), lower_integers, lower_local_arrays, lower_elements, LowerMath(),
        trust_asserts,
        lower_near_sines, lower_orders, lower_random, Shallow(), CpuSchedule(), GpuSchedule(), LaneSchedule(),
        lower_lanes, LowerTasks(), LowerAdstacks(), LowerOffsets(), AggregateAtomics(), LowerCells(),
        SpillFarValues(),
    )
}

_FAST = CompileOptions()
_GPU = devices.first(GpuSchedule(4, 32, True), 64)

PIPELINES: dict[str, Passes] = {
    "front": FRONT,
    "checked": CHECKED,
    "primal": (*TASKS, SaveOverwritten(), *primal(CompileOptions())),
    "tangent": (*TASKS, *TANGENT),
    "gradient": (*TASKS, *gradient(None)),
    "both": (*TASKS, *BOTH),
    "counting": (counting_kernel, *COUNTING),
    "cpu": devices.cpu(CpuSchedule(8), lower_lanes, _FAST),
    "c": devices.c(),
    "cuda": devices.simt(_GPU, True, LowerMath(), lower_failures, 32),
    "amdgpu": devices.simt(devices.first(GpuSchedule(), 256), False, LowerMath(MATH, near=True), lower_failures, 1),
    "vulkan": devices.vulkan(_GPU, True, True, (f32,), lower_failures, False, _FAST),
    "metal": devices.metal(lower_failures),
    "wasm": devices.wasm(LaneSchedule(), lower_failures, _FAST),
}
_NAMES = re.compile(r"\s*([\w-]*)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def passes_by_name(names: str) -> Passes:
    """The passes that a comma-separated text names, each with its arguments in braces if it has any (`ir.passes`); the
    name of a pipeline stands for its passes. The first unknown name is a KeyError, a wrong argument a ValueError."""
    found: list[Pass] = []
    at = 0
    while at < len(names):
        m = _NAMES.match(names, at)
        if m is None:
            raise ValueError(f"expected names of passes with commas between, and found {names[at:]!r}")
        key, arguments, at = m[1].replace("-", "_"), m[2], m.end()
        if arguments is None:
            found += PIPELINES.get(key) or (PASSES[key],)
        else:
            found.append(with_arguments(PASSES[key], arguments))
    return tuple(found)
