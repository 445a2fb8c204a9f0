"""Tangents of a job by the dual kernel, interpreted."""

import numpy as np
from running import Arrays, Interpreted, f64

from quadrants_lab.autodiff.second import with_tangents
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.runtime.compile.compile import make_ir
from quadrants_lab.runtime.compile.specialisation import DUAL
from quadrants_lab.runtime.interpret.interpreter import interpret

OPTIONS = CompileOptions(default_fp=f64, verify=True)


def tangents(run: Interpreted, way: Arrays) -> tuple[Arrays, Arrays]:
    """(values, tangents) after the dual kernel ran, by the job's names; ``way``: the tangents before."""
    kernel = make_ir(with_tangents(run.forward[0].kernel), DUAL, OPTIONS)
    arrays = run.job.arrays(f64)
    after = {name: np.array(v) for name, v in way.items()}
    named = {buffer: arrays[name] for buffer, name in run.names.items() if name in arrays}
    named |= {f"{buffer}.tangent": after[name] for buffer, name in run.names.items() if name in after}
    interpret(kernel, run.job.scalars, named)
    return arrays, after


def disagreement(run: Interpreted, outcome, reversed_: Arrays, tol: float = 1e-9) -> str:
    """"" where <seed, J way> by forward mode, <gradient, way> by reverse mode (``reversed_``) and by the oracle agree
    to ``tol`` of the summed absolute contributions; else the three numbers."""
    job, rng = run.job, np.random.default_rng(5)
    way = {name: rng.uniform(-1, 1, job.floats[name].shape) for name in job.grads}
    _, after = tangents(run, way)
    along = sum((after[name] * job.seeds[name]).sum() for name in job.grads)
    back = sum((reversed_[f"{name}.grad"] * way[name]).sum() for name in job.grads)
    want = sum((outcome.grads[name] * way[name]).sum() for name in job.grads)
    scale = sum((outcome.scales[name] * abs(way[name])).sum() for name in job.grads) + 1e-3
    if max(abs(along - want), abs(along - back)) <= tol * scale:
        return ""
    return f"forward mode {along}, reverse mode {back}, oracle {want}"
