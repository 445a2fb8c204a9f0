"""What `scripts/test_gpu.py` does on a machine with an NVIDIA GPU that is no pytest: PARTS, by name. Each prints what
it found, and an assertion of it fails where that is wrong."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import quadrants_lab as qd


def start(**options: Any) -> None:
    qd.init(arch=qd.cuda, enable_fallback=False, **{"offline_cache": False, "simulate": True, **options})


_START = """
from time import perf_counter as now
a = now()
import quadrants_lab as qd
b = now()
qd.init(arch=qd.cuda, enable_fallback=False)
qd.field(qd.f32, shape=(4,)).fill(1)
qd.sync()
print(f"import {b - a:.2f} s, qd.init and a first field {now() - b:.2f} s")
"""


def about() -> None:
    from quadrants_lab.backends.cuda import STAGES, driver, toolkit

    d = driver.current()
    print(f"{d.name}, compute capability {d.capability / 10}, CUDA {d.version}, {d.total_bytes >> 30} GiB")
    print(f"{d.multiprocessors} multiprocessors, {d.threads_at_once} threads at once; code for {d.code_name}")
    print(f"stages {', '.join(STAGES)}; libdevice {toolkit.libdevice()}; ptxas {toolkit.tool('ptxas') or 'none'}")
    subprocess.run([sys.executable, "-c", _START], check=True, stdin=subprocess.DEVNULL)


def clock(run: Callable[[], Any], sync: Callable[[], None], least: float = 0.2) -> float:
    """Seconds a call: many calls, one wait; the best of three."""
    run()
    sync()
    count, best = 1, float("inf")
    while True:
        begin = perf_counter()
        for _ in range(count):
            run()
        sync()
        took = perf_counter() - begin
        if took > least / 4:
            break
        count *= 2
    for _ in range(3):
        begin = perf_counter()
        for _ in range(count):
            run()
        sync()
        best = min(best, (perf_counter() - begin) / count)
    return best


def speed() -> None:
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    start()
    qd.sync()
    launches()
    streams()
    loops()


def tapes() -> None:
    os.environ |= {"QL_ENGINE": "quadrants_lab", "QL_BENCH_CACHE": os.devnull}
    from benchmarks.tapes import on_gpu

    start()
    on_gpu()


def launches() -> None:
    s = qd.field(qd.f32, shape=())
    x = qd.field(qd.f32, shape=(1024,), needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    a, b = (qd.ndarray(qd.f32, shape=(1024,)) for _ in range(2))

    @qd.kernel
    def serial():
        s[None] = 1.0

    @qd.kernel
    def over_field():
        for i in x:
            x[i] = 1.0

    @qd.kernel
    def scalars(p: qd.f32, n: qd.i32):
        for i in x:
            x[i] = p + n

    @qd.kernel
    def arrays(p: qd.types.ndarray(), q: qd.types.ndarray()):
        for i in range(p.shape[0]):
            p[i] = q[i]

    @qd.kernel
    def returns() -> qd.f32:
        return s[None]

    @qd.kernel
    def stacked():
        for i in x:
            v = x[i]
            for _ in range(4):
                v = qd.sin(v)
            loss[None] += v

    rows: list[tuple[str, Callable[[], Any]]] = [
        ("serial kernel", serial), ("kernel over a field", over_field), ("two scalars", lambda: scalars(1.0, 2)),
        ("two ndarrays", lambda: arrays(a, b)), ("a value comes back", returns),
        ("reads a field of one", lambda: s[None]), ("writes a field of one", lambda: s.__setitem__(None, 1.0)),
    ]  # fmt: skip
    for what, run in rows:
        print(f"launch, {what}: {clock(run, qd.sync) * 1e6:.1f} us")
    begin = perf_counter()
    stacked()
    qd.sync()
    middle = perf_counter()
    loss.grad[None] = 1.0
    stacked.grad()
    qd.sync()
    print(f"cold compile, forward {1e3 * (middle - begin):.0f} ms, gradient {1e3 * (perf_counter() - middle):.0f} ms")
    print(f"launch, gradient with adstack: {clock(stacked.grad, qd.sync) * 1e6:.1f} us")


def streams() -> None:
    n = 1 << 26
    x, y, total = qd.field(qd.f32, shape=(n,)), qd.field(qd.f32, shape=(n,)), qd.field(qd.f32, shape=())
    x.fill(0.5)
    y.fill(0.25)

    @qd.kernel
    def copy():
        for i in x:
            y[i] = x[i]

    @qd.kernel
    def saxpy(a: qd.f32):
        for i in x:
            y[i] = a * x[i] + y[i]

    @qd.kernel
    def add_up():
        for i in x:
            total[None] += x[i]

    @qd.kernel
    def waves():
        for i in x:
            y[i] = qd.sin(x[i]) * qd.exp(x[i])

    try:
        import torch

        p, q = (torch.ones(n, device="cuda") for _ in range(2))
        best = clock(partial(p.copy_, q), torch.cuda.synchronize)
        print(f"torch copy, 2^26 f32: {best * 1e3:.3f} ms, {8 * n / best / 1e12:.2f} TB/s")
        del p, q
    except (ImportError, AssertionError, RuntimeError) as e:
        print(f"torch copy: {e}")
    rows: list[tuple[str, int, Callable[[], Any]]] = [
        ("copy", 8, copy), ("saxpy", 12, lambda: saxpy(0.5)), ("sum", 4, add_up), ("sin * exp", 8, waves),
    ]  # fmt: skip
    for what, nbytes, run in rows:
        best = clock(run, qd.sync)
        print(f"{what}, 2^26 f32: {best * 1e3:.3f} ms, {nbytes * n / best / 1e12:.2f} TB/s")
    total[None] = 0.0
    add_up()
    print(f"sum of 2^26 halves: {total[None]} (should be {n / 2})")


def loops() -> None:
    """Forward and reverse over 1M iterations of 64 trips."""
    for fp, name in ((qd.f32, "f32"), (qd.f64, "f64")):
        x = qd.field(fp, shape=(1 << 20,), needs_grad=True)
        y = qd.field(fp, shape=(), needs_grad=True)
        x.fill(0.3)
        y.grad[None] = 1

        @qd.kernel
        def one(x: qd.template(), y: qd.template()):
            for i in x:
                v = x[i]
                for _ in range(64):
                    v = qd.sin(v) + 0.1
                y[None] += v

        @qd.kernel
        def eight(x: qd.template(), y: qd.template()):
            for i in x:
                a = x[i]
                b, c, d, e, f, g, h = a + 0.1, a + 0.2, a + 0.3, a + 0.4, a + 0.5, a + 0.6, a + 0.7
                for _ in range(64):
                    a, b, c, d = a * b + 0.1, b * c * 0.5, c * d * 0.5 + 0.1, d * e * 0.5
                    e, f, g, h = e * f * 0.5 + 0.1, f * g * 0.5, g * h * 0.5 + 0.1, h * a * 0.5
                y[None] += a + b + c + d + e + f + g + h

        for what, kernel in (("1 variable", one), ("8 variables", eight)):
            if fp is qd.f64 and kernel is eight:
                continue
            forward = clock(lambda k=kernel, x=x, y=y: k(x, y), qd.sync)
            backward = clock(lambda k=kernel, x=x, y=y: k.grad(x, y), qd.sync)
            print(f"loop 1M x 64, {name}, {what}: forward {forward * 1e3:.3f} ms, gradient {backward * 1e3:.3f} ms")


def endurance() -> None:
    """100,000 launches: no growth of the process or of the device's memory."""
    start()
    x = qd.field(qd.f32, shape=(1000,), needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def step(by: qd.f32):
        for i in x:
            v = x[i]
            for _ in range(3):
                v = qd.sin(v) + by
            loss[None] += v

    from quadrants_lab.backends.cuda import driver

    def state() -> tuple[int, int]:
        qd.sync()
        return driver.current().free_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(2000):
        step(0.1)
        step.grad(0.1)
    free, resident = state()
    begin = perf_counter()
    for _ in range(100_000):
        step(0.1)
    qd.sync()
    took = perf_counter() - begin
    for _ in range(10_000):
        step.grad(0.1)
    free_after, resident_after = state()
    print(f"100,000 launches in {took:.2f} s; device memory {free - free_after} bytes less, "
          f"resident {resident_after - resident} KiB more")  # fmt: skip
    assert free - free_after < 4 << 20
    assert resident_after - resident < 20 << 10


def memory() -> None:
    """More than there is, of plain memory and of adstacks, is an error; the session lives on."""
    start()
    from quadrants_lab.backends.cuda import driver

    total = driver.current().total_bytes
    x, y = (qd.field(qd.f32, shape=(100,), needs_grad=True) for _ in range(2))
    n = qd.field(qd.i32, shape=())

    @qd.kernel
    def deep():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v) + 0.1
            y[i] = v

    try:
        qd.field(qd.f64, shape=(total // 8 + (1 << 20),))
        raise AssertionError("more memory than there is was handed out")
    except MemoryError as e:
        print("fields:", e)
    from quadrants_lab.errors import QuadrantsError

    n[None] = 10
    y.grad.fill(1.0)
    deep()
    for trips in (1 << 31) - 1, 1 << 30:  # a stack of 2**31 slots for a group of threads has no room
        n[None] = trips
        try:
            deep.grad()
            raise AssertionError("an adstack of that size cannot be")
        except (MemoryError, QuadrantsError) as e:
            print("adstacks:", str(e).splitlines()[0])
    n[None] = 10
    x.fill(0.5)
    y.grad.fill(1.0)
    deep.grad()
    assert 0 < x.grad[3] < 1
    print("and the session lives on: gradient", x.grad[3])


def differences() -> None:
    """Greatest differences to the CPU, a program a row: of values and gradients, relative to the larger of 1 and the
    CPU's."""
    import numpy as np
    from programs import PROGRAMS
    from running import Bench, f32, f64, job_of

    chosen = [p for p in PROGRAMS.values() if p.grad and not p.large]
    found: dict[tuple[str, str], float] = {}
    for fp in (f64, f32):
        results: dict[str, list[Any]] = {}
        for arch in ("cpu", "cuda"):
            bench = Bench(fp, arch)
            results[arch] = [[bench.run(job_of(p, case))[0] for case in p.cases] for p in chosen]
        for p, ours, theirs in zip(chosen, results["cuda"], results["cpu"], strict=True):
            worst = 0.0
            for mine, other in zip(ours, theirs, strict=True):
                for name, want in other.items():
                    if want.dtype.kind == "f" and want.size:
                        scale = np.maximum(1.0, np.abs(want))
                        with np.errstate(all="ignore"):
                            gap = np.abs(mine[name].astype(np.float64) - want) / scale
                        worst = max(worst, float(np.nanmax(gap)) if np.isfinite(gap).any() else 0.0)
            found[p.name, str(fp)] = worst
    rows = sorted(chosen, key=lambda p: -found[p.name, "f32"])
    print("| program | f32 | f64 |\n| --- | --- | --- |")
    for p in rows:
        print(f"| {p.name} | {found[p.name, 'f32']:.1e} | {found[p.name, 'f64']:.1e} |")


def small() -> None:
    """What compute-sanitizer watches: gradients of a few programs, reductions, stacks of flags, asserts, graphs."""
    from programs import PROGRAMS
    from running import Bench, differences, f32, job_of

    chosen = [p for p in PROGRAMS.values() if p.grad and not p.large]
    chosen = chosen[:: len(chosen) // 16]
    bench = Bench(f32, "cuda")
    for p in chosen:
        job = job_of(p, p.cases[0])
        got, _ = bench.run(job)
        assert not differences(job, job.oracle(), got, p.tol32, gradient=True), p.name
    print(f"{len(chosen)} programs and their gradients:", ", ".join(p.name for p in chosen))
    start()
    x, total = qd.field(qd.f64, shape=(100_000,)), qd.field(qd.f64, shape=())
    low = qd.field(qd.i32, shape=())

    @qd.kernel
    def reduce():
        for i in x:
            total[None] += x[i]
            qd.atomic_min(low[None], i - 7)

    x.fill(0.5)
    reduce()
    assert (total[None], low[None]) == (50_000.0, -7)
    z, n = qd.field(qd.f32, shape=(1000,), needs_grad=True), qd.field(qd.i32, shape=(1000,))
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel(graph=True)
    def powers():
        for i in z:
            v = z[i]
            for _ in range(n[i]):
                v = v * z[i]
            loss[None] += v
        for i in z:
            loss[None] += qd.sin(z[i] * 1e6)

    z.fill(1.0)
    loss.grad[None] = 1.0
    for trips in (3, 3, 50):
        n.fill(trips)
        for _ in range(40):
            powers()
            powers.grad()
    assert math.isclose(z.grad[7], 40 * (4 + 4 + 51 + 3e6 * math.cos(1e6)), rel_tol=1e-4)


PARTS: dict[str, Callable[[], None]] = {
    "about": about, "speed": speed, "tapes": tapes, "endurance": endurance, "memory": memory,
    "differences": differences, "small": small,
}  # fmt: skip
