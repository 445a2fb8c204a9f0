"""Compiles and runs a cell's text in the user's namespace, the last expression separately. The cell's lines are put
into linecache."""

import ast
import linecache
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from types import CodeType
from typing import Any

from quadrants_lab.ir.deep_recursion import deeply_recursive, syntax_tree


@dataclass(frozen=True, slots=True)
class Cell:
    """A compiled cell. ``file``: its name in linecache. ``lines``: its text; line 1 is the magic's own line, so line
    numbers are those of the editor. ``last``: the last expression, None if there is none to display. ``called``: the
    (dotted) name that the last expression calls, None if it is no such call. ``pair``: the function and the arguments
    if the last expression is a call with two arguments."""

    file: str
    lines: tuple[str, ...]
    body: CodeType
    last: CodeType | None
    called: CodeType | None = None
    pair: tuple[CodeType, ...] = ()


@deeply_recursive
def compile_cell(
    text: str, magic: str, number: int, flags: int = 0, transform: Callable[[str], str] = lambda text: text
) -> Cell:
    """Compiles the cell below the ``magic`` line; SyntaxError with the cell's line numbers. ``transform`` makes Python
    of a cell with other magics or commands of the shell in it."""
    try:
        return _compiled(text, magic, number, flags)
    except SyntaxError:
        blank = "\n" * (len(text) - len(text.lstrip("\n")))  # IPython leaves out empty lines at the beginning
        python = blank + transform(text)
        if python.strip() == text.strip():
            raise
    return _compiled(python, magic, number, flags)


def _compiled(text: str, magic: str, number: int, flags: int) -> Cell:
    source = f"{magic}\n{text}"
    file = _name(number, source)
    tree = syntax_tree(f"\n{text}", file=file, flags=flags)
    lines = source.splitlines(keepends=True)
    linecache.cache[file] = (len(source), None, lines, file)  # checkcache keeps an entry without mtime
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
    if isinstance(shown, ast.Call):
        name, args = shown.func, shown.args
        while isinstance(name, ast.Attribute):
            name = name.value
        called = compiled(shown.func) if isinstance(name, ast.Name) else None
        pair = len(args) == 2 and not shown.keywords and not any(isinstance(a, ast.Starred) for a in args)
        cell = replace(cell, called=called, pair=tuple(map(compiled, (shown.func, *args) if pair else ())))
    return cell if shown is None else replace(cell, last=compiled(shown))


def _name(number: int, source: str) -> str:
    """A name that no other text has in linecache. Cell numbers repeat if the shell keeps no history."""
    tries = (f"Cell In[{number}]" + (f" ({k})" if k else "") for k in count())
    return next(t for t in tries if t not in linecache.cache or "".join(linecache.getlines(t)) == source)


def _silenced(text: str) -> bool:
    """Whether the cell ends in a semicolon, which means as in an ordinary cell: do not display the value."""
    lines = [x for x in text.splitlines() if x.strip() and not x.strip().startswith("#")]
    return bool(lines) and lines[-1].split(" #")[0].rstrip().endswith(";")


def execute(code: CodeType | None, namespace: dict[str, Any]) -> Any:
    """Runs statements, or returns the value of an expression."""
    __tracebackhide__ = True
    return None if code is None else eval(code, namespace)


def calls(cell: Cell, namespace: dict[str, Any], kinds: tuple[type, ...]) -> bool:
    """Whether the last expression calls an object of one of these classes."""
    with suppress(NameError, AttributeError):
        return cell.called is not None and isinstance(execute(cell.called, namespace), kinds)
    return False
