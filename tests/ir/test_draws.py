"""Random draws: whether 64 bits that a hash makes of five counters look random, in every direction of the counters."""

from itertools import product

import numpy as np
import pytest

from quadrants_lab.ir import draws
from quadrants_lab.ir.types import f32, i32

N = 1 << 16
COUNTERS = ("seed", "launch", "iteration", "site", "occurrence")
START = {"seed": 7, "launch": 3, "iteration": 0, "site": 2, "occurrence": 1}
PAIRS = [*product(COUNTERS, (1, 64, 1 << 32))]


def drawn(**counters: object) -> np.ndarray:
    """The draws of arrays of counters, those that are not given as in `START`."""
    return draws.draw(**{name: np.asarray([START[name]], np.uint64) for name in COUNTERS} | counters)


def along(name: str, start: int = 0) -> np.ndarray:
    """Draws whose counters differ in only one of the five."""
    return drawn(**{name: np.arange(start, start + N, dtype=np.uint64)})


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation, in standard deviations of that of independent numbers."""
    return float(abs(np.corrcoef(a.astype(np.float64), b.astype(np.float64))[0, 1]) * np.sqrt(len(a)))


def test_arrays_of_counters_mean_the_same() -> None:
    for counters in ((-5, 1, 0, 0, 0), (0, 0, 0, 0, 0), (2**63, 4, 2**40 + 3, 9, 5)):
        arrays = (np.asarray([c & 2**64 - 1], np.uint64) for c in counters)
        assert int(draws.draw(*arrays)[0]) == draws.draw(*counters)


@pytest.mark.parametrize("name", COUNTERS)
def test_bits_along_a_counter(name: str) -> None:
    """Each bit is set in half of the draws, and changes in half of the steps; also each pair of neighbouring bits."""
    x = along(name)
    bits = (x[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    for counted in (bits, bits[1:] ^ bits[:-1], bits[:, 1:] ^ bits[:, :-1]):
        assert abs(counted.sum(0) - len(counted) / 2).max() < 5 * np.sqrt(len(counted) / 4)


@pytest.mark.parametrize(("name", "step"), PAIRS)
def test_pairs_a_step_apart(name: str, step: int) -> None:
    """Of draws whose counter differs by a step, the floats are uncorrelated, and their pairs fill a square evenly."""
    a = along("iteration", N)
    b = along("iteration", N + step) if name == "iteration" else drawn(
        **{name: np.asarray([START[name] + step], np.uint64)}, iteration=np.arange(N, 2 * N, dtype=np.uint64)
    )  # fmt: skip
    for shift in (0, 24, 40):  # the bits that become a float, and lower ones
        assert correlation(a << np.uint64(shift), b << np.uint64(shift)) < 4.5
    cells = (a >> np.uint64(58)).astype(int) * 64 + (b >> np.uint64(58)).astype(int)
    found = np.bincount(cells, minlength=4096)
    expected = N / 4096
    chi = float(((found - expected) ** 2 / expected).sum())
    assert abs(chi - 4095) < 5 * np.sqrt(2 * 4095)


def test_one_bit_of_a_counter_changes_half_of_the_draw() -> None:
    for name, bit in product(COUNTERS, range(0, 48, 3)):
        counter = np.arange(4096, dtype=np.uint64) * np.uint64(977)
        changed = drawn(**{name: counter}) ^ drawn(**{name: counter ^ np.uint64(1 << bit)})
        flips = ((changed[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(0)
        assert abs(flips - 0.5).max() < 0.045, (name, bit)


def test_birthdays() -> None:
    """All draws of a box of counters differ, and as many of their halves are equal as of random numbers."""
    iteration, site, occurrence = np.meshgrid(*(np.arange(n, dtype=np.uint64) for n in (1 << 14, 8, 8)), indexing="ij")
    x = drawn(iteration=iteration.ravel(), site=site.ravel(), occurrence=occurrence.ravel())
    assert len(np.unique(x)) == len(x)
    expected = len(x) ** 2 / 2**33
    for half in (x >> np.uint64(32), x & np.uint64(2**32 - 1)):
        assert abs(len(x) - len(np.unique(half)) - expected) < 5 * np.sqrt(expected)


def test_values() -> None:
    """Floats are uniform in [0, 1); the least and the greatest."""
    x = along("iteration")
    values = np.array([draws.value(f32, int(bits)) for bits in x[:20000]])
    assert abs(values.mean() - 0.5) < 5 / np.sqrt(12 * len(values))
    assert values.min() >= 0
    assert values.max() < 1
    assert (draws.value(f32, 0), draws.value(f32, 2**64 - 1)) == (0.0, np.float32(1 - 2.0**-24))
    assert draws.value(i32, 2**32 - 1) == -1
