"""Random kernels: values and gradients of interpreted IR and of a backend against the oracle; those of `seeded` by day,
new ones by night, of which hypothesis shows the smallest that fails."""

import pytest
from hypothesis import HealthCheck, given, reject, settings
from oracle.numbers import Budget
from oracle.tangents import disagreement
from programs import PROGRAMS
from programs.seeded import SEEDED, SEEDS, program_of
from programs.strategies import Source, kernels, seeded_kernel
from running import WAYS, Bench, Job, differences, each, f64, interpreted, job_of, way
from sessions import NIGHT


def jobs_for(source: Source) -> list[Job]:
    """One job for each launch."""
    program = program_of(source)
    return [job_of(program, case) for case in program.cases]


def check(source: Source) -> bool:
    """Whether the oracle can judge the kernel; an assertion fails where something disagrees with it."""
    launched = bench()
    launched.kernels.clear()
    jobs = jobs_for(source)
    try:
        outcomes = [job.oracle(limit=30_000) for job in jobs]
    except Budget:
        return False
    if not all(o.finite and o.margin > 1e-8 and o.largest < 1e4 for o in outcomes):
        return False
    job, outcome = jobs[0], outcomes[0]
    run = interpreted(job)
    for stage in (run.forward[0], run.forward[-1]):
        got, _ = run.run_forward(stage.kernel)
        assert not differences(job, outcome, got, 1e-11, gradient=False), (stage.name, source)
    got, result, caps = run.run_reverse(run.reverse[-1].kernel)
    assert result.overflow is None, (result.depth, caps, source)
    assert not differences(job, outcome, got, 1e-9, gradient=True), ("interpreted gradient", source)
    assert not disagreement(run, outcome, got), source
    for n, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True)):
        got, _ = launched.run(job)
        assert not differences(job, outcome, got, 1e-9, gradient=True), (f"launch {n}", source)
    return True


BENCHES: list[Bench] = []


def bench(arch: str = "cpu") -> Bench:
    """One session for all examples of a test."""
    if not BENCHES:
        BENCHES.append(Bench(f64, arch))
    return BENCHES[0]


@pytest.fixture(autouse=True)
def one_session():
    BENCHES.clear()


COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": list(HealthCheck)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SEEDS[:: 1 if NIGHT else 4])
def test_seeded_kernels(seed):
    assert check(seeded_kernel(seed)), "print new seeds: cd tests; python -m programs.seeded"


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
@pytest.mark.parametrize(("arch", "fp"), [way("cpu", f64), way("vulkan", f64), way("wasm", f64)])
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=2000, **COMMON)
@given(source=kernels())
def test_many_random_kernels(arch, fp, source):
    bench(arch)
    if not check(source):
        reject()  # it does not count as an example
