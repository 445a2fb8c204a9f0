"""Gradients of every program of the table against the tape of the oracle, and the oracle against finite differences."""

import numpy as np
from oracle.tangents import disagreement
from programs import PROGRAMS
from running import WAYS, Bench, differences, each, f32, f64, interpreted, job_of, spread, way
from sessions import NIGHT, skip_where_both_arms_run

WITH_GRADIENT = [p for p in PROGRAMS.values() if p.grad]
SMOOTH = [p for p in WITH_GRADIENT if not p.exact and p.name != "field_without_grad_stops_the_gradient"]


@each(WITH_GRADIENT)
def test_interpreted_after_every_pass(program):
    """After the last pass forward mode is compared, too."""
    for case in program.cases:
        job = job_of(program, case)
        outcome = job.oracle()
        run = interpreted(job)
        reverse = [s for s in run.reverse if s.kernel.mode == "reverse"]
        assert reverse
        for stage in reverse[-1:] if program.large else reverse:
            got, result, caps = run.run_reverse(stage.kernel)
            assert not differences(job, outcome, got, 1e-9, gradient=True), (case, stage.name)
            assert result.overflow is None
        assert caps.keys() == result.depth.keys(), "sized by the last pass"
        assert not disagreement(run, outcome, got), case


def run_and_compare(program, arch, fp, **how):
    bench = Bench(fp, arch)
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job, **how)
        tol = 1e-9 if fp is f64 else program.tol32
        assert not differences(job, job.oracle(), got, tol, gradient=True), case


@spread(WITH_GRADIENT, WAYS)
def test_backend(program, arch, fp):
    if program.name == "prefix_product_in_place":
        skip_where_both_arms_run(arch)
    run_and_compare(program, arch, fp)


TOGETHER = [way("cpu", f64), way("vulkan", f32), way("vulkan", f64), way("metal", f32), way("cuda", f64),
            way("wasm", f64)]  # fmt: skip


@spread(WITH_GRADIENT[:: 1 if NIGHT else 4], TOGETHER)
def test_value_and_gradient_together(program, arch, fp):
    run_and_compare(program, arch, fp, together=True)


@each(SMOOTH, every=3)
def test_the_oracle_against_finite_differences(program):
    case = program.cases[-1]
    job = job_of(program, case)
    outcome = job.oracle()
    rng = np.random.default_rng(3)
    start = dict(job.floats)
    way = {name: rng.uniform(-1, 1, start[name].shape) for name in job.grads}
    def loss(step):
        job.floats.update({name: start[name] + step * way[name] for name in job.grads})
        values = job.oracle().values
        return sum((values[name] * job.seeds[name]).sum() for name in job.grads)
    step = 1e-5
    slope = (loss(step) - loss(-step)) / (2 * step)
    want = sum((outcome.grads[name] * way[name]).sum() for name in job.grads)
    scale = sum((outcome.scales[name] * abs(way[name])).sum() for name in job.grads)
    assert abs(slope - want) <= 1e-6 * max(1.0, scale)
