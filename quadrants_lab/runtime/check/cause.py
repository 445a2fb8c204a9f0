"""Describes the cause of a verdict on a gradient: one statement of a program, the iteration that ran it, and its
operands."""

import linecache
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from quadrants_lab.errors import Label, QuadrantsError, render
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.show import show
from quadrants_lab.ir.source import Span


@dataclass(frozen=True, slots=True)
class Event:
    """The execution of a statement: its kernel, the launch's number in the program (from 1), the iteration, and named
    values."""

    stmt: N.Stmt
    kernel: str = ""
    launch: int = 0
    iteration: tuple[int, ...] = ()
    values: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a gradient is wrong or zero. ``kind``: a word by which programs can tell causes apart, from the list in
    `docs/autodiff/doctor.md`. ``says``: the cause as a sentence. ``at``: the source position of the statement, None
    if the cause is no statement; ``label``: the text under that source line. ``launch``: the launch's number in the
    program, from 1; 0 if the cause is no launch. ``beside``: further source lines."""

    kind: str
    says: str
    at: Span | None = None
    label: str = ""
    help: str = ""
    kernel: str = ""
    launch: int = 0
    iteration: tuple[int, ...] = ()
    values: tuple[tuple[str, Any], ...] = ()
    beside: tuple[Label, ...] = ()

    @property
    def file(self) -> str:
        return self.at.file if self.at else ""

    @property
    def line(self) -> int:
        return self.at.line if self.at else 0

    @property
    def step(self) -> tuple[int, tuple[int, ...], int]:
        """What to look for when stepping through the program: (launch, iteration, line)."""
        return self.launch, self.iteration, self.line

    @property
    def statement(self) -> str:
        """The source line of the statement."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def where(self) -> str:
        """The launch, the kernel and the iteration, in words."""
        where = [f"launch {self.launch}"] if self.launch else []
        where += [f"kernel {self.kernel}"] if self.kernel else []
        where += [f"iteration {', '.join(map(str, self.iteration))}"] if self.iteration else []
        return ", ".join(where)

    @property
    def operands(self) -> str:
        """The named values, in words."""
        return ", ".join(f"{name} = {show(value)}" for name, value in self.values)

    @property
    def place(self) -> str:
        """The name of the file and the line; "" if the cause is no statement."""
        return f"{PurePath(self.file).name}, line {self.line}" if self.at is not None else ""

    @property
    def ran(self) -> str:
        """Says where the statement ran, and with which operands."""
        return ", ".join(filter(None, (self.where, self.operands and f"with {self.operands}")))

    def source(self) -> list[str]:
        """File and line, and the underlined source lines; nothing if the cause is no statement."""
        labels = (*([Label(self.at, self.label)] if self.at else ()), *self.beside)
        return render("", "", labels).splitlines()[1:]

    def details(self) -> list[str]:
        """All that follows the sentence, as lines: place, source, where it ran, operands, what to do."""
        more = [self.where, self.operands and f"with {self.operands}", self.help and f"help: {self.help}"]
        return [*self.source(), *(f"  = {line}" for line in more if line)]

    def __str__(self) -> str:
        return "\n".join([f"because: {self.says}", *self.details()])


def cause(kind: str, says: str, event: Event | None, label: str = "", help: str = "") -> Cause:
    """Makes the cause that an event is."""
    if event is None:
        return Cause(kind, says, help=help)
    return Cause(
        kind, says, event.stmt.span, label, help, event.kernel, event.launch, event.iteration, event.values
    )


def written(span: Span | None) -> str:
    """The source text of a span; "" if it is unknown or longer than one line."""
    if span is None or span.line != span.end_line:
        return ""
    return linecache.getline(span.file, span.line)[span.col : span.end_col].strip()


def because(e: QuadrantsError) -> Cause:
    """The cause that an error describes."""
    first = next((label for label in e.labels if label.span is not None), None)
    kind = "race" if "race" in e.message else "error"
    return Cause(kind, e.message, first.span if first else None, first.text if first else "", e.help)
