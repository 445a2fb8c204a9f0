"""What the browser gets beside HTML: one module and one style sheet, for the live widget and for exported pages."""

from __future__ import annotations

import re
from pathlib import Path

PARTS = ("lines", "graph", "sizes", "search", "stepper", "inspector")
HERE = Path(__file__).resolve().parent


def script() -> str:
    """The module: the parts of the panes, and the inspector around them, in one scope; without comments and indentation."""
    text = "".join((HERE / f"{name}.js").read_text() for name in PARTS)
    return re.sub(r"(?m)^\s*(?://.*|/\*\*.*\*/$)?\n?|^\s+", "", text)


def style() -> str:
    return (HERE / "inspector.css").read_text()
