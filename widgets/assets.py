"""What the browser gets beside HTML: one module and one style sheet, for the live widget and for exported pages."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent


def script() -> str:
    """The module: the stepper and the inspector around it."""
    return "".join((HERE / name).read_text() for name in ("stepper.js", "inspector.js"))


def style() -> str:
    return (HERE / "inspector.css").read_text()
