"""The random kernels that stay (tests/generated/): oracle, interpreted IR, both modes of differentiation, backends."""

from __future__ import annotations

import pytest
from generated import GENERATED
from programs import PROGRAMS
from running import WAYS, Bench, differences, f64, interpreted, job_of
from tangents import disagreement

PARAMETERS = [pytest.param(p, id=p.name) for p in GENERATED.values()]
# an index or a branch taken in f32 may be another; devices are simulated, which takes its time
ELSEWHERE = [w for w in WAYS if w.values[1] is f64 and w.values[0] != "cpu"]

pytestmark = pytest.mark.filterwarnings("ignore")


def test_there_are_enough() -> None:
    assert len(PROGRAMS) + len(GENERATED) >= 300


@pytest.mark.parametrize("program", PARAMETERS)
def test_interpreted(program):
    for case in program.cases:
        job = job_of(program, case)
        outcome, run = job.oracle(), interpreted(job)
        for stage in (run.forward[0], run.forward[-1]):
            got, _ = run.run_forward(stage.kernel)
            assert not differences(job, outcome, got, 1e-11, gradient=False), (case, stage.name)
        got, result, _ = run.run_reverse(run.reverse[-1].kernel)
        assert result.overflow is None
        assert not differences(job, outcome, got, 1e-9, gradient=True), case
        assert not disagreement(run, outcome, got), case


def check(program, arch, fp):
    bench = Bench(fp, arch)
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job)
        assert not differences(job, job.oracle(), got, 1e-9, gradient=True), case


@pytest.mark.parametrize("program", PARAMETERS)
def test_cpu(program):
    check(program, "cpu", f64)


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "fp"), ELSEWHERE)
@pytest.mark.parametrize("program", PARAMETERS)
def test_backend(program, arch, fp):
    check(program, arch, fp)
