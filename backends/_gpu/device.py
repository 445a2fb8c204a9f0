"""A GPU as a session sees it, as far as that does not depend on the API: heap, draws, print block."""

from __future__ import annotations

import struct
from abc import abstractmethod
from typing import Any

import numpy as np

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import GROUP
from quadrants_lab.backends.launch import Device, Memory

PRINT_WORDS = 1 << 17
REDUCING = 1 << 12
_MASK = (1 << 64) - 1


class ArraysAlone:
    """The class of memory that launches take where they take arrays alone: nothing is of it."""


class GpuDevice(Device):
    """``threads``: the most that a launch keeps in flight; ``stack_threads``: the most that it needs where each has
    adstacks. ``heap_budget``: bytes of adstacks beyond which a launch runs with fewer threads. ``loop_limit``: how many
    times a thread may go round loops before the driver stops it (0: as often as it likes). ``reducing_threads``: the
    most where each adds up its share of a sum and then adds that to all others. ``seed`` and ``launches`` are what
    random draws depend on. ``memory``: the class of what `allocate` gives, where launches take that."""

    memory: type[Any] = ArraysAlone

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

    def fewest(self, iterations: int, rounds: int) -> int:
        """With how many threads a task gets by each of whose iterations goes round loops so often."""
        wanted = iterations * rounds // self.loop_limit + 1 if self.loop_limit else 1
        return min(-(-wanted // GROUP) * GROUP, self.threads)

    @abstractmethod
    def locate(self, array: np.ndarray[Any, Any]) -> int:
        """Device address of an array that lies in memory of this device; 0 for one that does not."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a launch may still run here for which all waiting has ended."""

    def forked(self) -> bool:
        return False

    def set_seed(self, seed: int) -> None:
        """Seed of the random draws of launches to come; any 64-bit integer."""
        self.seed = seed & _MASK
        self.launches = 0

    def print_block(self) -> Memory:
        """Where kernels print; made when the first one does."""
        if self._prints is None:
            self._prints = self.allocate((L.PRINT_DATA // 8 + PRINT_WORDS,), np.int64)
            self._empty_prints(self._prints)
        return self._prints

    def take_prints(self) -> tuple[bytes, int]:
        """What kernels printed since the last call, and how many prints found no room."""
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
