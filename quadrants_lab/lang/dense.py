"""Fields and ndarrays as Python sees them: dense row-major memory with element access, fill and numpy both ways."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index as as_index
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import (
    QuadrantsAssertionError,
    QuadrantsIndexError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
)
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DTYPES, DType
from quadrants_lab.lang.dtypes import as_dtype
from quadrants_lab.runtime import session
from quadrants_lab.runtime.memory import Memory

MAX_DIMS = 12


def _limits(dtype: DType) -> tuple[Any, Any]:
    """Least and greatest Python number that can be written without conversion."""
    if dtype.is_float:
        high = float(np.finfo(dtype.numpy).max)
        return -high, high
    if dtype.kind == "b":
        return False, True
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


_LIMITS = {name: _limits(dtype) for name, dtype in DTYPES.items()}


class Dense:
    """Base of `ScalarField` and `ScalarNdarray`.

    Elements are read and written from Python with exactly one index an axis (``x[None]`` where there is no axis);
    indices are checked, negative ones are errors. Written integers wrap to the dtype as in kernels; a float written
    into integers is an error.
    """

    __slots__ = (
        "__weakref__",
        "_high",
        "_item",
        "_length",
        "_low",
        "_memory",
        "dtype",
        "grad",
        "name",
        "shape",
    )
    kind: ClassVar[str]

    def __init__(self, dtype: DType, shape: tuple[int, ...], needs_grad: bool, name: str) -> None:
        now = session.current()
        self._memory = Memory(now, dtype, shape)
        self._item = self._memory.array.item if dtype.kind != "b" else self._truth
        self._length = shape[0] if len(shape) == 1 else 0  # for the short way of one index
        self._low, self._high = _LIMITS[dtype.name]
        self.dtype = dtype
        self.shape = shape
        self.name = name
        self.grad = type(self)(dtype, shape, False, f"{name}.grad" if name else "") if needs_grad else None
        if needs_grad:
            now.differentiable.add(self)

    @property
    def version(self) -> int:
        """Grows with every write through Python or a kernel."""
        return self._memory.version

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def needs_grad(self) -> bool:
        return self.grad is not None

    def __getitem__(self, key: Any) -> Any:
        if not self._memory.session.alive:
            raise session.ended(repr(self))
        if key.__class__ is int and 0 <= key < self._length:
            return self._item(key)
        return self._item(self._index(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        memory = self._memory
        if not memory.session.alive:
            raise session.ended(repr(self))
        if value.__class__ is not self._low.__class__ or not self._low <= value <= self._high:
            value = self._element(value)
        if key.__class__ is not int or not 0 <= key < self._length:
            key = self._index(key)
        memory.array[key] = value
        memory.version += 1

    def __iter__(self) -> NoReturn:
        raise QuadrantsRuntimeError(
            f"{self!r} can be looped over only inside a kernel",
            code="QL2011",
            help="use to_numpy() in Python",
        )

    def __len__(self) -> int:
        raise QuadrantsRuntimeTypeError(f"{self!r} has no len()", code="QL2011", help="use .shape")

    def __bool__(self) -> bool:
        return True

    def fill(self, value: Any) -> None:
        """Writes ``value`` to every element."""
        memory = self._live()
        memory.array.fill(self._element(value))
        memory.version += 1

    def to_numpy(self, dtype: Any = None) -> npt.NDArray[Any]:
        """A copy of the data, as ``dtype`` where one is given."""
        array = self._live().array
        return array.copy() if dtype is None else array.astype(dtype)

    def from_numpy(self, arr: npt.NDArray[Any]) -> None:
        """Copies ``arr``, of the same shape, into the memory; values are cast to the dtype."""
        memory = self._live()
        if not isinstance(arr, np.ndarray):
            raise QuadrantsRuntimeTypeError(
                f"from_numpy takes a numpy array, not {type(arr).__name__}",
                code="QL2012",
                help="np.asarray(...) makes one",
            )
        if arr.shape != self.shape:
            raise ValueError(f"{self!r} has shape {self.shape}, the numpy array has shape {arr.shape}")
        with np.errstate(invalid="ignore", over="ignore"):
            memory.array[...] = arr
        memory.version += 1

    def copy_from(self, other: Dense) -> None:
        """Copies the data of a field or ndarray of the same shape."""
        if not isinstance(other, Dense):
            raise QuadrantsRuntimeTypeError(
                f"copy_from takes a field or an ndarray, not {type(other).__name__}", code="QL2012"
            )
        self.from_numpy(other._live().array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.to_numpy(dtype)

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        grad = ", needs_grad" if self.grad is not None else ""
        return f"<qd.{self.kind}{name}: {self.dtype} {self.shape}{grad}>"

    def __str__(self) -> str:
        return str(self.to_numpy())

    def _truth(self, key: Any) -> int:
        """Truth values are read as 0 and 1."""
        return int(self._memory.array[key])

    def _live(self) -> Memory:
        if not self._memory.session.alive:
            raise session.ended(repr(self))
        return self._memory

    def _index(self, key: Any) -> tuple[int, ...]:
        """One checked Python integer an axis."""
        shape = self.shape
        if key is None and not shape:
            return ()
        parts = key if type(key) is tuple else tuple(key) if isinstance(key, (list, np.ndarray)) else (key,)
        if len(parts) != len(shape) or key is None:
            want = "None" if not shape else "one index" if len(shape) == 1 else f"{len(shape)} indices"
            raise QuadrantsIndexError(
                f"{self!r} takes {want}, not [{_subscript(key)}]",
                code="QL2013",
                help="read the whole of it with to_numpy()" if shape else "write x[None] for the one element",
            )
        for i, n in zip(parts, shape, strict=True):
            if type(i) is not int:
                return self._index(tuple(self._integer(i) for i in parts))
            if not 0 <= i < n:
                raise QuadrantsAssertionError(
                    f"index [{_subscript(key)}] is outside of {self!r}",
                    code="QL2014",
                    help="negative indices do not count from the end" if i < 0 else "",
                )
        return parts

    def _integer(self, i: Any) -> int:
        try:
            return as_index(i)
        except TypeError:
            raise QuadrantsRuntimeTypeError(
                f"an index of {self!r} must be an integer, not {type(i).__name__}",
                code="QL2015",
                help="slices are not supported: use to_numpy()" if isinstance(i, slice) else "",
            ) from None

    def _element(self, value: Any) -> Any:
        """``value`` in the dtype."""
        kind = self.dtype.kind
        if isinstance(value, (bool, int, np.integer, np.bool_)) or (
            kind == "f" and isinstance(value, (float, np.floating))
        ):
            return PRIMS["cast"].evaluate(self.dtype, value)
        what = (
            f"the {type(value).__name__} {value!r}"
            if isinstance(value, (float, np.floating))
            else (f"an object of type {type(value).__name__}")
        )
        raise QuadrantsRuntimeTypeError(
            f"cannot write {what} into {self!r}",
            code="QL2016",
            help="convert it with int(...)" if isinstance(value, (float, np.floating)) else "",
        )


def _subscript(key: Any) -> str:
    return ", ".join(map(str, key)) if type(key) is tuple else str(key)


class ScalarField(Dense):
    """A field; made by `field`."""

    __slots__ = ()
    __qd_field__ = True
    kind = "field"


class ScalarNdarray(Dense):
    """An ndarray; made by `ndarray`, and passed to kernels as an argument."""

    __slots__ = ()
    __qd_ndarray__ = True
    kind = "ndarray"


def field(
    dtype: Any,
    shape: int | Iterable[int] | None = None,
    *,
    name: str = "",
    needs_grad: bool = False,
    **layout: Any,
) -> ScalarField:
    """A dense field of zeros; ``shape`` is an int, or a tuple with up to 12 positive extents (() for 0-d).

    With ``needs_grad`` (floating point only), ``.grad`` is a field of the same shape.
    """
    if layout:
        known = layout.keys() & {"offset", "order", "layout", "needs_dual"}
        raise TypeError(
            f"qd.field: {', '.join(sorted(known))} is not supported yet by quadrants_lab"
            if known
            else f"qd.field has no argument {', '.join(sorted(layout))}: it takes dtype, shape, name, needs_grad"
        )
    if shape is None:
        raise QuadrantsRuntimeError(
            "a field needs a shape: placing fields by hand is not supported yet",
            code="QL2017",
            help="write qd.field(qd.f32, shape=(...))",
        )
    return ScalarField(*_checked("field", dtype, shape, needs_grad), name)


def ndarray(dtype: Any, shape: int | Iterable[int], needs_grad: bool = False) -> ScalarNdarray:
    """A dense array of zeros to be passed to kernels; arguments as for `field`."""
    return ScalarNdarray(*_checked("ndarray", dtype, shape, needs_grad), "")


def _checked(
    kind: str, dtype: Any, shape: int | Iterable[int], needs_grad: bool
) -> tuple[DType, tuple[int, ...], bool]:
    extents = _extents(kind, shape)
    type_ = as_dtype(dtype)
    if needs_grad and not type_.is_float:
        raise QuadrantsRuntimeError(
            f"{type_} is not supported for a {kind} with needs_grad=True",
            code="QL2018",
            help="only floating point can have a gradient",
        )
    return type_, extents, bool(needs_grad)


def _extents(kind: str, shape: int | Iterable[int]) -> tuple[int, ...]:
    try:
        extents = tuple(as_index(n) for n in shape) if isinstance(shape, Iterable) else (as_index(shape),)
    except TypeError:
        raise QuadrantsRuntimeTypeError(
            f"{shape!r} is not a shape", code="QL2019", help="an int, or a tuple of ints; () for 0-d"
        ) from None
    if any(n <= 0 for n in extents) or len(extents) > MAX_DIMS:
        why = "every extent must be positive" if len(extents) <= MAX_DIMS else f"at most {MAX_DIMS} axes"
        raise QuadrantsRuntimeError(f"{extents} is not a valid shape for a {kind}: {why}", code="QL2019")
    return extents
