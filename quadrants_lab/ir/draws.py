"""Random draws: a counter-based generator. A draw depends on its place in the program, not on what ran before.

A draw is 64 bits: `draw(seed, launch, iteration, site, occurrence)`, the SplitMix64 finaliser (Steele, Lea and Flood,
2014) over the five counters in turn. ``iteration`` is the row-major number of the parallel iteration within its task
(0 in a serial task), ``site`` the `Random` statement's call site, ``occurrence`` how often this iteration drew there
before.
"""

from typing import Any

from quadrants_lab.ir.types import DType, wrapped

GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def mix(x: int) -> int:
    """SplitMix64's output function."""
    x = (x + GOLDEN) & _MASK
    x = ((x ^ (x >> 30)) * FIRST) & _MASK
    x = ((x ^ (x >> 27)) * SECOND) & _MASK
    return x ^ (x >> 31)


def draw(seed: int, launch: int, iteration: int, site: int, occurrence: int) -> int:
    """64 random bits."""
    x = 0
    for counter in (seed, launch, iteration, site, occurrence):
        x = mix(x ^ (counter & _MASK))
    return x


def value(t: DType, bits: int) -> Any:
    """A draw as a numpy scalar: a float is uniform in [0, 1), from the upper bits; an integer has the lower bits."""
    if t.is_float:
        digits = {16: 11, 32: 24, 64: 53}[t.bits]
        return t.numpy((bits >> (64 - digits)) * 2.0**-digits)
    return t.numpy(wrapped(bits, t))
