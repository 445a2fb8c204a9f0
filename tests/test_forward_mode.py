"""Forward mode: tangents are what the oracle says, and the transpose of what reverse mode says, for every program."""

from __future__ import annotations

import numpy as np
import pytest
from programs import PROGRAMS
from running import interpreted, job_of
from tangents import disagreement, tangents

DIFFERENTIABLE = [pytest.param(p, id=p.name) for p in PROGRAMS.values() if p.grad]


@pytest.mark.parametrize("program", DIFFERENTIABLE)
def test_forward_and_reverse_agree(program):
    for case in program.cases:
        job = job_of(program, case)
        outcome, run = job.oracle(), interpreted(job)
        got, _, _ = run.run_reverse(run.reverse[-1].kernel)
        assert not disagreement(run, outcome, got), case


@pytest.mark.parametrize("program", DIFFERENTIABLE)
def test_values_are_what_they_are_without_tangents(program):
    job = job_of(program, program.cases[-1])
    way = {name: np.ones(job.floats[name].shape) for name in job.grads}
    values, _ = tangents(interpreted(job, gradient=False), way)
    for name, want in job.oracle().values.items():
        if not name.endswith(".grad"):
            np.testing.assert_allclose(values[name], want, rtol=1e-11, atol=1e-12, err_msg=name)
