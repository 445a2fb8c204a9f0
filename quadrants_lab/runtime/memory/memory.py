"""Implements the dense memory of fields and ndarrays, which counts how often it is written. It is a numpy array
that the session's device can access, too; or, if device and host cannot share it, memory of the device with a copy
on the host."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from math import prod
from threading import local
from typing import Any, ClassVar
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.host import zeros
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.cell_order import Order
from quadrants_lab.ir.types import DType, from_numpy
from quadrants_lab.runtime.memory.cell_array import CellArray
from quadrants_lab.runtime.memory.cell_storage import make_cells
from quadrants_lab.runtime.session import Session

TIMES = count(1)


class _Freed:
    """Replaces the memory of an ended session: ``shape`` and ``dtype`` can still be read, anything else raises the
    error QL2001, also in a thread that was about to use the memory when another thread ended the session."""

    def __init__(self, session: Session, before: Any) -> None:
        self.session, self.shape, self.dtype = session, before.shape, before.dtype
        self.ndim, self.size, self.nbytes = before.ndim, before.size, before.nbytes

    def __getattr__(self, name: str) -> Any:
        raise self.session.ended_error("memory of a field or array")


class Head:
    """The first item of an entry in a recording's log; the entry has ``step`` items."""

    step: int


class _Wrote(Head):
    step = 3


WROTE = _Wrote()  # begins a log entry about a write to memory; the memory, and an index with the values, follow
SHARED: Any = object()  # in place of an index: from now on other code may write without calling `before_write`
PUT: Any = object()  # in place of an index: a Tape restores what it saved


class _Thread(local):
    """Numbers threads. ``number``: the number of the thread that reads it, which no other thread ever gets."""

    _numbers = count()

    def __init__(self) -> None:
        self.number = next(self._numbers)


THREAD = _Thread()


class Memory:
    """The array of one field or ndarray. ``version`` grows with every write by Python or a kernel. ``address`` never
    changes. ``serial`` is unique: unlike an id or an address, it is not used again after the memory is freed.
    ``on_device``: on GPUs, and for memory in pages, the object that owns the memory; then `array` must not be written.
    ``operand``: what a launch takes, the array or memory of the device. ``foreign``: other libraries may write to the
    memory, so that ``version`` says nothing. ``tensor``: for memory of a torch tensor, its `interop.tensors.Tensor`,
    else None. ``owner``: the number (`THREAD`) of the thread that last made the memory, wrote all of it from Python, or
    differentiated into it; a Tape sets the gradients that its thread owns to 0. ``on_flush``: a function that `flush`
    calls to tell the owner of foreign memory, or None.

    ``unseen``: the time (a number of `TIMES`) of the last write by a launch that no observer saw, because observers
    only watch their own thread and this launch was in another. ``recorded``: a function of a recording, called before
    anything but a launch writes to the memory. It gets the memory, the place as for `before_write`, and the values;
    with the place `PUT`, a Tape restores a part (`tape.parts`). ``noted``: a function that may be called instead, with
    the log entry of a write of one number.

    ``array`` is for reading and writing, and must be read again after each launch; `values` is only for reading, and
    may be cheaper.
    """

    __slots__ = (
        "__weakref__", "_copied_at", "_copy", "_elements", "_host_newer", "address", "array", "cleared", "dtype",
        "foreign", "marks", "noted", "on_device", "on_flush", "operand", "owner", "python_filled",
        "python_wrote", "recorded", "serial", "session", "tensor", "unseen", "version", "watchers",
    )  # fmt: skip
    _serials = count()
    order: Order = ()  # see `ir.buffers.Buffer`
    array: npt.NDArray[Any]
    operand: Any
    address: int
    on_device: Any
    foreign: Any
    tensor: Any
    imported: ClassVar[bool] = False  # whether it is memory of another library on the device (`interop.dlpack`)

    def __init__(self, session: Session, dtype: DType) -> None:
        """Makes memory that has no array yet; see `allocate`, `over` and `Imported.at`."""
        self.session = session
        self.dtype = dtype
        self.on_device = None
        self.foreign = self.tensor = None
        self.on_flush: Callable[[Memory], None] | None = None
        # for launches that watch for races: what is marked -> the generation of the marks, and their memory
        self.marks: dict[str, tuple[int, Memory]] = {}
        self.unseen = 0
        self.owner = THREAD.number
        self.version = self.python_wrote = self.python_filled = 0  # python_*: at its last write, to any or all elements
        self.cleared = -1  # the version after the last `fill` with 0
        self.watchers: tuple[Callable[[Any], None], ...] = ()  # called with the index before Python writes
        self.recorded: Any = None
        self.noted: Callable[[tuple[Any, ...]], None] | None = None
        self.serial = next(Memory._serials)
        self._copy: npt.NDArray[Any] | None = None
        self._copied_at = -1
        self._host_newer = False
        self._elements: dict[int, Any] = {}  # see `HostMirrored`

    @staticmethod
    def over(session: Session, array: npt.NDArray[Any], foreign: Any) -> Memory:
        """Makes memory over a C-contiguous array of the host; GPUs copy it for a launch. ``foreign``: see `Memory`."""
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        assert array.flags.c_contiguous
        made = Memory(session, dtype)
        made.array = made.operand = array
        made.address, made.foreign = array.ctypes.data, foreign
        return made

    def before_write(self, where: Any, values: Any) -> None:
        """Call this before Python writes ``values``. ``where``: the index, ... for the whole array, or `SHARED`."""
        for watcher in self.watchers:
            watcher(where)
        if self.recorded is not None:
            self.recorded(self, where, values)

    def after_write(self) -> None:
        """Call this after Python has written."""
        self.version = self.python_wrote = self.version + 1

    def write(self, where: Any, values: Any) -> None:
        """Writes from Python; ``where`` as for `before_write`; ``values`` are cast to the dtype."""
        if self.watchers or self.recorded is not None:
            with self.writing():
                self.before_write(where, values)
                self._write(where, values)
        else:
            self._write(where, values)

    def _write(self, where: Any, values: Any) -> None:
        if where is ...:
            self.assign(values)
            self.python_filled = self.version + 1
            self.owner = THREAD.number
        else:
            self.put(where, values)
        self.version = self.python_wrote = self.version + 1

    def fill(self, value: int, thread: int) -> None:
        """Writes a number to all elements, as thread number ``thread``. After a 0, ``cleared`` is the version."""
        if self.watchers or self.recorded is not None:
            self.write(..., value)
        else:
            if self.on_device is None:
                self.array[...] = value
            else:
                self.assign(value)
            self.version = self.python_wrote = self.python_filled = self.version + 1
            self.owner = thread
        if not value:
            self.cleared = self.version

    def write_number(self, where: Any, value: Any) -> None:
        """Like `write`, for one element, with a cheaper call of the recording."""
        with self.writing():
            if self.noted is not None and not self.watchers:
                self.noted((WROTE, self, (where, value)))
            else:
                self.before_write(where, value)
            self.put(where, value)
            self.after_write()

    def writing(self) -> AbstractContextManager[Any]:
        """A context manager to hold from `before_write` to `after_write`, so that no recorded launch comes between."""
        return nullcontext() if self.recorded is None else self.session.lock

    def values(self) -> npt.NDArray[Any]:
        """The content, for reading only."""
        return self.array

    def part(self, where: Any) -> npt.NDArray[Any]:
        """The elements at an index, for reading only."""
        part: npt.NDArray[Any] = self.values()[where]
        return part

    def any(self) -> bool:
        """Whether some element is not 0."""
        return bool(self.values().any())

    def copy(self) -> npt.NDArray[Any]:
        out: npt.NDArray[Any] = self.array.copy()
        return out

    def assign(self, values: Any) -> None:
        """Writes the whole array; ``values`` are cast. The caller calls `before_write` and `after_write`."""
        self.array[...] = values

    def put(self, where: Any, values: Any) -> None:
        """Writes the elements at the index ``where``, as `assign` writes all."""
        self.array[where] = values

    def take(self, source: Memory) -> bool:
        """Copies another memory of the same shape and dtype on the device; if that is impossible, returns False."""
        return False

    def reader(self) -> Callable[[Any], Any]:
        """A function from an index to the element as a Python number. It does not keep device memory alive."""
        return self.array.item if self.on_device is None else lambda index: self.array.item(index)

    def truth(self, index: Any) -> int:
        """The element at ``index``, a truth value, as 0 or 1."""
        return int(self.reader()(index))

    def session_ended(self) -> None:
        """Frees memory of the device, which nobody can read any more (see `freed`)."""
        self.operand = self.on_device = _Freed(self.session, self.operand)
        self._copy = None
        if type(self) is Memory:  # in subclasses it is a property
            self.array = self.operand

    @property
    def freed(self) -> bool:
        """Whether the memory was freed at the end of its session. Memory of the host remains."""
        return isinstance(self.operand, _Freed)

    def flush(self) -> None:
        """Call this after writes that other libraries may read before the next launch."""
        if self.on_flush is not None:
            self.on_flush(self)


class HostVisible(Memory):
    """Memory that host and device share, on a device with asynchronous launches: the host waits before each access."""

    __slots__ = ()

    @property
    def array(self) -> npt.NDArray[Any]:  # type: ignore[override]  # a plain attribute is faster where it suffices
        if self.on_device.busy:
            self.session.finish()
        array: npt.NDArray[Any] = self.operand
        return array

    def reader(self) -> Callable[[Any], Any]:
        return lambda index: self.array.item(index)


class HostMirrored(Memory):
    """Memory of a device that the host cannot access, with a copy on the host, which is made at first use.

    The copy is up to date if it was made at the current ``version`` (`_copied_at`), or if `_host_newer` is set: then
    the host may have written to the copy, and `upload` copies it to the device before the next launch. Another thread
    may make that launch. So that the launch comes entirely before or after a write to ``array``, writers hold the
    session's lock from reading ``array`` on, as `put` does. ``_elements``: flat index -> value of a few elements that
    Python has written while the copy was out of date. The next launch copies only these.
    """

    __slots__ = ()

    @property
    def array(self) -> npt.NDArray[Any]:  # type: ignore[override]  # a plain attribute is faster where it suffices
        with self.session.lock:
            copy = self.values()
            if not self._host_newer:
                self._host_newer = True
                self.on_device.device.ahead.append(ref(self))
            return copy

    def values(self) -> npt.NDArray[Any]:
        with self.session.lock:
            if self._copy is None:
                self._copy = np.empty(self.on_device.shape, self.on_device.dtype)
            if not self._is_current():
                self.on_device.read_into(self._copy)
                self._copied_at = self.version
                self._host_newer = bool(self._elements)
                for at, value in self._elements.items():
                    self._copy.flat[at] = value
                self._elements.clear()
            return self._copy

    def _is_current(self) -> bool:
        return self._host_newer or self._copied_at == self.version

    def copy(self) -> npt.NDArray[Any]:
        with self.session.lock:
            known = self._is_current() or self._elements
            out: npt.NDArray[Any] = self.values().copy() if known else self.on_device.read()
            return out

    def assign(self, values: Any) -> None:
        with self.session.lock:
            self.on_device.write(values)
            self._host_newer = False
            self._copied_at = -1
            self._elements.clear()

    def put(self, where: Any, values: Any) -> None:
        with self.session.lock:
            one = isinstance(values, (float, int, np.generic)) and len(self._elements) < _FEW
            at = _number(where, self.on_device.shape) if one and not self._is_current() else None
            if at is None:
                self.array[where] = values
                return
            if not self._elements:
                self.on_device.device.ahead.append(ref(self))
            self._elements[at] = values

    def take(self, source: Memory) -> bool:
        if not isinstance(source, HostMirrored) or source.session is not self.session:
            return False
        if self.foreign or self.watchers or self.recorded is not None:  # those need the values on the host
            return False
        with self.session.lock:
            self.fill_from(source)
            self.filled_on_device()
        return True

    def fill_from(self, source: HostMirrored) -> None:
        """Copies another memory of the session, on the device. Neither watchers nor recordings are told."""
        with self.session.lock:
            source.upload()
            if source is not self and self.on_device.nbytes:
                self.on_device.restore(0, source.on_device)

    def filled_on_device(self) -> None:
        """Call this after something other than a launch has written all of the memory on the device."""
        self._host_newer = False
        self._copied_at = -1
        self._elements.clear()
        self.python_filled = self.python_wrote = self.version = self.version + 1
        self.owner = THREAD.number

    def reader(self) -> Callable[[Any], Any]:
        if self.on_device.nbytes <= _SMALL:
            return lambda index: self.values().item(index)

        def item(index: Any) -> Any:
            """The element at ``index``: from the host's copy if that is up to date; else copied from the device."""
            with self.session.lock:
                known = self._is_current() or self._elements
                return self.values().item(index) if known else self.on_device.item(index)

        return item

    def upload(self) -> None:
        """Copies to the device what the host may have written."""
        with self.session.lock:
            if self._host_newer:
                assert self._copy is not None
                self.on_device.write(self._copy)
                self._host_newer = False
                self._copied_at = self.python_wrote  # it will grow by the launch that is about to start
            for at, value in self._elements.items():
                self.on_device.put(at, value)
            self._elements.clear()

    def save(self, at: int, size: int) -> Any:
        """A copy on the device of ``size`` elements, from flat index ``at`` on."""
        with self.session.lock:
            self.upload()
            return self.on_device.save(at, size)

    def save_into(self, at: int, saved: Any) -> None:
        """Like `save`, into memory that an earlier `save` returned."""
        with self.session.lock:
            self.upload()
            self.on_device.save_into(at, saved)

    def restore(self, at: int, saved: Any) -> None:
        """Copies a result of `save` back to the elements from flat index ``at`` on."""
        with self.session.lock:
            self.upload()
            self.on_device.restore(at, saved)
            self.version += 1


class Celled(Memory):
    """The memory of a field in a sparse layout. ``array`` and `values` are row-major copies; if these would be too
    large, reading raises QL2036."""

    __slots__ = ("order",)
    operand: CellArray

    def __init__(self, session: Session, dtype: DType, shape: tuple[int, ...], order: Order) -> None:
        super().__init__(session, dtype)
        self.order, self.operand = order, make_cells(session, dtype, shape, order)
        self.on_device, self.address = self.operand, self.operand.address  # reading `array` copies it

    @property
    def array(self) -> npt.NDArray[Any]:  # type: ignore[override]  # a plain attribute is faster where it suffices
        array = self.copy()
        array.flags.writeable = False
        return array

    def part(self, where: Any) -> npt.NDArray[Any]:
        with self.session.lock:
            return self.operand[where]

    def any(self) -> bool:
        with self.session.lock:
            return self.operand.any()

    def copy(self) -> npt.NDArray[Any]:
        with self.session.lock:
            return self.operand.read()

    def assign(self, values: Any) -> None:
        with self.session.lock:
            self.operand.write(values)

    def put(self, where: Any, values: Any) -> None:
        with self.session.lock:
            self.operand[where] = values

    def reader(self) -> Callable[[Any], Any]:
        return self.operand.item


def _number(where: Any, shape: tuple[int, ...]) -> int | None:
    """The row-major index of the element; None unless ``where`` consists of integers within the shape."""
    at, number = where if isinstance(where, tuple) else (where,), 0
    if len(at) != len(shape):
        return None
    for i, n in zip(at, shape, strict=True):
        if type(i) is not int or not 0 <= i < n:
            return None
        number = number * n + i
    return number


_SMALL = 4096  # so many bytes are copied as fast as one element
_FEW = 8  # copying so many elements one by one is faster than copying a memory of any size to the host and back
_UNREACHABLE = 64 << 20  # with more bytes of garbage, an allocation first runs Python's garbage collector


class NotEnoughMemory(QuadrantsRuntimeError, MemoryError):
    """Raised if a field or an ndarray is larger than what is left of the device's memory."""


def allocate(session: Session, dtype: DType, shape: tuple[int, ...], order: Order = ()) -> Memory:
    """Makes zeroed memory on the session's device, in this order of elements; raises NotEnoughMemory if it is full."""
    nbytes = prod(shape) * dtype.nbytes
    if session.unreachable > _UNREACHABLE:
        session.unreachable = 0
        gc.collect()
    try:
        if nbytes >> 62:
            raise MemoryError("no machine has an address for each of them")
        try:
            return _allocate(session, dtype, shape, order)
        except MemoryError:
            gc.collect()
        return _allocate(session, dtype, shape, order)
    except MemoryError as e:
        raise NotEnoughMemory(
            f"{dtype} with shape {shape} takes {nbytes:,} bytes, which {session.settings.backend} does not have: {e}",
            code="QL2039",
            help="make it smaller, take a narrower dtype, or delete others (qd.reset() deletes all)",
        ) from None


def _allocate(session: Session, dtype: DType, shape: tuple[int, ...], order: Order) -> Memory:
    if order:
        return Celled(session, dtype, shape, order)
    if session.backend.CAPABILITIES.on_host:  # asked without opening the device, which would load the code generator
        return Memory.over(session, zeros(shape, dtype.numpy), None)
    with session.lock:  # allocation may wait for launches, or start some
        there = session.device.allocate(shape, dtype.numpy)
    if there.array is None:
        made: Memory = HostMirrored(session, dtype)
        made.operand = there
    elif getattr(there, "late", False):
        made = HostVisible(session, dtype)
        made.operand = there.array
    else:
        made = Memory(session, dtype)
        made.array = made.operand = there.array
    made.on_device, made.address = there, there.address
    session.holders.add(made)
    return made
