"""Forward mode: tangents are what the oracle says, and the transpose of what reverse mode says, for every program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from programs import PROGRAMS
from running import f64, interpreted, job_of

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.runtime.compile import DUAL, make_ir
from quadrants_lab.runtime.interpreter import interpret

DIFFERENTIABLE = [pytest.param(p, id=p.name) for p in PROGRAMS.values() if p.grad]
OPTIONS = CompileOptions(default_fp=f64, verify=True)


def with_duals(kernel: N.Kernel) -> N.Kernel:
    """The front end's kernel with a dual for every buffer that has a gradient."""
    buffers = dict(kernel.buffers)
    for name, b in kernel.buffers.items():
        if b.grad:
            buffers[name] = replace(b, dual=f"{name}.dual")
            buffers[f"{name}.dual"] = replace(b, name=f"{name}.dual", grad="")
    return replace(kernel, buffers=buffers)


def tangents(run, way: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(values, tangents) after the dual kernel ran, by the job's names; ``way``: the tangents before."""
    kernel = make_ir(with_duals(run.forward[0].kernel), DUAL, OPTIONS)
    arrays = run.job.arrays(f64)
    after = {name: np.array(v) for name, v in way.items()}
    named = {buffer: arrays[name] for buffer, name in run.names.items() if name in arrays}
    named |= {f"{buffer}.dual": after[name] for buffer, name in run.names.items() if name in after}
    interpret(kernel, run.job.scalars, named)
    return arrays, after


@pytest.mark.parametrize("program", DIFFERENTIABLE)
def test_forward_and_reverse_agree(program):
    """<seed of the outputs, J way> = <reverse's gradient, way>, each judged by the summed absolute contributions."""
    for case in program.cases:
        job = job_of(program, case)
        rng = np.random.default_rng(5)
        way = {name: rng.uniform(-1, 1, job.floats[name].shape) for name in job.grads}
        outcome = job.oracle()
        run = interpreted(job)
        values, after = tangents(run, way)
        for name, want in outcome.values.items():
            if not name.endswith(".grad"):
                np.testing.assert_allclose(values[name], want, rtol=1e-11, atol=1e-12, err_msg=name)
        got, _, _ = run.run_reverse(run.reverse[-1].kernel)
        along = sum((after[name] * job.seeds[name]).sum() for name in job.grads)
        back = sum((got[f"{name}.grad"] * way[name]).sum() for name in job.grads)
        want = sum((outcome.grads[name] * way[name]).sum() for name in job.grads)
        scale = sum((outcome.scales[name] * abs(way[name])).sum() for name in job.grads) + 1e-3
        assert abs(along - want) <= 1e-9 * scale, (case, along, want)
        assert abs(along - back) <= 1e-9 * scale, (case, along, back)
