"""Defines the language's operations as Python objects. The front end recognises them by name; Python can call most
of them."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from quadrants_lab.errors import (
    QuadrantsError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
    QuadrantsSyntaxError,
)
from quadrants_lab.frontend.diagnostics import error
from quadrants_lab.frontend.op_table import OPS, Builtin
from quadrants_lab.frontend.values.constant import points
from quadrants_lab.frontend.values.tile import SUBGROUP
from quadrants_lab.ir import types as T
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.lang.elsewhere import name_of_qd as __getattr__  # noqa: F401
from quadrants_lab.lang.matrix import Matrix

_fault_of_order = lazily("frontend.ops.spaces", "fault_of_order")


class Operation:
    """A row of the front end's table of operations. A call from Python computes with Python numbers and numpy arrays in
    double precision, or is an error if the operation needs a kernel."""

    __qd_op__: str

    def __init__(self, row: Builtin, in_python: Callable[..., Any]) -> None:
        self.__qd_op__ = self.__name__ = row.name
        self._signature = f"{row.name}({', '.join(p.replace('=', '=None') for p in row.params)})"
        self.__doc__ = f"{self._signature}\n\n{row.doc}"
        self._in_python = in_python

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._in_python(*args, **kwargs)
        except QuadrantsError:
            raise
        except (TypeError, AttributeError) as e:  # errors of numpy and Python
            given = ", ".join(type(x).__name__ for x in (*args, *kwargs.values())) or "nothing"
            what = f"qd.{self._signature} cannot take {given}: {e}"
            raise QuadrantsRuntimeTypeError(what, code="QL2012") from e

    def __repr__(self) -> str:
        return f"<qd.{self.__name__}>"


def _axis(given: Any) -> range:
    """The range of a size, or of a pair of begin and end."""
    ends = given if isinstance(given, (tuple, list)) else (0, given)
    if len(ends) != 2 or not all(hasattr(end, "__index__") for end in ends):
        raise error("QL1707", None, what=given)
    return range(*ends)


class NdRange:
    """`ndrange` outside of kernels: iterates over tuples of indices, the last of the ``axes`` fastest. A kernel can
    loop over one that is passed to it. Wrong arguments are the same errors as in a kernel."""

    __qd_ndrange__ = True

    def __init__(self, *args: Any, axes: tuple[int, ...] | None = None) -> None:
        self.axes = tuple(_axis(a) for a in args)
        if fault := _fault_of_order(axes, len(args)):
            raise error(fault, None, axes=axes, n=len(args))
        self.order = tuple(range(len(args))) if axes is None else tuple(axes)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return points(self.axes, self.order)

    def __len__(self) -> int:
        return int(np.prod([len(a) for a in self.axes]))


def _rounding(fn: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, dtype=None: fn(x) if dtype is None else _cast(fn(x), dtype)


def _cast(x: Any, dtype: Any) -> Any:
    if isinstance(x, Matrix):
        return x.cast(dtype)
    return PRIMS["cast"].evaluate(as_dtype(dtype), np.float64(x) if isinstance(x, float) else x)


def _bit_cast(x: Any, dtype: Any) -> Any:
    source = as_dtype(type(x)) if isinstance(x, (bool, int, float)) else T.from_numpy(np.asarray(x).dtype)
    target: DType = as_dtype(dtype)
    if source is None or source.bits != target.bits:
        raise TypeError(f"bit_cast from {source} to {target}: the widths differ")
    return PRIMS["bitcast"].evaluate(target, source.numpy(x))


def _static_assert(cond: Any, message: Any = None) -> None:
    if not cond:
        raise AssertionError("" if message is None else message)


def _only_in_kernels(name: str) -> Callable[..., NoReturn]:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        if name.startswith("atomic_"):
            what = f"qd.{name} works on an element of a field or array inside a kernel"
            raise QuadrantsSyntaxError(what, code="QL2080")
        raise QuadrantsRuntimeError(f"qd.{name} can be called only inside a kernel", code="QL2080")

    return call


def _select(cond: Any, x1: Any, x2: Any) -> Any:
    if any(isinstance(x, Matrix) for x in (cond, x1, x2)):
        return Matrix(np.where(*map(np.asarray, (cond, x1, x2))))
    return np.where(cond, x1, x2) if np.ndim(cond) or np.ndim(x1) or np.ndim(x2) else (x1 if cond else x2)


def _truncating(prim: str, real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function that applies the primitive to integers and ``real`` to all other numbers."""

    def call(a: Any, b: Any) -> Any:
        integers = isinstance(a, int) and isinstance(b, int)
        return PRIMS[prim].evaluate(T.i64, a, b).item() if integers else real(a, b)

    return call


_PYTHON: dict[str, Callable[..., Any]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan2": np.arctan2,
    "tanh": np.tanh, "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "floor": _rounding(np.floor), "ceil": _rounding(np.ceil), "round": _rounding(np.rint), "abs": abs,
    "min": lambda *xs: reduce(np.minimum, xs), "max": lambda *xs: reduce(np.maximum, xs),
    "pow": pow, "isnan": np.isnan, "isinf": np.isinf,
    "raw_div": _truncating("raw_div", lambda a, b: a / b), "raw_mod": _truncating("raw_mod", np.fmod),
    "select": _select, "cast": _cast, "bit_cast": _bit_cast,
    "static": lambda *xs: xs[0] if len(xs) == 1 else xs,
    "static_assert": _static_assert, "static_print": print, "ndrange": NdRange, "frexp": np.frexp,
    "subgroup.group_size": lambda: SUBGROUP, "subgroup.log2_group_size": lambda: SUBGROUP.bit_length() - 1,
    "assume_in_range": lambda val, base, low, high: val,
}  # fmt: skip

_NOT_PUBLIC = ("range", "print", "len", "int", "float", "bool")


class Operations(Mapping[str, Operation]):
    """The public operations of the module ``qd.HOME`` of the language, by name. An operation is made when a program
    first uses it, and only modules of the table up to its own are imported for it. ``renamed``: names of this module ->
    rows of other modules."""

    def __init__(self, home: str, **renamed: str) -> None:
        self.home, self.renamed = home, renamed
        self.made: dict[str, Operation] = {}

    def __getitem__(self, name: str) -> Operation:
        if name not in self.made:
            row = OPS[self.renamed.get(name, name)]
            if name not in self.renamed and (row.home != self.home or name in _NOT_PUBLIC):
                raise KeyError(name)
            in_python = _PYTHON.get(row.name) or _only_in_kernels(f"{'simt.' * ('simt.' in self.home)}{row.name}")
            self.made[name] = Operation(row, in_python)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        yield from (name for name, row in OPS.items() if row.home == self.home and name not in _NOT_PUBLIC)
        yield from self.renamed

    def __len__(self) -> int:
        return sum(1 for _ in self)


def simt_operations(scope: str) -> dict[str, Operation]:
    """The operations of ``qd.simt.SCOPE`` by their names there."""
    return {name.partition(".")[2]: operation for name, operation in Operations(f"simt.{scope}").items()}


OPERATIONS = Operations("", length="SNode.length")  # the length of a list; that of a vector is qd.math.length
MATH = Operations("math")
