"""Arguments by reference: parameters of funcs that are annotated `qd.template()`."""

from __future__ import annotations

import ast
from typing import Any

from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import Local, Place, fetch, locate
from quadrants_lab.frontend.values.values import Element, Struct, Temp, Value, leaves

References = dict[str, tuple[Place, ast.expr]]
_PLACES = (ast.Name, ast.Subscript, ast.Attribute)


def is_template(source: FunctionSource, parameter: ast.arg) -> bool:
    """Whether the parameter of a func is annotated `qd.template()`, by whatever name."""
    return parameter.arg in templates(source)


def templates(source: FunctionSource) -> dict[str, int]:
    """The template parameters of a func, with their positions."""
    if source.templates is None:
        a = source.node.args
        every = enumerate([*a.posonlyargs, *a.args, *a.kwonlyargs])
        source.templates = {p.arg: k for k, p in every if p.annotation is not None and _is_template(source, p)}
    return source.templates


def _is_template(source: FunctionSource, parameter: ast.arg) -> bool:
    given = source.fn.__annotations__.get(parameter.arg)
    if isinstance(given, str):  # not evaluated
        try:
            given = _named(source, ast.parse(given, mode="eval").body)
        except (SyntaxError, KeyError, AttributeError):  # a name of the function around it
            return given.lower().rstrip("()").endswith("template")
    return getattr(given, "__qd_template__", False) is True


def _named(source: FunctionSource, node: ast.expr) -> Any:
    """What a name, an attribute or a call of one stands for; of a call what is called."""
    if isinstance(node, ast.Attribute):
        return getattr(_named(source, node.value), node.attr)
    if isinstance(node, ast.Call):
        return _named(source, node.func)
    return source.lookup(node.id) if isinstance(node, ast.Name) else None


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
