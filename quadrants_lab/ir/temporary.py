"""State that is another one for a while. Ctrl-C at any place leaves it as it was before.

Python looks for signals at the end of a call of C, so between ``token = variable.set(value)`` and the ``try`` after it
the variable would keep its value for ever, and nobody would have the token.
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
    """Within the with, the variable has this value."""
    tokens: list[Token[T]] = []
    try:
        put(variable, value, tokens)
        yield
    finally:
        for token in tokens:
            variable.reset(token)


@contextmanager
def uncollected() -> Iterator[None]:
    """Within the with, the garbage collector does not run."""
    collects = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collects:
            gc.enable()
