"""A session's CUDA device, and memory on it."""

from math import prod
from typing import Any

import numpy as np

from quadrants_lab.backends._simt.device import SimtDevice, SimtMemory
from quadrants_lab.backends.cuda import driver as D, warmup
from quadrants_lab.backends.cuda.shape import FEW, LARGE_HEAP


class CudaMemory(SimtMemory):
    """Memory that other libraries can use as an array through ``__cuda_array_interface__``."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None,
            "version": 3, "stream": self.device.driver.stream.value,
        }  # fmt: skip


class Device(SimtDevice):
    memory = CudaMemory

    def __init__(self, threads: int = 0, number: int | None = None) -> None:
        super().__init__(D.current(number), threads)
        self.few_threads = min(self.few_threads, FEW * self.driver.multiprocessors)
        self.large_heap = LARGE_HEAP
        if isinstance(self.driver, D.Driver):
            warmup.start(self.driver)

    def reserve(self, nbytes: int) -> CudaMemory:
        """In managed memory: the driver makes a page, of zeros, when it is first used."""
        made = self.without_spare(lambda: self.memory(self, (nbytes,), np.uint8, reserved=True))
        assert isinstance(made, CudaMemory)
        return made

    # --- memory of other libraries ------------------------------------------------------------------------------

    @property
    def stream_number(self) -> int:
        """The handle of the stream of all launches, for other libraries."""
        return int(self.driver.stream.value)

    def lend(self, address: int, shape: tuple[int, ...], dtype: Any, keep: Any) -> CudaMemory:
        """Wraps C-contiguous memory of another library. Raises ValueError where it is not on this device."""
        self.driver.enter()
        if prod(shape):
            home = self.driver.home(address)
            if home != self.driver.ordinal:
                where = "no GPU" if home < 0 else f"GPU {home}"
                raise ValueError(f"its memory is on {where}, the session is on GPU {self.driver.ordinal}")
        return CudaMemory.over(self, address, shape, dtype, keep)  # type: ignore[return-value]  # of this class

    def wait_stream(self, stream: int) -> None:
        """Makes later launches wait for the work in another library's stream."""
        self.driver.enter()
        self.driver.wait_stream(stream)
        self.running = True

    def signal_stream(self, stream: int) -> None:
        """Makes another library's stream wait for all launches so far."""
        self.driver.enter()
        self.driver.signal_stream(stream)
