"""Programs over shards: `kernels/rods.py` under three optimisers, `scripts/test_gpu2.py` without a GPU."""

import sys

import numpy as np
import pytest
from child import run
from conftest import ROOT

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


@pytest.mark.slow
def test_two_processes_sum_their_gradients() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("dask")
    said = run(sys.executable, ROOT / "scripts" / "test_gpu2.py", "--cpu", "--size", "4096").stdout
    assert "data-parallel gradient: off by" in said
    assert "map_gradients: off by" in said
