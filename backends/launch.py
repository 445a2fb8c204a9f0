"""Defines the interface by which the runtime launches a kernel on any backend: devices, loaded kernels, and their
launch frames, which hold the arguments of a launch.

    device = open_device(...)                   # a Device, one for each session
    exe = load(kernel, options, cached, keep)   # an Executable; what keep gets is cached in a later process
    frame = exe.frame(device)                   # a Frame, reusable, but not by two threads at once
    frame.set_buffer("x", address)              # each field and ndarray buffer, before the first launch
    frame.set_extents("a", (1024, 8))           # each ndarray buffer
    frame.set_arg("scale", 2.0)                 # each scalar argument
    frame.set_stacks([256, 17])                 # capacities in slots, of the kernel's AdStackAllocas in order
    status = frame.launch()                     # 0, or bits of Status
    frame.ret("ret0")                           # the value of a "ret" buffer, a Python scalar
    fast = frame.entry(params, returns="ret0")  # a callable that takes the kernel's positional arguments

What holds on every backend:

- Everything that was set stays set until it is set again. A frame keeps addresses, not objects: the caller keeps the
  memory alive. Addresses are the device's (`Memory.address`).
- "temp" and "ret" buffers live in the frame and are zero at the start of each launch.
- `launch` runs all tasks in order. It returns when they are done; if nothing comes back to the host, it may return
  earlier. Later launches, `Memory.read` and `Memory.write` still come after it, and `Device.finish` waits for it.
  Ctrl-C on the main thread ends the wait.
- The caller serialises launches on one device, because they share the device's adstack heap.
- Status.PRINTED: `take_prints()` returns the printed texts. Status.ASSERT or Status.OVERFLOW: `failure()` says what
  failed. After a failed assert the tasks that follow do not run; after an overflow they run.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from quadrants_lab.backends import forks, layout as L
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.show import show
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import find, types_of

_WORD = struct.Struct("=Q")


class Status:
    """Bits of a launch's status."""

    OVERFLOW = 1
    ASSERT = 2
    CANCELLED = 4
    PRINTED = 8


@dataclass(frozen=True, slots=True)
class Overflow:
    """The first adstack that overflowed, its capacity, and the depth that the iteration needs, both in slots."""

    stack: N.AdStackAlloca
    capacity: int
    depth: int


@dataclass(frozen=True, slots=True)
class AssertFailed:
    """The first assert that failed, and the values of its first eight arguments."""

    stmt: N.Assert
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar argument of the kernel."""

    arg: str


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """A numpy array that is bound to an ndarray buffer."""

    buffer: str


@dataclass(frozen=True, slots=True)
class ConstParam:
    """An argument that the frame does not read, such as one that is fixed at compile time."""


Param = ScalarParam | ArrayParam | ConstParam


class Memory(Protocol):
    """Device memory that holds an array; it is freed with this object. ``address`` is what `Frame.set_buffer` takes.

    ``array`` is a numpy view of the memory itself if the host can access it, else None. If ``late`` is true, launches
    may still be writing: the host must call `Device.finish` before it reads the view of memory that is ``busy``. `read`
    and `write` copy, and always work. Memory without an ``array`` is passed to launches as it is
    (`runtime.memory.memory`).
    """

    @property
    def address(self) -> int: ...

    @property
    def array(self) -> np.ndarray[Any, Any] | None: ...

    def read(self) -> np.ndarray[Any, Any]: ...

    def write(self, values: np.ndarray[Any, Any]) -> None: ...


class Device(ABC):
    """A device. Its launches share an adstack heap of ``heap_bytes`` at ``heap_address``, which only grows.
    ``read_beyond``: how many bytes behind the heap's end may be read without a fault."""

    read_beyond = 0

    def __init__(self) -> None:
        self.heap_bytes = 0
        self.heap_address = 0
        self._heap: Memory | None = None

    @abstractmethod
    def finish(self) -> None:
        """Waits until every launch is done."""

    @abstractmethod
    def set_seed(self, seed: int) -> None:
        """Sets the seed of the random draws of later launches; any 64-bit integer."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Memory:
        """Allocates zeroed memory for a C-contiguous array; raises MemoryError if there is too little."""

    @abstractmethod
    def forked(self) -> bool:
        """Whether the device can still be used in the child of a fork, where this is called. If not, nothing may be
        launched on the device from then on."""

    def session_ended(self) -> None:
        """Frees the heap, whose memory may keep the device alive. Nothing may be launched afterwards."""
        self._heap = None

    def need_heap(self, nbytes: int, most: int) -> None:
        """Grows the heap to at least ``nbytes``. It usually doubles; doubling stops at ``most`` bytes (0: no limit). Do
        not call this while a launch runs on the device.

        Raises MemoryError if there is too little memory. The heap then keeps its size, because launches have been
        planned for it.
        """
        had = self.heap_bytes
        if nbytes > had:
            self.finish()
            try:
                self._make_heap(max(nbytes, min(2 * had, most) if most else 2 * had))
            except BaseException:
                self._make_heap(had)
                raise

    def _make_heap(self, nbytes: int) -> None:
        self._heap = None  # the content of the old heap is not needed
        self.heap_bytes = self.heap_address = 0
        self._heap = self.allocate((-(-(nbytes + self.read_beyond) // 4),), np.uint32)
        self.heap_bytes, self.heap_address = nbytes, self._heap.address


class Executable(ABC):
    """A loaded kernel. ``object`` is its compiled code, ``written`` the names of the buffers that it writes."""

    object: bytes

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.written = frozenset(s.buffer for s in find(kernel.body, N.Write))

    @abstractmethod
    def frame(self, device: Any) -> Frame: ...

    def unload(self) -> None:  # noqa: B027  # most devices take the code itself
        """Frees what devices have made from the code. Call this when no frame of this kernel will be launched any more.
        """

    @forks.lazy
    def types(self) -> dict[int, DType]:
        """The dtypes of all values of the kernel, by id."""
        return types_of(self.kernel.body)


class Frame(ABC):
    """A launch frame; the docstring of this module says how it is used.

    ``view`` is the frame's memory, as words; compiled code reads it directly, or gets a copy that is copied back after
    the launch. ``words`` holds the offset of everything in it. ``forms``: dtype -> the `struct` format of a scalar.
    ``failed_at``: the offset of the words that describe a failure. ``launch_number`` counts the launches on the device;
    random draws depend on it and on the device's seed.
    """

    forms: ClassVar[Mapping[str, str]] = {
        "u1": "=?", "i8": "=b", "i16": "=h", "i32": "=i", "i64": "=q", "u8": "=B", "u16": "=H", "u32": "=I",
        "u64": "=Q", "f16": "=e", "f32": "=f", "f64": "=d",
    }  # fmt: skip
    failed_at: ClassVar[int]
    launch_number: int

    def __init__(self, exe: Any, device: Any, words: L.FrameLayout, view: memoryview) -> None:
        self.exe = exe
        self.device = device
        self.words = words
        self.view = view
        self._args = {a.name: (struct.Struct(self.forms[a.type.name]), words.args[a.name]) for a in exe.kernel.args}

    @property
    @abstractmethod
    def status(self) -> int:
        """The status of the last launch."""

    def set_buffer(self, name: str, address: int) -> None:
        _WORD.pack_into(self.view, self.words.buffers[name], address)

    def buffer(self, name: str) -> int:
        """The address that the buffer was last bound to."""
        return int(_WORD.unpack_from(self.view, self.words.buffers[name])[0])

    @abstractmethod
    def set_extents(self, name: str, shape: tuple[int, ...]) -> None: ...

    @abstractmethod
    def bind_temp(self, name: str, array: np.ndarray[Any, Any]) -> Callable[[], None] | None:
        """Binds an array, of the host or the ``array`` of a `Memory`, to an ndarray buffer for the next launch. Returns
        None, or a function to call after the launch, which copies what the kernel wrote back to the array."""

    def set_arg(self, name: str, value: Any) -> None:
        """Sets a scalar argument. Raises struct.error if ``value`` is an integer that does not fit the argument's
        dtype."""
        form, at = self._args[name]
        form.pack_into(self.view, at, value)

    def arg(self, name: str) -> Any:
        """The value that a scalar argument was last set to."""
        form, at = self._args[name]
        return form.unpack_from(self.view, at)[0]

    @abstractmethod
    def set_stacks(self, caps: list[int], budget: int = 0, pushing: Mapping[int, int] | None = None) -> None:
        """Sets the capacity of each adstack, in slots, and grows the device's heap as needed, or raises MemoryError.
        ``budget``: bytes that the heap must not exceed unless `least_heap` needs more (0: the device chooses).
        ``pushing``: index of a task -> how many of its iterations push at all."""

    @abstractmethod
    def heap_bytes(self, caps: list[int]) -> int:
        """How many bytes of heap a launch with these capacities takes if it has neither ``budget`` nor ``pushing``."""

    @abstractmethod
    def least_heap(self, caps: list[int]) -> tuple[int, int]:
        """The fewest iterations in flight with which a launch with these capacities can run, and the bytes of heap that
        they need."""

    @abstractmethod
    def stack_bytes(self) -> int:
        """How many bytes of adstacks each iteration in flight takes."""

    @property
    @abstractmethod
    def stack_threads(self) -> int:
        """For how many iterations in flight the heap has room."""

    @abstractmethod
    def replay(self, launch_number: int) -> None:
        """Makes all later launches repeat the random draws of launch ``launch_number``; 0 ends this."""

    def as_graph(self) -> None:  # noqa: B027  # most devices have no graphs
        """On devices with graphs (CUDA, HIP): from now on everything that a launch starts runs as one graph. Then
        launches refuse arrays of the host, and a kernel that returns a value raises an error."""

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:  # noqa: B027  # others wait anyway
        """Says that the capacities were computed to suffice, so launches need not wait to learn whether they do. If
        they nevertheless do not, `Device.finish` raises the exception that ``report`` makes."""

    @abstractmethod
    def launch(self) -> int: ...

    @abstractmethod
    def entry(self, params: list[Param], returns: str = "") -> Any:
        """Makes a callable that takes one positional argument for each `Param`, launches, and returns None or the value
        of the buffer ``returns``. It returns NotImplemented, without launching, if an argument does not match its
        parameter, and Ellipsis if the status of the launch is not 0. An array with an axis of 2**31 elements or more
        never matches, and if a buffer is wide, nothing matches: the caller then chooses code for large arrays."""

    def place_stacks(self, caps: Sequence[int], at: Mapping[int, int]) -> None:
        """Stores in the frame the capacities of the stacks, and where their slots begin in the heap (``at``: id of a
        stack -> byte offset). A stack whose pushes are only counted has no such offset."""
        for stack, capacity in zip(self.words.stacks, caps, strict=True):
            if not stack.count_only:
                first = self.words.stack_at[stack.id]
                _WORD.pack_into(self.view, first + L.STACK_CAPACITY, capacity)
                _WORD.pack_into(self.view, first + L.STACK_LAST, max(capacity, 1) - 1)
                _WORD.pack_into(self.view, first + L.STACK_AT, at[stack.id])

    def ret(self, name: str) -> Any:
        t = self.exe.kernel.buffers[name].dtype
        value = struct.unpack_from(self.forms[t.name], self.view, self.words.buffers[name])[0]
        return bool(value) if t.kind == "b" else value

    def failure(self) -> Overflow | AssertFailed | None:
        """What failed first in the last launch: an adstack overflow or an assert."""
        at = self.failed_at
        kind, what, count = struct.unpack_from("=QQQ", self.view, at)
        if not kind:
            return None
        if kind == Status.ASSERT:
            stmt = self.words.asserts[what]
            raw = struct.unpack_from(f"={count}q", self.view, at + 3 * L.WORD)
            values = (value_of(self.exe.types[i], w) for i, w in zip(stmt.args, raw, strict=False))
            return AssertFailed(stmt, tuple(values))
        stack = self.words.stacks[what]
        capacity = _WORD.unpack_from(self.view, self.words.stack_at[stack.id] + L.STACK_CAPACITY)[0]
        return Overflow(stack, capacity, count)

    def take_prints(self) -> list[str]:
        """What kernels have printed since the last call: a text for each executed print, in the order of execution."""
        data, lost = self.device.take_prints()
        return format_prints(self.words.prints, self.exe.types, data, lost)


def value_of(t: DType, word: int) -> Any:
    """The numpy scalar of dtype ``t`` whose bits are the low bits of a 64-bit word."""
    return np.frombuffer(struct.pack("=q", word), np.dtype(t.numpy), 1)[0] if t.kind != "b" else np.bool_(word & 1)


def format_prints(stmts: list[N.Print], types: dict[int, DType], data: bytes, lost: int) -> list[str]:
    """The printed text of each record in ``data``. A record is a word with the index of its Print statement in
    ``stmts``, followed by the printed values, one word each. An incomplete record at the end is left out; ``lost``
    counts it already."""
    out: list[str] = []
    words = memoryview(data).cast("q")
    at = 0
    while at < len(words):
        stmt = stmts[words[at]]
        at += 1
        if at + len(stmt.operands()) > len(words):
            break
        text = ""
        for part, spec in stmt.pieces():
            if isinstance(part, int):
                text += show(value_of(types[part], words[at]), spec)
                at += 1
            else:
                text += part
        out.append(text)
    if lost:
        out.append(f"[{lost} more prints did not fit into the print buffer]\n")
    return out
