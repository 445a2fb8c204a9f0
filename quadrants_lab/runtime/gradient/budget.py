"""The adstack memory of a gradient launch against the session's budget, before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.adstack.report import StackRow
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass

_SHOWN = 8  # stacks that the error lists


@dataclass(frozen=True, slots=True)
class Needs:
    """What a launch takes at the least: ``total`` bytes for ``lanes`` iterations in flight. ``rows`` in the order of
    ``stacks``."""

    kernel: N.Kernel
    rows: Sequence[StackRow]
    stacks: Sequence[N.AdStackAlloca]
    lanes: int
    total: int


def over_budget(needs: Needs, budget: int) -> QuadrantsRuntimeError:
    """The error where that is more than ``budget`` bytes."""
    return _error(QuadrantsRuntimeError, needs, f"ad_stack_budget_bytes allows {budget}")


class NoRoomForStacks(QuadrantsRuntimeError, MemoryError):
    """The device has not so much memory for adstacks."""


def no_room(needs: Needs, why: str) -> QuadrantsRuntimeError:
    """The error where the device has no room for them; ``why`` in its words."""
    return _error(NoRoomForStacks, needs, why)


def _error(cls: type[QuadrantsRuntimeError], needs: Needs, why: str) -> QuadrantsRuntimeError:
    rows, stacks = needs.rows, needs.stacks
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
        f"the gradient of kernel {needs.kernel.name} needs {needs.total} bytes of adstacks for {needs.lanes} "
        f"iterations in flight{more}; {why}; nothing was launched",
        code="QL2076",
        labels=labels,
        help="qd.loop_config(checkpoint=True) before the long serial loop, fewer trips between gradients (split it "
        "over several kernels under a Tape), a narrower dtype, fewer threads, or a larger ad_stack_budget_bytes in "
        "qd.init()",
    )
