"""What fields and ndarrays are to Python: dense row-major memory with element access, fill and numpy both ways."""

from __future__ import annotations

from collections.abc import Callable
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
from quadrants_lab.ir.types import DTYPES, DType
from quadrants_lab.lang.annotations import NdarrayType
from quadrants_lab.lang.exchange import from_torch, shared, to_numpy, to_torch
from quadrants_lab.lang.placed import Placed
from quadrants_lab.runtime import session
from quadrants_lab.runtime.arguments.fitting import LIMITS, check, fitted
from quadrants_lab.runtime.launch.observe import differentiating
from quadrants_lab.runtime.memory.memory import Memory, allocate


class _Nowhere:
    """The memory of a field that is not placed; like that of an ended session, it cannot be used."""

    alive = quiet = False
    session: _Nowhere


NOWHERE = _Nowhere()
NOWHERE.session = NOWHERE


class Dense:
    """Base of fields and ndarrays.

    ``shape`` counts the elements an axis, ``element_shape`` is that of each: () for numbers, (n,) for vectors, (n, m)
    for matrices. Elements are read and written from Python with exactly one index an axis (``x[None]`` where there is
    no axis), the first one being ``offset`` (() for zeros); indices are checked, negative ones are errors where the
    offset is not. What the dtype cannot hold is an error: a float written into integers, an integer out of their range;
    real numbers are rounded, those that are too large to infinities.

    ``grad`` and ``dual`` are of the same class and shape, or None.
    """

    __slots__ = (
        "__weakref__", "_high", "_item", "_length", "_low", "_memory", "_offset", "_shape", "_tangent", "dtype", "dual",
        "element_shape", "grad", "layout", "name", "recordings",
    )  # fmt: skip
    kind: ClassVar[str]
    copy_by_launch: ClassVar[Callable[[Dense, Dense], None]]  # see `lang.copying`, which is made of what is here

    def __init__(self, dtype: DType, element_shape: tuple[int, ...] = (), name: str = "") -> None:
        self._memory: Any = NOWHERE  # a Memory once it is allocated
        self._length = 0
        self._low, self._high = LIMITS[dtype.name]
        self.dtype = dtype
        self.element_shape = element_shape
        self.name = name
        self.grad: Any = None
        self.dual: Any = None
        self.recordings: dict[Any, Any] | None = None  # what tapes over it recorded last, by their options
        self._tangent: Dense | None = None
        self.layout: tuple[int, ...] | None = None  # as given to `qd.tensor`; memory is row-major

    def _unwrap(self) -> Dense:
        """What a tensor is made of: here the tensor itself."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles shape, dtype, offset, layout and data. Unpickling creates it in the current session, without a
        gradient."""
        return restore, (
            type(self), self.dtype.name, self.element_shape, self.shape, self.offset, self.layout, self.name,
            self._live().copy(),
        )  # fmt: skip

    def allocate(self, shape: tuple[int, ...], offset: tuple[int, ...] = ()) -> None:
        """Gives it memory, of zeros, in the current session."""
        self.lie_over(allocate(session.current(), self.dtype, shape + self.element_shape), shape, offset)
        self.follow_gradients()

    def lie_over(self, memory: Memory, shape: tuple[int, ...], offset: tuple[int, ...] = ()) -> None:
        """Uses this memory from now on."""
        self._item = memory.reader() if self.dtype.kind != "b" else self._truth
        self._shape = shape
        self._offset = offset
        # for the short way of one index
        self._length = shape[0] if len(shape) == 1 and not offset and not self.element_shape else 0
        self._memory = memory

    def follow_gradients(self) -> None:
        """Registers it with the session where it has a gradient or dual, for clearing them."""
        if (self.grad is not None or self.dual is not None) and self._memory is not NOWHERE:
            self._memory.session.differentiable.add(self)

    @property
    def shape(self) -> tuple[int, ...]:
        if self._memory is NOWHERE:
            raise self._unusable()
        return self._shape

    @property
    def offset(self) -> tuple[int, ...]:
        if self._memory is NOWHERE:
            raise self._unusable()
        return self._offset

    @property
    def placed(self) -> bool:
        """Whether it has memory."""
        return self._memory is not NOWHERE

    @property
    def version(self) -> int:
        """Grows with every write through Python or a kernel."""
        return self._live().version

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def needs_grad(self) -> bool:
        return self.grad is not None

    def has_grad(self) -> bool:
        """Whether there is a gradient, with memory."""
        return self.grad is not None and self.grad.placed

    def has_dual(self) -> bool:
        """Whether there is a dual, with memory."""
        return self.dual is not None and self.dual.placed

    def tangent(self) -> Dense:
        """What changes with it in a second derivative, of the same class and shape: made when it is first asked for. It
        is not `dual`, which the user asked for and sees."""
        if self._tangent is None:
            if self._memory.foreign:
                raise QuadrantsRuntimeError(
                    f"{self!r} is memory of another library, which has no second derivative",
                    code="QL2103",
                    help="copy it to an ndarray made with needs_grad=True",
                )
            made = type(self)(self.dtype, self.element_shape)
            made.allocate(self.shape, self.offset)
            self._tangent = made
        return self._tangent

    def __getitem__(self, key: Any) -> Any:
        if not self._memory.session.unobserved:
            self._live()
        if key.__class__ is int and 0 <= key < self._length:
            return self._item(key)
        if key.__class__ is slice:
            return self._view(key)
        return self._item(self._index(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        memory = self._memory
        if not memory.session.unobserved:
            self._live()
        if value.__class__ is not self._low.__class__ or not self._low <= value <= self._high:
            value = self._element(value)
        if key.__class__ is not int or not 0 <= key < self._length:
            key = self._index(key)
        if memory.watchers:
            memory.before_write(key)
        memory.array[key] = value
        memory.version = memory.python_wrote = memory.version + 1

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

    def fill(self, val: Any) -> None:
        """Writes ``val`` to every element; to integers also a float that is a whole number."""
        self._assign(self._element(val, whole=True))

    def _assign(self, values: Any) -> None:
        """Writes all of it, of a field in a sparse layout what is active."""
        memory, only = self._live(), self._only()
        memory.write(..., values if only is None else np.where(only, values, memory.values()))

    def _only(self) -> Any:
        """Which elements writes to the whole change; None for all."""
        return None

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> npt.NDArray[Any]:
        """The data, as ``dtype`` where one is given: a copy of it, or with ``copy=False`` the memory itself (ValueError
        where that cannot be), or with ``copy=None`` the memory where that can be. An array over the memory stays
        usable after `qd.reset`, and then shares it with no field."""
        return to_numpy(self._live(), numpy_dtype(dtype), copy)

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """The same as a torch tensor, on ``device`` where one is given."""
        return to_torch(self.to_numpy(copy=copy), device, copy)

    def from_torch(self, arr: Any) -> None:
        """Copies a torch tensor of the same shape, on any device, into the memory, as `from_numpy` does."""
        self.from_numpy(from_torch(arr))

    def to_dlpack(self, versioned: bool = False) -> Any:
        """A DLPack capsule over the memory; ``versioned``: of DLPack 1."""
        return self.__dlpack__(max_version=(1, 0) if versioned else None)

    def __dlpack__(self, **options: Any) -> Any:
        return shared(self._live()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return shared(self._live()).__dlpack_device__()

    def from_numpy(self, arr: npt.NDArray[Any]) -> None:
        """Copies ``arr``, of the same shape, into the memory. The dtype must be able to hold every value; real numbers
        are rounded to it, those that are too large to infinities."""
        self._arrive(self._arriving(arr))

    def _arriving(self, arr: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What `_arrive` takes: an array that this can hold."""
        memory = self._live()
        if not isinstance(arr, np.ndarray):
            raise QuadrantsRuntimeTypeError(
                f"from_numpy takes a numpy array, not {type(arr).__name__}",
                code="QL2012",
                help="np.asarray(...) makes one",
            )
        shape: tuple[int, ...] = memory.operand.shape
        if arr.shape not in self._shapes():
            raise ValueError(f"{self!r} has shape {shape}, the numpy array has shape {arr.shape}")
        check(arr, self.dtype, self)
        return arr.reshape(shape)

    def _arrive(self, arr: npt.NDArray[Any]) -> None:
        with np.errstate(over="ignore"):
            self._assign(arr)

    def copy_from(self, other: Dense) -> None:
        """Copies the data of a field or ndarray of the same shape. Under a Tape and in forward mode derivatives flow
        through the copy."""
        if not isinstance(other, Dense):
            raise QuadrantsRuntimeTypeError(
                f"copy_from takes a field or an ndarray, not {type(other).__name__}", code="QL2012"
            )
        values = other._live().values()
        same = (self.shape, self.element_shape) == (other.shape, other.element_shape)
        if same and self.dtype.is_float and other.dtype.is_float and differentiating():
            Dense.copy_by_launch(self, other)
        else:
            self.from_numpy(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self._live().array
        return array.copy() if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        grad = ", needs_grad" if self.needs_grad else ""
        element = f" x {self.element_shape}" if self.element_shape else ""
        shape = self.shape if self.placed else "not placed"
        return f"<qd.{self.kind}{name}: {self.dtype} {shape}{element}{grad}>"

    def __str__(self) -> str:
        return str(self.to_numpy()) if self.placed else repr(self)

    def _truth(self, key: Any) -> int:
        """Truth values are read as 0 and 1."""
        return int(self._memory.values()[key])

    def _live(self) -> Memory:
        memory = self._memory
        if not memory.session.unobserved:
            if not memory.session.alive:
                raise self._unusable()
            for observer in memory.session.field_observers:
                observer(self)
        return memory  # type: ignore[no-any-return]  # that of NOWHERE is never alive

    def _unusable(self) -> QuadrantsRuntimeError:
        """Why its memory cannot be used."""
        if self._memory is not NOWHERE:
            ended: QuadrantsRuntimeError = self._memory.session.ended_error(repr(self))
            return ended
        return QuadrantsRuntimeError(
            f"{self!r} has no memory yet",
            code="QL2022",
            help="give it a shape, or place it: qd.root.dense(qd.i, n).place(x); gradients: "
            "place(x, x.grad) or qd.root.lazy_grad()",
        )

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes that `from_numpy` takes."""
        return (self.shape,)

    def _view(self, key: slice) -> Any:
        """What a slice is, of an ndarray of one axis; of anything else an error."""
        return self._item(self._index(key))

    def _index(self, key: Any) -> tuple[int, ...]:
        """One checked Python integer an axis, counted from 0."""
        shape = self._shape
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
        if any(type(i) is not int for i in parts):
            parts = tuple(self._integer(i) for i in parts)
        if self._offset:
            parts = tuple(i - first for i, first in zip(parts, self._offset, strict=True))
        for i, n in zip(parts, shape, strict=True):
            if not 0 <= i < n:
                raise QuadrantsAssertionError(
                    f"index [{_subscript(key)}] is outside of {self!r}",
                    code="QL2014",
                    help=f"its indices begin at {self.offset}"
                    if self.offset
                    else "negative indices do not count from the end"
                    if i < 0
                    else "",
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

    def _entry(self, value: Any) -> Any:
        """``value``, as it is where numpy need not convert it."""
        if value.__class__ is self._low.__class__ and self._low <= value <= self._high:
            return value
        return self._element(value)

    def _element(self, value: Any, whole: bool = False) -> Any:
        """``value`` as a number of the dtype; ``whole``: floats that are whole numbers are integers, too."""
        return fitted(value, self.dtype, self, whole)


def _subscript(key: Any) -> str:
    return ", ".join(map(str, key)) if type(key) is tuple else str(key)


def restore(
    cls: type[Dense],
    dtype: str,
    element_shape: tuple[int, ...],
    shape: tuple[int, ...],
    offset: tuple[int, ...],
    layout: tuple[int, ...] | None,
    name: str,
    data: npt.NDArray[Any],
) -> Dense:
    """The inverse of `Dense.__reduce__`."""
    made = cls(DTYPES[dtype], element_shape, name)
    made.allocate(shape, offset)
    made.layout = layout
    made._memory.assign(data)
    return made


def numpy_dtype(dtype: Any) -> Any:
    """What numpy calls a dtype of the language; anything else as it is."""
    return dtype.numpy if isinstance(dtype, DType) else dtype


class Field(Placed, Dense):
    """Base of `ScalarField` and `MatrixField`: what kernels know by name or as a `qd.template()` argument.

    A field of floating point that is not placed yet has a `grad` and a `dual` that can be placed beside it; those that
    were not asked for (``needs``) and are not placed together with it are then None.
    """

    __slots__ = ("needs", "primal", "snode")
    __qd_field__ = True
    kind = "field"

    def __init__(self, dtype: DType, element_shape: tuple[int, ...] = (), name: str = "") -> None:
        super().__init__(dtype, element_shape, name)
        self.needs: frozenset[str] = frozenset()  # of "grad" and "dual"
        self.primal: Field | None = None  # of a grad or dual, the field that it belongs to
        self.snode: Any = None  # the node that it is placed in; of a field made with a shape, None

    @property
    def needs_grad(self) -> bool:
        return "grad" in self.needs or self.has_grad()

    def companion(self, which: str) -> Field:
        """Its `grad` or `dual`, made without memory where there is none."""
        made: Field | None = getattr(self, which)
        if made is None:
            made = type(self)(self.dtype, self.element_shape, self.name and f"{self.name}.{which}")
            made.primal = self
            setattr(self, which, made)
        return made

    def allocate(self, shape: tuple[int, ...], offset: tuple[int, ...] = ()) -> None:
        if self.placed:
            raise QuadrantsRuntimeError(f"{self!r} has been placed already", code="QL2025")
        for relative in (self.primal, self.grad, self.dual):
            if relative is not None and relative.placed and (relative.shape, relative.offset) != (shape, offset):
                raise QuadrantsRuntimeError(
                    f"{self!r} and {relative!r} must have one shape and offset, not {shape} and {relative.shape}",
                    code="QL2025",
                )
        super().allocate(shape, offset)
        session.current().fields.add(self)
        if self.primal is not None:
            self.primal.follow_gradients()

    def settle(self) -> None:
        """Drops gradients and duals that were neither asked for nor placed. Called when a placement is complete."""
        for which in ("grad", "dual"):
            made = getattr(self, which)
            if made is not None and not made.placed and which not in self.needs:
                setattr(self, which, None)

    def release(self) -> None:
        """Gives its memory back: it is not placed any more."""
        self._memory = NOWHERE
        self._length = 0
        self._tangent = None
        self.snode = None


class Ndarray(Dense):
    """Base of the ndarrays: what kernels take as an argument of `qd.types.ndarray()`."""

    __slots__ = ()
    __qd_ndarray__ = True
    kind = "ndarray"

    @property
    def element_type(self) -> Any:
        """The dtype, or the vector or matrix type of the elements."""
        return self.dtype

    def get_type(self) -> NdarrayType:
        """The annotation that it fits."""
        return NdarrayType(self.element_type, len(self.shape))

    def _view(self, key: slice) -> Any:
        if len(self.shape) != 1:
            return super()._view(key)
        from quadrants_lab.lang.buffer_view import BufferView, span  # a floor above: only here

        return BufferView(self, *span(key, self.shape[0]))


class ScalarField(Field):
    """A field of numbers; made by `qd.field`."""

    __slots__ = ()


class ScalarNdarray(Ndarray):
    """An ndarray of numbers; made by `qd.ndarray`."""

    __slots__ = ()
