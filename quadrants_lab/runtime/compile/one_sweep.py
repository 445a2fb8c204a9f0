"""Whether a launch and its gradient can be one kernel, made by `autodiff.reverse.value_and_gradient`."""

from __future__ import annotations

from quadrants_lab.adstack.evaluate import reads
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.adstack.size import counted_stacks
from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff.keeps import Keeps
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


class TwoLaunchesError(Exception):
    """The kernel and its gradient cannot be one kernel."""


def may_be_one_sweep(kernel: N.Kernel, keeps: Keeps) -> None:
    """Raises TwoLaunchesError where the gradient needs what is known only after the launch: values that the launch
    overwrote, the winners of atomic minima and maxima, the launch number that random draws depend on, gradients that
    the kernel itself reads or writes, shared memory of blocks, which cells a loop that activates cells has found."""
    derivatives = {d for b in kernel.buffers.values() for d in (b.grad, b.dual) if d}
    by_end = any(isinstance(s, N.Random) or (isinstance(s, N.Atomic) and s.op in N.MINMAX) for s in walk(kernel.body))
    blocks = any(b.role in ("block", "kept") for b in kernel.buffers.values())
    if keeps or blocks or by_end or touched(kernel.body) & derivatives:
        raise TwoLaunchesError


def must_be_sized_ahead(kernel: N.Kernel, both: N.Kernel) -> None:
    """Raises TwoLaunchesError where stack sizes of the combined kernel ``both`` depend on data that the kernel writes,
    or have to be counted."""
    sized_by = set().union(*(reads(s.size)[2] for s in stack_allocas(both) if s.size is not None))
    if counted_stacks(both) or sized_by & touched(kernel.body, N.Write):
        raise TwoLaunchesError
