"""Decides where the memory of a field in a sparse layout is: in pages of the host, or on a device."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.backends.pages import Pages
from quadrants_lab.ir.cell_order import Order, slots_in
from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.memory.cell_array import CellArray, PagedCells, SlottedCells
from quadrants_lab.runtime.session import Session


def make_cells(session: Session, dtype: DType, shape: tuple[int, ...], order: Order) -> CellArray:
    """Makes zeroed elements in this order, in memory of the session's device."""
    slots = slots_in(order, dtype.nbytes)
    nbytes = (slots.elements if slots else prod(shape)) * dtype.nbytes
    if session.backend.CAPABILITIES.on_host:
        pages = Pages(nbytes)
        if slots is None:
            return PagedCells(shape, dtype.numpy, order, pages)
        return SlottedCells(shape, dtype.numpy, order, PagedStorage(pages))
    with session.lock:  # allocation may wait for launches, or start some
        device = session.device
        there = device.allocate((nbytes,), np.uint8)
    return SlottedCells(shape, dtype.numpy, order, VisibleStorage(device, there))


class PagedStorage:
    """Storage on the host, in pages of the operating system."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.address, self.room = pages, pages.address, pages.nbytes

    def get(self, at: int, nbytes: int) -> npt.NDArray[np.uint8]:
        return self.pages.bytes[at : at + nbytes]

    def put(self, at: int, values: npt.NDArray[np.uint8]) -> None:
        """Does nothing, since `get` returns the bytes themselves."""

    def clear(self, at: int, end: int) -> None:
        if at:
            self.pages.bytes[at:end] = 0
        else:
            self.pages.clear()

    def taken(self, nbytes: int) -> int:
        return self.pages.taken()

    def saved(self, nbytes: int) -> PagedStorage:
        return PagedStorage(self.pages.copy())

    def restore(self, copy: PagedStorage, nbytes: int) -> None:
        self.pages.assign(copy.pages)


class VisibleStorage:
    """Storage on a device whose memory the host can access."""

    def __init__(self, device: Any, memory: Any) -> None:
        self.device, self.memory = device, memory
        self.address, self.room = memory.address, memory.array.nbytes

    def get(self, at: int, nbytes: int) -> npt.NDArray[np.uint8]:
        self.memory.finish()
        part: npt.NDArray[np.uint8] = self.memory.array[at : at + nbytes]
        return part

    def put(self, at: int, values: npt.NDArray[np.uint8]) -> None:
        """Does nothing, since `get` returns the bytes themselves."""

    def clear(self, at: int, end: int) -> None:
        self.get(at, end - at)[...] = 0

    def taken(self, nbytes: int) -> int:
        return nbytes

    def saved(self, nbytes: int) -> VisibleStorage:
        made = VisibleStorage(self.device, self.device.allocate((nbytes,), np.uint8))
        made.restore(self, nbytes)
        return made

    def restore(self, copy: VisibleStorage, nbytes: int) -> None:
        self.get(0, nbytes)[...] = copy.get(0, nbytes)
