"""Lists, for every device, the passes that turn a kernel into statements for which the device's emitter has
instructions.

A device supplies passes of its own: the one that schedules its tasks, and those that need the layout of its launch
frame. Passes that only GPUs need are imported when a GPU asks for them.
"""

from quadrants_lab.backends.lower.adstacks import LowerAdstacks
from quadrants_lab.backends.lower.asserts import trust_asserts
from quadrants_lab.backends.lower.casts import LowerCasts, LowerFormulas
from quadrants_lab.backends.lower.cells import LowerCells
from quadrants_lab.backends.lower.far_values import SpillFarValues
from quadrants_lab.backends.lower.integers import LowerDivision, lower_counts, lower_integers, lower_orders
from quadrants_lab.backends.lower.local_arrays import lower_elements, lower_local_arrays
from quadrants_lab.backends.lower.math import MATH, LowerMath
from quadrants_lab.ir.nodes import Pass, Random
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.passes import where
from quadrants_lab.ir.prims import RENAMED
from quadrants_lab.ir.types import DType, f32, f64, i32, i64, u32, u64

Passes = tuple[Pass, ...]

# the dtypes that threads of a warp can exchange on the GPUs that LLVM compiles for
WIDE = (i32, u32, f32, i64, u64, f64)
# the operations by which threads of a warp can combine values there
EXCHANGED = ("add", "sub", "min", "max", "and", "or", "xor")

# accesses to local vectors and matrices: by memory where this pays, else by selects
ARRAYS: Passes = (lower_local_arrays, lower_elements)

lower_random = where(Random, "backends.lower.random", "lower_random")


def llvm(math: LowerMath, own: str = "") -> Passes:
    """Passes for devices whose code LLVM generates. ``math``: the elementary functions that the device lacks; those of
    f16 are lacking everywhere. ``own``: see `LowerFormulas`."""
    return (
        math, lower_random, LowerFormulas(("rsqrt", "isnan", "isinf", *RENAMED), own=own), LowerDivision(),
        lower_integers, LowerCasts(saturates=True),
    )  # fmt: skip


def clike(functions: tuple[str, ...] = (), formulas: tuple[str, ...] = ()) -> Passes:
    """Passes for languages like C. ``functions`` and ``formulas``: further primitives that the language lacks."""
    return (
        lower_random, LowerMath(functions), LowerFormulas(("rsqrt", *RENAMED, *formulas)),
        LowerDivision(calls=True), lower_integers, lower_counts, lower_orders, LowerCasts(calls=True),
    )  # fmt: skip


def cpu(schedule: Pass, lower_lanes: Pass, options: CompileOptions) -> Passes:
    own = "estimated" if options.fast_math else ""
    return (
        trust_asserts, *ARRAYS, schedule, LowerCells(pages=True, wide=True),
        LowerAdstacks(u64, lanes=False, numbered=True), lower_lanes, *llvm(LowerMath(), own), SpillFarValues(),
    )  # fmt: skip


def c() -> Passes:
    from quadrants_lab.backends.lower.atomics import LowerAtomics

    return (
        trust_asserts, LowerCells(wide=True), *ARRAYS, LowerAdstacks(u64, lanes=False),
        *clike(formulas=("isnan", "isinf")), LowerAtomics(one_thread=True),
    )  # fmt: skip


def first(schedule: Pass, group: int, least: int = 0) -> Passes:
    """The first passes on a GPU. The host runs them too, because they decide how many threads a launch has. ``group``,
    ``least``: see `LowerBlocks`."""
    from quadrants_lab.backends.lower.blocks import LowerBlocks
    from quadrants_lab.backends.lower.long_sums import lower_long_sums

    return LowerBlocks(group, least), schedule, lower_long_sums


def simt(first: Passes, local_arrays: bool, math: LowerMath, lower_failures: Pass, warp: int) -> Passes:
    """Passes for CUDA and AMDGPU. ``local_arrays``: vectors that are indexed at run time are kept in the thread's
    memory; ``math``: see `llvm`; ``warp``: how many threads compare the elements that they change, 1 if none do."""
    from quadrants_lab.backends.lower.aggregated_atomics import AggregateAtomics
    from quadrants_lab.backends.lower.near_sines import lower_near_sines
    from quadrants_lab.backends.lower.offsets import LowerOffsets
    from quadrants_lab.backends.lower.tasks import LowerTasks

    arrays = ARRAYS if local_arrays else (lower_elements,)
    shares = tuple((op, WIDE) for op in ("add", "mul", "min", "max", "and", "or", "xor"))
    together = (AggregateAtomics(WIDE, EXCHANGED, warp=warp),) if warp > 1 else ()
    return (
        *first, *arrays, LowerAdstacks(), lower_near_sines, *llvm(math), LowerTasks(shares),
        lower_failures, *together, LowerOffsets(wide=True, groups=True),
    )  # fmt: skip


def vulkan(
    first: Passes, native_sine: bool, subgroups: bool, float_adds: tuple[DType, ...], lower_failures: Pass,
    aggregates: bool, options: CompileOptions,
) -> Passes:  # fmt: skip
    """Passes for Vulkan. Elementary functions are replaced too, because those of GLSL.std.450 may be inaccurate: asin
    and exp of Mesa 22.3 are off by 3800 and 14 units in the last place, log near 1 and tanh near 0 by more, and they
    are no faster. ``native_sine``: the device's sine is accurate near zero; ``subgroups``: threads of a subgroup can
    add up values; ``float_adds``: the float dtypes with an atomic addition; ``aggregates``: threads of a subgroup
    compare the elements that they change."""
    from quadrants_lab.backends.lower.aggregated_atomics import AggregateAtomics
    from quadrants_lab.backends.lower.atomics import INTEGER, LowerAtomics
    from quadrants_lab.backends.lower.long_sums import SUMMED
    from quadrants_lab.backends.lower.near_sines import lower_near_sines
    from quadrants_lab.backends.lower.offsets import LowerOffsets
    from quadrants_lab.backends.lower.shallow import Shallow
    from quadrants_lab.backends.lower.tasks import LowerTasks

    fast = options.fast_math
    exact = () if fast else ("sqrt",)
    native = (*((t, INTEGER) for t in (i32, u32, i64, u64)), *((t, ("add",)) for t in float_adds))
    return (
        *first, *ARRAYS, LowerAdstacks(lockstep=True, numbered=True), Shallow(), lower_random,
        lower_near_sines, LowerMath(MATH, near=fast, unit=native_sine),
        LowerFormulas(("rsqrt", "round", *RENAMED, *exact), own="near" if fast else ""),
        LowerDivision(remainder=False), lower_integers, lower_counts, lower_orders, LowerCasts(short=False),
        LowerTasks((("add", SUMMED),) if subgroups else (), starts=True), lower_failures,
        *((AggregateAtomics(SUMMED, ("add",), bits=32),) if aggregates else ()), LowerOffsets(), LowerAtomics(native),
    )  # fmt: skip


def metal(lower_failures: Pass) -> Passes:
    from quadrants_lab.backends.lower.atomics import INTEGER, LowerAtomics
    from quadrants_lab.backends.lower.offsets import LowerOffsets
    from quadrants_lab.backends.lower.shallow import Shallow
    from quadrants_lab.backends.lower.tasks import LowerTasks

    short = tuple((t, INTEGER) for t in (i32, u32))
    long = tuple((t, (*INTEGER, "mul")) for t in (i64, u64))
    native = (*short, *long, (f32, ("add", "exchange")))
    return (
        lower_elements, LowerAdstacks(lockstep=True, numbered=True), Shallow(), *clike(("log1p",)),
        LowerTasks(starts=True), lower_failures, LowerOffsets(), LowerAtomics(native),
    )  # fmt: skip


def wasm(schedule: Pass, lower_failures: Pass, options: CompileOptions) -> Passes:
    from quadrants_lab.backends.lower.atomics import LowerAtomics

    return (
        trust_asserts, LowerCells(), *ARRAYS, schedule, LowerAdstacks(lanes=False, numbered=True),
        lower_random, LowerMath(MATH, near=options.fast_math),
        LowerFormulas(("rsqrt", "round", "isnan", "isinf", *RENAMED, "cast")), LowerDivision(), lower_integers,
        lower_counts, lower_orders, LowerCasts(saturates=True), lower_failures, LowerAtomics(one_thread=True),
        LowerFormulas(("min", "max", "neg", "not", "lshr")),
    )  # fmt: skip
