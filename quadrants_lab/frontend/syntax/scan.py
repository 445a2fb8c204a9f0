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
        if isinstance(node, ast.Return):
            yield RETURN
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _targets(target)


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.Tuple, ast.List)):
        for e in node.elts:
            yield from _targets(e)
    elif isinstance(node, (ast.Subscript, ast.Attribute)):
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


_RISKY = (ast.Call, ast.Subscript, ast.IfExp, ast.BoolOp, ast.Attribute, ast.Pow, ast.Div, ast.FloorDiv, ast.Mod)


def is_cheap(node: ast.AST) -> bool:
    """Whether the expression may be evaluated where its value is not needed: it costs next to nothing, and can neither
    fail nor access memory."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, _RISKY) and is_cheap(node.left) and is_cheap(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_cheap(node.operand)
    if isinstance(node, ast.Compare):
        return is_cheap(node.left) and all(is_cheap(c) for c in node.comparators)
    return False
