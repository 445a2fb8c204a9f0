"""Forward mode: tangents are what the oracle says, and the transpose of what reverse mode says, for every program."""

import dataclasses

import numpy as np
from oracle.tangents import tangents
from programs import PROGRAMS, seeds
from running import Bench, each, f64, interpreted, job_of

import quadrants_lab as qd


@each(p for p in PROGRAMS.values() if p.grad)
def test_values_are_what_they_are_without_tangents(program):
    job = job_of(program, program.cases[-1])
    way = {name: np.ones(job.floats[name].shape) for name in job.grads}
    values, _ = tangents(interpreted(job, gradient=False), way)
    for name, want in job.oracle().values.items():
        if not name.endswith(".grad"):
            np.testing.assert_allclose(values[name], want, rtol=1e-11, atol=1e-12, err_msg=name)


LAUNCHED = [
    p for p in PROGRAMS.values()
    if p.fn.__module__ == seeds.__name__ and "x" in p.fields and p.fields["y"].shape == ()
]  # fmt: skip


@each(LAUNCHED)
def test_launched(program):
    """By `FwdMode` on the CPU, which takes what reference implementations get wrong; trip counts change in between."""
    way, bench = np.random.default_rng(2).uniform(-1, 1, program.fields["x"].shape), Bench(f64)
    for case in program.cases:
        job = job_of(program, case)
        kernel, arguments, placed = bench.kernel(job, needs_dual=True)
        with qd.ad.FwdMode(loss=placed["y"], param=placed["x"], seed=way.tolist()):
            kernel(*arguments)
        seeds = {name: np.zeros_like(seed) for name, seed in job.seeds.items()}
        outcome = dataclasses.replace(job, seeds=seeds | {"y": np.array(1.0)}).oracle()
        scale = (outcome.scales["x"] * abs(way)).sum() + 1e-3
        assert abs(placed["y"].dual[None] - (outcome.grads["x"] * way).sum()) <= 1e-9 * scale, case
