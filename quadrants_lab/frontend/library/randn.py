"""Normal random numbers."""

from __future__ import annotations

import math
from typing import Any

from quadrants_lab.frontend.library.core import ops, public

_random, _sqrt, _log, _cos = ops("random sqrt log cos")


@public("", optional=("dt",))
def randn(dt: Any = float) -> Any:
    """A number of the standard normal distribution, of the dtype dt (default_fp), by the transformation of Box and
    Muller (A note on the generation of random normal deviates, 1958)."""
    u = 1.0 - _random(dt)  # in (0, 1]: its logarithm is finite
    return _sqrt(-2.0 * _log(u)) * _cos(2.0 * math.pi * _random(dt))
