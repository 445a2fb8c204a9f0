"""Random kernels: values and gradients of interpreted IR and of a backend against the oracle; those of `seeded` by day,
new ones by night. A failure is shown as the smallest kernel that fails in the same way."""

from __future__ import annotations

import dataclasses
import traceback

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from oracle_numbers import Budget
from programs import PROGRAMS
from reduce import reduce
from running import WAYS, Bench, Job, differences, each, f64, interpreted, job_of, way
from seeded import SEEDED, SEEDS, program_of
from strategies import Source, kernels, seeded_kernel
from tangents import disagreement

# hypothesis' own shrinking takes minutes on programs; `reduce` knows their syntax
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


UNDECIDED = ("undecided", "")


def jobs_for(source: Source) -> list[Job]:
    """One job a launch."""
    program = program_of(source)
    return [job_of(program, case) for case in program.cases]


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


def check(source: Source) -> bool:
    """Whether the oracle can tell; fails where something disagrees with it."""
    how, _ = verdict(source, bench())
    if not how or how == "undecided":
        return not how

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
@pytest.mark.parametrize("seed", SEEDS)
def test_seeded_kernels(seed):
    assert check(seeded_kernel(seed)), "print new seeds: python tests/seeded.py"


def test_there_are_enough() -> None:
    assert len(PROGRAMS) + len(SEEDS) >= 300


# an index or a branch taken in f32 may be another; devices are simulated, which takes its time
ELSEWHERE = [w for w in WAYS if w.values[1] is f64 and w.values[0] != "cpu"]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "fp"), ELSEWHERE)
@pytest.mark.filterwarnings("ignore")
@each(SEEDED.values())
def test_seeded_kernels_elsewhere(program, arch, fp):
    bench = Bench(fp, arch)
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job)
        assert not differences(job, job.oracle(), got, 1e-9, gradient=True), case


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "fp"), [way("cpu", f64), way("vulkan", f64)])
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=2000, **COMMON)
@given(source=kernels())
def test_many_random_kernels(arch, fp, source):
    bench(arch)
    if not check(source):
        reject()  # it does not count as an example
