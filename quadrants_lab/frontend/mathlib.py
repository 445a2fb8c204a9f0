"""The operations of ``qd.math`` that are written in the kernel language itself; they are inlined like any func.

The text under each ``def`` is not Python that runs: it is read by the front end.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.source import FunctionSource, function_source


class _Operation:
    def __init__(self, name: str) -> None:
        self.__qd_op__ = name


class LibraryFunc:
    """A func of the library; its source is read when it is first called."""

    __qd_func__ = True

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.name, self.doc = fn, fn.__name__, fn.__doc__ or ""
        self.params = tuple(inspect.signature(fn).parameters)

    @property
    def source(self) -> FunctionSource:
        return function_source(self.fn)


LIBRARY: dict[str, LibraryFunc] = {}


def _func(fn: Callable[..., Any]) -> Any:
    LIBRARY[fn.__name__] = func = LibraryFunc(fn)
    return func


_floor: Any = _Operation("floor")
_log: Any = _Operation("log")


@_func
def fract(x: Any) -> Any:
    """Fractional part of x: x - floor(x)."""
    return x - _floor(x)


@_func
def log2(x: Any) -> Any:
    """Logarithm of x to the base of 2."""
    return _log(x) / math.log(2)


@_func
def degrees(x: Any) -> Any:
    """x radians in degrees."""
    return x * (180 / math.pi)


@_func
def radians(x: Any) -> Any:
    """x degrees in radians."""
    return x * (math.pi / 180)


@_func
def clamp(x: Any, xmin: Any, xmax: Any) -> Any:
    """x, or the bound that it lies beyond."""
    return min(xmax, max(xmin, x))


@_func
def mix(x: Any, y: Any, a: Any) -> Any:
    """Linear interpolation: x at a = 0, y at a = 1."""
    return x * (1.0 - a) + y * a


@_func
def mod(x: Any, y: Any) -> Any:
    """x - y * floor(x / y)."""
    return x - y * _floor(x / y)


@_func
def step(edge: Any, x: Any) -> Any:
    """0 where x < edge, else 1."""
    return 0.0 if x < edge else 1.0


@_func
def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """Hermite interpolation from 0 at edge0 to 1 at edge1."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)

