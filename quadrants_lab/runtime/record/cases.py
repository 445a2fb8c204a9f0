"""The data of each kernel's last recorded launch, from which ``k.reproduce`` writes a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from quadrants_lab.ir.weak import weak
from quadrants_lab.runtime.record.launch_data import CurrentValues, FirstElements, launch_data

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.record.records import LaunchRecord


@dataclass(frozen=True, slots=True)
class Case:
    """A launch. ``number``: see `LaunchRecord.launch`. ``args``: functions that return its flattened arguments: None
    for fields and arrays that have ended, and the buffer's name for a numpy array. ``before``: the values of each
    buffer before the launch, by the buffer's name; ``of``: serial of each memory -> the buffer's name."""

    number: int
    args: tuple[Callable[[], Any], ...]
    before: dict[str, Any]
    of: dict[int, str]

    def values(self, memory: Any) -> Any:
        """The values in the memory before the launch; None if the launch did not read it. QuadrantsRuntimeError if they
        were overwritten since."""
        return self.named(self.of.get(memory.serial, ""))

    def named(self, name: str) -> Any:
        """The values of a buffer before the launch, by its name."""
        found = self.before.get(name)
        return found.read() if isinstance(found, (CurrentValues, FirstElements)) else found


_CASES: WeakKeyDictionary[Dispatcher, Case] = WeakKeyDictionary()


def keep(records: Iterable[LaunchRecord]) -> None:
    """Keeps the data of these launches, each as the last launch of its kernel."""
    for r in records:
        data = launch_data(r)
        touched = {name: array for name, array in data.before.items() if r.inputs is None or name in r.inputs}
        of = {memory.serial: name for name, (memory, _) in r.memories.items()}
        slots = zip(r.plan.slots, r.args, strict=True)
        args = [slot.name if isinstance(arg, np.ndarray) else arg for slot, arg in slots]
        _CASES[r.plan.owner] = Case(r.launch, tuple(map(weak, args)), touched, of)


def case(dispatcher: Dispatcher) -> Case | None:
    """The last recorded launch; None if none was recorded."""
    return _CASES.get(dispatcher)
