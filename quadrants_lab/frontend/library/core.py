"""What the files of the library are written with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrants_lab.frontend.mathlib import LibraryFunc, Operation

op = Operation
static: Any = Operation("static")


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A public function: ``home`` is the module below ``qd`` where it is found, "" for ``qd`` itself. ``sizes``: how many
    rows its first argument, a square matrix, may have; () where it takes anything."""

    func: LibraryFunc
    home: str
    sizes: tuple[int, ...] = ()
    optional: tuple[str, ...] = ()


FUNCTIONS: list[LibraryFunction] = []


def public(home: str = "math", sizes: tuple[int, ...] = (), optional: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Makes the function an operation of the language."""

    def add(fn: Callable[..., Any]) -> Any:
        func = LibraryFunc(fn)
        FUNCTIONS.append(LibraryFunction(func, home, sizes, optional))
        return func

    return add


def helper(fn: Callable[..., Any]) -> Any:
    """A function that only the library calls."""
    return LibraryFunc(fn)
