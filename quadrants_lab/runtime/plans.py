"""Makes launch plans. The compiler is imported when the first one is made."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from quadrants_lab.backends import forks
from quadrants_lab.ir.importing import importing

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.compiled import Compiled
    from quadrants_lab.runtime.launch.dispatch import Dispatcher, Launched
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.session import Session

_MODULES = ("gradient.plan", "compile.compile")


def make_plan(owner: Dispatcher, session: Session, compiled: Compiled, launched: Launched) -> Plan:
    """The plan of a specialisation. ``launched``: what was launched last of the kernel, in whatever mode."""
    if compiled.mode in ("reverse", "both"):
        with importing():
            from quadrants_lab.runtime.gradient.plan import GradientPlan

        return GradientPlan(owner, session, compiled, launched)
    with importing():
        from quadrants_lab.runtime.launch.plan import Plan

    return Plan(owner, session, compiled, launched)


@cache
def load_compiler() -> None:
    """Imports in the background what the first kernel of a process needs, while the caller waits for a device."""
    forks.start(lambda: [import_module(f"quadrants_lab.runtime.{name}") for name in _MODULES], name="imports")
