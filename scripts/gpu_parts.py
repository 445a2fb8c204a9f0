"""Runs the parts of `scripts/test_gpu.py` that are not pytest, on an NVIDIA GPU; PARTS lists them by name. Each
part prints its figures; an assertion fails if a figure or result is wrong."""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import quadrants_lab as qd


def start(arch: Any = qd.cuda, **options: Any) -> None:
    qd.init(arch=arch, enable_fallback=False, **{"offline_cache": False, "simulate": True, **options})


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


def clock(run: Callable[[], Any], sync: Callable[[], None]) -> float:
    """Seconds of a call of ``run``: many calls and one wait, the best of three rounds."""

    def took(count: int) -> float:
        begin = perf_counter()
        for _ in range(count):
            run()
        sync()
        return perf_counter() - begin

    count = 1
    took(count)
    while took(count) < 0.05:
        count *= 2
    return min(took(count) for _ in range(3)) / count


def benchmark_cases(name: str) -> Any:
    """Imports a module of benchmarks/, whose kernels then use quadrants_lab."""
    os.environ |= {"QL_ENGINE": "quadrants_lab", "QL_BENCH_CACHE": os.devnull}
    return import_module(f"benchmarks.{name}")


def speed() -> None:
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    start()
    qd.sync()
    launches()
    streams()
    loops()


def tapes() -> None:
    start()
    benchmark_cases("tapes").on_gpu()


def launches() -> None:
    L = benchmark_cases("cases.launch")
    rows = {
        "serial kernel": L.serial, "kernel over a field": L.field_loop, "two scalars": L.scalars,
        "two ndarrays": L.ndarrays, "a value comes back": L.returned, "reads a field of one": L.read_scalar,
        "writes a field of one": L.write_scalar,
    }  # fmt: skip
    for what, make in rows.items():
        print(f"launch, {what}: {clock(make().run, qd.sync) * 1e6:.1f} us")
    loop = benchmark_cases("cases.loops").LOOPS["sin"](1024, 4)
    took = []
    for run in (loop.kernel, loop.kernel.grad):
        begin = perf_counter()
        run()
        qd.sync()
        took.append(1e3 * (perf_counter() - begin))
    print(f"cold compile, forward {took[0]:.0f} ms, gradient {took[1]:.0f} ms")
    print(f"launch, gradient with adstack: {clock(loop.kernel.grad, qd.sync) * 1e6:.1f} us")


def streams() -> None:
    n, T = 1 << 26, benchmark_cases("cases.throughput")
    try:
        import torch

        p, q = (torch.ones(n, device="cuda") for _ in range(2))
        best = clock(partial(p.copy_, q), torch.cuda.synchronize)
        print(f"torch copy, 2^26 f32: {best * 1e3:.3f} ms, {8 * n / best / 1e12:.2f} TB/s")
        del p, q
    except (ImportError, AssertionError, RuntimeError) as e:
        print(f"torch copy: {e}")
    rows = (("copy", 8, T.copy), ("saxpy", 12, T.saxpy), ("sum", 4, T.atomic_sum), ("sin * exp", 8, T.sin_exp))
    for what, nbytes, make in rows:
        timed = make(n)
        best = clock(timed.run, qd.sync)
        print(f"{what}, 2^26 f32: {best * 1e3:.3f} ms, {nbytes * n / best / 1e12:.2f} TB/s")
        if what == "sum":
            print(f"sum of 2^26 times 2^-10: {timed.value()} (should be {n / 1024})")


def loops() -> None:
    """Times a kernel and its gradient with a million iterations of 64 trips."""
    for name, dtype in benchmark_cases("cases.cuda").REVERSE:
        loop = benchmark_cases("cases.loops").LOOPS[name](1 << 20, 64, getattr(qd, dtype))
        forward, backward = (clock(run, qd.sync) for run in (loop.kernel, loop.kernel.grad))
        print(f"loop 1M x 64, {dtype}, {name}: forward {forward * 1e3:.3f} ms, gradient {backward * 1e3:.3f} ms")


def scatter() -> None:
    """Times atomic additions to elements whose index is data; and, for comparison, the same additions if their old
    values are used, so that they cannot be combined."""
    import numpy as np

    start()
    n, rng = 1 << 20, np.random.default_rng(0)
    at, old, x, y = qd.field(qd.i32, n), qd.field(qd.f32, n), qd.field(qd.f32, n), qd.field(qd.f32, n)
    x.fill(1.0)

    @qd.kernel
    def add():
        for i in x:
            y[at[i]] += x[i]

    @qd.kernel
    def one_by_one():
        for i in x:
            old[i] = qd.atomic_add(y[at[i]], x[i])

    numbers = np.arange(n)
    places = {"one cell": 0 * numbers, "cells in rows of 256": numbers // 256, "cells at random": rng.permutation(n)}
    for what, cells in places.items():
        at.from_numpy(cells.astype(np.int32))
        took, single = (clock(run, qd.sync) for run in (add, one_by_one))
        y.fill(0.0)
        add()
        assert y.to_numpy()[cells[0]] == np.count_nonzero(cells == cells[0])
        print(f"{what}, 2^20 f32: {took * 1e3:.3f} ms, one by one {single * 1e3:.3f} ms, ratio {single / took:.1f}")


def sums(arch: Any = qd.cuda) -> None:
    """Times long loops that only add up, and their gradients: the threads of a warp share such a loop. For
    comparison it times loops whose number of trips is not known at compile time, which are not shared."""
    import numpy as np

    start(arch)
    trips = qd.field(qd.i32, ())

    def bodies(n: int, known: bool) -> tuple[Any, Any]:
        x, out = (qd.field(qd.f32, n, needs_grad=True) for _ in range(2))
        x.from_numpy(np.linspace(0.0, 1.0, n, dtype=np.float32))

        @qd.kernel
        def k():
            for i in x:
                force = 0.0
                for j in range(n if qd.static(known) else trips[None]):
                    d = x[j] - x[i]
                    force += d / qd.sqrt(d * d + 1e-3)
                out[i] = force

        return k, out

    def product(rows: int, columns: int, known: bool) -> tuple[Any, Any]:
        a, x = (qd.field(qd.f32, shape, needs_grad=True) for shape in ((rows, columns), columns))
        out = qd.field(qd.f32, rows, needs_grad=True)
        a.fill(0.5)
        x.fill(0.25)

        @qd.kernel
        def k():
            for i in out:
                sum = 0.0
                for j in range(columns if qd.static(known) else trips[None]):
                    sum += a[i, j] * x[j]
                out[i] = sum

        return k, out

    for what, n, make in (
        ("n-body, 16384", 16384, partial(bodies, 16384)),
        ("matrix of 1024 x 1024 with a vector", 1024, partial(product, 1024, 1024)),
        ("matrix of 65536 x 1024 with a vector", 1024, partial(product, 65536, 1024)),
    ):
        trips[None] = n
        took, found = [], []
        for known in (True, False):
            kernel, out = make(known)
            kernel()
            out.grad.fill(1.0)
            kernel.grad()
            took.append((clock(kernel, qd.sync), clock(kernel.grad, qd.sync)))
            found.append(out.to_numpy())
        assert np.allclose(*found, rtol=1e-4, atol=1e-2)
        for mode, shared, alone in zip(("forward", "gradient"), *took, strict=True):
            print(f"{what}, {mode}: {shared * 1e3:.3f} ms, alone {alone * 1e3:.3f} ms, ratio {alone / shared:.1f}")


def vulkan() -> None:
    """Times the driver's Vulkan beside its CUDA; prints nothing if there is no Vulkan."""
    from quadrants_lab.errors import QuadrantsError

    T, L = benchmark_cases("cases.throughput"), benchmark_cases("cases.loops").LOOPS
    large, found = 1 << 26, {}

    def cases() -> dict[str, tuple[float, Callable[[], Any]]]:
        loops = {(name, t): L[name](1 << 20, 64, getattr(qd, t)) for name, t in benchmark_cases("cases.cuda").REVERSE}
        return {
            "saxpy, 2^26 f32": (1.3, T.saxpy(large).run), "sum, 2^26 f32": (1.3, T.atomic_sum(large).run),
            "particles to grid, 1M": (1.5, T.particles_to_grid().run), "one cell, 1M": (1.5, T.hot_cell().run),
            "n-body, 16384": (math.inf, T.n_body(1 << 14).run),
            **{f"gradient of 1M x 64, {t}, {name}": (1.5, run.kernel.grad) for (name, t), run in loops.items()},
        }  # fmt: skip

    for arch in qd.cuda, qd.vulkan:
        try:
            start(arch)
        except (RuntimeError, QuadrantsError) as e:
            print(f"no Vulkan: {e}")
            return
        for what, (limit, run) in cases().items():
            run()
            found.setdefault(what, [limit]).append(clock(run, qd.sync))
    for what, (limit, cuda, other) in found.items():
        most = f" (at most {limit})" if limit < math.inf else ""
        print(f"{what}: {other * 1e3:.3f} ms, CUDA {cuda * 1e3:.3f} ms, ratio {other / cuda:.2f}{most}")
    for mode, seconds in unrolled_sines().items():
        print(f"300 unrolled sines, first {mode}: {seconds:.2f} s (at most 3)")


def unrolled_sines(count: int = 300) -> dict[str, float]:
    """Seconds of the first launch and of the first gradient of a kernel with ``count`` sines in a row."""
    x, y = (qd.field(qd.f32, shape=64, needs_grad=True) for _ in range(2))

    @qd.kernel
    def sines():
        for i in x:
            v = x[i]
            for _ in qd.static(range(count)):
                v = qd.sin(v) + 0.1
            y[i] = v

    y.grad.fill(1.0)
    found = {}
    for mode, run in ("launch", sines), ("gradient", sines.grad):
        begin = perf_counter()
        run()
        qd.sync()
        found[mode] = perf_counter() - begin
    return found


def endurance() -> None:
    """Checks that 100,000 launches make neither the process nor the device's memory grow."""
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
    """Checks that asking for more memory than the device has, for fields or for adstacks, is an error after which the
    session still works."""
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
    for trips in (1 << 31) - 1, 1 << 30:  # stacks of 2**31 slots do not fit even for one group of threads
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
    """Prints a table with a row for each program: the greatest differences of values and gradients from those on the
    CPU, relative to the larger of 1 and the CPU's number."""
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
    """Launches for compute-sanitizer to watch: gradients of a few programs, reductions, stacks of flags, asserts,
    graphs."""
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


def threads(times: int = 10, limit: int = 60) -> None:
    """Eight threads, each with its own data (tests/programs/threads.py), on CUDA and on Vulkan: in ``times`` child
    processes for each, which may take ``limit`` seconds. The first process compiles everything; later ones find code on
    the disk. If a process fails, the part prints what each of its threads was doing."""
    root = Path(__file__).resolve().parent.parent
    paths = os.pathsep.join((str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")))
    failed = []
    for arch in ("cuda", "vulkan"):
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(1, times + 1):
                program = str(root / "tests" / "programs" / "threads.py")
                command = [sys.executable, "-u", program, arch, "8", "50", str(limit)]
                kept = {"QL_THREADS_CACHE": folder} if turn > 1 else {}
                environment = {**os.environ, "PYTHONPATH": paths, "QL_NO_STAND_IN": "cuda", **kept}
                begin = perf_counter()
                process = subprocess.Popen(
                    command, env=environment, text=True, errors="replace", start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                try:
                    text, _ = process.communicate(timeout=limit + 20)
                    how = "all right" if process.returncode == 0 else f"FAILED with {process.returncode}"
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    text, _ = process.communicate()
                    how = "FAILED: it hung"
                last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
                print(f"{arch}, turn {turn}: {how}, {perf_counter() - begin:.1f} s ({last[:120]})", flush=True)
                if how != "all right":
                    failed.append(f"{arch}, turn {turn}")
                    print(text if len(text) < 9_000 else f"{text[:5_000]}\n[...]\n{text[-4_000:]}", flush=True)
                if len([of for of in failed if of.startswith(arch)]) == 2:  # two failures are enough
                    break
    assert not failed, f"failed: {'; '.join(failed)}"
    print(f"eight threads, 50 programs each, {times} times on CUDA and on Vulkan: all right")


PARTS: dict[str, Callable[[], None]] = {
    "about": about, "speed": speed, "tapes": tapes, "scatter": scatter, "sums": sums, "vulkan": vulkan,
    "threads": threads, "endurance": endurance, "memory": memory, "differences": differences, "small": small,
}  # fmt: skip
