"""A session's AMD device."""

from quadrants_lab.backends._simt.device import SimtDevice
from quadrants_lab.backends.amdgpu import hip


class Device(SimtDevice):
    def __init__(self, threads: int = 0, number: int | None = None) -> None:
        super().__init__(hip.current(number), threads)
