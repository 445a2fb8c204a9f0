"""What a launch found and what it left, for those who repeat a few of its iterations: the copies of its record where
they are small, else memory as it is now, element by element, for as long as nobody writes to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.record.records import Arrays, LaunchRecord, heads

if TYPE_CHECKING:
    from quadrants_lab.runtime.memory.memory import Memory

MOST_BYTES = 16 << 20  # of copies that are held


@dataclass(frozen=True, slots=True)
class Held:
    """A launch of ``kernel``. By buffer name, arrays, or what is indexed like one: ``before``, all that the launch
    could ask for, in its shape; what it only adds to is zeros there; ``after``: what it wrote, as far as that is
    known."""

    kernel: N.Kernel
    before: dict[str, Any]
    after: dict[str, Any] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    caps: dict[int, int] = field(default_factory=dict)
    random: tuple[int, int] = (0, 1)


def held(record: LaunchRecord) -> Held:
    """Holds no more than `MOST_BYTES` of copies, and 16 MiB of what the launch both read and wrote."""
    if record.held is None:
        record.held = Held(record.plan.kernel, *_data(record), record.scalars, record.caps, record.random)
    found: Held = record.held
    return found


def _data(record: LaunchRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    plan, inputs = record.plan, record.inputs
    buffers = plan.kernel.buffers
    nothing: Arrays = {
        name: np.broadcast_to(np.zeros((), buffers[name].dtype.numpy), shape) for name, shape in record.shapes.items()
    }
    if inputs is not None and sum(a.nbytes for a in inputs.values()) <= MOST_BYTES:
        return nothing | inputs, dict(record.outputs or {})
    first = record.heads if inputs is None else heads(plan, inputs, record.memories.keys())
    read = {n for n in nothing if any(isinstance(s, N.Load) for s in plan.accesses_of.get(n, ()))}
    now = {name: Now(name, *where) for name, where in record.memories.items()}
    before = {n: Head(n, first[n], a.shape) if n in first else now[n] for n, a in nothing.items() if n in read}
    return nothing | before, {n: now[n] for n in plan.writes & now.keys()}


class Now:
    """Memory that must not have been written to since it was of this version."""

    def __init__(self, name: str, memory: Memory, version: int) -> None:
        self.name, self.memory, self.version = name, memory, version
        self.shape, self.dtype = memory.operand.shape, np.dtype(memory.dtype.numpy)
        self.ndim = len(self.shape)

    def read(self) -> npt.NDArray[Any]:
        if self.memory.foreign or self.memory.version != self.version:
            why = "may have been" if self.memory.foreign else "was"
            raise QuadrantsRuntimeError(
                f"{self.name} {why} written to since the launch, which read too much to copy it",
                code="QL0714",
                help="run the cell again, and look at its steps before another one writes",
            )
        return self.memory.values()

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        return self.read()[index]


class Head:
    """The first elements of an array, in memory order."""

    def __init__(self, name: str, flat: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
        self.name, self.flat, self.shape, self.dtype, self.ndim = name, flat, shape, flat.dtype, len(shape)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        at = int(np.ravel_multi_index(index, self.shape)) if self.shape else 0
        if at < self.flat.size:
            return self.flat[at]
        raise QuadrantsRuntimeError(
            f"the launch wrote over {self.name}[{', '.join(map(str, index))}]: of so large an array the first "
            f"{self.flat.size:,} elements are kept",
            code="QL0714",
            help="look at an iteration that needs only those, or launch it on less data",
        )

    def read(self) -> npt.NDArray[Any]:
        if self.flat.size == np.prod(self.shape, dtype=int):
            return self.flat.reshape(self.shape)
        last: npt.NDArray[Any] = self[tuple(n - 1 for n in self.shape)]
        return last
