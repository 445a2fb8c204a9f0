"""What a GPU does with each task. One pass decides it, and writes it on the tasks (`ir.traits.Scheduled`)."""

from dataclasses import replace

from quadrants_lab.backends.cost import estimate
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass

CHEAP = 60  # the most cycles of a short iteration
LOADS = 8  # the most reads of a short iteration
_PLAIN = (N.Const, N.Op, N.ArgLoad, N.ShapeOf, N.Load, N.Store, N.Atomic)


@dataclass(frozen=True, slots=True)
class GpuSchedule(Parametrised):
    """Decides what a GPU does with each task, and writes it on the task. ``in_step``: short iterations that a thread
    runs in step, 0 where none are."""

    in_step: int = 4

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        return replace(kernel, body=tuple(map(self._task, kernel.tasks)))

    def _task(self, task: N.Offload) -> N.Offload:
        several = self.in_step if short(task) else 0
        why = f"{several} iterations in step: they are short and read memory" if several else ""
        return replace(task, in_step=several, why=why)


def short(task: N.Offload) -> bool:
    """Whether a thread should run iterations of the task in step, so that their loads overlap: they are short, straight
    code that reads memory."""
    block = task.body
    plain = task.kind != "serial" and all(isinstance(s, _PLAIN) for s in block[:-1])
    loads = sum(isinstance(s, (N.Load, N.Atomic)) for s in block)
    return plain and 0 < loads <= LOADS and estimate(block)[0] <= CHEAP
