"""What the tests of whole programs share: sessions on every backend, and arrays laid out in one vector."""

from __future__ import annotations

import numpy as np
import pytest
from running import WAYS

import quadrants_lab as qd
from quadrants_lab.runtime import session


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)


SINGLE = 1e-3  # the tolerance where default_fp is f32


BY_NIGHT = {"cpu-f32", "c-f64"}  # of backends that run these programs in their other dtype by day


@pytest.fixture(
    params=[pytest.param(w.values, marks=[*w.marks, *[pytest.mark.slow] * (w.id in BY_NIGHT)], id=w.id) for w in WAYS]
)
def everywhere(request: pytest.FixtureRequest, runtime: None) -> None:
    """A session of each backend, of each of its dtypes."""
    arch, fp = request.param
    qd.init(arch=getattr(qd, arch), default_fp=fp, enable_fallback=False, simulate=True)


def close(ours: object, right: object, tol: float = 1e-12) -> None:
    """Of one shape, and apart by at most tol (of f32, SINGLE) times the greatest of 1 and |right|."""
    if session.current().settings.compile.default_fp is qd.f32:
        tol = SINGLE
    ours, right = np.asarray(ours, np.float64), np.asarray(right)
    assert ours.shape == right.shape
    assert np.isfinite(ours).all()
    error = np.abs(ours - right.real).max(initial=0.0) / max(1.0, np.abs(right).max(initial=0.0))
    assert error <= tol, f"off by {error:.3g} of {tol:.3g}"


def split(z: np.ndarray, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """The arrays of these shapes that are laid out in ``z`` one after another."""
    ends = np.cumsum([int(np.prod(s)) for s in shapes])
    assert ends[-1] == z.size
    return [part.reshape(s) for part, s in zip(np.split(z, ends[:-1]), shapes, strict=True)]


def flat(*arrays: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in arrays])
