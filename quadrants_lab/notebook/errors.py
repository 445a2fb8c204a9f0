"""Shows errors in a notebook: the diagnostic and the line of the cell that raised it, without internal stack
frames."""

import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from quadrants_lab.errors import QuadrantsError, QuadrantsSyntaxError, QuadrantsWarning
from quadrants_lab.lang.elsewhere import NotSupportedYet
from quadrants_lab.runtime.check.report import Report

CELL = "Cell In["
_report = Report.__str__


class ShownError(Exception):
    """An exception of which IPython only shows the text; the original exception is its ``__cause__``."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def show_as_text(error: BaseException, help: str = "") -> NoReturn:
    """Raises the error in the short form of `describe`, with this help, under its own class name."""
    name = type(error).__name__
    text = f"{describe(error)}\n  = help: {help}" if help else describe(error)
    raise type(name, (ShownError,), {})(text) from error


def show_from_cell(error: Exception, shell: Any, file: str) -> NoReturn:
    """Raises the error again with a traceback that begins in the cell. Otherwise it would begin with the magic and
    show the whole cell as one line."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != file:
        tb = tb.tb_next
    lines = shell.InteractiveTB.structured_traceback(type(error), error, tb or error.__traceback__, tb_offset=0)
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]  # IPython's hook
    raise error


def show_in_a_line(error: BaseException, text: str) -> NoReturn:
    """Raises the error under its own class name as this text."""
    name = type(error).__name__
    raise type(name, (ShownError,), {})(f"{name}: {text}") from None


def describe(error: BaseException) -> str:
    """The text of an error: a diagnostic and where it was raised, or Python's own text of a syntax error."""
    if isinstance(error, SyntaxError) and not isinstance(error, QuadrantsError):
        return "".join(traceback.format_exception_only(error)).rstrip()
    text = with_cell_names(f"{type(error).__name__}: {error}")
    at = place(error)
    return f"{text}\n  = raised at {at}" if at else text


def place(error: BaseException) -> str:
    """The line of a cell that raised the error, "" if there is none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if cell_name(f.filename).startswith(CELL)]
    at = frames[-1] if frames else None
    return f"{cell_name(at.filename)}, line {at.lineno}: {(at.line or '').strip()}" if at is not None else ""


def with_cell_names(diagnostic: str) -> str:
    """The text of a diagnostic with readable names of cells instead of temporary file names."""
    return re.sub(r"(?m)^( *--> )(.+), line", lambda m: f"{m[1]}{cell_name(m[2])}, line", diagnostic)


def cell_name(file: str) -> str:
    """The readable name of a cell's temporary file; any other file name unchanged."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    known = shell.compile.format_code_name(file) if shell is not None and not file.startswith(CELL) else None
    return " ".join(known) if known else file


def install(shell: Any) -> None:
    """Makes all diagnostics of the language show in the short form, also in ordinary cells, and warnings as their
    text."""
    for kind in (QuadrantsError, NotSupportedYet):
        kind._render_traceback_ = lambda self: [describe(self)]  # type: ignore[union-attr]  # IPython's hook
    # printed text names the cell, too
    QuadrantsError.__str__ = lambda self: with_cell_names(str(self.args[0]))  # type: ignore[method-assign]
    Report.__str__ = lambda self: with_cell_names(_report(self))  # type: ignore[method-assign]
    if not isinstance(warnings.formatwarning, WarningText):
        warnings.formatwarning = WarningText(warnings.formatwarning)
    # IPython does not call the hook for a SyntaxError, so these get a handler; another extension's handler stays
    if not shell.custom_exceptions:
        shell.set_custom_exc((QuadrantsSyntaxError,), _show)


class WarningText:
    """Formats warnings: a diagnostic unchanged, because it contains its line; others by the formatter ``before``."""

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
