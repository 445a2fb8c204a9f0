"""What the files of the library are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.source import FunctionSource, function_source
from quadrants_lab.ir.record import dataclass


class Operation:
    """An operation of the language, as the functions of the library call it."""

    def __init__(self, name: str) -> None:
        self.__qd_op__ = name


class LibraryFunc:
    """A func of the library; its source is read when it is first called."""

    __qd_func__ = True

    def __init__(self, fn: Any) -> None:
        self.fn, self.name, self.doc = fn, fn.__name__, fn.__doc__ or ""
        self.params = fn.__code__.co_varnames[: fn.__code__.co_argcount]

    @property
    def source(self) -> FunctionSource:
        return function_source(self.fn)


op = Operation


def ops(names: str) -> list[Any]:
    """The operations of these names."""
    return [Operation(name) for name in names.split()]


static, grouped, _abs, _max = ops("static grouped abs max")


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A function as an operation of the language. ``home`` is the public module below ``qd`` where it is found, "" for
    ``qd`` itself; ``sizes``: how many rows its first argument, a square matrix, may have (() where it is none);
    ``vectors``: the parameters that are vectors, all of one length, which is ``length`` where that is not 0;
    ``optional``: the parameters that may be left out; ``method``: matrices have it as a method too; ``elementwise``: it
    is applied to each element of vectors and matrices."""

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
    """Makes the function an operation of the language; ``traits``: those of `LibraryFunction`."""

    def add(fn: Callable[..., Any]) -> Any:
        func = LibraryFunc(fn)
        FUNCTIONS.append(LibraryFunction(func, home, **traits))
        return func

    return add


def formula(name: str, doc: str, fn: Callable[..., Any], **traits: Any) -> Any:
    """The same for a lambda, which has its line to itself, or begins it."""
    fn.__name__, fn.__doc__ = name, doc
    return public(**traits)(fn)


def helper(fn: Callable[..., Any]) -> Any:
    """A function that only the library calls."""
    return LibraryFunc(fn)


@helper
def fill(x: Any, val: Any) -> Any:
    """val in every element of a field or array."""
    for i in grouped(x):
        x[i] = val


@helper
def real(x: Any, dt: Any) -> Any:
    """x as the real dtype dt; where that is None as its own, or default_fp."""
    if static(dt is None):
        return x * 1.0
    else:
        return x.cast(dt)


@helper
def greatest(a: Any) -> Any:
    """The greatest absolute value of an entry; 1 where all are 0."""
    size = 0.0 * a[0, 0]
    for i in static(range(a.n)):
        for j in static(range(a.n)):
            size = _max(size, _abs(a[i, j]))
    if size == 0.0:
        size = 1.0
    return size


@helper
def reciprocal(x: Any, small: Any) -> Any:
    """1 / x; 0 where x is not beyond small."""
    r = 0.0 * x
    if x > small or -x > small:
        r = 1.0 / x
    return r
