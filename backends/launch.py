"""What a backend shows to the runtime: the protocol of loaded kernels, their launch frames, and devices.

    device = Device(...)                        # one a session
    exe = load(kernel, options, cached, keep)   # Executable; what keep gets is a later process's cached
    frame = exe.frame(device)                   # a launch frame, reusable; not to be launched by two threads at once
    frame.set_buffer("x", address)              # each field and ndarray buffer, before the first launch
    frame.set_extents("a", (1024, 8))           # each ndarray buffer
    frame.set_arg("scale", 2.0)                 # each scalar argument
    frame.set_stacks([256, 17])                 # capacities in slots, AdStackAllocas in kernel order
    status = frame.launch()                     # 0, or bits of Status
    frame.ret("ret0")                           # a Python scalar of a "ret" buffer
    fast = frame.entry(params, returns="ret0")  # a callable that takes the kernel's positional arguments

What holds on every backend:

- Everything that was set stays set until it is set again. A frame keeps addresses, not objects: whoever sets an address
  keeps its memory alive. Addresses are the device's (`Memory.address`).
- "temp" and "ret" buffers live in the frame and are zero at the start of each launch.
- `launch` runs all tasks in order. It returns when they are done, or, where nothing comes back, earlier: then later
  launches, `Memory.read` and `Memory.write` come after it all the same, and `Device.finish` waits. Ctrl-C on the main
  thread ends the waiting.
- Launches on one device must be serialised by the caller (they share the device's adstack heap).
- Status.PRINTED: `take_prints()` returns the printed texts. Status.ASSERT or Status.OVERFLOW: `failure()` says what
  failed. After a failed assert the tasks that follow do not run; after an overflow they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass


class Status:
    """Bits of a launch's status."""

    OVERFLOW = 1
    ASSERT = 2
    CANCELLED = 4
    PRINTED = 8


@dataclass(frozen=True, slots=True)
class Overflow:
    """The first adstack that a lane found too small, and the depth which that lane would have needed."""

    stack: N.AdStackAlloca
    capacity: int
    depth: int


@dataclass(frozen=True, slots=True)
class AssertFailed:
    """The first assert that failed, and the values of its arguments (the first eight)."""

    stmt: N.Assert
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar argument of the kernel."""

    arg: str


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """A numpy array bound to an ndarray buffer."""

    buffer: str


@dataclass(frozen=True, slots=True)
class ConstParam:
    """An argument that the frame has no use for."""


Param = ScalarParam | ArrayParam | ConstParam


class Memory(Protocol):
    """Device memory of an array. ``address`` is what `Frame.set_buffer` takes.

    ``array`` is a numpy view of the memory itself where the host can see it, else None; memory whose ``late`` is true
    must not be ``busy`` when the host looks there (`Device.finish`). `read` and `write` copy and work everywhere. Freed
    with the object. Memory without an ``array`` is a launch's operand itself (`runtime.memory.memory`
    says what it has besides).
    """

    @property
    def address(self) -> int: ...

    @property
    def array(self) -> np.ndarray[Any, Any] | None: ...

    def read(self) -> np.ndarray[Any, Any]: ...

    def write(self, values: np.ndarray[Any, Any]) -> None: ...


class Device(Protocol):
    """A device of one session: its adstack heap, which only grows, by doubling, and the seed of its draws."""

    @property
    def heap_bytes(self) -> int: ...

    def finish(self) -> None:
        """Waits until every launch is done."""

    def set_seed(self, seed: int) -> None:
        """Seed of the random draws of launches to come; any 64-bit integer."""

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Memory:
        """Zeroed memory of a C-contiguous array; MemoryError where there is not that much."""
        ...

    def forked(self) -> bool:
        """To be called in the child of a fork: whether the device can be used there. Launches on one that cannot raise
        `forks.forked` from then on."""
        ...


class Frame(Protocol):
    """See the module's docstring. ``status`` is the last launch's."""

    @property
    def status(self) -> int: ...

    def set_buffer(self, name: str, address: int) -> None: ...

    def set_extents(self, name: str, shape: tuple[int, ...]) -> None: ...

    def bind_temp(self, name: str, array: np.ndarray[Any, Any]) -> Callable[[], None] | None:
        """Binds an array, the host's or one of `Memory.array`, to an ndarray buffer for the next launch. Returns None
        or what must be called after the launch, so that the array has what the kernel wrote."""
        ...

    def set_arg(self, name: str, value: Any) -> None: ...

    def arg(self, name: str) -> Any:
        """The scalar argument that was set last."""
        ...

    def set_stacks(self, caps: list[int], budget: int = 0, passing: Mapping[int, int] | None = None) -> None:
        """Capacities in slots; grows the device's heap as needed, MemoryError where it cannot. ``budget``: bytes that
        the heap is not to pass (0: as the device sees fit), unless `least_heap` needs them. ``passing``: by the number
        of a task, how many of its iterations push at all."""

    def heap_bytes(self, caps: list[int]) -> int:
        """What a launch with these capacities takes of the heap, where no budget and no gate makes it less."""
        ...

    def least_heap(self, caps: list[int]) -> tuple[int, int]:
        """The fewest iterations in flight that such a launch gets by with, and the bytes that they take."""
        ...

    def stack_bytes(self) -> int:
        """Bytes of adstacks a lane in flight."""
        ...

    @property
    def stack_threads(self) -> int:
        """How many lanes have room on the heap: all together take `stack_bytes` times as many bytes."""
        ...

    @property
    def launch_number(self) -> int:
        """Number of the last launch on its device: what its random draws depend on, besides the device's seed."""
        ...

    def replay(self, launch_number: int) -> None:
        """Launches from now on repeat the draws of that launch; 0 ends it."""

    def as_graph(self) -> None:
        """Lets all that a launch starts on the device start as one graph, where there are such. An error where the
        kernel returns something there; from now on arrays of the host are refused there."""

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:
        """The depths are computed to suffice, so a launch need not be waited for to learn that they did. Where they
        did not, `Device.finish` raises what ``report`` returns."""

    def launch(self) -> int: ...

    def ret(self, name: str) -> Any: ...

    def failure(self) -> Overflow | AssertFailed | None: ...

    def take_prints(self) -> list[str]: ...

    def entry(self, params: list[Param], returns: str = "") -> Any:
        """A callable that takes one positional argument a `Param`, launches and returns None or the value of
        ``returns``; NotImplemented, without launching, where an argument does not match; Ellipsis where the launch
        ended with a status other than 0. An array with an axis of 2**31 elements or more does not match, nor does
        anything where a buffer is wide: the caller chooses the code that such arrays need."""


class Executable(Protocol):
    """A loaded kernel; ``object`` is its code, ``written`` the buffers that the kernel writes."""

    @property
    def kernel(self) -> N.Kernel: ...

    @property
    def object(self) -> bytes: ...

    @property
    def written(self) -> frozenset[str]: ...

    def frame(self, device: Any) -> Frame: ...
