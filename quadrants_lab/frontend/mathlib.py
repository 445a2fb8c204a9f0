"""The operations of ``qd.math`` that are written in the kernel language itself; they are inlined like any func.

The text under each ``def`` is not Python that runs: it is read by the front end.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.source import FunctionSource, function_source
from quadrants_lab.ir.types import u32 as _u32


class Operation:
    """An operation of the language, as the functions of the library call it."""

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


_floor: Any = Operation("floor")
_log: Any = Operation("log")
_popcnt: Any = Operation("popcnt")
_select: Any = Operation("select")


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


@_func
def ffs(x: Any) -> Any:
    """Position of the lowest set bit of the integer x, counted from 1; 0 where there is none."""
    return _select(x == 0, 0, _popcnt((x & -x) - 1) + 1)


@_func
def fns(mask: Any, base: Any, offset: Any) -> Any:
    """Position of the offset-th set bit of the 32-bit mask, counted upwards from bit base (downwards where offset is
    negative; 0: the bit at base itself); 0xFFFFFFFF where there is none."""
    i = int(base)
    left = max(abs(int(offset)), 1)
    while i >= 0 and i < 32:
        if ((mask >> i) & 1) != 0:
            left -= 1
            if left == 0:
                return _u32(i)
        if offset == 0:
            return _u32(4294967295)
        i += 1 if offset > 0 else -1
    return _u32(4294967295)
