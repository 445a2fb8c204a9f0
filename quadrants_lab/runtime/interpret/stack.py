"""An adstack of the reference interpreter."""

from __future__ import annotations

from typing import Any

from quadrants_lab.ir.types import DType


class Stack:
    """Slots are [primal, adjoint]; beyond the capacity the counter runs on and writes stay in the last
    slot."""

    __slots__ = ("capacity", "count", "count_only", "slots", "type")

    def __init__(self, type: DType, capacity: int | None, count_only: bool) -> None:
        self.type = type
        self.capacity = capacity
        self.count_only = count_only
        self.slots: list[list[Any]] = []
        self.count = 0

    def push(self, value: Any) -> None:
        self.count += 1
        if self.count_only or self.capacity == 0:
            return
        if self.capacity is not None and self.count > self.capacity:
            self.slots[-1] = [value, self.type.numpy(0)]
        else:
            self.slots.append([value, self.type.numpy(0)])

    def pop(self) -> None:
        self.count -= 1
        if len(self.slots) > self.count:
            self.slots.pop()
