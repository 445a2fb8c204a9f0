"""Captures many launches, and copies between them, as one graph that starts by one call of the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._gpu.flight import Cost

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.device import SimtDevice


class MustWait(Exception):
    """The captured code waits for a result, or differs from launch to launch."""


def capture(device: SimtDevice, run: Callable[[], None]) -> Captured | None:
    """Captures all launches and copies of ``run`` without executing them; None where the driver has no graphs or
    ``run`` waits for a result. Call it with the session locked."""
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
    """A captured graph, which ``launch()`` starts after all earlier launches, as long as `holds` is true."""

    def __init__(self, device: SimtDevice, start: Callable[[], None], frames: list[Any]) -> None:
        self.device = device
        self.start = start
        self.cost = Cost()
        self.frames = {id(f): (f, f._launches) for f in frames}.values()
        self.heap = device.heap_address
        self.count = len(frames)

    def holds(self) -> bool:
        """Whether the adstack heap and the group counts are still those of the capture."""
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
            frame.defer_check()
