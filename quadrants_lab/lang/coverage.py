"""Measures the coverage of kernels: which lines of kernels and funcs have run. With QD_KERNEL_COVERAGE=1 in the
environment, the file _qd_kcov.PID is written when the process ends; `coverage combine` of the package `coverage`
reads it.

In front of each statement of a compiled function a further statement is inserted, which sets an element (mark) of a
field.
"""

from __future__ import annotations

import ast
import atexit
import os
from copy import copy
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.frontend import source as S
from quadrants_lab.ir.types import i32
from quadrants_lab.lang.dense import ScalarField
from quadrants_lab.runtime import session

_MARKS = "lines that ran"  # a name that no program can use
_HERE = str(Path(__file__).parents[1])
RAN: dict[str, set[int]] = {}  # lines that ran, by file, from sessions that have ended


class Watched(S.FunctionSource):
    """A function's source with marks inserted. ``lines`` has for each mark its line in the file."""

    def __init__(self, source: S.FunctionSource) -> None:
        vars(self).update(vars(source))
        self.marked: list[int] = []
        self.fields: WeakKeyDictionary[session.Session, ScalarField] = WeakKeyDictionary()
        self.node = copy(source.node)
        self.node.body = self._with_marks(source.node.body)

    def _with_marks(self, body: list[Any]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for s in body:
            match s:
                case ast.Expr(value=ast.Constant()):  # a docstring
                    pass
                case _:
                    made.append(self._mark(s))
            inner = {at: self._with_marks(getattr(s, at)) for at in ("body", "orelse") if getattr(s, at, None)}
            if inner:
                s = copy(s)
                vars(s).update(inner)
            made.append(s)
        return made

    def _mark(self, s: ast.stmt) -> ast.stmt:
        element = ast.Subscript(ast.Name(_MARKS, ast.Load()), ast.Constant(len(self.marked)), ast.Store())
        mark = ast.Assign([element], ast.Constant(1))
        for node in (mark, element, element.value, element.slice, mark.value):
            ast.copy_location(node, s)
        self.marked.append(s.lineno + self.offset)
        return mark

    def lookup(self, name: str) -> Any:
        if name != _MARKS:
            return super().lookup(name)
        S.note_unknown()
        now = session.current()
        if now not in self.fields:
            self.fields[now] = field = ScalarField(i32, name="lines")
            field.allocate((max(len(self.marked), 1),))
            now.before_end.append(lambda: self.collect(field))
            # atexit runs the function registered last first: this one before the device, which exists by now, is
            # destroyed
            atexit.unregister(at_exit)
            atexit.register(at_exit)
        return self.fields[now]

    def collect(self, field: ScalarField) -> None:
        """Adds the lines that ran to `RAN`."""
        if field.placed and field._memory.session.alive:
            ran = field.to_numpy()
            RAN.setdefault(self.file, set()).update(line for line, n in zip(self.marked, ran, strict=False) if n)


def watched(source: S.FunctionSource) -> S.FunctionSource:
    """Returns the source with marks; the source itself if it is not a user's function with statements."""
    own = source.file.startswith(_HERE) or source.node.name == "<lambda>"
    return source if own else Watched(source)


def write(path: str) -> None:
    """Writes the lines that all sessions have run so far to a data file of `coverage`."""
    from coverage import CoverageData

    for now in session.all_sessions():
        for collect in now.before_end:
            collect()
    data = CoverageData(basename=path)
    data.add_lines({file: sorted(lines) for file, lines in RAN.items()})
    data.write()


def at_exit() -> None:
    """Writes the data when the process ends, unless a test runner (`quadrants_lab.pytest_plugin`) has asked for
    them."""
    write(f"_qd_kcov.{os.getpid()}")


def start() -> None:
    try:
        import coverage  # noqa: F401
    except ImportError:
        raise QuadrantsRuntimeError(
            "QD_KERNEL_COVERAGE is set, and the package coverage is not there", code="QL2069",
            help="pip install coverage",
        ) from None  # fmt: skip
    S.WATCHING.append(watched)
    atexit.register(at_exit)
