"""Defines exception classes, under Quadrants' names, and the text form of a diagnostic.

A diagnostic says what is wrong (with a code that never changes), where (source line and caret), why, and what to do.
"""

import linecache
import sys
import warnings
from contextvars import ContextVar

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span

_CALLS = 8  # the middle of a longer chain of calls is left out


@dataclass(frozen=True, slots=True)
class Label:
    """A span of source, and a note that is shown beside it. The first label of a diagnostic is the place of the
    error."""

    span: Span | None
    text: str = ""


def render(code: str, message: str, labels: tuple[Label, ...] = (), help: str = "", kind: str = "error") -> str:
    """The diagnostic as text: header, each labelled source line with its underline, help."""
    lines = [f"{kind}[{code}]: {message}" if code else f"{kind}: {message}"]
    shown = [(label.span, label.text) for label in labels if label.span is not None]
    if shown:
        width, first = max(len(str(span.line)) for span, _ in shown), shown[0][0]
        lines.append(f"{' ' * width}--> {first.file}, line {first.line}")
        for n, (span, text) in enumerate(shown):
            lines += _underlined(span, text, width, "-" if n else "^")
    if help:
        lines.append(f"  = help: {help}")
    return "\n".join(lines)


def _underlined(span: Span, note: str, width: int, mark: str) -> list[str]:
    """The source line of the span with the span underlined, then the lines of the calls that led to it, innermost
    first."""
    chain: dict[tuple[str, int, int], Span] = {}  # by place in the source: a recursive call is shown once
    at: Span | None = span
    while at is not None:
        chain.setdefault((at.file, at.line, at.col), at)
        at = at.call
    blocks: list[list[str]] = []
    for s in chain.values():
        text = linecache.getline(s.file, s.line).rstrip("\n")
        end = s.end_col if s.end_line == s.line else len(text)
        under = f"{' ' * s.col}{mark * max(1, end - s.col)} {'in this call' if blocks else note}"
        blocks.append([f"{s.line:>{width}} | {text}", f"{' ' * width} | {under}".rstrip()])
    if len(blocks) > _CALLS:
        blocks[_CALLS - 1 : -1] = [[f"{' ' * width} | ... {len(blocks) - _CALLS} more calls ..."]]
    return [line for block in blocks for line in block]


class QuadrantsError(Exception):
    """Base of every error that the language raises on purpose. Its attributes are the parts of the diagnostic."""

    def __init__(self, message: str, *, code: str = "", labels: tuple[Label, ...] = (), help: str = "") -> None:
        super().__init__(render(code, message, labels, help) if code or labels or help else message)
        self.message = message
        self.code = code
        self.labels = labels
        self.help = help


class QuadrantsCompilationError(QuadrantsError):
    """A kernel that cannot be compiled."""


class QuadrantsSyntaxError(QuadrantsCompilationError, SyntaxError):
    """Python that is not part of the kernel language."""


class QuadrantsNameError(QuadrantsCompilationError, NameError):
    """A name that is not defined where the kernel uses it."""


class QuadrantsTypeError(QuadrantsCompilationError, TypeError):
    """Operands, arguments or annotations of the wrong type."""


class QuadrantsIndexError(QuadrantsCompilationError, IndexError):
    """A subscript with the wrong number of indices."""


class QuadrantsRuntimeError(QuadrantsError, RuntimeError):
    """An error while a program runs."""


class QuadrantsRuntimeTypeError(QuadrantsRuntimeError, TypeError):
    """An argument of the wrong type in a call."""


class QuadrantsAttributeError(QuadrantsRuntimeError, AttributeError):
    """An attribute that an object does not have."""


class QuadrantsKeyError(QuadrantsRuntimeError, KeyError):
    """A name, given as text, that is not one of the known names."""

    def __str__(self) -> str:  # KeyError itself would show the text by repr
        return str(self.args[0])


class QuadrantsAssertionError(QuadrantsRuntimeError, AssertionError):
    """A failed assert of a kernel, a failed bounds check, or an adstack overflow."""


def ended(what: str) -> QuadrantsRuntimeError:
    """The error for using an object of a session that has ended."""
    return QuadrantsRuntimeError(
        f"{what} was made before qd.reset() or a second qd.init(), which ended it",
        code="QL2001",
        help="make it again after qd.init(); if another thread called qd.init() during a launch, "
        "call the kernel again, with fields of the new session",
    )


class QuadrantsWarning(UserWarning):
    """Something that the user probably did not mean."""


Given = tuple[str, str, int]  # a warning's text, file and line
WARNED: ContextVar[list[Given] | None] = ContextVar("quadrants_lab_warned", default=None)  # `warn_at` appends to it


def warn_at(text: str, file: str, line: int) -> None:
    """Issues a QuadrantsWarning that is located at this line of this file."""
    given = WARNED.get()
    if given is not None:
        given.append((text, file, line))
    warnings.warn_explicit(text, QuadrantsWarning, file, line)


def warn(text: str) -> None:
    """Issues a QuadrantsWarning that is located at the innermost running line outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("quadrants_lab."):
        frame = frame.f_back
    warn_at(text, frame.f_code.co_filename, frame.f_lineno)
