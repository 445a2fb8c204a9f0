"""Which functions that are wrapped by functools or decorators can be compiled."""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from quadrants_lab.errors import Label, QuadrantsSyntaxError
from quadrants_lab.ir.source import Span


def unwrapped(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function that ``@qd.WHAT`` compiles. A cache around a func is ignored. Any other wrapper is an error, because
    its Python code would be lost; the message says where the wrapper belongs."""
    if isinstance(fn, functools.partial):
        name = getattr(fn.func, "__name__", "f")
        raise _error(
            fn.func, f"@qd.{what} compiles functions, functools.partial({name}, ...) is not one",
            f"the other way round: functools.partial(qd.kernel({name}), ...)" if what == "kernel"
            else f"write a {what} that calls {name} with these arguments",
        )  # fmt: skip
    inner = getattr(fn, "__wrapped__", None)
    if inner is None:
        return fn
    if hasattr(fn, "cache_info"):
        if what != "kernel":
            return unwrapped(inner, what)
        raise _error(
            inner, f"kernel {inner.__name__} is cached: a launch that the cache answers would write nothing",
            "leave the cache out: what is compiled is kept without it",
        )  # fmt: skip
    if not isinstance(fn, FunctionType) or _parameters(fn) != _parameters(inner):
        name = getattr(inner, "__name__", "a function")
        raise _error(
            inner, f"the wrapper of {name} is Python code that @qd.{what} cannot compile",
            f"the other way round: write @qd.{what} directly above def, under the other decorators",
        )  # fmt: skip
    return fn


def _parameters(fn: Callable[..., Any]) -> list[str]:
    """The names of the parameters of the function itself, not of the one that it wraps."""
    return list(inspect.signature(fn, follow_wrapped=False).parameters)


def _error(fn: Any, message: str, help: str) -> QuadrantsSyntaxError:
    """The error, located at the definition of the function that was wrapped, if that is a Python function."""
    fn = inspect.unwrap(fn) if hasattr(fn, "__wrapped__") else fn
    labels: tuple[Label, ...] = ()
    if isinstance(fn, FunctionType):
        line = fn.__code__.co_firstlineno
        labels = (Label(Span(fn.__code__.co_filename, line, 0, line + 1, 0), "this function"),)
    return QuadrantsSyntaxError(message, code="QL2067", labels=labels, help=help)
