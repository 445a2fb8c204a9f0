"""Changes a context variable for a while and restores it, at whatever moment Ctrl-C comes.

Python looks for signals at the end of a call of C. Between ``token = variable.set(value)`` and the ``try`` after it,
Ctrl-C would lose the token, and the variable would keep the value for ever.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TypeVar

T = TypeVar("T")


def put(variable: ContextVar[T], value: T, tokens: list[Token[T]]) -> None:
    """Sets the variable and appends the token to ``tokens``, both in one call."""
    tokens.extend(map(variable.set, (value,)))


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Makes a context in which the variable has this value."""
    tokens: list[Token[T]] = []
    try:
        put(variable, value, tokens)
        yield
    finally:
        for token in tokens:
            variable.reset(token)


@contextmanager
def uncollected() -> Iterator[None]:
    """Makes a context in which the garbage collector does not run."""
    collects = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collects:
            gc.enable()
