"""Implements operations that are written in the kernel language itself.

The front end inlines them where they are called; Python never runs the bodies of these functions.

Iterative algorithms work on the ``detached`` argument, so that no derivative flows through the iterations. They return
``custom_jvp(value, change)``, which has that value and the derivative of ``change``, a formula for the differential of
the result. So their gradient needs no stacks and is as exact as the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.source import FunctionSource, function_source
from quadrants_lab.ir.record import dataclass


class Operation:
    """An operation of the language, as an object that functions of the library can call."""

    def __init__(self, name: str) -> None:
        self.__qd_op__ = name


class LibraryFunc:
    """A func of the library, whose source is read when it is first called."""

    __qd_func__ = True

    def __init__(self, fn: Any) -> None:
        self.fn, self.name, self.doc = fn, fn.__name__, fn.__doc__ or ""
        self.params = fn.__code__.co_varnames[: fn.__code__.co_argcount]

    @property
    def source(self) -> FunctionSource:
        return function_source(self.fn)


def ops(names: str) -> list[Any]:
    """The operations with these names."""
    return [Operation(name) for name in names.split()]


static, grouped, _abs, _max = ops("static grouped abs max")


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A function of the library that users can call.

    ``home`` is the public module below ``qd`` in which users find the function, "" for ``qd`` itself. ``sizes``: if the
    first argument is a square matrix, the numbers of rows that it may have; else (). ``vectors``: the parameters that
    are vectors, all of one length, which is ``length`` unless that is 0. ``optional``: the parameters that may be left
    out. ``method``: the function is also a method of matrices. ``elementwise``: the function applies to each element of
    a matrix."""

    func: LibraryFunc
    home: str = "math"
    sizes: tuple[int, ...] = ()
    optional: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()
    length: int = 0
    method: bool = False
    elementwise: bool = False


FUNCTIONS: list[LibraryFunction] = []


def public(home: str = "math", **traits: Any) -> Callable[..., Any]:
    """Makes a function an operation of the language, with these ``traits`` of `LibraryFunction`."""

    def add(fn: Callable[..., Any]) -> Any:
        func = LibraryFunc(fn)
        FUNCTIONS.append(LibraryFunction(func, home, **traits))
        return func

    return add


def formula(name: str, doc: str, fn: Callable[..., Any], **traits: Any) -> Any:
    """Makes a lambda an operation of the language. It must be the first lambda of its line."""
    fn.__name__, fn.__doc__ = name, doc
    return public(**traits)(fn)


def helper(fn: Any) -> Any:
    """Makes a function a func that only the library calls."""
    return LibraryFunc(fn)


@helper
def fill(x: Any, val: Any) -> Any:
    """Stores val to every element of a field or array."""
    for i in grouped(x):
        x[i] = val


@helper
def real(x: Any, dt: Any) -> Any:
    """``x`` cast to the real dtype ``dt``. If ``dt`` is None, an integer is cast to default_fp."""
    if static(dt is None):
        return x * 1.0
    else:
        return x.cast(dt)


@helper
def greatest(a: Any) -> Any:
    """A number by which to divide the entries of ``a`` before they are squared. It is their greatest absolute value m
    if m <= 1, m / 4 if m > 1 (so that the reciprocal of the result is a normal number), and 1 if all entries are 0."""
    size = 0.0 * a[0, 0]
    for i in static(range(a.n)):
        for j in static(range(a.n)):
            size = _max(size, _abs(a[i, j]))
    if size == 0.0:
        size = 1.0
    elif size > 1.0:
        size = 0.25 * size
    return size


@helper
def reciprocal(x: Any, small: Any) -> Any:
    """1 / x; 0 where abs(x) <= small."""
    r = 0.0 * x
    if x > small or -x > small:
        r = 1.0 / x
    return r
