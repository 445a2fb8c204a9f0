"""The rows of the table of operations, see `ops.builtins`."""

import builtins
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.values.values import Value
from quadrants_lab.ir.record import dataclass

Lower = Callable[..., Value]  # (cx, call, a Value for each parameter, None if it is left out) -> Value
ALL = 99  # `Builtin.raw` of an operation that evaluates all of its arguments itself


@dataclass(frozen=True, slots=True)
class Builtin:
    """One operation of the language.

    ``params`` is the public signature: "=" marks optional parameters, a leading "*" takes any number of arguments.
    ``doc`` is the public docstring. ``home`` is the module or class below ``qd`` in which users find it, such as "math"
    or "Matrix"; "" for ``qd`` itself. ``lower`` evaluates the first ``raw`` arguments itself, from the call.
    ``elementwise``: it applies to each element of vectors and matrices. A row named ``Matrix.norm`` is the method
    ``norm`` of vectors and matrices, whose first parameter is the value itself.
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


# Python's own functions that are operations, with the names of their rows
PYTHON: dict[Any, str] = {
    getattr(builtins, n): n
    for n in ("abs", "min", "max", "pow", "range", "print", "len", "any", "all", "sum", "int", "float", "bool")
}
