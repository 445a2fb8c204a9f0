"""Second derivatives: for every program the gradient of its tangents is how its gradient changes."""

import os

import numpy as np
import pytest
from all_programs.test_hypothesis import COMMON, jobs_for
from all_programs.test_random_overwrites import job as overwriting
from hypothesis import given, reject, settings
from oracle.numbers import Budget
from oracle.second import disagreement, hessian_vector, moved, ways_of
from programs import PROGRAMS
from programs.strategies import kernels
from running import differences, each, interpreted, job_of

import quadrants_lab as qd

# the oracle's gradient changes with a field that has none, and ours is told to be constant there
CONSTANT = {"field_without_grad_stops_the_gradient"}
SMALL = [p for p in PROGRAMS.values() if p.grad and not p.large]
DIFFERENTIABLE = [p for p in SMALL if p.name not in CONSTANT]
# at a kink there is no second derivative to compare with
KINKS = {
    "min_max_ties",
    "absolute_value_at_zero",
    "root_in_an_arm_that_is_not_taken",
    "ties_of_min_and_max_in_a_loop",
}


@each(DIFFERENTIABLE, every=4)
def test_it_is_how_the_gradient_changes(program):
    job = job_of(program, program.cases[-1])
    assert not disagreement(interpreted(job), job.oracle(), 0.0 if program.name in KINKS else 1e-5)


@pytest.mark.parametrize("name", sorted(KINKS))
def test_at_a_kink_it_is_finite(name):
    job = job_of(PROGRAMS[name], PROGRAMS[name].cases[-1])
    for way in ways_of(job):
        _, found = hessian_vector(interpreted(job), way)
        assert all(np.isfinite(a).all() for a in found.values())


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=300 if os.environ.get("QL_NIGHTLY") else 12, derandomize=True, database=None, **COMMON)
@given(kernels())
def test_random_kernels(source):
    job = jobs_for(source)[0]
    try:
        outcome = job.oracle(limit=30_000)
        near = [moved(job, ways_of(job)[0], h) for h in (-1e-6, 1e-6)]
    except Budget:
        reject()
    if not (outcome.finite and outcome.margin > 1e-5 and outcome.largest < 1e3 and all(o.finite for o in near)):
        reject()
    wrong = disagreement(interpreted(job), outcome, 1e-6, 1e-4)
    assert not wrong, f"{wrong}\n{source!r}"


@pytest.mark.filterwarnings("ignore")
def test_random_kernels_that_overwrite_what_they_read():
    judged = 0
    for seed in range(12):
        job, text = overwriting(3 * seed + 1)
        outcome = job.oracle(limit=20_000)
        if not (outcome.finite and outcome.margin > 1e-4 and outcome.largest < 1e3):
            continue
        try:
            run = interpreted(job)
        except qd.QuadrantsCompilationError as e:
            if "QL1706" not in str(e):  # a race
                raise
            continue
        got, _, _ = run.run_reverse(run.reverse[-1].kernel)
        if not differences(job, outcome, got, 1e-9, gradient=True):  # else a race that data makes
            wrong = disagreement(run, outcome, 1e-6, 1e-4)
            assert not wrong, f"{wrong}\n{text}"
            judged += 1
    assert judged >= 6
