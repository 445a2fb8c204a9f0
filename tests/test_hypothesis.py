"""Random kernels: values and gradients of interpreted IR and of a backend against the oracle.

QL_EXAMPLES sets how many `make test` tries. A failure is shown as the smallest kernel that fails in the same way.
"""

from __future__ import annotations

import dataclasses
import os
import traceback

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from oracle import Budget
from reduce import reduce
from running import Bench, Job, define, differences, f64, interpreted, way
from strategies import ELEMENTS, FLOATS, Source, kernels
from tangents import disagreement

EXAMPLES = int(os.environ.get("QL_EXAMPLES", "60"))
# hypothesis' own shrinking takes minutes on programs; `reduce` knows their syntax
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


UNDECIDED = ("undecided", "")


def jobs_for(source: Source) -> list[Job]:
    """One job a launch, with something in every gradient beforehand."""
    defined = define(source.text)
    funcs = tuple(defined[name] for name in source.funcs if name in defined)
    floats, seeds = source.floats(), source.floats(seed=1)
    ints = [source.integers(launch) for launch in range(len(source.ints))]
    return [Job(defined["k"], funcs, floats, i, tuple(FLOATS), seeds, elements=ELEMENTS) for i in ints]


def verdict(source: Source, bench: Bench) -> tuple[str, str]:
    """How the source fails, in a word that stays the same while it is made smaller, and in detail; ("", "") where
    everything agrees, `UNDECIDED` where the oracle cannot tell."""
    bench.kernels.clear()
    jobs = jobs_for(source)
    try:
        outcomes = [job.oracle(limit=30_000) for job in jobs]
    except Budget:
        return UNDECIDED
    if not all(o.finite and o.margin > 1e-8 and o.largest < 1e4 for o in outcomes):
        return UNDECIDED
    job, outcome = jobs[0], outcomes[0]
    where = "front end"
    try:
        run = interpreted(job)
        for stage in (run.forward[0], run.forward[-1]):
            got, _ = run.run_forward(stage.kernel)
            wrong = differences(job, outcome, got, 1e-11, gradient=False)
            if wrong:
                return f"forward after {stage.name}", "\n".join(wrong)
        where = "interpreted gradient"
        got, result, caps = run.run_reverse(run.reverse[-1].kernel)
        if result.overflow is not None:
            return "overflow", f"depths {result.depth}, capacities {caps}"
        wrong = differences(job, outcome, got, 1e-9, gradient=True)
        if wrong:
            return where, "\n".join(wrong)
        apart = disagreement(run, outcome, got)
        if apart:
            return "interpreted tangents", apart
        for where, job, outcome in zip(("launched", "launched again"), jobs, outcomes, strict=True):
            got, _ = bench.run(job)
            wrong = differences(job, outcome, got, 1e-9, gradient=True)
            if wrong:
                return where, "\n".join(wrong)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{where}: {type(error).__name__} in {frame.name}", str(error)
    return "", ""


def check(source: Source) -> None:
    how, _ = verdict(source, bench())
    if how == "undecided":
        reject()  # it does not count as an example
    if not how:
        return

    def fails(text: str) -> bool:
        try:
            return verdict(dataclasses.replace(source, text=text), bench())[0] == how
        except Exception:  # not a program any more
            return False

    smallest = dataclasses.replace(source, text=reduce(source.text, fails))
    pytest.fail(f"{how}\n{smallest!r}\n{verdict(smallest, bench())[1]}", pytrace=False)


BENCHES: list[Bench] = []


def bench(arch: str = "cpu") -> Bench:
    """One session for all examples of a test."""
    if not BENCHES:
        BENCHES.append(Bench(f64, arch))
    return BENCHES[0]


@pytest.fixture(autouse=True)
def one_session():
    BENCHES.clear()


COMMON = {"deadline": None, "print_blob": True, "phases": PHASES, "suppress_health_check": list(HealthCheck)}


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=EXAMPLES, derandomize=True, database=None, **COMMON)
@given(kernels())
def test_random_kernels(source):
    check(source)


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "fp"), [way("cpu", f64), way("vulkan", f64)])
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=2000, **COMMON)
@given(source=kernels())
def test_many_random_kernels(arch, fp, source):
    bench(arch)
    check(source)
