"""What a gradient outside of a Tape reads that was written since its kernel was launched.

Versions tell that memory was written, not where. Other kernels write a box of elements that their indices give
(`runtime.launch.regions`), so that a step of time written meanwhile does not count for a gradient that reads another
step.
Of each kernel the last launch is known; where only an earlier one may have written, nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.autodiff.trips import TripCount
from quadrants_lab.autodiff.warned import GradientWarning, warning
from quadrants_lab.errors import Label
from quadrants_lab.runtime.launch.regions import footprint, meet
from quadrants_lab.runtime.memory.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


def writer_since(plan: Plan, buffer: str, memory: Memory, version: int, args: Sequence[Any]) -> str:
    """Who wrote to what the launch of ``plan`` read of ``buffer``, since that had ``version``: "Python", or a kernel by
    name; "" where nobody did, or it is not known: only the last launch of each kernel is."""
    if memory.python_wrote > version:
        return "Python"
    read = footprint(plan, buffer, writes=False)
    mine = None if read is None else read.live(plan.live(args))
    for other in list(plan.session.plans):
        name = _written_as(other, memory) if other.frame.launch_number > plan.frame.launch_number else ""
        written = footprint(other, name, writes=True) if name and other is not plan else None
        theirs = None if written is None else written.live(_Last(other))
        if mine is not None and theirs is not None and meet(mine, theirs):
            return str(other.kernel.name)
    return ""


class _Last:
    """What is known of the last launch of a plan: the shapes of its array arguments are not."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def arg(self, name: str) -> int:
        return int(self.plan.frame.arg(name))

    def shape(self, buffer: str, axis: int) -> int:
        raise LookupError(buffer)

    def array(self, buffer: str) -> Any:
        raise LookupError(buffer)


def _written_as(plan: Plan, memory: Memory) -> str:
    """The buffer as which a plan's launches write the memory, or may, where it is an argument; "" where they do not."""
    if plan.owner.mode == "reverse":
        return ""
    for name in plan.writes:
        if plan.fields.get(name) is memory:
            return name
    if any(m is memory for m in plan.fields.values()):
        return ""
    shape = len(memory.operand.shape), memory.dtype
    of = {b.name: (b.ndim, b.dtype) for b in plan.kernel.buffers.values() if b.kind == "ndarray"}
    return next((name for name in sorted(plan.writes) if of.get(name) == shape), "")


def stale(kernel: str, count: TripCount, writer: str) -> GradientWarning:
    """The warning."""
    return warning(
        "QL0417",
        f"the gradient of kernel {kernel} reads {count.buffer}, which {writer} wrote after {kernel} was launched: it "
        "is the derivative at other values than the launch had",
        (Label(count.read, "read here, and again for the gradient"),),
        f"launch {kernel} again first, or under qd.ad.Tape(loss), where a gradient finds what its launch read",
        count.read,
    )
