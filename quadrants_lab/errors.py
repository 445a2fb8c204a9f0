"""Exception classes, named as Quadrants names them, and the form in which a diagnostic is shown.

A diagnostic says what is wrong (with a code that never changes), where (source line and caret), why, and what to do.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from contextvars import ContextVar

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span

_CALLS = 8  # lines of a way through calls that are shown


@dataclass(frozen=True, slots=True)
class Label:
    """A span and what to say about it; the first label of a diagnostic is the primary one."""

    span: Span | None
    text: str = ""


def render(code: str, message: str, labels: tuple[Label, ...] = (), help: str = "", kind: str = "error") -> str:
    """The diagnostic as text: header, each labelled source line with its underline, help."""
    lines = [f"{kind}[{code}]: {message}" if code else f"{kind}: {message}"]
    shown = [lab for lab in labels if lab.span is not None]
    if shown:
        width = max(len(str(lab.span.line)) for lab in shown if lab.span)
        first = shown[0].span
        assert first is not None
        lines.append(f"{' ' * width}--> {first.file}, line {first.line}")
        for n, lab in enumerate(shown):
            lines += _underlined(lab, width, "^" if n == 0 else "-")
    if help:
        lines.append(f"  = help: {help}")
    return "\n".join(lines)


def _underlined(label: Label, width: int, mark: str) -> list[str]:
    span = label.span
    assert span is not None
    out: list[str] = []
    chain: list[Span] = []
    at: Span | None = span
    while at is not None:
        if not any((s.file, s.line, s.col) == (at.file, at.line, at.col) for s in chain):
            chain.append(at)  # a call within itself once
        at = at.call
    for n, s in enumerate(chain):
        if len(chain) > _CALLS and _CALLS - 1 <= n < len(chain) - 1:  # of a long way in the ends
            if n == _CALLS - 1:
                out.append(f"{' ' * width} | ... {len(chain) - _CALLS} more calls ...")
            continue
        text = linecache.getline(s.file, s.line).rstrip("\n")
        end = s.end_col if s.end_line == s.line else len(text)
        note = label.text if n == 0 else "in this call"
        out.append(f"{s.line:>{width}} | {text}")
        out.append(f"{' ' * width} | {' ' * s.col}{mark * max(1, end - s.col)} {note}".rstrip())
    return out


class QuadrantsError(Exception):
    """Base of every error that the language raises on purpose; carries its diagnostic's parts."""

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
    """Something went wrong while running."""


class QuadrantsRuntimeTypeError(QuadrantsRuntimeError, TypeError):
    """An argument of the wrong type in a call."""


class QuadrantsAssertionError(QuadrantsRuntimeError, AssertionError):
    """A kernel assert, a bounds check or an adstack overflow."""


class QuadrantsWarning(UserWarning):
    """Something that is probably not meant; never silent."""


Given = tuple[str, str, int]  # a warning's text, file and line
WARNED: ContextVar[list[Given] | None] = ContextVar("quadrants_lab_warned", default=None)  # gets those of `warn_at`


def warn_at(text: str, file: str, line: int) -> None:
    """A QuadrantsWarning at that line."""
    heard = WARNED.get()
    if heard is not None:
        heard.append((text, file, line))
    warnings.warn_explicit(text, QuadrantsWarning, file, line)


def warn(text: str) -> None:
    """A QuadrantsWarning at the line of the user's program that runs."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("quadrants_lab."):
        frame = frame.f_back
    warn_at(text, frame.f_code.co_filename, frame.f_lineno)
