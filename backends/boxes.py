"""How many iterations a parallel task has, as far as the host can compute it."""

from collections.abc import Callable
from typing import Any

from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import all_are

GROUP = 64  # a GPU's number of threads is a multiple of this; so many threads access neighbouring elements
MOST = (1 << 63) - 1  # iterations of a task: their number and its multiples by short strides fit in 64 bits
_INLINE = (N.Const, N.Op, N.Call, N.ArgLoad, N.ShapeOf, N.Yield)


def inline(task: N.Offload) -> bool:
    """Whether the task's bounds read no memory, so that every thread may compute them for itself."""
    return all_are(task.bounds, _INLINE)


def inline_total(task: N.Offload, arg: Callable[[str], Any], shape: Callable[[str, int], int]) -> int:
    """How many iterations a task with `inline` bounds has. ``arg`` returns a scalar argument, ``shape`` an extent.

    Raises:
        QuadrantsRuntimeError: there are more than `MOST`, which no device could count or would finish.
    """
    values: dict[int, Any] = {}
    for s in task.bounds:
        if isinstance(s, N.Const):
            values[s.id] = s.type.numpy(s.value)
        elif isinstance(s, N.ArgLoad):
            values[s.id] = s.type.numpy(arg(s.arg))
        elif isinstance(s, N.ShapeOf):
            values[s.id] = s.type.numpy(shape(s.buffer, s.axis))
        elif isinstance(s, N.Op):
            values[s.id] = PRIMS[s.prim].evaluate(s.type, *(values[i] for i in s.args))
    total = 1
    for _, begin, end in task.box():
        total *= max(0, int(values[end]) - int(values[begin]))
    if total > MOST:
        raise QuadrantsRuntimeError(
            f"a loop of {total:,} iterations never ends",
            code="QL2077",
            labels=(Label(task.span, "more than 2**63 - 1 iterations"),),
            help="make its range smaller",
        )
    return total


def fixed_total(task: N.Offload) -> int | None:
    """How many iterations the task has, if all launches have the same number; 1 for a serial task."""
    fixed = all_are(task.bounds, (N.Const, N.Op, N.Yield))
    return inline_total(task, lambda name: 0, lambda name, axis: 0) if fixed else None
