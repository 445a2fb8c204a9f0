"""What the syntax of a piece of code shows: the names that it assigns, its breaks and returns."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from quadrants_lab.frontend.source import FunctionSource

RETURN = "return"  # the hidden local that early returns of a func assign; no name of a program


def assigned(source: FunctionSource, owner: ast.AST, body: Sequence[ast.AST]) -> tuple[str, ...]:
    """Names assigned in ``body`` at any depth, in order of appearance; remembered for ``owner``."""
    known = source.assigned.get(id(owner))
    if known is None:
        found: dict[str, None] = {}
        for node in body:
            _visit(node, found)
        known = source.assigned[id(owner)] = tuple(found)
    return known


def _visit(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, ast.Assign):
        for t in node.targets:
            _target(t, found)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        _target(node.target, found)
    elif isinstance(node, ast.Return):
        found[RETURN] = None
    if isinstance(node, (ast.If, ast.For, ast.While)):
        for inner in (*node.body, *node.orelse):
            _visit(inner, found)


def _target(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, ast.Name):
        found[node.id] = None
    elif isinstance(node, (ast.Tuple, ast.List)):
        for e in node.elts:
            _target(e, found)
    elif isinstance(node, (ast.Subscript, ast.Attribute)):
        _target(node.value, found)


def breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether the body has a break that leaves the loop that it is the body of."""
    for s in body:
        if isinstance(s, ast.Break):
            return True
        if isinstance(s, ast.If) and (breaks(s.body) or breaks(s.orelse)):
            return True
    return False


def returns(body: Sequence[ast.stmt]) -> ast.Return | None:
    """The first return statement in the body, at any depth."""
    for s in body:
        if isinstance(s, ast.Return):
            return s
        if isinstance(s, (ast.If, ast.For, ast.While)):
            found = returns(s.body) or returns(s.orelse)
            if found is not None:
                return found
    return None


def always_returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every way through the body ends in a return."""
    for s in body:
        if isinstance(s, ast.Return):
            return True
        if isinstance(s, ast.If) and always_returns(s.body) and always_returns(s.orelse):
            return True
    return False


_RISKY = (ast.Call, ast.Subscript, ast.IfExp, ast.BoolOp, ast.Attribute, ast.Pow, ast.Div, ast.FloorDiv, ast.Mod)


def harmless(node: ast.AST) -> bool:
    """Whether evaluating the expression costs next to nothing and can neither fail nor touch memory."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, _RISKY) and harmless(node.left) and harmless(node.right)
    if isinstance(node, ast.UnaryOp):
        return harmless(node.operand)
    if isinstance(node, ast.Compare):
        return harmless(node.left) and all(harmless(c) for c in node.comparators)
    return False
