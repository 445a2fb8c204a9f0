"""Compiles and runs a cell's text in the user's namespace, its last expression separately. Its lines are in
linecache."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass, replace
from itertools import count
from types import CodeType
from typing import Any

from quadrants_lab.ir.room import roomy


@dataclass(frozen=True, slots=True)
class Cell:
    """A compiled cell. ``file``: its name in linecache. ``lines``: its text; line 1 is the magic's own line, so line
    numbers are those of the editor. ``last``: the last expression, None if there is none to display. ``called``: the
    dotted name that it calls, "" if it is no such call. ``pair``: if it is a call with two arguments, the function and
    the arguments."""

    file: str
    lines: tuple[str, ...]
    body: CodeType
    last: CodeType | None
    called: str = ""
    pair: tuple[CodeType, ...] = ()


@roomy
def compile_cell(text: str, magic: str, number: int, flags: int = 0) -> Cell:
    """Compiles the cell below the ``magic`` line; SyntaxError with the cell's line numbers."""
    source = f"{magic}\n{text}"
    file = _name(number, source)
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)  # no mtime: checkcache leaves it alone
    tree = compile(f"\n{text}", file, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)

    def compiled(part: ast.expr) -> CodeType:
        code: CodeType = compile(ast.Expression(part), file, "eval", flags, dont_inherit=True)
        return code

    end = tree.body[-1] if tree.body else None
    shown = end.value if isinstance(end, ast.Expr) and not _silenced(text) else None
    if shown is not None:
        tree.body.pop()
    body = compile(tree, file, "exec", flags, dont_inherit=True)
    cell = Cell(file, tuple(x.rstrip("\n") for x in lines), body, None)
    if shown is None:
        return cell
    return replace(cell, last=compiled(shown), called=_called(shown), pair=tuple(map(compiled, _pair(shown))))


def _called(expression: ast.expr) -> str:
    if not isinstance(expression, ast.Call):
        return ""
    name = expression.func
    while isinstance(name, ast.Attribute):
        name = name.value
    return ast.unparse(expression.func) if isinstance(name, ast.Name) else ""


def _pair(expression: ast.expr) -> tuple[ast.expr, ...]:
    if not isinstance(expression, ast.Call) or len(expression.args) != 2 or expression.keywords:
        return ()
    return () if any(isinstance(a, ast.Starred) for a in expression.args) else (expression.func, *expression.args)


def _name(number: int, source: str) -> str:
    """A name that no other text has in linecache. Cell numbers repeat if the shell keeps no history."""
    tries = (f"Cell In[{number}]" + (f" ({k})" if k else "") for k in count())
    return next(t for t in tries if t not in linecache.cache or "".join(linecache.getlines(t)) == source)


def _silenced(text: str) -> bool:
    """Whether the cell ends in a semicolon, which means as in an ordinary cell: do not display the value."""
    lines = [x for x in text.splitlines() if x.strip() and not x.strip().startswith("#")]
    return bool(lines) and lines[-1].split(" #")[0].rstrip().endswith(";")


def run_body(cell: Cell, namespace: dict[str, Any]) -> None:
    __tracebackhide__ = True
    exec(cell.body, namespace)


def calls(cell: Cell, namespace: dict[str, Any], kinds: tuple[type, ...]) -> bool:
    """Whether the last expression calls an object of one of these classes."""
    first, *rest = cell.called.split(".")
    found = namespace.get(first)
    for attribute in rest:
        found = getattr(found, attribute, None)
    return isinstance(found, kinds)


def run_last(cell: Cell, namespace: dict[str, Any]) -> Any:
    """The value of the last expression, or None."""
    __tracebackhide__ = True
    return None if cell.last is None else eval(cell.last, namespace)
