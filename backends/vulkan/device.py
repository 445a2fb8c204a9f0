"""Implements a session's Vulkan device."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from quadrants_lab.backends._gpu.device import REDUCING, GpuDevice
from quadrants_lab.backends._gpu.remote import RemoteDevice, RemoteMemory
from quadrants_lab.backends.disk_cache import DiskCache
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.logical import Logical
from quadrants_lab.backends.vulkan.memory import MAPPED, REMOTE, MappedMemory, Piece, Pool
from quadrants_lab.backends.vulkan.transfer import Transfers
from quadrants_lab.errors import render, warn

_THREADS = {  # the most threads in flight, by type of device: in general, with adstacks, in reductions
    api.CPU: (1 << 18, 1 << 9, REDUCING),
    api.DISCRETE: (1 << 18, 1 << 18, 1 << 18),
}
_OTHERS = (1 << 17, 1 << 17, REDUCING)
_HEAP_BUDGET = 1 << 30
_BOTH_ARMS = (
    "if an index is in bounds only where the condition of an if holds, use another version of Mesa (25 is right) or "
    "another device: this one may end the process"
)


@cache
def tell_of_both_arms(name: str) -> None:
    says = f"this version of {name} reads memory for arms of an if that no thread takes"
    warn(render("QL2134", says, (), _BOTH_ARMS, kind="warning"))


class Device(RemoteDevice, GpuDevice):
    """A session's Vulkan device. ``physical``: the device of the machine, by default the result of `api.choose`.
    ``cache``: where compiled pipelines are stored. ``pool``: memory that the host can access; ``arrays``: memory
    for arrays, the same pool unless the device is discrete (``remote``)."""

    memory = RemoteMemory

    def __init__(
        self, physical: api.Physical | None = None, *, threads: int = 0, heap_budget: int = _HEAP_BUDGET,
        cache: DiskCache | None = None,
    ) -> None:  # fmt: skip
        physical = physical or api.choose()
        most, stacked, reducing = _THREADS.get(physical.kind, _OTHERS)
        if physical.runs_both_arms:
            tell_of_both_arms(physical.name)
        limit = api.LLVMPIPE_ROUNDS if physical.target.cuts_loops else 0
        RemoteDevice.__init__(self)
        GpuDevice.__init__(self, threads or most, threads or stacked, heap_budget, limit, reducing)
        self.physical = physical
        self.logical = Logical(physical, cache or DiskCache())
        self.pool = Pool(self.logical, MAPPED)
        self.remote = self.logical.discrete
        self.arrays = Pool(self.logical, REMOTE) if self.remote else self.pool
        made = Transfers(self.logical)
        self.upload, self.download, self.copy, self.fill = made.upload, made.download, made.copy, made.fill

    @property
    def busy(self) -> bool:
        return self.logical.queue.busy

    def finish(self) -> None:
        self.logical.queue.finish()

    def forked(self) -> bool:
        self.logical.queue.forked()
        return False

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> RemoteMemory | MappedMemory:
        """Zeroed memory of a C-contiguous array; MemoryError where there is not that much."""
        self.finish()  # frees unused memory, which would otherwise accumulate
        if self.remote:
            return RemoteMemory(self, shape, dtype)
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        return MappedMemory(self.logical.queue, self.arrays.take(nbytes), shape, dtype)

    def allocate_storage(self, nbytes: int) -> Piece:
        return self.without_spare(lambda: self.arrays.take(nbytes))

    def drop_spare(self) -> None:
        self.spare.clear()
        self.finish()

    def locate(self, array: np.ndarray[Any, Any]) -> int:
        return self.pool.locate(array.__array_interface__["data"][0], array.nbytes)
