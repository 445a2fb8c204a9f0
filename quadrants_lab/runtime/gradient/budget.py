"""The error where a gradient launch needs more adstack memory than the budget or the device has."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.adstack.report import StackRow, stack_allocas
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N

_SHOWN = 8  # stacks that the error lists


class NoRoomForStacks(QuadrantsRuntimeError, MemoryError):
    """The device has not enough memory for the adstacks."""


def too_much(
    kernel: N.Kernel, rows: Sequence[StackRow], lanes: int, total: int, why: str,
    cls: type[QuadrantsRuntimeError] = QuadrantsRuntimeError,
) -> QuadrantsRuntimeError:  # fmt: skip
    """The error where a launch needs at least ``total`` bytes for ``lanes`` iterations in flight; ``rows``: those of
    the kernel's stacks."""
    stacks = stack_allocas(kernel)
    order = sorted(range(len(rows)), key=lambda n: -rows[n].bytes_per_lane)[:_SHOWN]
    labels = tuple(
        Label(
            stacks[n].span,
            f"{rows[n].name}: {rows[n].bytes_per_lane} bytes an iteration in flight, "
            f"{rows[n].depth} x {rows[n].dtype}; kept as {rows[n].reason}; {rows[n].cure}",
        )
        for n in order
    )
    rest = len(rows) - len(order)
    more = f"; {rest} smaller stacks are not listed" if rest else ""
    return cls(
        f"the gradient of kernel {kernel.name} needs {total} bytes of adstacks for {lanes} "
        f"iterations in flight{more}; {why}; nothing was launched",
        code="QL2076",
        labels=labels,
        help="qd.loop_config(checkpoint=True) before the long serial loop, fewer trips between gradients (split it "
        "over several kernels under a Tape), a narrower dtype, fewer threads, or a larger ad_stack_budget_bytes in "
        "qd.init()",
    )
