"""How errors look in a notebook: a diagnostic and the line of the cell that led to it, without frames of machinery."""

from __future__ import annotations

import traceback
from typing import NoReturn

from quadrants_lab.errors import QuadrantsError


class Shown(Exception):
    """An exception that IPython shows as its text alone; the original is its ``__cause__``."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def show_as_text(error: BaseException) -> NoReturn:
    """Raises the error under its own class name in the short form: diagnostics of the language, syntax errors."""
    name = type(error).__name__
    raise type(name, (Shown,), {})(describe(error)) from error


def describe(error: BaseException) -> str:
    """The text of an error: a diagnostic as it is and where it was raised; Python's own form for a syntax error."""
    if isinstance(error, SyntaxError) and not isinstance(error, QuadrantsError):
        return "".join(traceback.format_exception_only(error)).rstrip()
    text = f"{type(error).__name__}: {error}"
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if f.filename.startswith(("Cell In[", "<ipython-input"))
    ]
    if frames:
        at = frames[-1]
        text += f"\n  = raised at {at.filename}, line {at.lineno}: {(at.line or '').strip()}"
    return text


def install() -> None:
    """Every diagnostic of the language shows in the short form, in ordinary cells too."""
    QuadrantsError._render_traceback_ = lambda self: [describe(self)]  # type: ignore[attr-defined]  # IPython's hook
