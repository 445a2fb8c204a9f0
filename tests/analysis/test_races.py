"""Races are errors: at compile time where indices alone decide, and in checked launches where data decides."""

import re
import warnings

import numpy as np
import pytest
from programs.races import CLEAN, RACY
from running import Bench, differences, f32, f64, job_of
from sessions import by_night, in_turn, sessions

import quadrants_lab as qd

ARCHS = [
    pytest.param(p.values[0]["arch"], id=p.id, marks=p.marks)
    for p in [*in_turn(sessions("cpu", "vulkan", "metal", "wasm")), *by_night(sessions("cuda", "amdgpu"))]
]


def fp_of(arch):
    return f32 if arch == "metal" else f64


@pytest.mark.parametrize("case", [pytest.param(r, id=r.program.name) for r in RACY if r.sure])
def test_surely_racy(case):
    with pytest.raises(qd.QuadrantsCompilationError, match="QL1706"):
        Bench(f64).run(job_of(case.program, case.program.cases[0]))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("case", [pytest.param(r, id=r.program.name) for r in RACY if not r.sure])
def test_racy(case, arch):
    job = job_of(case.program, case.program.cases[0])
    Bench(fp_of(arch), arch).run(job, gradient=False)  # a release build does not look
    with pytest.raises(qd.QuadrantsAssertionError, match="QL2075") as told:
        Bench(fp_of(arch), arch, debug=True).run(job, gradient=False)
    one = r"the one of \w+ = \d+[^:]*"
    two = rf"{one}, ({one}|another one \w+ it)"
    assert re.search(rf"iterations race for [\w.]+\[[\w, ]+\]: {two} at line \d+", str(told.value))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in CLEAN])
def test_clean(program, arch):
    fp = fp_of(arch)
    job = job_of(program, program.cases[0])
    for debug in (False, True):
        bench = Bench(fp, arch, debug=debug)
        with warnings.catch_warnings():
            warnings.simplefilter("error", qd.QuadrantsWarning)
            for _ in range(2):  # marks of the launch before say nothing
                got, _ = bench.run(job)
                qd.sync()
        assert not differences(job, job.oracle(), got, 1e-9 if fp is f64 else 1e-4, gradient=True)


def test_there_are_sixty():
    assert len(RACY) >= 30
    assert len(CLEAN) >= 30


# --- where else they are told

@qd.kernel
def shifted(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in range(1, a.shape[0]):
        b[i] = a[i - 1] * 2.0


@pytest.mark.parametrize("arch", ARCHS)
def test_arguments_that_are_the_same(arch):
    qd.init(arch=getattr(qd, arch), simulate=True, debug=True, offline_cache=False)
    a, b = qd.ndarray(qd.f32, 9), qd.ndarray(qd.f32, 9)
    for _ in range(2):
        shifted(a, b)
        with pytest.raises(qd.QuadrantsAssertionError, match=r"QL2075.*iterations race for [ab]\["):
            shifted(a, a)
    shifted(b, a)


def test_arrays_of_the_host_that_overlap():
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    whole = np.arange(12, dtype=np.float32)
    for _ in range(2):
        shifted(whole[:6], whole[6:])
        with pytest.raises(qd.QuadrantsAssertionError, match="QL2075"):
            shifted(whole[:9], whole[3:])
        with pytest.raises(qd.QuadrantsAssertionError, match="QL2075"):
            shifted(whole, whole)


def scattering():
    x = qd.field(qd.f64, 8, needs_grad=True)
    at, loss = qd.field(qd.i32, 8), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def k():
        for i in at:
            x[at[i]] = qd.sin(x[i])
        for i in x:
            loss[None] += x[i]

    return k, at, loss


def test_a_tape_with_validation():
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    k, at, loss = scattering()
    at.from_numpy(np.arange(8, dtype=np.int32))
    with qd.ad.Tape(loss, validation=True):
        k()
    at.from_numpy(np.arange(8, dtype=np.int32)[::-1].copy())
    with qd.ad.Tape(loss):
        k()
    tape = qd.ad.Tape(loss, validation=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"iterations race for x\[\d\]"), tape:
        k()


def test_many_launches_under_watch():
    """Epochs come round, and no launch takes the marks of another for its own."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, debug=True, offline_cache=False)
    k, at, _ = scattering()
    at.from_numpy(np.arange(8, dtype=np.int32))
    for _ in range(5000):
        k()
    at[3] = 4
    with pytest.raises(qd.QuadrantsAssertionError, match="QL2075"):
        k()
    at[3] = 3
    k()


def test_old_marks_of_one_byte_hide_nothing():
    """Each launch leaves one more mark behind; one of the same byte would stand for the one that is missing."""
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    x, at = qd.field(qd.f32, 1000), qd.field(qd.i32, 32)
    @qd.kernel
    def k():
        for i in at:
            x[at[i]] = 1.0 * i
    for n in range(300):
        for first in (2 * n, 2 * n + 1):
            at.from_numpy(np.array([first, first + 1, *range(900, 930)], np.int32))
            k()
        at[0] = at[1] = 899
        with pytest.raises(qd.QuadrantsAssertionError, match=r"QL2075.*race for x\[899\]"):
            k()


def test_loops_over_many_axes():
    """A mark has room for each index: iterations far apart on one axis are not taken for one."""
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    x, at = qd.field(qd.f32, 500 * 27), qd.field(qd.i32, (500, 3, 3, 3))
    @qd.kernel
    def k():
        for i, j, a, b in at:
            x[at[i, j, a, b]] = 1.0 * i
    at.from_numpy(np.arange(500 * 27, dtype=np.int32).reshape(500, 3, 3, 3))
    k()
    for i in (135, 7 + 256):
        at[i, 0, 1, 2] = at[7, 0, 1, 2]
        with pytest.raises(qd.QuadrantsAssertionError, match=f"i = 7, j = 0, a = 1, b = 2 .* i = {i}, j = 0, a = 1"):
            k()
        at[i, 0, 1, 2] = 27 * i + 5


def test_what_is_not_suspected():
    """A store to a place of its own, reads there, a second store: the tasks behind have no iterations."""
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    x, at = qd.field(qd.f32, 64), qd.field(qd.i32, 32)
    @qd.kernel
    def k():
        for i in range(16):
            a, b = at[2 * i], at[2 * i + 1]
            x[a], x[b] = x[b], x[a]
            x[a] = x[a] + x[b] + x[32 + at[i]]
    for places, suspected in ((np.arange(32), 0), (np.arange(32) // 2, 16)):
        at.from_numpy(places.astype(np.int32))
        k()
        (plan,) = k.dispatcher.plans.values()
        assert [frame.ret("races.suspected0") for frame in plan.frames()] == [suspected]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_one_race_among_many_iterations(threads):
    """Whatever thread comes first, the two iterations that meet are told, and nothing is where none do."""
    qd.init(arch=qd.cpu, debug=True, offline_cache=False, cpu_max_num_threads=threads)
    n = 1 << 14
    x, at = qd.field(qd.f32, n), qd.field(qd.i32, n)
    order = np.random.default_rng(3).permutation(n).astype(np.int32)

    @qd.kernel
    def k():
        for i in at:
            x[at[i]] = 1.0 * i

    for first, second in ((17, 18), (5, n - 1)):
        at.from_numpy(order)
        k()
        at[second] = order[first]
        told = f"i = {first} writes it here, the one of i = {second} writes it"
        for _ in range(5):
            with pytest.raises(qd.QuadrantsAssertionError, match=told):
                k()


def test_what_is_kept_for_the_gradient_under_watch():
    """Tasks that look for races stand between those that overwrite what is kept."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, debug=True, offline_cache=False)
    a, x, loss = (qd.field(qd.f64, shape, needs_grad=True) for shape in (4, 4, ()))
    y, at = qd.field(qd.f64, 4), qd.field(qd.i32, 4)
    at.from_numpy(np.arange(4, dtype=np.int32)[::-1].copy())

    @qd.kernel
    def k():
        for i in at:
            y[at[i]] = a[i]
        for i in at:
            y[at[i]] = 2.0 * a[i]
        for i in x:
            x[i] = 3.0 * a[i]
        for i in x:
            loss[None] += x[i] ** 2
        for i in x:
            x[i] = 7.0 * a[i]
        for i in x:
            loss[None] += x[i] ** 3

    values = np.arange(1.0, 5.0)
    a.from_numpy(values)
    with qd.ad.Tape(loss):
        k()
    assert np.allclose(a.grad.to_numpy(), 18.0 * values + 1029.0 * values**2, rtol=1e-12)
