"""``%%qdkernel --grad LOSS --check``: what `runtime.check` has to say of a cell's gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quadrants_lab.lang.dense import Dense
from quadrants_lab.runtime.check import verdict
from quadrants_lab.runtime.check.differences import Differentiable
from quadrants_lab.runtime.check.recording import touched
from quadrants_lab.runtime.check.report import Report
from quadrants_lab.runtime.tape.recorder import Launches


def check(launches: Launches, loss: Dense, namespace: Mapping[str, Any], say: Callable[[str], None]) -> Report:
    """On everything that the launches touched and that has a gradient, fields of the namespace first. ``say`` is told
    what is checked."""
    named = {name: x for name, x in _named(launches, namespace).items() if x._memory is not loss._memory}
    return verdict.check(launches, loss, touched(launches, loss._memory, named), say=say)


def _named(launches: Launches, namespace: Mapping[str, Any]) -> dict[str, Differentiable]:
    """What of the namespace has a gradient and was touched, under its first name."""
    found: dict[int, tuple[str, Differentiable]] = {}
    for name, x in namespace.items():
        if not isinstance(x, Dense) or name.startswith("_") or not x.dtype.is_float or not x.has_grad():
            continue
        if id(x._memory) in launches.initial:
            found.setdefault(id(x._memory), (name, x))
    return dict(found.values())


def text(report: Report) -> str:
    """Lines for a terminal or below a cell."""
    return str(report) if report.verdicts else f"--check: {report}"
