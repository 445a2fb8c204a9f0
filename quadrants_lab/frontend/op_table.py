"""What a row of the table of operations is."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.values.values import Value
from quadrants_lab.ir.record import dataclass

Lower = Callable[..., Value]  # (cx, call, one Value a parameter) -> Value; what was left out is None


@dataclass(frozen=True, slots=True)
class Builtin:
    """One operation of the language.

    ``params`` is the public signature ("=" marks what may be left out, a leading "*" takes any number), ``doc`` the
    public docstring; ``home`` where below ``qd`` it is found if not in ``qd`` itself: the module "math", the class
    "Matrix". The first ``raw`` arguments are not evaluated: the row reads the call itself. ``elementwise``: given
    vectors or matrices it is applied to each of their elements. A row named ``Matrix.norm`` is the method ``norm`` of
    vectors and matrices, its first parameter the value itself.
    """

    name: str
    params: tuple[str, ...]
    lower: Lower
    doc: str
    raw: int = 0
    home: str = ""
    elementwise: bool = False

    @property
    def variadic(self) -> bool:
        return bool(self.params) and self.params[0].startswith("*")


# Python's own functions that are rows of the table, under their names
PYTHON: dict[Any, str] = {
    getattr(builtins, n): n
    for n in ("abs", "min", "max", "pow", "range", "print", "len", "any", "all", "sum", "int", "float", "bool")
}
