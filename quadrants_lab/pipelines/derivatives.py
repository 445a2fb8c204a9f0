"""The passes of derivatives: from tasks to tangents and gradients, and to kernels that a gradient needs beside it."""

from quadrants_lab.adstack.size import determine_ad_stack_size
from quadrants_lab.autodiff.access import overwritten
from quadrants_lab.autodiff.forward import forward_early
from quadrants_lab.autodiff.keeps import NOTHING, Keeps
from quadrants_lab.autodiff.reverse import reverse_over, value_and_gradient
from quadrants_lab.autodiff.sink import sink_sums
from quadrants_lab.autodiff.unroll import unroll
from quadrants_lab.ir.nodes import Kernel
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.passes.dce import dce
from quadrants_lab.passes.lower_custom_jvp import lower_custom_jvp
from quadrants_lab.passes.lower_isqrt import lower_isqrt
from quadrants_lab.passes.narrow_stacks import narrow_stacks
from quadrants_lab.passes.reach import mark_reach
from quadrants_lab.passes.unused_gradients import drop_unused_gradients
from quadrants_lab.pipelines.launch import MARKS, SIMPLIFY, Passes

_FORWARD = forward_early(lambda kernel: dce(lower_custom_jvp(kernel)))

# Forward mode: from tasks to values and their tangents.
TANGENT: Passes = (_FORWARD, lower_custom_jvp, dce, *SIMPLIFY, dce, *MARKS, drop_unused_gradients)

# The first derivative of a kernel that will be differentiated twice; `to_be_differentiated` follows.
FIRST: Passes = (_FORWARD, dce, *SIMPLIFY)

# From what `reverse` makes to what is launched.
_AFTER_REVERSE: Passes = (
    lower_custom_jvp, dce, *SIMPLIFY, dce, *MARKS, sink_sums, dce, narrow_stacks,
    determine_ad_stack_size, lower_isqrt, drop_unused_gradients,
)  # fmt: skip

# From tasks to a launch and its gradient in one sweep.
BOTH: Passes = (value_and_gradient, *_AFTER_REVERSE)

# From `counting_kernel` to the kernel that counts stack depths; COUNTING_SLICES is for one made of `forward_slices`.
COUNTING: Passes = (*SIMPLIFY, drop_unused_gradients)
COUNTING_SLICES: Passes = (lower_custom_jvp, dce, *SIMPLIFY, lower_isqrt, drop_unused_gradients)

# From the parts of `sparse_iterations` to what is launched.
SPARSE: Passes = (dce, *SIMPLIFY, dce, mark_reach, drop_unused_gradients)


def before_reverse(options: CompileOptions) -> Passes:
    return (unroll(options.ad_unroll),)


def gradient(keeps: Keeps = NOTHING) -> Passes:
    """The passes from tasks to the gradient with sized stacks. `dce` runs before `cse`, so that `cse` does not replace
    a value that the reverse sweep reads by an unread one."""
    return (reverse_over(keeps), *_AFTER_REVERSE)


def kept_by(kernel: Kernel) -> Keeps:
    """What the kernel, after `TASKS`, saves for its gradient."""
    return overwritten(kernel, lambda keeps: draft(kernel, keeps))


def draft(kernel: Kernel, keeps: Keeps = NOTHING) -> Kernel:
    """The gradient, lowered only as far as is needed to see which overwritten values it reads."""
    return dce(lower_custom_jvp(reverse_over(keeps)(kernel)))
