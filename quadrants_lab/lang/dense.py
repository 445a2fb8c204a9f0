"""Implements fields and ndarrays for Python: dense row-major memory, access to elements, copies from and to numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index as as_index
from typing import Any, ClassVar, NoReturn
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import (
    QuadrantsAssertionError,
    QuadrantsIndexError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
)
from quadrants_lab.ir.cell_order import Order
from quadrants_lab.ir.types import DTYPES, DType
from quadrants_lab.ir.weak import Table, weakly
from quadrants_lab.lang.annotations import NdarrayType
from quadrants_lab.lang.derivatives import Companion
from quadrants_lab.lang.exchange import Exchanged, as_numpy_array, numpy_dtype, to_numpy
from quadrants_lab.runtime import session
from quadrants_lab.runtime.arguments.keys import NUMBERS
from quadrants_lab.runtime.memory.fitting import LIMITS, check, fitted
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.observe.observers import MODE, OBSERVERS
from quadrants_lab.runtime.observe.tape_numbers import TapeNumber, read


class _Unplaced:
    """Takes the place of the memory of a field that is not placed, and of its session, which is not alive."""

    alive = unobserved = False
    order: Order = ()
    session: _Unplaced


UNPLACED = _Unplaced()
UNPLACED.session = UNPLACED


class Dense(Exchanged):
    """Base of fields and ndarrays.

    ``shape`` has the number of elements along each axis; ``element_shape`` is () for numbers, (n,) for vectors, (n, m)
    for matrices. Python reads and writes elements with exactly one index for each axis (``x[None]`` if there is no
    axis). The first index of each axis is in ``offset`` (() for zeros). Indices are checked; they do not count from the
    end. Values that the dtype cannot hold are errors: floats for integers, integers out of range. Real numbers are
    rounded, and those that are too large become infinities.
    """

    __slots__ = (
        "__weakref__", "_high", "_length", "_low", "_memory", "_offset", "_read", "_shape", "_tangent", "dtype",
        "element_shape", "layout", "name", "number", "recordings",
    )  # fmt: skip
    address = property(lambda self: self._live().address)  # the address of the first element on the device
    grad, dual = Companion("grad"), Companion("dual")  # of the same class and shape; a false value if there is none
    kind: ClassVar[str]
    copy_by_launch: ClassVar[Callable[[Dense, Dense], None]]  # set by `lang.copying`, which imports this module

    def __init__(self, dtype: DType, element_shape: tuple[int, ...] = (), name: str = "") -> None:
        self._memory: Any = UNPLACED  # a Memory once it is allocated
        self._length = 0
        self._low, self._high = LIMITS[dtype.name]
        self.number = next(NUMBERS)
        self.dtype = dtype
        self.element_shape = element_shape
        self.name = name
        self.grad = self.dual = None
        self.recordings: Table[Any, Any] | None = None  # the last recordings of tapes with this loss, by their options
        self._tangent: Dense | None = None
        self.layout: tuple[int, ...] | None = None  # as given to `qd.tensor`; memory is row-major

    def _unwrap(self) -> Dense:
        """Returns the field or ndarray itself. In Quadrants a tensor may be a wrapper, here it never is."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles shape, dtype, offset, layout and data. Unpickling creates it in the current session, without a
        gradient."""
        return restore, (
            type(self), self.dtype.name, self.element_shape, self.shape, self.offset, self.layout, self.name,
            self._live().copy(),
        )  # fmt: skip

    def allocate(self, shape: tuple[int, ...], offset: tuple[int, ...] = (), order: Order = ()) -> None:
        """Allocates memory of zeros in the current session, in this order."""
        self.use_memory(allocate(session.current(), self.dtype, shape + self.element_shape, order), shape, offset)
        self.register_gradients()

    def use_memory(self, memory: Memory, shape: tuple[int, ...], offset: tuple[int, ...] = ()) -> None:
        """Sets the memory of the field or ndarray, its shape and its offset."""
        self._read = memory.reader() if self.dtype.kind != "b" else memory.truth
        self._shape = shape
        self._offset = offset
        # with a single axis and no offset, the number of valid indices, so that one comparison checks an index; else 0
        self._length = shape[0] if len(shape) == 1 and not offset and not self.element_shape else 0
        self._memory = memory

    def register_gradients(self) -> None:
        """Registers a field or ndarray that has a gradient or dual with its session, which can then clear these."""
        if (self.grad or self.dual) and self._memory is not UNPLACED:
            self._memory.session.differentiable.add(self)

    @property
    def shape(self) -> tuple[int, ...]:
        if self._memory is UNPLACED:
            raise self._unusable()
        return self._shape

    @property
    def offset(self) -> tuple[int, ...]:
        if self._memory is UNPLACED:
            raise self._unusable()
        return self._offset

    @property
    def placed(self) -> bool:
        """Whether the field or ndarray has memory."""
        return self._memory is not UNPLACED

    @property
    def version(self) -> int:
        """A number that grows with every write by Python or a kernel."""
        return self._live().version

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def needs_grad(self) -> bool:
        return bool(self.grad)

    def has_grad(self) -> bool:
        """Whether there is a gradient that has memory."""
        grad = self.grad
        return bool(grad and grad.placed)

    def has_dual(self) -> bool:
        """Whether there is a dual that has memory."""
        return bool(self.dual and self.dual.placed)

    def tangent(self) -> Dense:
        """The tangents for second derivatives, an object of the same class and shape. They are allocated at the first
        use, and are separate from `dual`, which belongs to the user."""
        if self._tangent is None:
            if self._memory.foreign:
                raise QuadrantsRuntimeError(
                    f"{self!r} is memory of another library, which has no second derivative",
                    code="QL2103",
                    help="copy it to an ndarray made with needs_grad=True",
                )
            made = type(self)(self.dtype, self.element_shape)
            made.allocate(self.shape, self.offset, self._memory.order)
            self._tangent = made
        return self._tangent

    def __getitem__(self, key: Any) -> Any:
        if not self._memory.session.unobserved:
            self._live()
            if key.__class__ is not slice:
                at = key if key.__class__ is int and 0 <= key < self._length else self._index(key)
                return read(self._read(at), self)
        if key.__class__ is int and 0 <= key < self._length:
            return self._read(key)
        if key.__class__ is slice:
            return self._view(key)
        return self._read(() if key is None and not self._shape else self._index(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        memory = self._memory
        if not memory.session.unobserved:
            self._live()
        if value.__class__ is not self._low.__class__ or not self._low <= value <= self._high:
            value = self._element(value)
        if key.__class__ is not int or not 0 <= key < self._length:
            key = () if key is None and not self._shape else self._index(key)
        if memory.watchers or memory.recorded is not None:
            memory.write_number(key, value)
        else:
            if memory.__class__ is Memory:  # the same as `Memory.put`, but without the call
                memory.array[key] = value
            else:
                memory.put(key, value)
            memory.version = memory.python_wrote = memory.version + 1

    def __iter__(self) -> NoReturn:
        hint = "if a kernel is meant, put @qd.kernel above the function; in Python use to_numpy()"
        raise QuadrantsRuntimeError(f"{self!r} can be looped over only inside a kernel", code="QL2011", help=hint)

    def __len__(self) -> int:
        raise QuadrantsRuntimeTypeError(f"{self!r} has no len()", code="QL2011", help="use .shape")

    def __float__(self) -> NoReturn:
        raise QuadrantsRuntimeTypeError(f"{self!r} is no number", code="QL2011", help="read an element: x[None], x[i]")

    __int__ = __float__

    def __bool__(self) -> bool:
        return True

    def fill(self, val: Any) -> None:
        """Writes ``val`` to every element. Integers also take a float that is a whole number."""
        self._assign(self._element(val, whole=True))

    def _assign(self, values: Any) -> None:
        """Writes to all elements; in a sparse layout, only to active ones."""
        memory, active = self._live(), self._active()
        memory.write(active or ..., values[active] if active and np.ndim(values) else values)

    def _is_sparse(self) -> bool:
        """Whether this is a field in a sparse layout, and not a gradient or dual of one."""
        return False

    def _active(self) -> tuple[npt.NDArray[np.intp], ...] | None:
        """The indices of the active elements, counted from 0, as one array for each axis; None if all are active."""

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> npt.NDArray[Any]:
        """The data as a numpy array, of ``dtype`` if one is given. ``copy`` True: a copy. False: the memory itself
        (ValueError where that is impossible). None: the memory itself where that is possible. An array over the memory
        stays usable after `qd.reset`, and then shares it with no field."""
        return to_numpy(self._live(), numpy_dtype(dtype), copy)

    def from_numpy(self, arr: npt.NDArray[Any]) -> None:
        """Copies ``arr``, of the same shape, into the memory. The dtype must be able to hold every value; real numbers
        are rounded to it, and those that are too large become infinities."""
        with np.errstate(over="ignore"):
            self._assign(self._checked_array(arr))

    def _checked_array(self, arr: Any) -> npt.NDArray[Any]:
        """``arr`` in the shape of the memory; raises an error if its shape or its values do not fit."""
        shape, arr = self._live().operand.shape, as_numpy_array(arr, self)
        if arr.shape not in self._shapes():
            raise ValueError(f"{self!r} has shape {shape}, and what is to be written into it has shape {arr.shape}")
        check(arr, self.dtype, self)
        return np.reshape(arr, shape)

    def copy_from(self, other: Any) -> None:
        """Copies the data of a field or ndarray of the same shape. Under a Tape and in forward mode derivatives flow
        through the copy."""
        if not isinstance(other, Dense):
            what = f"copy_from takes a field or an ndarray, not {type(other).__name__}"
            raise QuadrantsRuntimeTypeError(what, code="QL2012")
        same = (self.shape, self.element_shape) == (other.shape, other.element_shape)
        if same and self.dtype.is_float and other.dtype.is_float and (OBSERVERS.get() or MODE.get() == "dual"):
            Dense.copy_by_launch(self, other)
            return
        plain = same and self.dtype is other.dtype and not self._is_sparse()
        if not (plain and self._live().take(other._live())):
            self.from_numpy(other._live().values())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        memory = self._live()
        return memory.copy() if dtype is None else memory.values().astype(dtype)

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        grad = ", needs_grad" if self.needs_grad else ""
        element = f" x {self.element_shape}" if self.element_shape else ""
        shape = self.shape if self.placed else "not placed"
        return f"<qd.{self.kind}{name}: {self.dtype} {shape}{element}{grad}>"

    def __str__(self) -> str:
        return str(self.to_numpy()) if self.placed else repr(self)

    def _live(self) -> Memory:
        """The memory, for reads and writes in Python. Raises an error if there is none, or if its session has ended."""
        memory = self._memory
        if not memory.session.unobserved:
            if not memory.session.alive:
                raise self._unusable()
            for notify in [*memory.session.field_observers]:
                notify(self)
        return memory  # type: ignore[no-any-return]  # UNPLACED is never alive

    def _unusable(self) -> QuadrantsRuntimeError:
        """The error that says why the memory cannot be used."""
        if self._memory is not UNPLACED:
            over: QuadrantsRuntimeError = self._memory.session.ended_error(repr(self))
            return over
        return QuadrantsRuntimeError(
            f"{self!r} has no memory yet",
            code="QL2022",
            help="give it a shape, or place it: qd.root.dense(qd.i, n).place(x); gradients: "
            "place(x, x.grad) or qd.root.lazy_grad()",
        )

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of numpy arrays that `from_numpy` accepts."""
        return (self.shape,)

    def _view(self, key: slice) -> Any:
        """For a slice of an ndarray of one axis: the view. Raises an error in all other cases."""
        return self._read(self._index(key))

    def _index(self, key: Any) -> tuple[int, ...]:
        """The subscript ``key`` as one checked Python integer for each axis, counted from 0."""
        shape = self._shape
        if key is None and not shape:
            return ()
        parts = key if type(key) is tuple else tuple(key) if isinstance(key, (list, np.ndarray)) else (key,)
        if len(parts) != len(shape) or key is None:
            want = "None" if not shape else "one index" if len(shape) == 1 else f"{len(shape)} indices"
            raise QuadrantsIndexError(
                f"{self!r} takes {want}, not [{_subscript(key)}]",
                code="QL2013",
                help="to_numpy() reads it whole, fill(...) writes it" if shape else "write x[None] for the one element",
            )
        if any(type(i) is not int for i in parts):
            parts = tuple(self._integer(i) for i in parts)
        if self._offset:
            parts = tuple(i - first for i, first in zip(parts, self._offset, strict=True))
        for i, n in zip(parts, shape, strict=True):
            if not 0 <= i < n:
                help = "negative indices do not count from the end" if i < 0 else ""
                raise QuadrantsAssertionError(
                    f"index [{_subscript(key)}] is outside of {self!r}",
                    code="QL2014",
                    help=f"its indices begin at {self.offset}" if self.offset else help,
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

    def _element(self, value: Any, whole: bool = False) -> Any:
        """``value`` as a number of the dtype. With ``whole``, integers take floats that are whole numbers."""
        if value.__class__ is TapeNumber:
            value = value.written_to(self)
        if value.__class__ is self._low.__class__ and self._low <= value <= self._high:
            return value
        return fitted(value, self.dtype, self, whole)


def _subscript(key: Any) -> str:
    return ", ".join(map(str, key)) if type(key) is tuple else str(key)


def restore(
    cls: type[Dense], dtype: str, element_shape: tuple[int, ...], shape: tuple[int, ...], offset: tuple[int, ...],
    layout: tuple[int, ...] | None, name: str, data: npt.NDArray[Any],
) -> Dense:  # fmt: skip
    """The inverse of `Dense.__reduce__`."""
    made = cls(DTYPES[dtype], element_shape, name)
    made.allocate(shape, offset)
    made.layout = layout
    made._memory.assign(data)
    return made


class Field(Dense):
    """Base of `ScalarField` and `MatrixField`: kernels use fields by name or as a `qd.template()` argument.

    An unplaced field of floating point has a `grad` and a `dual` that can be placed with it. When it is placed without
    them, those that were not requested (``needs``) become a `NoDerivative`.

    In a sparse layout, a write from Python to an element activates its cell, and a write to the whole field changes
    the active elements. All elements of gradients and duals are active.
    """

    __slots__ = ("_dual", "_grad", "needs", "primal", "snode")
    __qd_field__ = True
    kind = "field"

    def __init__(self, dtype: DType, element_shape: tuple[int, ...] = (), name: str = "") -> None:
        super().__init__(dtype, element_shape, name)
        self.needs: frozenset[str] = frozenset()  # a subset of {"grad", "dual"}
        self.primal: Callable[[], Field | None] | None = None  # for a grad or dual: a weak reference to its field
        self.snode: Any = None  # the node that it is placed in; None for a field that was made with a shape

    def __reduce__(self) -> Any:
        if self._is_sparse():
            raise QuadrantsRuntimeError(
                f"{self!r} lies in a sparse layout, which cannot be pickled",
                code="QL2037",
                help="send to_numpy(), and place a field in the process that gets it",
            )
        return super().__reduce__()

    @property
    def order(self) -> Order:
        """The order of the elements in memory (`ir.cell_order`); () means row by row."""
        return self._memory.order  # type: ignore[no-any-return]  # it is a Memory

    @property
    def needs_grad(self) -> bool:
        return "grad" in self.needs or self.has_grad()

    def companion(self, which: str) -> Field:
        """The `grad` or `dual` of the field. If there is none, it is made, without memory."""
        made: Field | None = getattr(self, which)
        if not made:
            made = type(self)(self.dtype, self.element_shape, self.name and f"{self.name}.{which}")
            made.primal = ref(self)
            setattr(self, which, made)
        return made

    def allocate(self, shape: tuple[int, ...], offset: tuple[int, ...] = (), order: Order = ()) -> None:
        if self.placed:
            raise QuadrantsRuntimeError(f"{self!r} has been placed already", code="QL2025")
        primal = self.primal and self.primal()
        for relative in (primal, self.grad, self.dual):
            if relative and relative.placed and (relative.shape, relative.offset) != (shape, offset):
                both = f"{self!r} and {relative!r} must have one shape and offset"
                raise QuadrantsRuntimeError(f"{both}, not {shape} and {relative.shape}", code="QL2025")
        super().allocate(shape, offset, order)
        session.current().fields.add(self)
        if primal is not None:
            primal.register_gradients()

    def drop_unplaced_companions(self) -> None:
        """Drops a gradient and a dual that were neither requested nor placed. Called when a placement is complete."""
        for which in ("grad", "dual"):
            made = getattr(self, which)
            if made and not made.placed and which not in self.needs:
                setattr(self, which, None)

    def leaf_fields(self) -> Iterator[Field]:
        """A list of the field itself. (A `StructField` returns the fields that it consists of.)"""
        yield self

    def _pairs(self, array: Any) -> Iterator[tuple[Field, Any]]:
        """A pair of the field and an array to copy to it. (A `StructField` returns a pair for each field in it.)"""
        yield self, array

    def parent(self, n: int = 1) -> Any:
        """The node in which the field is placed, or the one n - 1 levels above it; None if it was made with a shape."""
        return self.snode and self.snode.parent(n - 1)

    def set_node(self, node: Any) -> None:
        """Notes that the field is placed in this node."""
        self.snode = node
        if self._is_sparse():
            self._memory.watchers = (*self._memory.watchers, weakly(self._activate))  # kernels keep the memory

    def _activate(self, where: Any) -> None:
        """Activates the cell that Python is about to write to; a write to all elements activates none."""
        at = (where if type(where) is tuple else (where,))[: len(self.shape)]
        if all(type(i) is int for i in at):
            self.snode.activate(at)

    def _is_sparse(self) -> bool:
        return self.snode is not None and self.snode.sparse is not None and self.primal is None

    def _active(self) -> tuple[npt.NDArray[np.intp], ...] | None:
        return self.snode.active() if self._is_sparse() else None

    def release(self) -> None:
        """Frees the memory of the field, which is not placed any more."""
        self._memory = UNPLACED
        self._length = 0
        self._tangent = None
        self.snode = None


class Ndarray(Dense):
    """Base of the ndarrays, which kernels take as arguments of `qd.types.ndarray()`."""

    __slots__ = ("dual", "grad")  # None where there is none
    __qd_ndarray__ = True
    kind = "ndarray"

    @property
    def element_type(self) -> Any:
        """The dtype, or the vector or matrix type of the elements."""
        return self.dtype

    def get_type(self) -> NdarrayType:
        """The annotation of a parameter that takes this array."""
        return NdarrayType(self.element_type, len(self.shape))

    def _view(self, key: slice) -> Any:
        if len(self.shape) != 1:
            return super()._view(key)
        from quadrants_lab.lang.buffer_view import BufferView, span  # it imports this module

        return BufferView(self, *span(key, self.shape[0]))


class ScalarField(Field):
    """A field of numbers; made by `qd.field`."""

    __slots__ = ()


class ScalarNdarray(Ndarray):
    """An ndarray of numbers; made by `qd.ndarray`."""

    __slots__ = ()
