"""Inlines plain Python functions, lambdas, methods and other callables that a kernel calls, like funcs."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from threading import get_ident
from types import FunctionType, MethodType
from typing import Any

from quadrants_lab.frontend.diagnostics import names_in
from quadrants_lab.frontend.source import FunctionSource, attribute, function_source
from quadrants_lab.frontend.syntax.byref import templates
from quadrants_lab.frontend.values import Obj, Value
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.ir.record import dataclass

_CALLED = ("__qd_kernel__", "__qd_compile_time__")
_OURS = ("__qd_op__", "__qd_func__", "__qd_field__", "__qd_ndarray__", "__qd_struct_field__")


@dataclass(frozen=True, slots=True)
class Inlined:
    """A Python function to inline, and the arguments that its callable object adds to each call (bound method,
    partial): ``first`` in front of the positional arguments, ``keywords`` by name."""

    source: FunctionSource
    first: tuple[Value, ...]
    keywords: dict[str, Value]


def inlined(cx: Context, fn: Any, text: str) -> Inlined | None:
    """The Python function that a callable object runs; None for a builtin, a C function or a class."""
    match fn:
        case partial():
            inner = inlined(cx, fn.func, text)
            given = {k: cx.wrap(v, k) for k, v in fn.keywords.items()}
            first = tuple(cx.wrap(v, text) for v in fn.args)
            return inner and Inlined(inner.source, (*inner.first, *first), {**inner.keywords, **given})
        case MethodType():
            inner = inlined(cx, fn.__func__, text)
            return inner and replace(inner, first=(Obj(fn.__self__, text.rpartition(".")[0]), *inner.first))
        case FunctionType():
            return Inlined(function_source(fn).untyped, (), {})
    call = getattr(type(fn), "__call__", None)  # noqa: B004  # the function is used, not only tested
    if isinstance(call, FunctionType) and not isinstance(fn, type):
        return inlined(cx, MethodType(call, fn), f"{text}.__call__")
    return None


def with_references(cx: Context, node: ast.Call, fn: Any, text: str) -> Inlined | None:
    """The function or method ``fn``, if the call must pass arguments by reference, as to a func: some parameters are
    annotated `qd.template()` or `qd.ref`, and some arguments contain locals. Otherwise None."""
    function = getattr(fn, "__func__", fn)
    if not isinstance(function, FunctionType) or not function.__annotations__:
        return None
    if getattr(fn, "__module__", "").startswith("quadrants_lab.") or any(hasattr(fn, mark) for mark in _CALLED):
        return None
    env = cx.frame.env
    if not any(n.id in env and env[n.id].is_local for n in names_in(*node.args, *node.keywords)):
        return None
    found = inlined(cx, fn, text)
    return found if found is not None and templates(found.source) else None


class UsesFields(BaseException):
    """Ends a Python function that runs at compile time and is about to access a field, which it would do only once. It
    is a BaseException, so that an `except Exception` in the function does not catch it."""


def without_fields(cx: Context, call: Callable[[], Any]) -> Any:
    """The result of ``call()``. Raises `UsesFields` when the call is about to access a field or ndarray."""
    if cx.field_access_hook is None or cx.static:
        return call()
    here = get_ident()

    def touched(field: object) -> None:
        if get_ident() == here:
            raise UsesFields

    with cx.field_access_hook(touched):
        return call()


def touches_kernels(source: FunctionSource) -> bool:
    """Whether the function refers to something that only kernels can use: a field, a func, an operation."""
    return any(hasattr(value, mark) for value in _referenced(source) for mark in _OURS)


def _referenced(source: FunctionSource) -> Iterator[Any]:
    """The Python objects to which the names and attributes in the function's text refer, as far as they can be
    found."""
    for node in ast.walk(source.node):
        try:
            match node:
                case ast.Name():
                    yield source.lookup(node.id)
                case ast.Attribute(value=ast.Name(id=owner)):
                    yield attribute(source.lookup(owner), node.attr)
        except (KeyError, AttributeError, RuntimeError):
            continue
