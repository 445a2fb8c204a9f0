"""Facts about code that its syntax shows: the names that it assigns, its breaks and returns."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

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
    """The statements of the body, and of the bodies in statements of the types ``into``, in order of appearance."""
    for s in body:
        yield s
        if isinstance(s, into):
            yield from _statements((*s.body, *s.orelse), into)


def has_break(body: Sequence[ast.stmt]) -> bool:
    """Whether the body of a loop has a break of this loop."""
    return any(isinstance(s, ast.Break) for s in _statements(body, ast.If))


def first_return(body: Sequence[ast.stmt]) -> ast.Return | None:
    """The first return statement in the body, at any depth."""
    return next((s for s in _statements(body) if isinstance(s, ast.Return)), None)


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through the body ends in a return; loops are taken as if they did not return."""
    return any(
        isinstance(s, ast.Return) or (isinstance(s, ast.If) and always_returns(s.body) and always_returns(s.orelse))
        for s in body
    )


_CHEAP = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.expr_context, ast.unaryop, ast.cmpop,
    ast.Add, ast.Sub, ast.Mult, ast.MatMult, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift,
)  # fmt: skip


def is_cheap(node: ast.AST) -> bool:
    """Whether the expression may be evaluated where its value is not needed: it costs next to nothing, and can neither
    fail nor access memory."""
    return all(isinstance(n, _CHEAP) for n in ast.walk(node))
