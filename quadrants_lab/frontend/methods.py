"""Which locals a piece of code may change: those that it assigns, and those whose methods change them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from quadrants_lab.frontend.byref import changed_by_calls
from quadrants_lab.frontend.context import Context
from quadrants_lab.frontend.scan import assigned, method_calls
from quadrants_lab.frontend.values import Matrix, Struct, Value

_OF_MATRICES = ("fill",)


def changed(cx: Context, owner: ast.AST, body: Sequence[ast.AST]) -> tuple[str, ...]:
    """Names that ``body``, which belongs to ``owner``, may give a new value."""
    names = assigned(cx.frame.source, owner, body)
    env = cx.frame.env
    names = tuple(dict.fromkeys((*names, *changed_by_calls(cx, owner, body))))
    if not any(isinstance(v, (Matrix, Struct)) for v in env.values()):
        return names
    more = {
        name for name, method in sorted(method_calls(body))
        if name not in names and name in env and _changes(env[name], method)
    }  # fmt: skip
    return (*names, *(n for n in env if n in more))


def _changes(value: Value, method: str) -> bool:
    """Whether the method of that name may change the value, or a part of it."""
    if isinstance(value, Matrix):
        return method in _OF_MATRICES
    return isinstance(value, Struct) and any(_changes_self(fn) for fn in _methods(value, method))


def _methods(value: Value, name: str) -> Iterator[Any]:
    """The methods of that name of a struct and of the structs in it."""
    if isinstance(value, Struct):
        fn = getattr(value.type, "methods", {}).get(name)
        if fn is not None:
            yield fn
        for member in value.members.values():
            yield from _methods(member, name)


def _changes_self(fn: Any) -> bool:
    """Whether a method assigns its first parameter, a part of it, or calls any method of it."""
    source = fn.source
    body, parameters = source.node.body, source.node.args
    own = [*parameters.posonlyargs, *parameters.args][0].arg
    return own in assigned(source, source.node, body) or any(name == own for name, _ in method_calls(body))
