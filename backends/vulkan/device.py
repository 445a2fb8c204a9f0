"""A Vulkan device of one session."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants_lab.backends._gpu.device import GpuDevice
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import Logical
from quadrants_lab.backends.vulkan.memory import Pool, VulkanMemory

_THREADS = {api.CPU: (1 << 18, 1 << 9)}  # in flight, and in flight with adstacks
_OTHERS = (1 << 17, 1 << 17)
_HEAP_BUDGET = 1 << 30


class Device(GpuDevice):
    """``physical``: which device (None: `api.choose`). ``cache``: for pipelines that the driver has compiled."""

    def __init__(
        self, physical: api.Physical | None = None, *, threads: int = 0, heap_budget: int = _HEAP_BUDGET,
        cache: DiskCache | None = None,
    ) -> None:  # fmt: skip
        physical = physical or api.choose()
        most, stacked = _THREADS.get(physical.kind, _OTHERS)
        limit = api.LLVMPIPE_ROUNDS if physical.target.cuts_loops else 0
        super().__init__(threads or most, threads or stacked, heap_budget, limit)
        self.physical = physical
        self.logical = Logical(physical, cache or DiskCache())
        self.pool = Pool(self.logical)

    @property
    def busy(self) -> bool:
        return self.logical.queue.busy

    def finish(self) -> None:
        self.logical.queue.finish()

    def forked(self) -> bool:
        self.logical.queue.forked()
        return False

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> VulkanMemory:
        """Zeroed memory of a C-contiguous array; MemoryError where there is not that much."""
        nbytes = np.dtype(dtype).itemsize
        for n in shape:
            nbytes *= n
        self.finish()  # what was given up comes back, or there would be ever more of it
        return VulkanMemory(self.logical.queue, self.pool.take(nbytes), shape, dtype)

    def locate(self, array: np.ndarray[Any, Any]) -> int:
        return self.pool.locate(array.__array_interface__["data"][0], array.nbytes)
