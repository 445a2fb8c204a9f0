"""The program of `kernels/rods.py` under three optimisers, each where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.kernels import rods


@pytest.mark.parametrize("name, rounds", [("scipy", 20), ("torch", 60), ("optax", 60)])
def test_each_optimiser_takes_the_same_program(name: str, rounds: int) -> None:
    pytest.importorskip(name)
    qd.init(arch=qd.cpu, default_fp=qd.f64, cpu_max_num_threads=1)
    truth, measured = rods.measured(2)
    program, start = rods.program(measured, client=False), np.full(truth.shape, 0.25)
    found = getattr(rods, f"by_{name}")(program, start, rounds)
    assert np.abs(found - truth).max() < 0.05
    assert program(found)[0] < 0.01 * program(start)[0]


def test_the_gradient_is_that_of_the_sum() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64, cpu_max_num_threads=1)
    truth, measured = rods.measured(2)
    program, k = rods.program(measured, client=False), np.full(truth.shape, 0.25)
    _, slope = program(k)
    for i in range(len(k)):
        step = 1e-6 * (np.arange(len(k)) == i)
        difference = (program(k + step)[0] - program(k - step)[0]) / 2e-6
        assert abs(slope[i] - difference) < 1e-6 * max(1.0, abs(difference))
