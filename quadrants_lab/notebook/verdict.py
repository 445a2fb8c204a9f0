"""``%%qdkernel --grad LOSS --check``: runs the gradient doctor (`runtime.check`) on the gradients of a cell."""

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
    """Checks all memory with a gradient that the launches touched, fields of the namespace first. ``say`` is told what
    is being checked."""
    named = {name: x for name, x in _named(launches, namespace).items() if x._memory is not loss._memory}
    return verdict.check(launches, loss, touched(launches, loss._memory, named), say=say)


def _named(launches: Launches, namespace: Mapping[str, Any]) -> dict[str, Differentiable]:
    """The touched fields with a gradient in the namespace, under their first names."""
    found: dict[int, tuple[str, Differentiable]] = {}
    for name, x in namespace.items():
        if not isinstance(x, Dense) or name.startswith("_") or not x.dtype.is_float or not x.has_grad():
            continue
        if id(x._memory) in launches.initial:
            found.setdefault(id(x._memory), (name, x))
    return dict(found.values())


def text(report: Report) -> str:
    """The report as text, for a terminal or below a cell."""
    return str(report) if report.verdicts else f"--check: {report}"
