"""The adstack heap of a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from quadrants_lab.backends.launch import Memory


class StackHeap(ABC):
    """``heap_bytes`` at ``heap_address``, which only grow, by doubling."""

    def __init__(self) -> None:
        self.heap_bytes = 0
        self.heap_address = 0
        self._heap: Memory | None = None

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Memory: ...

    @abstractmethod
    def finish(self) -> None: ...

    def need_heap(self, nbytes: int, most: int) -> None:
        """Grows the heap to at least ``nbytes``, by doubling, but not beyond ``most`` (0: no limit) for that alone. Not
        while a launch runs on this device.

        Raises MemoryError where there is not that much memory; the heap is then as large as before, for launches were
        settled for that much.
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
        self._heap = None  # nothing in it outlives a launch
        self.heap_bytes = self.heap_address = 0
        self._heap = self.allocate((-(-nbytes // 4),), np.uint32)
        self.heap_bytes, self.heap_address = nbytes, self._heap.address
