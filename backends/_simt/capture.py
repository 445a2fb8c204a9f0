"""Launches of many kernels, and copies between them, that start in one call of the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._gpu.flight import Cost

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.device import SimtDevice


class MustWait(Exception):
    """What is captured has to be waited for, or differs from launch to launch."""


def capture(device: SimtDevice, run: Callable[[], None]) -> Captured | None:
    """All that ``run`` launches and copies on the device, of which nothing happens now; None where the driver cannot
    do that, or something has to be waited for. To be called with the session locked."""
    make = getattr(device.driver, "graph", None)
    if make is None:
        return None
    device.finish()
    device.send()
    frames: list[Any] = []
    device.captured = frames
    try:
        start = make(run).launch
    except MustWait:
        return None
    finally:
        device.captured = None
    return Captured(device, start, frames)


class Captured:
    """``launch()`` starts it all, after what was launched before, and is to be called as long as `holds` says so."""

    def __init__(self, device: SimtDevice, start: Callable[[], None], frames: list[Any]) -> None:
        self.device = device
        self.start = start
        self.cost = Cost()
        self.frames = {id(f): (f, f._launches) for f in frames}.values()
        self.heap = device.heap_address
        self.count = len(frames)

    def holds(self) -> bool:
        """Whether memory of the device and what runs at a time are still as they were."""
        same = all(f._launches is launches and not f._grid_is_old for f, launches in self.frames)
        return same and self.device.heap_address == self.heap

    def launch(self) -> None:
        device = self.device
        device.driver.enter()
        device.begin(False, self.cost)
        if device.ahead:
            device.send()
        self.start()
        device.launches += self.count
        for frame, _ in self.frames:
            frame.leave_unsettled()
