"""Defines random draws by a counter-based generator. A draw depends on its place in the program, not on what ran
before.

A draw is 64 bits: `draw(seed, launch, iteration, site, occurrence)`. ``iteration`` is the row-major number of the
parallel iteration within its task (0 in a serial task), ``site`` the `Random` statement's call site, ``occurrence``
how often this iteration drew there before. The SplitMix64 finaliser (Steele, Lea and Flood, 2014) hashes the seed and
the launch, which are the same in all iterations, and then once more the numbers that differ within a launch. This
second hash takes a sum of multiples of the three counters, so each draw has only three multiplications. The factors
are 2**64 divided by g, g**2 and g**3, where g**4 = g + 1, and made odd: such sums of small counters lie far apart.
"""

from typing import Any

from quadrants_lab.ir.types import DType, wrapped

GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
ITERATION = 0xD1B54A32D192ED03
SITE = 0xABC98388FB8FAC03
OCCURRENCE = 0x8CB92BA72F3D8DD7
_MASK = (1 << 64) - 1


def mix(x: int) -> int:
    """SplitMix64's finaliser, a permutation of 64 bits."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * FIRST) & _MASK
    x = ((x ^ (x >> 27)) * SECOND) & _MASK
    return x ^ (x >> 31)


def draw(seed: int, launch: int, iteration: int, site: int, occurrence: int) -> int:
    """Computes 64 random bits."""
    key = mix(mix(seed + GOLDEN) + launch * GOLDEN)
    return mix(key ^ ((iteration * ITERATION + site * SITE + occurrence * OCCURRENCE) & _MASK))


def value(t: DType, bits: int) -> Any:
    """A draw as a numpy scalar: a float is uniform in [0, 1), from the upper bits; an integer has the lower bits."""
    if t.is_float:
        digits = {16: 11, 32: 24, 64: 53}[t.bits]
        return t.numpy((bits >> (64 - digits)) * 2.0**-digits)
    return t.numpy(wrapped(bits, t))
