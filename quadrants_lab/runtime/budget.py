"""The adstack memory of a gradient launch against the session's budget, before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.adstack.report import StackRow
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N

_SHOWN = 8  # stacks that the error lists


def over_budget(
    kernel: N.Kernel, rows: Sequence[StackRow], stacks: Sequence[N.AdStackAlloca], lanes: int, budget: int
) -> QuadrantsRuntimeError | None:
    """The error where ``rows`` (in the order of ``stacks``), ``lanes`` iterations in flight, take more bytes than
    ``budget``; None where they fit."""
    total = lanes * sum(row.bytes_per_lane for row in rows)
    if total <= budget:
        return None
    return _error(QuadrantsRuntimeError, kernel, rows, stacks, lanes, f"ad_stack_budget_bytes allows {budget}")


class NoRoomForStacks(QuadrantsRuntimeError, MemoryError):
    """The device has not so much memory for adstacks."""


def no_room(
    kernel: N.Kernel, rows: Sequence[StackRow], stacks: Sequence[N.AdStackAlloca], lanes: int, why: str
) -> QuadrantsRuntimeError:
    """The error where the device has no room for them; ``why`` in its words."""
    return _error(NoRoomForStacks, kernel, rows, stacks, lanes, why)


def _error(
    cls: type[QuadrantsRuntimeError],
    kernel: N.Kernel,
    rows: Sequence[StackRow],
    stacks: Sequence[N.AdStackAlloca],
    lanes: int,
    why: str,
) -> QuadrantsRuntimeError:
    total = lanes * sum(row.bytes_per_lane for row in rows)
    order = sorted(range(len(rows)), key=lambda n: -rows[n].bytes_per_lane)[:_SHOWN]
    labels = tuple(
        Label(
            stacks[n].span,
            f"{rows[n].name}: {rows[n].bytes_per_lane} bytes an iteration in flight, "
            f"{rows[n].depth} x {rows[n].dtype}; kept because it is an {rows[n].reason}; {rows[n].cure}",
        )
        for n in order
    )
    rest = len(rows) - len(order)
    more = f"; {rest} smaller stacks are not listed" if rest else ""
    return cls(
        f"the gradient of kernel {kernel.name} needs {total} bytes of adstacks for {lanes} iterations in flight"
        f"{more}; {why}; nothing was launched",
        code="QL2076",
        labels=labels,
        help="qd.loop_config(checkpoint=True) before the long serial loop, fewer trips between gradients (split it "
        "over several kernels under a Tape), a narrower dtype, fewer threads, or a larger ad_stack_budget_bytes in "
        "qd.init()",
    )
