"""Makes a kernel that fails smaller while it fails in the same way: by its syntax tree, largest cuts first."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator

_INTEGER_NAMES = "ijkwuhonm"  # first letters of what the strategy makes integers


def reduce(text: str, fails: Callable[[str], bool], seconds: float = 60.0) -> str:
    """The smallest text found in the time for which ``fails`` still holds."""
    end = time.monotonic() + seconds
    found = True
    while found:
        found = False
        tried = set()
        for smaller in _smaller(ast.parse(text)):
            if time.monotonic() > end:
                return text
            if len(smaller) >= len(text) or smaller in tried:
                continue
            tried.add(smaller)
            if fails(smaller):
                text, found = smaller, True
                break
    return text


def _smaller(tree: ast.Module) -> Iterator[str]:
    """Texts of the tree with one part cut out or replaced by something simpler of the same type."""
    places = []
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                places += [(node, name, k, x) for k, x in enumerate(value) if isinstance(x, ast.AST)]
            elif isinstance(value, ast.AST):
                places.append((node, name, None, value))
    places.sort(key=lambda p: -_size(p[3]))
    for node, name, k, part in places:
        old = getattr(node, name)
        for new in _replacements(node, name, part):
            if k is None:
                setattr(node, name, new)
            else:
                setattr(node, name, [*old[:k], *(new if isinstance(new, list) else [new]), *old[k + 1 :]])
            try:
                text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            except (ValueError, AttributeError, TypeError):  # a tree that is none
                continue
            finally:
                setattr(node, name, old)
            yield text


def _size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def _replacements(owner: ast.AST, name: str, part: ast.AST) -> list:
    if isinstance(part, ast.stmt):
        if isinstance(part, ast.FunctionDef) and part.name == "k":
            return []
        out: list = [] if isinstance(part, ast.Pass) else [[ast.Pass()]]
        if len(getattr(owner, name)) > 1 or name == "orelse":
            out = [[]]
        if isinstance(part, ast.If):
            out += [part.body, *([part.orelse] if part.orelse else [])]
        if isinstance(part, (ast.For, ast.While)):
            out.append(part.body)
        return out
    stays = isinstance(getattr(part, "ctx", None), ast.Store) or name in ("func", "target", "targets")
    if not isinstance(part, ast.expr) or stays or isinstance(part, ast.Constant):
        return []
    if name == "value" and isinstance(owner, (ast.Subscript, ast.Attribute)):
        return []
    inner = [x for x in ast.walk(part) if isinstance(x, ast.expr) and x is not part]
    simple = [*map(ast.Constant, (0.517, 1, 2, True)), ast.Name("i", ast.Load()), ast.Name("v", ast.Load())]
    kind = _kind(part)
    return [x for x in [*sorted(inner, key=_size)[:12], *simple] if kind and _kind(x) == kind]


def _kind(x: ast.expr) -> str:
    """"int", "float" or "bool", or "" for what is no number."""
    if isinstance(x, ast.Constant):
        return type(x.value).__name__ if isinstance(x.value, (bool, int, float)) else ""
    if isinstance(x, ast.Name):
        return "int" if x.id[0] in _INTEGER_NAMES else "float"
    if isinstance(x, ast.Subscript):
        return "int" if isinstance(x.value, ast.Name) and x.value.id in ("n", "m", "at") else "float"
    if isinstance(x, (ast.Compare, ast.BoolOp)):
        return "bool"
    if isinstance(x, ast.UnaryOp):
        return "bool" if isinstance(x.op, ast.Not) else _kind(x.operand)
    if isinstance(x, ast.BinOp):
        both = {_kind(x.left), _kind(x.right)}
        return "float" if isinstance(x.op, ast.Div) or "float" in both else "int"
    if isinstance(x, ast.IfExp):
        return _kind(x.body)
    if isinstance(x, ast.Call):
        name = x.func.attr if isinstance(x.func, ast.Attribute) else getattr(x.func, "id", "")
        if name in ("range", "ndrange", "static") or name.startswith("atomic"):
            return ""
        if name in ("max", "min", "abs"):
            return "float" if any(_kind(a) == "float" for a in x.args) else "int"
        return "float"
    return ""
