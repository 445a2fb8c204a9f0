"""Arguments by reference: parameters of funcs that are annotated `qd.template()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from quadrants_lab.frontend.context import Context
from quadrants_lab.frontend.place import Local, Place, fetch, locate
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.values import Element, Obj, Struct, Temp, Value, leaves, name_of

References = dict[str, tuple[Place, ast.expr]]
_PLACES = (ast.Name, ast.Subscript, ast.Attribute)


def is_template(parameter: ast.arg) -> bool:
    note = parameter.annotation
    if note is None:
        return False
    if isinstance(note, ast.Constant):
        return isinstance(note.value, str) and note.value.lower().rstrip("()").endswith("template")
    return name_of(note.func if isinstance(note, ast.Call) else note).lower().endswith("template")


def templates(source: FunctionSource) -> dict[str, int]:
    """The template parameters of a func, with their positions."""
    a = source.node.args
    return {p.arg: k for k, p in enumerate([*a.posonlyargs, *a.args, *a.kwonlyargs]) if is_template(p)}


def refer(cx: Context, node: ast.expr, parameter: str, references: References) -> Value:
    """An argument for a template parameter. A local of the caller is put into ``references``: what the func makes of it
    goes back; an element of a field or ndarray stands for itself."""
    if not isinstance(node, _PLACES):
        return cx.expr(node)
    place = locate(cx, node)
    value = fetch(cx, place, node)
    numbers = list(leaves(value))
    if isinstance(place, Local) and not any(isinstance(leaf, Temp) for leaf in numbers):
        references[parameter] = (place, node)
    elif numbers and isinstance(value, (Element, Struct)) and all(isinstance(leaf, Element) for leaf in numbers):
        return value
    return cx.loaded(value, node)


def changed_by_calls(cx: Context, owner: ast.AST, body: Sequence[ast.AST]) -> Iterator[str]:
    """Locals that calls of funcs in ``body`` take by reference."""
    source = cx.frame.source
    calls = source.calls.get(id(owner))
    if calls is None:
        calls = source.calls[id(owner)] = [
            n for b in body for n in ast.walk(b) if isinstance(n, ast.Call) and (n.args or n.keywords)
        ]
    for call in calls:
        func, bound = _func(cx, call.func)
        if func is None:
            continue
        wanted = templates(func)
        for k, a in enumerate(call.args, bound):
            if k in wanted.values():
                yield from _root(cx, a)
        for kw in call.keywords:
            if kw.arg in wanted:
                yield from _root(cx, kw.value)


def _root(cx: Context, node: ast.expr) -> Iterator[str]:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    if isinstance(node, ast.Name) and node.id in cx.frame.env:
        yield node.id


def _func(cx: Context, node: ast.expr) -> tuple[FunctionSource | None, int]:
    """The func that an expression names, and how many of its parameters are given by what it is bound to."""
    found = _object(cx, node)
    bound = getattr(found, "__qd_bound__", None)
    func = found if bound is None else bound[0]
    return (func.source, 1 if bound is not None else 0) if getattr(func, "__qd_func__", False) is True else (None, 0)


def _object(cx: Context, node: ast.expr) -> Any:
    """The Python object that names and attributes lead to; None where they lead to a value of the running kernel."""
    if isinstance(node, ast.Attribute):
        owner = _object(cx, node.value)
        return None if owner is None else getattr(owner, node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    value = cx.frame.env.get(node.id)
    if value is not None:
        return value.value if isinstance(value, Obj) else None
    try:
        return cx.frame.source.lookup(node.id)
    except KeyError:
        return None
