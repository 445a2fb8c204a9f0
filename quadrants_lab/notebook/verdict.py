"""``%%qdkernel --grad LOSS --check``: each gradient beside finite differences of the loss and beside forward mode, and
what that says of it.

All elements of a field are moved at once, along a direction whose elements are from 1/2 to 1 in size, by steps of
several widths: too wide a step is not linear, too narrow a one is rounding, so the one that agrees best counts. Where
none agrees, the elements are moved one by one. Forward mode gives the derivative along the same direction without a
step, as exactly as the gradient does: it sees what differences of 32-bit numbers cannot.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.lang.dense import Dense
from quadrants_lab.passes.pipeline import Trace
from quadrants_lab.runtime.check.grad_check import Move, loss_at, moves, saved
from quadrants_lab.runtime.check.tangent import Tangents
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.recorder import Launches

WIDTHS = tuple(10.0**-k for k in range(1, 9))
MOST_ALONE = 32  # elements that are moved one by one
# by the bits of the loss: a greater relative difference counts as one
_AGREES = {16: 0.1, 32: 2e-2, 64: 1e-4}
_AGREES_FORWARD = {16: 0.1, 32: 1e-3, 64: 1e-8}


@dataclass(frozen=True, slots=True)
class Tangent:
    """The derivative of the loss along the direction: ``found`` by forward mode, ``expected`` by the gradient;
    ``apart``: their difference, relative to what the gradient gives where nothing of it cancels out."""

    found: float
    expected: float
    apart: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """``moves``: of the field as a whole; ``says``: in a sentence. ``good``: nothing speaks against the gradient.
    ``tangent``: None where there is no forward mode."""

    field: str
    moves: tuple[Move, ...]
    says: str
    good: bool
    tangent: Tangent | None = None


@dataclass(slots=True)
class _Values:
    """Memory with that of its gradient, as `grad_check` takes them, whatever the user has it in."""

    _memory: Memory
    grad: Any = None


def check(
    launches: Launches, loss: Dense, namespace: Mapping[str, Any], progress: Trace | None = None
) -> list[Verdict] | str:
    """A verdict on everything that the launches touched and that has a gradient, fields of the namespace first; a
    sentence where the launches cannot be made again. ``progress`` is told what is checked."""
    if id(loss._memory) not in launches.initial:
        return "--check: no launch of the cell touches the loss"
    checked = _touched(launches, loss, namespace)
    said = io.StringIO()  # the kernels have printed before
    with saved(launches, loss, list(checked.values())), redirect_stdout(said):
        was = float(loss._memory.values()[()])
        if not math.isfinite(was):
            return f"--check: the loss is {was}, so there is nothing to compare with"
        now = loss_at(launches, loss, loss, launches.initial[id(loss._memory)][1].reshape(-1))
        if not abs(now - was) <= 1000 * float(np.finfo(loss._memory.operand.dtype).eps) * max(
            abs(now), abs(was)
        ):
            return (
                f"--check: making the cell's launches again gives {now:.6g} and not {was:.6g}, so there is nothing to "
                "compare with: it writes to fields between its launches, or takes gradients, or they race"
            )
        tangents = Tangents(launches, loss)
        found = []
        for name, x in checked.items():
            if progress is not None:
                progress.now = f"checking the gradient of {name}"
            found.append(_verdict(launches, loss, name, x, tangents))
        return found


def _touched(launches: Launches, loss: Dense, namespace: Mapping[str, Any]) -> dict[str, _Values]:
    """By the name in the namespace; what has none there, in structs and objects, by that in the first kernel."""
    found: dict[str, _Values] = {}
    named = {id(loss._memory)}
    for name, x in namespace.items():
        if not isinstance(x, Dense) or name.startswith("_") or not x.dtype.is_float or not x.has_grad():
            continue
        if id(x._memory) in launches.initial and id(x._memory) not in named:
            named.add(id(x._memory))
            found[name] = _Values(x._memory, x.grad)
    for f in (launches.followed[key] for key in launches.names if key in launches.followed):
        if f.grad is not None and id(f.memory) not in named and f.memory.dtype.is_float:
            names = (f"{f.name} ({n})" if n > 1 else f.name for n in count(1))
            found[next(name for name in names if name not in found)] = _Values(f.memory, _Values(f.grad))
    return found


def _verdict(launches: Launches, loss: Dense, name: str, x: _Values, tangents: Tangents) -> Verdict:
    """By differences, and then by forward mode."""
    seen = _by_differences(launches, loss, name, x)
    tangent = _tangent(tangents, x)
    if tangent is None or not math.isfinite(tangent.expected):
        return seen
    agrees = tangent.apart <= _AGREES_FORWARD[loss.dtype.bits]
    says = seen.says
    if not agrees and "kink" not in says:  # at a kink each mode may take another side
        says = "differs from forward mode" if seen.good else f"{says}; it differs from forward mode, too"
    elif seen.good and tangent.found == tangent.expected == 0:
        says += "; forward mode gives zero, too"
    elif seen.good:
        says += " and" if says.startswith("agrees") else ", but agrees"
        says += " with forward mode " + (f"to {tangent.apart:.0e}" if tangent.apart else "to the last digit")
    return replace(seen, says=says, good=seen.good and agrees, tangent=tangent)


def _tangent(tangents: Tangents, x: _Values) -> Tangent | None:
    way = _direction(x)
    try:
        found = tangents.along(x, way)
    except QuadrantsError:  # something that has a gradient and no tangent
        return None
    if found is None:
        return None
    gradient = x.grad._memory.values().reshape(-1).astype(np.float64)
    expected = float(gradient @ way)
    size = max(float(np.abs(gradient) @ np.abs(way)), abs(found)) or 1.0
    return Tangent(found, expected, abs(found - expected) / size)


def _direction(x: _Values) -> npt.NDArray[np.float64]:
    """Of sizes that differ: along 1 and -1 equal elements of a gradient would cancel out. f16 holds them exactly."""
    draw = np.random.default_rng(0)
    size = x._memory.operand.size
    way: npt.NDArray[np.float64] = np.where(draw.random(size) < 0.5, -1.0, 1.0)
    way *= draw.integers(32, 65, size) / 64
    return way


def _by_differences(launches: Launches, loss: Dense, name: str, x: _Values) -> Verdict:
    found = tuple(moves(launches, loss, x, _direction(x), WIDTHS))
    limit = _AGREES[loss.dtype.bits]
    best = _best(found, limit)
    still = max(abs(best.found), abs(best.expected)) <= best.noise
    gradient = x.grad._memory.values()
    if not np.isfinite(gradient).all():
        return Verdict(name, found, "has elements that are NaN or infinite", False)
    if _in_jumps(found):
        says = "is zero, and the loss moves in jumps: rounding, comparisons, integers"
        return Verdict(name, found, says, False)
    if best.apart > limit and (wrong := _worst(launches, loss, x, limit)):
        return Verdict(name, found, wrong, False)
    if _kinked(found):
        says = f"{'is zero' if still else 'is one of several'}, at a kink: the loss has another slope to each side"
        return Verdict(name, found, says, False)
    if best.apart > limit:
        says = "differs from finite differences, but in none of the elements that were moved alone"
        return Verdict(name, found, says, False)
    if still:
        says = "is too small to be seen in the loss" if gradient.any() else "is zero, and the loss does not move"
        return Verdict(name, found, says, True)
    to = f"to {best.apart:.0e}" if best.apart else "as far as rounding lets see"
    says = f"agrees with finite differences {to}"
    return Verdict(name, found, says, True)


def _best(found: Sequence[Move], limit: float) -> Move:
    """The widest step of those that agree best, among steps in which rounding cannot hide a difference of ``limit``;
    where there are not two of these, among steps that show more than rounding."""
    sizes = [(m, max(abs(m.found), abs(m.expected))) for m in found]
    clear = [m for m, size in sizes if size * limit > m.noise]
    if len(clear) < 2:
        clear = [m for m, size in sizes if size > m.noise] or list(found)
    return min(clear, key=lambda m: (m.apart, -m.width))


def _in_jumps(found: Sequence[Move]) -> bool:
    """Whether the gradient is zero, and wide steps change the loss where narrow ones, which would show, do not."""
    if any(abs(m.expected) > m.noise for m in found):
        return False
    wide = next((m for m in found if abs(m.found) > m.noise), None)
    if wide is None:
        return False
    slope = abs(wide.found) / wide.width
    return any(abs(m.found) <= m.noise < 0.1 * slope * m.width for m in found)


def _kinked(found: Sequence[Move]) -> bool:
    """Whether the bend shrinks as the step does, and not as its square, over three steps in a row."""
    rates = [m.bend / m.width for m in found if abs(m.bend) > 8 * m.noise]
    alike = [0.7 < b / a < 1.4 for a, b in pairwise(rates)]
    return any(a and b for a, b in pairwise(alike))


def _worst(launches: Launches, loss: Dense, x: _Values, limit: float) -> str:
    """The element that is off the most, in words; "" where none is, but for those at a kink."""
    gradient = x.grad._memory.values().reshape(-1)
    some = np.unique(np.linspace(0, gradient.size - 1, MOST_ALONE, dtype=np.intp))
    worst: tuple[float, str] = (0.0, "")
    for n in some:
        alone = np.zeros(gradient.size)
        alone[n] = 1.0
        found = moves(launches, loss, x, alone, WIDTHS[1:6])
        best = _best(found, limit)
        index = ", ".join(map(str, np.unravel_index(int(n), x._memory.operand.shape)))
        size = abs(best.found - best.expected)
        if best.apart > limit and not _kinked(found) and size / best.width > worst[0]:
            slope = best.found / (2 * best.width)
            zero = gradient[n] == 0
            what = "is 0 there, but the loss moves" if zero else f"is {gradient[n]:.6g} there"
            worst = (
                size / best.width,
                f"is WRONG at [{index}]: it {what}, by finite differences it is {slope:.6g}",
            )
    return worst[1]


def text(found: Sequence[Verdict] | str) -> str:
    """Lines for a terminal or below a cell."""
    if isinstance(found, str):
        return found
    lines = []
    for v in found:
        lines.append(f"{'ok  ' if v.good else 'look'}  the gradient of {v.field} {v.says}")
        if not v.good:
            lines += [
                f"        step {m.width:.0e}: the loss changes by {m.found:.6g}, by the gradient it is {m.expected:.6g}"
                for m in v.moves
            ]
            if v.tangent is not None:
                lines.append(
                    f"        forward mode: along that direction {v.tangent.found:.6g}, by the gradient it is "
                    f"{v.tangent.expected:.6g}"
                )
    return "\n".join(lines) or "--check: the launches touched no field with a gradient but the loss"
