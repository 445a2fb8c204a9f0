"""Decides how a GPU runs each task, and writes the decision on the task (`ir.traits.Scheduled`), where emitters and
launches read it."""

from dataclasses import replace

from quadrants_lab.backends.cost import estimate
from quadrants_lab.backends.lower.long_sums import is_long_sum
from quadrants_lab.backends.lower.near_sines import has_near_sines
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import all_are

CHEAP = 60  # a short iteration takes at most so many cycles
LOADS = 8  # a short iteration reads memory at most so many times
_PLAIN = (N.Const, N.Op, N.Choice, N.ArgLoad, N.ShapeOf, N.Load, N.Store, N.Atomic)


@dataclass(frozen=True, slots=True)
class GpuSchedule(Parametrised):
    """Decides how a GPU runs each task, and writes the decision on the task. ``in_step``: how many short iterations
    a thread runs in step (statement by statement), 0 for none. ``subgroup``: how many neighbouring threads run
    together and may share a long sum, a power of two; with 1, sums keep their order. ``near_sines``: the device's
    own sine is accurate near zero, and may be used."""

    in_step: int = 4
    subgroup: int = 1
    near_sines: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        return replace(kernel, body=tuple(self._task(kernel, task) for task in kernel.tasks))

    def _task(self, kernel: N.Kernel, task: N.Offload) -> N.Offload:
        several = self.in_step if short(task) else 0
        shared = self.subgroup if self.subgroup > 1 and is_long_sum(kernel, task, self.subgroup) else 0
        near = self.near_sines and has_near_sines(task)
        reasons = {
            f"{several} iterations in step: they are short and read memory": several,
            f"{shared} threads an iteration: they share its long sum": shared,
            "sines of the unit: a loop keeps arguments near zero": near,
        }
        why = "; ".join(reason for reason, holds in reasons.items() if holds)
        return replace(task, in_step=several, long_sum=shared, near_sines=near, why=why)


def short(task: N.Offload) -> bool:
    """Whether a thread should run iterations of the task in step, so that their loads overlap. This pays if the
    iterations are short, straight code that reads memory."""
    block = task.body
    plain = task.kind != "serial" and all_are(block[:-1], _PLAIN)
    loads = sum(isinstance(s, (N.Load, N.Atomic)) for s in block)
    return plain and 0 < loads <= LOADS and estimate(block)[0] <= CHEAP
