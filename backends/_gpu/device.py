"""The base class of a session's GPU, for every API: it has the adstack heap, the random seed and the print block,
and limits how many launches are in flight."""

import struct
from abc import abstractmethod
from collections.abc import Collection
from typing import Any

import numpy as np

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends.cost import GROUP
from quadrants_lab.backends.launch import Device, Memory

PRINT_WORDS = 1 << 17
REDUCING = 1 << 12
_MASK = (1 << 64) - 1


class NoMemory:
    """A class without instances: `GpuDevice.memory` of devices whose launches take numpy arrays only."""


class GpuDevice(Device):
    """A GPU of one session. Random draws depend on ``seed`` and on how many ``launches`` there have been.

    ``threads``: the most threads of a launch; ``stack_threads``: the most threads if each has adstacks;
    ``reducing_threads``: the most threads if each reduces into a partial result of its own. ``heap_budget``: bytes; if
    adstacks need more, a launch runs with fewer threads. ``loop_limit``: the driver stops a thread after so many trips
    of loops, 0: never. ``memory``: the class of device memory that launches take as arguments.
    """

    memory: type[Any] = NoMemory

    def __init__(
        self, threads: int, stack_threads: int, heap_budget: int, loop_limit: int = 0, reducing_threads: int = REDUCING
    ) -> None:
        super().__init__()
        self.threads = threads
        self.stack_threads = min(stack_threads, threads)
        self.heap_budget = heap_budget
        self.loop_limit = loop_limit
        self.reducing_threads = min(reducing_threads, threads)
        self.seed = 0
        self.launches = 0
        self._prints: Memory | None = None

    def least_threads(self, iterations: int, trips: int) -> int:
        """How many threads a task needs so that none reaches the loop limit, if one iteration makes ``trips`` trips of
        loops."""
        wanted = iterations * trips // self.loop_limit + 1 if self.loop_limit else 1
        return min(-(-wanted // GROUP) * GROUP, self.threads)

    @abstractmethod
    def locate(self, array: np.ndarray[Any, Any]) -> int:
        """The device address of an array that lies in memory of this device; 0 for any other array."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a launch may still be running."""

    def forked(self) -> bool:
        return False

    def session_ended(self) -> None:
        super().session_ended()
        self._prints = None

    def set_seed(self, seed: int) -> None:
        """Sets the seed of the random draws of later launches, any 64-bit integer."""
        self.seed = seed & _MASK
        self.launches = 0

    def print_block(self) -> Memory:
        """The memory that kernels print to; it is allocated when the first kernel that prints is launched."""
        if self._prints is None:
            self._prints = self.allocate((L.PRINT_DATA // 8 + PRINT_WORDS,), np.int64)
            self._empty_prints(self._prints)
        return self._prints

    def take_prints(self) -> tuple[bytes, int]:
        """The records that kernels printed since the last call, and how many prints were lost because the block was
        full."""
        if self._prints is None:
            return b"", 0
        data = self._prints.read().tobytes()
        used, lost = struct.unpack_from("=II", data)
        self._empty_prints(self._prints)
        return data[L.PRINT_DATA : L.PRINT_DATA + 8 * min(used, PRINT_WORDS)], lost

    def _empty_prints(self, block: Memory) -> None:
        head = np.zeros(L.PRINT_DATA // 8 + PRINT_WORDS, np.int64)
        head[L.PRINT_ROOM // 8] = PRINT_WORDS
        block.write(head)


# --- launches in flight ---------------------------------------------------------------------------------------------
#
# Ctrl-C ends the host's wait but not the work of the device. So a launch waits while `MOST` launches are in flight, or
# fewer if they are known to take long.

# the host waits for launches in parts; a part holds launches of about so many nanoseconds together, and two parts may
# be in flight
PART = 75_000_000
MOST = 128  # the most launches in a part
LEAST = PART // MOST


class Cost:
    """An estimate of how many nanoseconds a launch of a frame takes, clamped to `LEAST` .. `PART`."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        # Corrects the estimates of launches that together ``took`` so many nanoseconds, or with ``at_most`` no more
        # than that.
        self.ns = PART // 2


def learn(costs: Collection[Cost], took: int, at_most: bool = False) -> None:
    """Scales the estimates of launches that took ``took`` nanoseconds together, or at most that long."""
    expected = sum(c.ns for c in costs)
    if not costs or (at_most and took > expected):
        return
    for c in set(costs):
        c.ns = min(max(c.ns * took // expected, LEAST), PART)
