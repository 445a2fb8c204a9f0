"""A CUDA device of one session, and memory on it."""

from __future__ import annotations

from math import prod
from typing import Any

from quadrants_lab.backends._simt.device import SimtDevice, SimtMemory
from quadrants_lab.backends.cuda import driver as D
from quadrants_lab.backends.cuda import warmup
from quadrants_lab.backends.cuda.shape import FEW, LARGE_HEAP


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

    def __init__(self, threads: int = 0, number: int | None = None) -> None:
        super().__init__(D.current(number), threads)
        self.few_threads = min(self.few_threads, FEW * self.driver.multiprocessors)
        self.large_heap = LARGE_HEAP
        if isinstance(self.driver, D.Driver):
            warmup.start(self.driver)

    # --- memory of other libraries ------------------------------------------------------------------------------

    @property
    def stream_number(self) -> int:
        """The stream of all launches, as other libraries are told it."""
        return int(self.driver.stream.value)

    def lend(self, address: int, shape: tuple[int, ...], dtype: Any, keep: Any) -> CudaMemory:
        """Memory of another library, C-contiguous. ValueError where it is on another device, or on none."""
        self.driver.enter()
        if prod(shape):
            home = self.driver.home(address)
            if home != self.driver.ordinal:
                where = "no GPU" if home < 0 else f"GPU {home}"
                raise ValueError(f"its memory is on {where}, the session is on GPU {self.driver.ordinal}")
        return CudaMemory.over(self, address, shape, dtype, keep)  # type: ignore[return-value]  # of this class

    def wait_stream(self, stream: int) -> None:
        """Lets what is launched from now on wait for what is in another library's stream."""
        self.driver.enter()
        self.driver.wait_stream(stream)
        self.running = True

    def signal_stream(self, stream: int) -> None:
        """Lets another library's stream wait for what was launched."""
        self.driver.enter()
        self.driver.signal_stream(stream)
