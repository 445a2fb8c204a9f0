"""A CUDA device of one session, and memory on it."""

from __future__ import annotations

from typing import Any

from quadrants_lab.backends._simt.device import SimtDevice, SimtMemory
from quadrants_lab.backends.cuda import driver as D


class CudaMemory(SimtMemory):
    """Others see it as an array of their own, by ``__cuda_array_interface__``."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None,
            "version": 3, "stream": self.device.driver.stream.value,
        }  # fmt: skip


class Device(SimtDevice):
    memory = CudaMemory

    def __init__(self, threads: int = 0) -> None:
        super().__init__(D.current(), threads)
