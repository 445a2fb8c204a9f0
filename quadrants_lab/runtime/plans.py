"""Which plan serves which mode; the compiler is imported with the first of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from quadrants_lab.backends import forks

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile import Compiled
    from quadrants_lab.runtime.dispatch import Dispatcher
    from quadrants_lab.runtime.plan import Plan
    from quadrants_lab.runtime.session import Session


def make_plan(
    owner: Dispatcher, session: Session, compiled: Compiled, forward: Callable[[], Plan | None]
) -> Plan:
    """The plan of a specialisation; ``forward`` finds that of the kernel where it is a gradient."""
    from quadrants_lab.runtime.gradient import GradientPlan
    from quadrants_lab.runtime.plan import Plan

    if compiled.mode in ("reverse", "both"):
        return GradientPlan(owner, session, compiled, forward)
    return Plan(owner, session, compiled)


@cache
def load_compiler() -> None:
    """Begins to import what the first kernel of a process needs, for a caller that is about to wait for a device."""
    forks.start(import_module, "quadrants_lab.runtime.gradient", name="imports")
