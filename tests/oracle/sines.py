"""What a loop of sines comes to: the value of the loop that most tests of stacks and gradients have, and its slope."""

from typing import Any

import numpy as np


def sines(x: Any, trips: Any, plus: float = 0.0, times: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """``trips`` steps of v = sin(v) * times + plus from ``x`` on, in float64, and the derivative by ``x``; each element
    may have trips of its own."""
    v = np.array(x, np.float64)
    slope = np.ones_like(v)
    for k in range(np.max(trips, initial=0)):
        on = k < np.asarray(trips)
        slope = np.where(on, slope * np.cos(v) * times, slope)
        v = np.where(on, np.sin(v) * times + plus, v)
    return v, slope


def slopes(x: Any, trips: Any, plus: float = 0.0, times: float = 1.0) -> np.ndarray:
    """Only the derivative of `sines`."""
    return sines(x, trips, plus, times)[1]
