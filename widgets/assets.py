"""The files for the browser: a script module, a style sheet, and the loader that unpacks them."""

import re
from functools import cache
from pathlib import Path

PARTS = ("diff", "lines", "graph", "sizes", "search", "stepper", "inspector")
HERE = Path(__file__).resolve().parent


@cache
def script() -> str:
    """The module: all parts in one scope, without comments and indentation."""
    text = "".join((HERE / f"{name}.js").read_text() for name in PARTS)
    return re.sub(r"(?m)^\s*(?://.*|/\*\*[^*]*\*/$)?\n?|^\s+", "", text)


@cache
def style() -> str:
    return (HERE / "inspector.css").read_text()


@cache
def loader() -> str:
    """The script with `unpack`, which reads a bundle of `pack.bundle`."""
    return (HERE / "loader.js").read_text()
