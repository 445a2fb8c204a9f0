"""Derives from finite differences of several widths what a loss does at a point: its slope, the noise of the slope,
kinks and jumps. All functions take `Move`s, from the widest to the narrowest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.differences import Move

_CUSP = 5.0  # at a cusp: when the step becomes a tenth, the bend stays greater than a tenth by at most this factor
_DIGITS = 5e-7  # relative to the greatest element; narrower steps are below the last digit of some f32
_ROUND = 3e-7  # relative to the widest step; narrower steps show single roundings of an f32


def measured(found: Sequence[Move], summed: float) -> tuple[float, float]:
    """Returns the change of the loss divided by the change that the gradient predicts, and a bound for the error of
    this ratio, both at the step at which the bound is least. The bound adds two errors: what rounding may hide at that
    step; and, if the ratio converges no slower than linearly, what it still changed by since a wider step. The ratio is
    1 if a narrower step, at which a difference could be seen, agrees with the gradient. The bound is infinite if no
    step shows anything. ``summed``: the rounding, for each unit of width, of the sum that is the predicted change."""
    ratios: list[tuple[float, float, float]] = []  # (width, ratio, how much of the ratio rounding may hide)
    for m in found:
        # if the bend no longer shrinks with the step, it is rounding of intermediate values
        noise = max([m.noise, *(2 * abs(n.bend) for n in found if n.width <= 0.02 * m.width)]) + summed * m.width
        if abs(m.expected) > noise:
            ratios.append((m.width, m.found / m.expected, noise / abs(m.expected)))
    best, unsure, at = 1.0, math.inf, 0
    for n, ((wide, before, _), (width, ratio, noise)) in enumerate(pairwise(ratios), 1):
        bound = noise + (abs(ratio - before) + noise) / (wide / width - 1)
        if bound < unsure:
            best, unsure, at = ratio, bound, n
    half = abs(best - 1) / 2
    if any(noise < half and abs(ratio - 1) < half for _, ratio, noise in ratios[at + 1 :]):
        best = 1.0  # wider steps cross a kink or a jump that narrower ones do not
    return best, unsure


def scatter(found: Sequence[Move]) -> float:
    """The least relative difference between the slopes at two neighbouring widths: an estimate of their noise."""
    slopes = [m.found / m.width for m in found if abs(m.found) > m.noise]
    return min((abs(a - b) / max(abs(a), abs(b)) for a, b in pairwise(slopes)), default=1.0)


def flattens(found: Sequence[Move]) -> bool:
    """Whether the slope of the loss goes to 0 with the step, down to the narrowest step that shows a slope at all."""
    slopes = [abs(m.found) / m.width for m in found if abs(m.found) > m.noise]
    return len(slopes) > 2 and all(b < 0.5 * a for a, b in pairwise(slopes[-3:]))


def best_of(found: Sequence[Move], limit: float) -> Move:
    """The step that agrees best with the gradient, the widest one of equals. Only steps count at which rounding cannot
    hide a difference of ``limit``; if there are fewer than two of these, all steps that exceed rounding. ``limit`` must
    not come from how well the steps agree with each other: that may leave one step, and the steps that are too narrow
    to show anything."""
    sizes = [(m, max(abs(m.found), abs(m.expected))) for m in found]
    clear = [m for m, size in sizes if size * limit > m.noise]
    if len(clear) < 2:
        clear = [m for m, size in sizes if size > m.noise] or list(found)
    return min(clear, key=lambda m: (m.error, -m.width))


def narrowest(found: Sequence[Move]) -> Move:
    """The narrowest step that clearly exceeds rounding."""
    return next((m for m in reversed(found) if abs(m.found) > 8 * m.noise), found[0])


def only_bends(found: Sequence[Move]) -> bool:
    """Whether the bend of the loss may explain its whole difference from the gradient. This is so if the difference is
    less than the bend at the narrowest step that clearly exceeds rounding, or if it is gone at a narrower step, at
    which it would show if it were a difference of slopes."""
    step = narrowest(found)
    off = abs(step.found - step.expected)
    narrower = [m for m in found if m.width < step.width and off * m.width > 4 * m.noise * step.width]
    return abs(step.bend) > off or any(abs(m.found - m.expected) <= m.noise for m in narrower)


def in_jumps(found: Sequence[Move]) -> bool:
    """Whether the loss changes in jumps only: the gradient is zero, wide steps change the loss, and narrow steps, at
    which a slope would show, do not."""
    if any(abs(m.expected) > m.noise for m in found):
        return False
    wide = next((m for m in found if abs(m.found) > m.noise), None)
    if wide is None:
        return False
    slope = abs(wide.found) / wide.width
    return any(abs(m.found) <= m.noise < 0.1 * slope * m.width for m in found)


def at_a_jump(found: Sequence[Move]) -> bool:
    """Whether there is a jump at this point: the change that the gradient does not explain is the same at the three
    narrowest steps, while by a slope it would shrink to a hundredth. Steps that change only some elements of an f32 do
    not count."""
    last = [m for m in found if m.relative > _DIGITS][-3:]
    off = [abs(m.found - m.expected) for m in last]
    return len(off) == 3 and max(off) < 1.2 * min(off) and all(o > 8 * m.noise for o, m in zip(off, last, strict=True))


def kinked(found: Sequence[Move], wrong: bool = True) -> bool:
    """Whether the loss has a kink. Then its bend shrinks in proportion to the step, or slower at a cusp; for a smooth
    loss it shrinks with the square of the step. The pattern must hold over three steps in a row (four at a cusp,
    because the bends of noise shrink slowly, too), or, if no step agrees with the gradient (``wrong``), over two steps
    at which the bend is a good part of the change. It must last down to the narrowest step at which the bend would
    show, except for steps of a few roundings of an f32. A loss that is smooth below some larger width has no kink."""
    bent = [m for m in found if abs(m.bend) > 8 * m.noise]
    narrow = [m for m in found if m.width > _ROUND * found[0].width]

    def lasts(b: Move) -> bool:
        least = ((m, abs(b.bend) * m.width / b.width) for m in narrow if m.width < b.width)
        return not any(size > 8 * m.noise and abs(m.bend) < 0.7 * size for m, size in least)

    def part(*two: Move) -> float:
        return min((abs(m.bend / m.found) for m in two if m.found), default=1.0)

    pairs = [(b, b.bend * a.width / (a.bend * b.width), part(a, b)) for a, b in pairwise(bent)]
    strong = wrong and any(0.8 < ratio < 1.25 and part > 0.05 and lasts(b) for b, ratio, part in pairs)
    lasting = [ratio if 0.7 < ratio < _CUSP and lasts(b) else math.nan for b, ratio, _ in pairs]
    alike = [0.7 < b / a < 1.4 for a, b in pairwise(lasting)]
    cusp = any(one and two for one, two in pairwise(alike))
    return strong or cusp or any(one and b < 1.4 for one, b in zip(alike, lasting[1:], strict=True))


def on_one_side(found: Sequence[Move], limit: float) -> bool:
    """Whether the gradient is the slope on one side of a kink, while the slope on the other side differs, at two
    neighbouring widths."""

    def fits(m: Move, side: int) -> bool:
        off = abs(m.found + side * m.bend - m.expected)
        return abs(m.bend) > 4 * m.noise and off <= 2 * m.noise + limit * abs(m.expected)

    return any(fits(a, side) and fits(b, side) for a, b in pairwise(found) for side in (1, -1))
