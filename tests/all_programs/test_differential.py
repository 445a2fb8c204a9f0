"""Every program of the table computes the same by the oracle, by its IR at every stage, and on the CPU."""

import numpy as np
from programs import PROGRAMS
from running import WAYS, Bench, differences, each, f64, interpreted, job_of, spread
from sessions import NIGHT

# the others are launched by test_gradients, values compared
WITHOUT_GRADIENT = [p for p in PROGRAMS.values() if not p.grad]


@each([*WITHOUT_GRADIENT, *[p for p in PROGRAMS.values() if p.grad][:: 1 if NIGHT else 3]])
def test_interpreted_after_every_pass(program):
    for case in program.cases:
        job = job_of(program, case)
        outcome = job.oracle()
        run = interpreted(job, gradient=False)
        for stage in run.forward[-1:] if program.large else run.forward:
            got, result = run.run_forward(stage.kernel)
            assert not differences(job, outcome, got, 1e-12, gradient=False), (case, stage.name)
            assert result.failure is None
            if outcome.returned is not None:
                np.testing.assert_allclose(result.rets["ret0"], outcome.returned, rtol=1e-12)


@spread(WITHOUT_GRADIENT, WAYS)
def test_backend(program, arch, fp):
    bench = Bench(fp, arch)
    for case in program.cases:
        job = job_of(program, case)
        outcome = job.oracle()
        got, returned = bench.run(job, gradient=False)
        tol = 1e-11 if fp is f64 else program.tol32
        assert not differences(job, outcome, got, tol, gradient=False), case
        if outcome.returned is not None:
            np.testing.assert_allclose(returned, outcome.returned, rtol=tol)


@each(PROGRAMS.values(), every=3)
def test_cpu_with_every_check_on(program):
    bench = Bench(f64, debug=True)
    for case in program.cases:
        job = job_of(program, case)
        got, _ = bench.run(job, gradient=False)
        assert not differences(job, job.oracle(), got, 1e-11, gradient=False), case


@each(PROGRAMS.values())
def test_the_oracle_decides_clearly(program):
    """Inputs on the boundary of a branch would test rounding instead of the compiler."""
    for case in program.cases:
        outcome = job_of(program, case).oracle()
        assert outcome.finite, case
        assert program.exact or outcome.margin > 1e-5, case
