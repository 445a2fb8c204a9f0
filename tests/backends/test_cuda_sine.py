"""The short sine and cosine of f32, on this machine's processor: against f64."""

import numpy as np
import pytest
from llvm_rig import over

from quadrants_lab.backends.cuda import sine


def compute(name: str, x: np.ndarray) -> np.ndarray:
    return over((sine.far_text(0) + "\n" + sine.text(name)).replace(sine.DENORMALS, ""), name, x)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_within_two_units_in_the_last_place(name: str) -> None:
    rng = np.random.default_rng(3)
    turns = np.arange(-41700, 41700) * (np.pi / 2)
    x = np.concatenate([
        rng.uniform(-2 * np.pi, 2 * np.pi, 400_000), rng.uniform(-sine.LARGE, sine.LARGE, 400_000), turns,
        np.nextafter(turns.astype(np.float32), np.float32(1e9)), 10.0 ** rng.uniform(-38, 0, 100_000),
    ]).astype(np.float32)  # fmt: skip
    x = x[np.abs(x) < sine.LARGE]
    want = getattr(np, name)(x.astype(np.float64))
    gap = np.abs(compute(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert gap.max() < 2, (x[gap.argmax()], gap.max())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_arguments(name: str) -> None:
    rng = np.random.default_rng(4)
    exponents = rng.uniform(np.log2(sine.LARGE), 128, 400_000)
    turns = rng.integers(1 << 16, 1 << 40, 400_000) * (np.pi / 2)
    x = np.concatenate([2.0**exponents, -(2.0**exponents), turns, 2.0 ** np.arange(16, 128)]).astype(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.float32([16367173 * 2.0**72, np.finfo(np.float32).max])])  # near k pi / 2
    want = getattr(np, name)(x.astype(np.float64))
    gap = np.abs(compute(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert gap.max() < 2.5, (x[gap.argmax()], gap.max())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_nan_infinity_and_zero(name: str) -> None:
    assert np.isnan(compute(name, np.float32([np.inf, -np.inf, np.nan]))).all()
    assert compute(name, np.float32([0])).tolist() == [0.0 if name == "sin" else 1.0]
