"""Random kernels: values and gradients of interpreted IR and of the CPU against the oracle."""

import os

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from oracle import Budget
from running import Bench, Job, define, differences, f64, interpreted
from strategies import FLOATS, Source, kernels

EXAMPLES = int(os.environ.get("QL_EXAMPLES", "60"))
ALL = list(HealthCheck)


def job_for(source: Source) -> Job:
    """The job with something in every gradient beforehand."""
    defined = define(source.text)
    funcs = tuple(defined[name] for name in source.funcs)
    return Job(defined["k"], funcs, source.floats(), source.ints, tuple(FLOATS), source.floats(seed=1))


def check(source: Source, bench: Bench) -> None:
    job = job_for(source)
    try:
        outcome = job.oracle(limit=30_000)
    except Budget:
        assume(False)
    assume(outcome.finite and outcome.margin > 1e-8)
    note(repr(source))
    run = interpreted(job)
    for stage in (run.forward[0], run.forward[-1]):
        got, _ = run.run_forward(stage.kernel)
        assert not differences(job, outcome, got, 1e-11, gradient=False), f"interpreted after {stage.name}"
    got, result, caps = run.run_reverse(run.reverse[-1].kernel)
    assert result.overflow is None, (result.depth, caps)
    assert not differences(job, outcome, got, 1e-9, gradient=True), "interpreted gradient"
    got, _ = bench.run(job)
    assert not differences(job, outcome, got, 1e-9, gradient=True), "CPU"


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=ALL)
@given(kernels())
def test_random_kernels(source):
    check(source, _bench())


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=ALL)
@given(kernels())
def test_many_random_kernels(source):
    check(source, _bench())


_BENCH: list[Bench] = []


@pytest.fixture(autouse=True)
def _one_session():
    _BENCH.clear()


def _bench() -> Bench:
    """One session for all examples of a test."""
    if not _BENCH:
        _BENCH.append(Bench(f64))
    return _BENCH[0]
