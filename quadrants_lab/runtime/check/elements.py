"""Finds which elements of a gradient are wrong, by forward mode along directions that are 0 except for a few elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import QuadrantsError

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.differences import Input
    from quadrants_lab.runtime.check.tangent import Tangents

PARTS = 64


@dataclass(frozen=True, slots=True)
class Wrong:
    """The result of comparing elements in parts of ``size`` elements, in row-major order. ``map`` has a "#" for each
    part with a wrong element and a "." for each other part. ``first``: the index of the first wrong element. ``of``:
    the number of all elements."""

    map: str
    size: int
    of: int
    first: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of wrong parts."""
        return self.map.count("#")

    def __str__(self) -> str:
        where = ", ".join(map(str, self.first))
        if self.size == 1:
            seen = "" if len(self.map) == self.of else f"the first {len(self.map)} of "
            return f"wrong: {self.count} of {seen}{self.of} elements, the first one [{where}]: {self.map}"
        what = f"{self.count} of {len(self.map)} parts of {self.size} elements each"
        return f"wrong: {what}, the first element [{where}]: {self.map}"


def wrong_elements(tangents: Tangents, x: Input, tolerance: float, until: float) -> Wrong | None:
    """Finds the wrong elements; None if each part by itself agrees, or if a kernel has no tangent. Half of the time
    until ``until`` is spent on the parts, the other half on finding the first element."""
    gradient = x.gradient
    parts = np.array_split(np.arange(gradient.size), min(PARTS, gradient.size))
    scale = float(np.abs(gradient).max(initial=0.0))
    draw = np.random.default_rng(1)

    def differs(where: npt.NDArray[np.intp]) -> bool:
        direction = np.zeros(gradient.size)
        direction[where] = np.copysign(draw.integers(32, 65, where.size) / 64, gradient[where])
        found = tangents.along(x.memory, direction)
        size = float(np.abs(gradient @ direction))
        off, most = abs(found - float(gradient @ direction)), tolerance * max(size, abs(found), 1e-3 * scale)
        return not off <= most and not off - tangents.rounding(x.memory, direction, found, (3,)) <= most

    marks, enough = "", (monotonic() + until) / 2
    try:
        for where in parts:
            if marks and monotonic() > enough:
                break
            marks += "#" if differs(where) else "."
        if "#" not in marks:
            return None
        low = parts[marks.index("#")]
        while low.size > 1:
            half = low[: low.size // 2]
            low = half if differs(half) else low[low.size // 2 :]
    except QuadrantsError:
        return None
    first = tuple(int(k) for k in np.unravel_index(int(low[0]), x.shape))
    return Wrong(marks, len(parts[0]), gradient.size, first)
