"""``qd.ad.Tape(grad_check=[...])`` and ``%%qdkernel --check``: gradients beside finite differences of the loss.

The recorded steps are done again with one element moved a little, up and down; the central difference of the loss is
compared with the gradient, for several widths, and the best one counts: too wide is not linear, too narrow is rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsAssertionError
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.recorder import Launches

WIDTHS = (1e-3, 1e-4, 1e-5, 1e-6)  # of a step, relative to elements above 1
TOLERANCE = 1e-4  # relative difference from which a gradient counts as wrong
MOST = 256  # elements checked of each field, evenly spread


class Differentiable(Protocol):
    _memory: Memory
    grad: Any


def check_gradients(launches: Launches, loss: Differentiable, fields: Sequence[Differentiable]) -> None:
    """Raises QuadrantsAssertionError for the first element whose gradient is not the slope of ``loss``; memory,
    gradients included, is afterwards as it was before."""
    with saved(launches, loss, fields):
        for x, gradient in [(x, x.grad._memory.copy().reshape(-1)) for x in fields]:  # steps may write to it again
            _check(launches, loss, x, gradient)


def _check(launches: Launches, loss: Differentiable, x: Differentiable, gradient: npt.NDArray[Any]) -> None:
    shape = x._memory.operand.shape
    for n in np.unique(np.linspace(0, gradient.size - 1, MOST, dtype=np.intp)):
        slopes = [_slope(launches, loss, x, int(n), width) for width in WIDTHS]
        best = min(slopes, key=lambda slope: abs(slope - gradient[n]))
        if not abs(best - gradient[n]) <= TOLERANCE * max(abs(best), abs(gradient[n]), 1e-4):
            index = ", ".join(map(str, np.unravel_index(n, shape))) or "None"
            raise QuadrantsAssertionError(
                f"Grad check failed: the gradient of {launches.names.get(id(x._memory), repr(x))}[{index}] is "
                f"{gradient[n]:.9g}, by finite differences it is {best:.9g}",
                code="QL2099",
                help="a custom gradient, a value that a kernel rounds or decides by, or a kink at this very point",
            )


def _slope(launches: Launches, loss: Differentiable, x: Differentiable, n: int, width: float) -> float:
    """Central difference of the loss along element n."""
    start = _initial(launches, x).reshape(-1)[n]
    step = width * max(1.0, abs(start))
    ends = []
    for end in (start + step, start - step):
        values = _initial(launches, x).reshape(-1).copy()
        values[n] = end
        ends.append(loss_at(launches, loss, x, values))
    return (ends[0] - ends[1]) / float(2 * step)


def loss_at(launches: Launches, loss: Differentiable, x: Differentiable, values: npt.NDArray[Any]) -> float:
    """The loss when the steps are done again with these elements in ``x``, one after the other, before the first."""
    for touched, before in launches.initial.values():
        writable(touched)[...] = before
    x._memory.array.reshape(-1)[...] = values
    launches.repeat()
    return float(loss._memory.values()[()])


@dataclass(frozen=True, slots=True)
class Move:
    """``x`` moved by ``width`` along a direction, to both sides: by how much the loss changed, and by how much the
    gradient says that it does. ``bend``: by how much the two ends together lie above twice the middle. ``noise``: what
    rounding alone may make of a difference."""

    width: float
    found: float
    expected: float
    bend: float
    noise: float

    @property
    def apart(self) -> float:
        """Relative difference of the two; 0 where both are rounding."""
        size = max(abs(self.found), abs(self.expected))
        return max(0.0, abs(self.found - self.expected) - self.noise) / size if size > self.noise else 0.0


def moves(
    launches: Launches, loss: Differentiable, x: Differentiable, way: npt.NDArray[np.float64], widths: Sequence[float]
) -> list[Move]:
    """One a width, relative to the greatest element. To be used within `saved`."""
    gradient = x.grad._memory.copy().reshape(-1).astype(np.float64)
    start = _initial(launches, x).reshape(-1).copy()
    scale = float(np.abs(start[np.isfinite(start)]).max(initial=0.0)) or 1.0
    middle = loss_at(launches, loss, x, start)
    out = []
    for width in widths:
        up, down = ((start + sign * width * scale * way).astype(start.dtype) for sign in (1, -1))
        losses = [loss_at(launches, loss, x, values) for values in (up, down)]
        step = up.astype(np.float64) - down  # rounded as the values were
        noise = 8 * float(np.finfo(loss._memory.operand.dtype).eps) * max(map(abs, losses))
        bend = sum(losses) - 2 * middle
        out.append(Move(width * scale, losses[0] - losses[1], float(gradient @ step), bend, noise))
    return out


def _initial(launches: Launches, x: Differentiable) -> npt.NDArray[Any]:
    """The field before the first step; as it is where no step touched it."""
    memory = x._memory
    return launches.initial[id(memory)][1] if id(memory) in launches.initial else memory.values()


def writable(touched: Any) -> npt.NDArray[Any]:
    """A numpy array, or the one of a memory."""
    array: npt.NDArray[Any] = touched if isinstance(touched, np.ndarray) else touched.array
    return array


@contextmanager
def saved(launches: Launches, loss: Differentiable, fields: Sequence[Differentiable]) -> Iterator[None]:
    """Restores every array that the steps touch, and counts it as written."""
    all_of_it = {id(touched): touched for touched, _ in launches.initial.values()}
    all_of_it |= {id(m): m for x in (loss, *fields) for m in (x._memory, x.grad._memory)}
    saved = [(touched, touched.copy()) for touched in all_of_it.values()]
    try:
        yield
    finally:
        for touched, values in saved:
            writable(touched)[...] = values
        for followed in launches.followed.values():
            followed.memory.version += 1
