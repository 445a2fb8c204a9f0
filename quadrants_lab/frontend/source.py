"""Finds the text and AST of a function, and the objects that its free names refer to."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from functools import cached_property
from time import time
from types import CodeType, FunctionType
from typing import Any

from quadrants_lab.frontend.diagnostics import error, nodes_of
from quadrants_lab.frontend.names import recall
from quadrants_lab.ir.deep_recursion import depth_of_source, syntax_tree
from quadrants_lab.ir.source import Span

_IMPORTED = time()
_FACTS = "co_name", "co_firstlineno", "co_code", "co_consts", "co_names", "co_varnames", "co_freevars"
_EXECUTED = "<string>"  # the file of what `python -c` and exec run
_CACHE = "__qd_source__"  # the attribute of a function that holds its source
WATCHING: list[Callable[[FunctionSource], FunctionSource]] = []  # may add statements to each source
FINGERPRINT: ContextVar[Any] = ContextVar("quadrants_lab_fingerprint", default=None)  # of the kernel being lowered


class FunctionSource:
    """The source of a function: the name of its ``file``, all ``lines`` of the file, and the AST ``node``.

    A line number of the AST plus ``offset`` is the line in the file. Columns of the AST count bytes of UTF-8; those of
    `span` count characters. `lookup` reads names of the function's closure, module and builtins as they are now.
    """

    def __init__(self, fn: FunctionType, node: ast.FunctionDef, file: str, lines: list[str], offset: int) -> None:
        self.fn, self.node, self.file, self.lines, self.offset = fn, node, file, lines, offset
        self.name = fn.__name__
        self.assigned: dict[int, tuple[str, ...]] = {}  # a cache of `syntax.scan`, by id of the loop
        self.templates: dict[str, int] | None = None  # a cache of `syntax.byref`
        self.pure = False  # whether the function may use nothing but its arguments
        self.typed = True  # whether the annotations are dtypes and types of the language
        last = (node.end_lineno or 1) + offset
        self.ascii = "".join(lines[node.lineno + offset - 1 : last]).isascii()

    def span(self, node: Any, call: Span | None = None) -> Span:
        """The place of the AST node in the file; ``call`` is the place of the call into which it is inlined."""
        line, end_line = node.lineno + self.offset, node.end_lineno + self.offset
        col, end_col = node.col_offset, node.end_col_offset
        if not self.ascii:
            col, end_col = self._characters(line, col), self._characters(end_line, end_col)
        return Span(self.file, line, col, end_line, end_col, call)

    def _characters(self, line: int, col: int) -> int:
        return len(self.lines[line - 1].encode()[:col].decode(errors="replace"))

    def lookup(self, name: str) -> Any:
        """The object that a free name refers to; KeyError if there is none."""
        note_read(self.fn, name)
        return meaning(self.fn, name)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        code = self.fn.__code__
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @cached_property
    def untyped(self) -> FunctionSource:
        """The same source, marked as plain Python: its annotations are not read as dtypes of the language."""
        other = copy(self)
        other.typed = False
        return other

    @cached_property
    def depth(self) -> int:
        """The depth of the AST."""
        return depth_of_source(self.node)

    def names(self) -> list[str]:
        """Every name that `lookup` finds, for suggestions."""
        return [*self.fn.__code__.co_freevars, *self.fn.__globals__, *vars(builtins)]


def attribute(owner: Any, name: str) -> Any:
    """The value that the attribute has for the kernel that is being compiled: the value at the kernel's first
    compilation. AttributeError if there is none."""
    note_read(owner, name)
    return recall(owner, name, lambda: getattr(owner, name))


def note_read(owner: Any, name: str) -> None:
    """Notes in the fingerprint that the front end looks up a free name of a function, or an attribute of another
    object."""
    fingerprint = FINGERPRINT.get()
    if fingerprint is not None:
        fingerprint.read(owner, name)


def note_unknown() -> None:
    """Makes the fingerprint incomplete: the front end uses something that no text can describe."""
    fingerprint = FINGERPRINT.get()
    if fingerprint is not None:
        fingerprint.complete = False


def meaning(fn: FunctionType, name: str) -> Any:
    """The object that a free name of the function stands for in the kernel that is being compiled: the object at the
    kernel's first compilation. KeyError if there is none."""
    return recall(fn, name, lambda: _means_now(fn, name))


def _means_now(fn: FunctionType, name: str) -> Any:
    free = fn.__code__.co_freevars
    if name in free and fn.__closure__:
        try:
            return fn.__closure__[free.index(name)].cell_contents
        except ValueError:  # the variable is not assigned yet
            raise KeyError(name) from None
    if name in fn.__globals__:
        return fn.__globals__[name]
    return vars(builtins)[name]


def value_of(expression: str | CodeType, *names: Mapping[str, Any]) -> Any:
    """Evaluates a Python expression. Its names are looked up in the mappings, of which later ones hide earlier ones."""
    return eval(expression, {name: value for space in names for name, value in space.items()})


def function_source(fn: Callable[..., Any]) -> FunctionSource:
    """The source of a function or lambda that was defined in a file, a notebook cell or a text that linecache knows. It
    is cached in an attribute of the function. QuadrantsSyntaxError if there is no source."""
    if not isinstance(fn, FunctionType):
        raise error("QL1102", None, name=getattr(fn, "__name__", fn), file="not a Python function")
    known: FunctionSource | None = getattr(fn, _CACHE, None)
    if known is not None and known.fn is fn:  # a wrapper may have copied the attribute from the function that it wraps
        return known
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__) or _command(code)
    if not lines:
        raise error("QL1102", None, name=fn.__name__, file=code.co_filename)
    is_lambda = code.co_name == "<lambda>"
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise error("QL1201", None, what=f"'async def {fn.__name__}'", cure="write def, and wait in Python")
    node, offset = (_lambda(lines, fn), 0) if is_lambda else _parse(lines, code.co_firstlineno - 1, code.co_name)
    if node is None or not _made_of(lines, code):
        raise error("QL1102", None, name=fn.__name__, file=f"{code.co_filename} has changed since Python read it")
    source = FunctionSource(fn, node, code.co_filename, lines, offset)
    for watch in WATCHING:
        source = watch(source)
    setattr(fn, _CACHE, source)
    return source


def _made_of(lines: list[str], code: CodeType) -> bool:
    """Whether Python compiled ``code`` from the text ``lines``. It is true without a check unless the file was written
    since this module was imported, or several texts have the same file name."""
    known: Any = linecache.cache.get(code.co_filename, ())
    written = known[1] if len(known) > 1 else None  # notebook cells have no time of writing
    sure = code.co_filename != _EXECUTED and (written is None or written < _IMPORTED)
    return sure or _compiles_to(lines, code)


def _command(code: CodeType) -> list[str]:
    """The lines of the text that `python -c` runs, which linecache knows by itself from Python 3.13 on; none for other
    code."""
    if code.co_filename != _EXECUTED or sys.argv[:1] != ["-c"]:
        return []
    text = "".join(sys.orig_argv[-len(sys.argv) :][:1])  # the program may have changed sys.argv
    lines = text.splitlines(keepends=True)
    if not _compiles_to(lines, code):
        return []
    linecache.cache[_EXECUTED] = len(text), None, lines, _EXECUTED
    return lines


def _compiles_to(lines: list[str], code: CodeType) -> bool:
    try:
        found = [compile("".join(lines), code.co_filename, "exec", dont_inherit=True)]
    except SyntaxError:
        return False
    for one in found:
        found += (inner for inner in one.co_consts if isinstance(inner, CodeType))
    return any(all(getattr(one, fact) == getattr(code, fact) for fact in _FACTS) for one in found)


def _lambda(lines: list[str], fn: FunctionType) -> ast.FunctionDef | None:
    """The lambda as a function definition; None if the file has changed, or if, in Python 3.10, several different
    lambdas begin in the line."""
    try:
        tree = syntax_tree("".join(lines))
    except SyntaxError:
        return None
    code = fn.__code__
    found: list[Any] = [n for n in nodes_of(ast.Lambda, tree) if n.lineno == code.co_firstlineno]
    if hasattr(code, "co_positions"):
        places = [p for p in code.co_positions() if p[3]]
        begin, end = min((p[0], p[2]) for p in places), max((p[1], p[3]) for p in places)
        around = ((n, n.body) for n in found)
        found = [n for n, b in around if (b.lineno, b.col_offset) <= begin and end <= (b.end_lineno, b.end_col_offset)]
        found = found[-1:]  # the innermost
    if len({ast.dump(n) for n in found}) != 1:
        return None
    node = found[0]
    body = ast.copy_location(ast.Return(node.body), node.body)
    return ast.copy_location(ast.FunctionDef("<lambda>", node.args, [body], [], None), node)


def _parse(lines: list[str], first: int, name: str) -> tuple[ast.FunctionDef | None, int]:
    """The definition whose decorators begin in line ``first`` (from 0), and the offset of its line numbers.

    Only its lines are parsed. An indented definition is put into an ``if``, so that columns stay as they are.
    """
    if first >= len(lines):
        return None, 0
    indent = len(lines[first]) - len(lines[first].lstrip())
    for exact in (False, True):  # tokenizing all lines is slow
        end = first + len(inspect.getblock(lines[first:])) if exact else _guess_end(lines, first, indent)
        text = "".join(lines[first:end])
        try:
            tree = syntax_tree("if 1:\n" + text if indent else text)
        except SyntaxError:
            continue
        match tree.body:
            case [ast.FunctionDef() as node, *_] | [ast.If(body=[ast.FunctionDef() as node, *_])] if node.name == name:
                return node, first - (1 if indent else 0)
    return None, 0


def _guess_end(lines: list[str], first: int, indent: int) -> int:
    """The line after the definition, judged by indentation: wrong if it has a string or brackets with lines that are
    indented less than the definition."""
    k = first
    while k < len(lines) and not lines[k].lstrip().startswith(("def ", "async ")):
        k += 1
    end = k + 1
    for n in range(k + 1, len(lines)):
        text = lines[n].lstrip()
        if not text or text[0] == "#":
            continue
        if len(lines[n]) - len(text) <= indent and text[0] not in ")]}":
            break
        end = n + 1
    return end
