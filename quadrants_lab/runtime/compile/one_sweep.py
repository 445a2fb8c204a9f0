"""Whether a launch and its gradient are one sweep: `autodiff.reverse.value_and_gradient`."""

from __future__ import annotations

from quadrants_lab.adstack.evaluate import reads
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.autodiff.keeps import Keeps
from quadrants_lab.autodiff.minmax_atomics import MINMAX
from quadrants_lab.autodiff.reverse import written_buffers
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


class TwoLaunchesError(Exception):
    """The kernel and its gradient are not one sweep."""


def must_be_one_sweep(kernel: N.Kernel, gradient: N.Kernel, keeps: Keeps, counted: bool) -> None:
    """Raises TwoLaunchesError where the ``gradient`` starts from what only the end of the launch tells: values that the
    launch overwrote, winners of minima and maxima, sizes of stacks from data that it writes or by counting
    (``counted``), the number of the launch that draws depend on, gradients that the kernel reads or writes itself."""
    derivatives = {d for b in kernel.buffers.values() for d in (b.grad, b.dual) if d}
    touched = {s.buffer for s in walk(kernel.body) if isinstance(s, N.Access)}
    sized_by = set().union(*(reads(s.size)[2] for s in stack_allocas(gradient) if s.size is not None))
    by_end = any(isinstance(s, N.Random) or (isinstance(s, N.Atomic) and s.op in MINMAX) for s in walk(kernel.body))
    if keeps or counted or by_end or touched & derivatives or sized_by & written_buffers(kernel):
        raise TwoLaunchesError
