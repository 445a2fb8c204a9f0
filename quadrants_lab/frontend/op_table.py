"""The table of the operations of the language, such as `qd.sin`. A call of an object with ``__qd_op__ == name`` is
lowered by ``OPS[name]``."""

import builtins
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from quadrants_lab.frontend.values import Value
from quadrants_lab.ir.importing import importing
from quadrants_lab.ir.record import dataclass

Lower = Callable[..., Value]  # (cx, call, a Value for each parameter, None if it is left out) -> Value
ALL = 99  # `Builtin.raw` of an operation that evaluates all of its arguments itself


@dataclass(frozen=True, slots=True)
class Builtin:
    """One operation of the language.

    ``params`` is the public signature: "=" marks optional parameters, a leading "*" takes any number of arguments.
    ``doc`` is the public docstring. ``home`` is the module or class below ``qd`` in which users find it, such as "math"
    or "Matrix"; "" for ``qd`` itself. ``lower`` gets the first ``raw`` arguments unevaluated, as parts of the call.
    ``elementwise``: the operation applies to each element of vectors and matrices. A row named ``Matrix.norm`` is the
    method ``norm`` of vectors and matrices, whose first parameter is the value itself.
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


_OF_MATRICES = ("constructors", "linalg", "library.linear")


class _Table(Mapping[str, Builtin]):
    """The rows of ``modules`` of `frontend.ops` by name, where "library.NAME" is the module NAME of the library. Most
    kernels call few operations, so a module is imported only when all modules before it lack a name, or when all names
    are asked for. A name that begins with Matrix or Vector is looked for in the modules of matrices first."""

    def __init__(self, *modules: str) -> None:
        self.rows: dict[str, Builtin] = {}
        self.rest = modules

    def add(self, module: str) -> None:
        ops, _, of_library = module.partition(".")
        with importing():
            found = import_module(f"quadrants_lab.frontend.ops.{ops}")
            rows = found.rows_of(of_library) if of_library else found.ROWS
        self.rows.update((row.name, row) for row in rows)
        self.rest = tuple(other for other in self.rest if other != module)

    def __getitem__(self, name: str) -> Builtin:
        first = _OF_MATRICES if name.startswith(("Matrix", "Vector")) else ()
        for module in (*first, *self.rest):
            if name in self.rows:
                break
            if module in self.rest:
                self.add(module)
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        for module in self.rest:
            self.add(module)
        return iter(self.rows)

    def __len__(self) -> int:
        return sum(1 for _ in self)


# modules whose operations most kernels call come first
OPS = _Table(
    "builtins", "spaces", "static", "numbers", "constructors", "linalg", "library.linear", "library",
    "library.scalars", "library.geometry", "library.decompositions", "activation", "simt",
)  # fmt: skip
