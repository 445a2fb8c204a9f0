"""How errors look in a notebook: a diagnostic and the line of the cell that led to it, without frames of machinery."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from quadrants_lab.errors import QuadrantsError, QuadrantsSyntaxError, QuadrantsWarning
from quadrants_lab.lang.missing import NotSupportedYet
from quadrants_lab.runtime.check.report import Report

CELL = "Cell In["
_report = Report.__str__


class Shown(Exception):
    """An exception that IPython shows as its text alone; the original is its ``__cause__``."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def show_as_text(error: BaseException) -> NoReturn:
    """Raises the error under its own class name in the short form: diagnostics of the language, syntax errors."""
    name = type(error).__name__
    raise type(name, (Shown,), {})(describe(error)) from error


def show_in_a_line(error: BaseException, text: str) -> NoReturn:
    """Raises the error under its own class name as this text."""
    name = type(error).__name__
    raise type(name, (Shown,), {})(f"{name}: {text}") from None


def describe(error: BaseException) -> str:
    """The text of an error: a diagnostic as it is and where it was raised; Python's own form for a syntax error."""
    if isinstance(error, SyntaxError) and not isinstance(error, QuadrantsError):
        return "".join(traceback.format_exception_only(error)).rstrip()
    text = with_cell_names(f"{type(error).__name__}: {error}")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if cell_name(f.filename).startswith(CELL)]
    if frames:
        at = frames[-1]
        text += f"\n  = raised at {cell_name(at.filename)}, line {at.lineno}: {(at.line or '').strip()}"
    return text


def with_cell_names(diagnostic: str) -> str:
    """The text of a diagnostic with cells under the names that people know."""
    return re.sub(r"(?m)^( *--> )(.+), line", lambda m: f"{m[1]}{cell_name(m[2])}, line", diagnostic)


def cell_name(file: str) -> str:
    """The name that people know of a cell's temporary file name; any other file name as it is."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    known = shell.compile.format_code_name(file) if shell is not None and not file.startswith(CELL) else None
    return " ".join(known) if known else file


def install(shell: Any) -> None:
    """Every diagnostic of the language shows in the short form, in ordinary cells too; warnings as their text alone."""
    for kind in (QuadrantsError, NotSupportedYet):
        kind._render_traceback_ = lambda self: [describe(self)]  # type: ignore[union-attr]  # IPython's hook
    # who prints one wants to know the cell, too
    QuadrantsError.__str__ = lambda self: with_cell_names(str(self.args[0]))  # type: ignore[method-assign]
    Report.__str__ = lambda self: with_cell_names(_report(self))  # type: ignore[method-assign]
    if not isinstance(warnings.formatwarning, WarningText):
        warnings.formatwarning = WarningText(warnings.formatwarning)
    if not shell.custom_exceptions:  # syntax errors do not come by that hook; another extension's handler stays
        shell.set_custom_exc((QuadrantsSyntaxError,), _show)


class WarningText:
    """Formats warnings: a diagnostic as it is, for it says its line itself; others as ``before`` did."""

    def __init__(self, before: Callable[..., str]) -> None:
        self.before = before

    def __call__(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        text = str(message)
        if issubclass(category, QuadrantsWarning) and text.startswith("warning["):
            return with_cell_names(text) + "\n"
        return self.before(message, category, filename, lineno, line)


def _show(shell: Any, kind: type[BaseException], error: BaseException, *_: Any, **__: Any) -> list[str]:
    lines = [describe(error)]
    shell._showtraceback(kind, error, lines)
    return lines
