"""Races are told: when a kernel is compiled where indices alone decide, in every checked launch where data does."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from programs_races import CLEAN, RACY
from running import Bench, differences, f32, f64, job_of
from sessions import sessions

import quadrants_lab as qd

ARCHS = [pytest.param(p.values[0]["arch"], id=p.id, marks=p.marks) for p in sessions("cpu", "vulkan", "metal")]
ALSO_BY_NIGHT = [*ARCHS, *(pytest.param(p.values[0]["arch"], id=p.id, marks=[*p.marks, pytest.mark.slow])
                           for p in sessions("cuda", "amdgpu"))]  # fmt: skip


def fp_of(arch):
    return f32 if arch == "metal" else f64


@pytest.mark.parametrize("arch", ALSO_BY_NIGHT)
@pytest.mark.parametrize("case", [pytest.param(r, id=r.program.name) for r in RACY])
def test_racy(case, arch):
    job = job_of(case.program, case.program.cases[0])
    if case.sure:
        with pytest.raises(qd.QuadrantsCompilationError, match="QL1706"):
            Bench(fp_of(arch), arch).run(job)
        return
    Bench(fp_of(arch), arch).run(job, gradient=False)  # a release build does not look
    with pytest.raises(qd.QuadrantsAssertionError, match="QL2075") as told:
        Bench(fp_of(arch), arch, debug=True).run(job, gradient=False)
    one = r"the one of \w+ = \d+[^:]*"
    assert re.search(rf"iterations race for [\w.]+\[[\w, ]+\]: {one}, {one} at line \d+", str(told.value))


@pytest.mark.parametrize("arch", ALSO_BY_NIGHT)
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
