"""Computes finite differences of a loss: recorded launches are repeated with an input changed a little, up and
down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsAssertionError
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.recorder import Launches

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class Differentiable(Protocol):
    _memory: Memory
    grad: Any


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the launches: its memory, a copy of its gradient, flat and f64, and the direction along which it is
    changed."""

    memory: Memory
    gradient: npt.NDArray[np.float64]
    direction: npt.NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.memory.operand.shape
        return shape

    def along_signs(self) -> Input:
        """The same input with another direction, the signs of its gradient, so that the contributions of its elements
        do not cancel out. Where the gradient is 0, the direction stays."""
        signs = np.where(self.gradient == 0, self.direction, self.gradient)
        return replace(self, direction=np.copysign(self.direction, signs))


def inputs_of(fields: Mapping[str, Differentiable]) -> dict[str, Input]:
    """Maps the names of the fields to inputs, with the present gradients."""
    gradients = {name: x.grad._memory.copy().reshape(-1).astype(np.float64) for name, x in fields.items()}
    return {name: Input(x._memory, gradients[name], _direction(gradients[name].size)) for name, x in fields.items()}


def _direction(size: int) -> npt.NDArray[np.float64]:
    """A direction whose elements have different sizes; along 1 and -1, equal elements of a gradient would cancel out.
    All sizes are exact in f16."""
    draw = np.random.default_rng(0)
    direction: npt.NDArray[np.float64] = np.where(draw.random(size) < 0.5, -1.0, 1.0)
    direction *= draw.integers(32, 65, size) / 64
    return direction


def launched(launches: Launches) -> Iterator[tuple[Plan, tuple[Any, ...]]]:
    """Plan and arguments of every launch, including those in functions with custom gradients."""
    for step in launches.leaves():
        if step.launch is not None:
            yield step.launch[:2]


def gradients(launches: Launches) -> dict[int, tuple[Memory, Memory]]:
    """All floating-point memory with a gradient that the launches access: id -> (memory, memory of its gradient)."""
    found: dict[int, tuple[Memory, Memory]] = {}
    for plan, args in launched(launches):
        for name, memory in plan.memories(args).items():
            if id(memory) not in found and memory.dtype.is_float:
                grad = plan.gradient_of(name, args)
                if grad is not None:
                    found[id(memory)] = memory, grad
    return found


def restore(launches: Launches) -> None:
    """Restores memory to its values before the first step."""
    for touched, before in launches.initial.values():
        overwrite(touched, before)


def loss_at(launches: Launches, loss: Memory, x: Memory, values: npt.NDArray[Any]) -> float:
    """The loss after all steps are repeated with ``values`` (flat) in ``x`` before the first step. Raises
    QuadrantsAssertionError if an index is out of bounds with these values, which the program was not written for."""
    restore(launches)
    overwrite(x, values.reshape(x.operand.shape))
    launches.repeat_guarded()
    return float(loss.values().reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class Move:
    """A central difference: an input is changed along a direction by ``width``, to both sides. ``found``: the change of
    the loss; ``expected``: the change that the gradient predicts. ``relative``: the width divided by the greatest
    element. ``bend``: the second difference, the sum of both losses minus twice the loss in the middle. ``noise``: the
    greatest change that rounding alone can explain."""

    relative: float
    width: float
    found: float
    expected: float
    bend: float
    noise: float

    @property
    def error(self) -> float:
        """The relative difference between found and expected change; 0 if rounding can explain both."""
        size = max(abs(self.found), abs(self.expected))
        return max(0.0, abs(self.found - self.expected) - self.noise) / size if size > self.noise else 0.0


def moves(
    launches: Launches, loss: Memory, x: Input, direction: npt.NDArray[np.float64], widths: Sequence[float]
) -> list[Move]:
    """A `Move` for each of the ``widths`` (relative to the greatest element) with which no index is out of bounds. Call
    it within `saved`."""
    start = initial(launches, x.memory).reshape(-1).copy()
    scale = float(np.abs(start[np.isfinite(start)]).max(initial=0.0)) or 1.0
    middle = loss_at(launches, loss, x.memory, start)
    out = []
    for width in widths:
        up, down = ((start + sign * width * scale * direction).astype(start.dtype) for sign in (1, -1))
        try:
            losses = [loss_at(launches, loss, x.memory, values) for values in (up, down)]
        except QuadrantsAssertionError:
            continue
        step = up.astype(np.float64) - down  # computed from the values as they are rounded in the input's dtype
        noise = 8 * float(np.finfo(loss.operand.dtype).eps) * max(map(abs, losses))
        bend = sum(losses) - 2 * middle
        with np.errstate(invalid="ignore"):  # the product of an infinite element and a direction of 0 is NaN
            expected = float(x.gradient @ step)
        out.append(Move(width, width * scale, losses[0] - losses[1], expected, bend, noise))
    return out


def initial(launches: Launches, memory: Memory) -> npt.NDArray[Any]:
    """The values before the first step; the present ones if no step accesses the memory."""
    return launches.initial[id(memory)][1] if id(memory) in launches.initial else memory.values()


def overwrite(touched: Any, values: npt.NDArray[Any]) -> None:
    """Writes all elements of an array, or of a memory."""
    if isinstance(touched, np.ndarray):
        touched[...] = values
    else:
        touched.put(..., values)


def put_back(touched: Any, values: npt.NDArray[Any]) -> None:
    """Like `overwrite`, and counts the write."""
    overwrite(touched, values)
    if isinstance(touched, Memory):
        touched.version += 1


@contextmanager
def saved(launches: Launches, fields: Sequence[Differentiable]) -> Iterator[None]:
    """Makes a context at whose end all arrays that the steps access, and their gradients, get back the values that
    they had at its begin."""
    all_of_it = {id(touched): touched for touched, _ in launches.initial.values()}
    all_of_it |= {id(m): m for x in fields for m in (x._memory, x.grad._memory)}
    all_of_it |= {id(grad): grad for _, grad in gradients(launches).values()}
    saved = [(touched, touched.copy()) for touched in all_of_it.values()]
    try:
        yield
    finally:
        for touched, values in saved:
            put_back(touched, values)
