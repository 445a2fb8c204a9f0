"""Arguments by reference: parameters of funcs that are annotated `qd.template()`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import At, Local, Part, Place, fetch, locate
from quadrants_lab.frontend.values.values import Element, Struct, Temp, Value, leaves, name_of

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


def check_apart(cx: Context, name: str, references: Mapping[str, tuple[Place, ast.expr]], func: str) -> None:
    """An error where the parameter, which the func has changed, shares its place with another reference: of two values
    that go back one would be lost, and the other parameter has not seen the change."""
    place, node = references[name]
    for other, (second, at) in references.items():
        if other != name and _overlap(place, second, ast.dump(node) == ast.dump(at)):
            raise cx.fail("QL1617", at, text=name_of(at), func=func, name=name, other=other)


def _overlap(a: Place, b: Place, same: bool) -> bool:
    """Whether two places share a number; of elements at indices known at run time where the text is the ``same``."""
    if not isinstance(a, Local) or not isinstance(b, Local) or a.name != b.name:
        return False
    for p, q in zip(a.steps, b.steps, strict=False):
        if isinstance(p, At) or isinstance(q, At):
            return same
        if isinstance(p, Part) and isinstance(q, Part):
            return not {*p.positions}.isdisjoint(q.positions)
        if p != q:
            return False
    return True


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
