"""What the browser gets beside HTML: one module and one style sheet, and the loader that unpacks them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent


@cache
def script() -> str:
    """The module: the stepper and the inspector around it, without comments of their own lines and indentation."""
    text = "".join((HERE / name).read_text() for name in ("stepper.js", "inspector.js"))
    return re.sub(r"(?m)^\s*(?://.*|/\*\*.*\*/$)?\n?|^\s+", "", text)


@cache
def style() -> str:
    return (HERE / "inspector.css").read_text()


@cache
def loader() -> str:
    """`unpack`, which takes a bundle of `pack.bundle`."""
    return (HERE / "loader.js").read_text()
