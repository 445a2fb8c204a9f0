"""Provides the data of a recorded launch, so that some of its iterations can be repeated. The data are the copies
in its record; if the arrays are too large for copies, elements are read from the memory itself, as long as nothing
writes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.facts import statements
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.weak import weak
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.record.records import Arrays, LaunchRecord, first_elements

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.dispatch import Dispatcher

MOST_BYTES = 16 << 20  # at most so many bytes of copies are kept alive


@dataclass(frozen=True, slots=True)
class LaunchData:
    """The data of a launch of ``kernel``. ``before``: name of each buffer -> its values before the launch, as an array
    or an object that can be indexed like one; zeros for a buffer that the launch does not read. ``after``: the same
    after the launch, for the buffers that it wrote and whose values are known. ``caps``: id of a stack -> its capacity.
    ``random``: seed and number of the launch."""

    kernel: N.Kernel
    before: dict[str, Any]
    after: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    caps: dict[int, int] = field(default_factory=dict)
    random: tuple[int, int] = (0, 1)


def launch_data(record: LaunchRecord) -> LaunchData:
    """The data of a record. It keeps at most `MOST_BYTES` of copies, and 16 MiB of what the launch read and wrote."""
    if record.data is None:
        record.data = LaunchData(record.plan.kernel, *_data(record), record.scalars, record.caps, record.random)
    data: LaunchData = record.data
    return data


def _data(record: LaunchRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    plan, inputs = record.plan, record.inputs
    buffers = plan.kernel.buffers
    zeros: Arrays = {
        name: np.broadcast_to(np.zeros((), buffers[name].dtype.numpy), shape) for name, shape in record.shapes.items()
    }
    if inputs is not None and sum(a.nbytes for a in inputs.values()) <= MOST_BYTES:
        return zeros | inputs, dict(record.outputs or {})
    first = record.first_elements if inputs is None else first_elements(plan, inputs, record.memories.keys())
    read = {n for n in zeros if any(s.loads for s in plan.facts.of(statements).get(n, ()))}
    now = {name: CurrentValues(name, *where) for name, where in record.memories.items()}
    before = {n: FirstElements(n, first[n], a.shape) if n in first else now[n] for n, a in zeros.items() if n in read}
    return zeros | before, {n: now[n] for n in plan.writes & now.keys()}


class CurrentValues:
    """The values in memory; they can be read as long as the memory has this version."""

    def __init__(self, name: str, memory: Memory, version: int) -> None:
        self.name, self.memory, self.version = name, memory, version
        self.shape, self.dtype = memory.operand.shape, np.dtype(memory.dtype.numpy)
        self.ndim = len(self.shape)

    def read(self) -> npt.NDArray[Any]:
        if self.memory.foreign or self.memory.version != self.version:
            why = "may have been" if self.memory.foreign else "was"
            raise QuadrantsRuntimeError(
                f"{self.name} {why} written to since the launch, whose inputs were too large to copy",
                code="QL0714",
                help="run the cell again, and look at its steps before another one writes",
            )
        return self.memory.values()

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        return self.read()[index]


class FirstElements:
    """The first elements of an array, in row-major order."""

    def __init__(self, name: str, flat: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
        self.name, self.flat, self.shape, self.dtype, self.ndim = name, flat, shape, flat.dtype, len(shape)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        at = int(np.ravel_multi_index(index, self.shape)) if self.shape else 0
        if at < self.flat.size:
            return self.flat[at]
        raise QuadrantsRuntimeError(
            f"the launch wrote over {self.name}[{', '.join(map(str, index))}]: of so large an array only the first "
            f"{self.flat.size:,} elements are kept",
            code="QL0714",
            help="look at an iteration that needs only those, or launch it on less data",
        )

    def read(self) -> npt.NDArray[Any]:
        if self.flat.size == np.prod(self.shape, dtype=int):
            return self.flat.reshape(self.shape)
        last: npt.NDArray[Any] = self[tuple(n - 1 for n in self.shape)]
        return last


# --- the data of each kernel's last recorded launch; ``k.reproduce`` makes a script of them ------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """The data of one launch. ``number``: see `LaunchRecord.launch`. ``args``: functions that return its flattened
    arguments: None for fields and arrays that have ended, and the buffer's name for a numpy array. ``before``: name of
    a buffer -> its values before the launch; ``of``: serial of a memory -> the buffer's name."""

    number: int
    args: tuple[Callable[[], Any], ...]
    before: dict[str, Any]
    of: dict[int, str]

    def values(self, memory: Any) -> Any:
        """The values in the memory before the launch; None if the launch did not read it. Raises QuadrantsRuntimeError
        if they were overwritten since."""
        return self.named(self.of.get(memory.serial, ""))

    def named(self, name: str) -> Any:
        """The values of the buffer ``name`` before the launch."""
        found = self.before.get(name)
        return found.read() if isinstance(found, (CurrentValues, FirstElements)) else found


_CASES: WeakKeyDictionary[Dispatcher, Case] = WeakKeyDictionary()


def keep_last(records: Iterable[LaunchRecord]) -> None:
    """Stores the data of these launches, each as the data of its kernel's last launch."""
    for r in records:
        data = launch_data(r)
        touched = {name: array for name, array in data.before.items() if r.inputs is None or name in r.inputs}
        of = {memory.serial: name for name, (memory, _) in r.memories.items()}
        slots = zip(r.plan.slots, r.args, strict=True)
        args = [slot.name if isinstance(arg, np.ndarray) else arg for slot, arg in slots]
        _CASES[r.plan.owner] = Case(r.launch, tuple(map(weak, args)), touched, of)


def last_case(dispatcher: Dispatcher) -> Case | None:
    """The last recorded launch; None if none was recorded."""
    return _CASES.get(dispatcher)
