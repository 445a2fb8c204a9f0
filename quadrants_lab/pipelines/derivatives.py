"""Lists the passes of derivatives, in order: from tasks to tangents and gradients, and to kernels that run before a
gradient."""

from quadrants_lab.adstack.size import determine_ad_stack_size, narrow_stacks
from quadrants_lab.autodiff import forward as forward_mode
from quadrants_lab.autodiff.access import overwritten
from quadrants_lab.autodiff.keeps import NOTHING, Keeps, save_overwritten
from quadrants_lab.autodiff.reverse import reverse, value_and_gradient
from quadrants_lab.autodiff.sink import sink_sums
from quadrants_lab.autodiff.unroll import Unroll
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.passes.dce import dce, drop_unused_gradients
from quadrants_lab.passes.distances import mark_distances
from quadrants_lab.passes.lower_prims import lower_custom_jvp, lower_isqrt
from quadrants_lab.pipelines.launch import MARKS, SIMPLIFY, Passes


def forward(kernel: Kernel) -> Kernel:
    """The forward-mode derivative. If a task overwrites values that are needed to find the winners of its atomic
    mins and maxes, these stand in front of the task; see `autodiff.forward`."""
    made = forward_mode.forward(kernel)
    if len(made.body) == len(kernel.body):
        return made
    early = forward_mode.early_extremes(kernel, dce(lower_custom_jvp(made)))
    return forward_mode.forward(kernel, early) if early else made


@dataclass(frozen=True, slots=True)
class _Keeping(Parametrised):
    """A pass for a forward kernel after `TASKS` that overwrites what its gradient reads. ``keeps``: the overwritten
    values that the kernel keeps; None: the values that `kept_by` finds."""

    keeps: Keeps | None = None

    def __post_init__(self) -> None:
        given: object = self.keeps
        if isinstance(given, tuple):  # from text
            object.__setattr__(self, "keeps", Keeps.of_argument(*given))


@dataclass(frozen=True, slots=True)
class SaveOverwritten(_Keeping):
    """Puts, in front of each task that overwrites what the gradient reads, a task that copies these elements away."""

    def __call__(self, kernel: Kernel) -> Kernel:
        return save_overwritten(kernel, kept_by(kernel) if self.keeps is None else self.keeps)


@dataclass(frozen=True, slots=True)
class Reverse(_Keeping):
    """The reverse-mode derivative: it takes the gradients of the outputs and adds to the gradients of the inputs; see
    `autodiff.reverse`."""

    def __call__(self, kernel: Kernel) -> Kernel:
        return reverse(kernel, kept_by(kernel) if self.keeps is None else self.keeps)


# Forward mode: from tasks to values and their tangents.
TANGENT: Passes = (forward, lower_custom_jvp, dce, *SIMPLIFY, *MARKS, drop_unused_gradients)

# The first derivative of a kernel that will be differentiated twice; `to_be_differentiated` follows.
FIRST: Passes = (forward, dce, *SIMPLIFY)

# From what `reverse` makes to what is launched.
_AFTER_REVERSE: Passes = (
    lower_custom_jvp, dce, *SIMPLIFY, *MARKS, sink_sums, dce, narrow_stacks, determine_ad_stack_size,
    lower_isqrt, drop_unused_gradients,
)  # fmt: skip

# From tasks to one kernel for a launch and its gradient.
BOTH: Passes = (value_and_gradient, *_AFTER_REVERSE)

# From `counting_kernel` to the kernel that counts stack depths; COUNTING_SLICES is for one made of `forward_slices`.
COUNTING: Passes = (*SIMPLIFY, drop_unused_gradients)
COUNTING_SLICES: Passes = (lower_custom_jvp, dce, *SIMPLIFY, lower_isqrt, drop_unused_gradients)

# From the parts of `sparse_iterations` to what is launched.
SPARSE: Passes = (dce, *SIMPLIFY, mark_distances, drop_unused_gradients)


def before_reverse(options: CompileOptions) -> Passes:
    return (Unroll(options.ad_unroll),)


def gradient(keeps: Keeps | None = NOTHING) -> Passes:
    """The passes from tasks to the gradient with sized stacks. `dce` runs before `cse`, so that `cse` does not
    replace a value that the reverse code reads by a value that nothing reads."""
    return (Reverse(keeps), *_AFTER_REVERSE)


def kept_by(kernel: Kernel) -> Keeps:
    """The values that the kernel, after `TASKS`, saves for its gradient."""
    return overwritten(kernel, lambda keeps: draft(kernel, keeps))


def draft(kernel: Kernel, keeps: Keeps = NOTHING) -> Kernel:
    """The gradient, lowered only as far as is needed to see which overwritten values it reads."""
    return dce(lower_custom_jvp(reverse(kernel, keeps)))
