"""Finds facts in the syntax of code before it is lowered: the names that it assigns, its breaks and returns."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from quadrants_lab.frontend.diagnostics import id_of, names_in, nodes_of
from quadrants_lab.frontend.source import FunctionSource

RETURN = "return"  # the hidden local that early returns of a func assign; no program can use this name


def assigned_names(source: FunctionSource, owner: ast.AST, body: Sequence[ast.AST]) -> tuple[str, ...]:
    """Names assigned in ``body`` at any depth, in order of appearance; cached for the loop ``owner``."""
    known = source.assigned.get(id(owner))
    if known is None:
        known = source.assigned[id(owner)] = tuple(dict.fromkeys(_assigned(body)))
    return known


def _assigned(body: Sequence[ast.AST]) -> Iterator[str]:
    for node in _statements(body):
        match node:
            case ast.Return():
                yield RETURN
            case ast.Assign():
                yield from _targets(*node.targets)
            case ast.AugAssign() | ast.AnnAssign():
                yield from _targets(node.target)


def _targets(*nodes: ast.AST) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name():
                yield node.id
            case ast.Tuple() | ast.List():
                yield from _targets(*node.elts)
            case ast.Subscript() | ast.Attribute():
                yield from _targets(node.value)


def _statements(body: Sequence[Any], into: Any = (ast.If, ast.For, ast.While)) -> Iterator[Any]:
    """The statements of the body, in order of appearance, together with the statements inside those whose class is in
    ``into``."""
    for s in body:
        yield s
        if isinstance(s, into):
            yield from _statements((*s.body, *s.orelse), into)


def _first(kind: type[ast.stmt], body: Sequence[ast.stmt], into: Any = (ast.If, ast.For, ast.While)) -> Any:
    """The first of the `_statements` of this kind; None if there is none."""
    return next((s for s in _statements(body, into) if isinstance(s, kind)), None)


def has_break(body: Sequence[ast.stmt]) -> bool:
    """Whether the body of a loop has a break of this loop."""
    return _first(ast.Break, body, ast.If) is not None


def has_read_element(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether the body reads an element or a part of the vector or matrix ``name``."""
    parts = nodes_of(ast.Subscript, *body)
    return any(id_of(n.value) == name and type(n.ctx) is ast.Load for n in parts)


def first_return(body: Sequence[ast.stmt]) -> ast.Return | None:
    """The first return statement in the body, at any depth."""
    found: ast.Return | None = _first(ast.Return, body)
    return found


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through the body ends in a return. A return inside a loop does not count, since the loop may
    have no iteration."""
    for s in body:
        match s:
            case ast.Return():
                return True
            case ast.If() if always_returns(s.body) and always_returns(s.orelse):
                return True
    return False


def is_private(function: ast.FunctionDef, loop: ast.For, name: str) -> bool:
    """Whether each iteration of the loop can have its own copy of the local ``name``: the iteration assigns the local
    before it reads it, and the function does not read the local after the loop before it assigns it again."""
    if _first_use(loop.body, name) == "read":
        return False
    around: list[Any] = []
    _find(function.body, loop, around)
    for block, at in around:  # the innermost block first
        use = _first_use(block[at + 1 :], name)
        if use != "" or block is function.body:
            return use != "read"
        owner = next(n for n in ast.walk(function) if block in (getattr(n, "body", 0), getattr(n, "orelse", 0)))
        if isinstance(owner, (ast.For, ast.While)) and _first_use([*_tests(owner), *block], name) == "read":
            return False
    return False


def _find(block: list[Any], loop: ast.For, around: list[Any]) -> bool:
    """Searches the block for the loop, and appends each block around it to ``around``, with the position of the
    statement that contains the loop. Returns whether the loop was found."""
    for k, s in enumerate(block):
        if s is loop or any(_find(inner, loop, around) for inner in (getattr(s, "body", []), getattr(s, "orelse", []))):
            around.append((block, k))
            return True
    return False


def _first_use(body: Sequence[Any], name: str) -> str:
    """What the statements do first with a local: "read" if some path may read it before it assigns it, "assigned" if
    every path assigns it first, else ""."""
    for s in body:
        match s:
            case ast.If():
                arms = [_first_use([s.test], name), *(_first_use(b, name) for b in (s.body, s.orelse))]
                use = "read" if "read" in arms else "assigned" if arms[1:] == ["assigned"] * 2 else ""
            case ast.For() | ast.While():
                inner = _first_use([*_tests(s), *s.body], name)
                use = "read" if inner == "read" else ""
            case ast.With() | ast.Try():
                use = _first_use([*_tests(s), *s.body], name)
            case _:
                used = [n for n in names_in(s) if n.id == name]
                reads = type(s) is ast.AugAssign or any(type(n.ctx) is ast.Load for n in used)
                use = "read" if used and reads else "assigned" if used else ""
        if use:
            return use
        if isinstance(s, (ast.Break, ast.Continue, ast.Return)):
            break
    return ""


def _tests(s: Any) -> list[ast.AST]:
    """The expressions that a compound statement evaluates before its body."""
    items = [i.context_expr for i in getattr(s, "items", [])]
    return [getattr(s, at) for at in ("iter", "test") if hasattr(s, at)] + items


_CHEAP = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.expr_context, ast.unaryop, ast.cmpop,
    ast.Add, ast.Sub, ast.Mult, ast.MatMult, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift,
)  # fmt: skip


def is_cheap(node: ast.AST) -> bool:
    """Whether the expression may be evaluated even if its value is not needed: it costs almost nothing, cannot fail,
    and does not access memory."""
    return all(isinstance(n, _CHEAP) for n in ast.walk(node))
