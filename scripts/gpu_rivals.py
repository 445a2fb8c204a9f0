"""Compares quadrants_lab with CuPy, JAX, and CUDA C by hand on the same GPU, as parts of `scripts/test_gpu.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from gpu_parts import benchmark_cases, clock, start

import quadrants_lab as qd


def blocks() -> None:
    """Times sums, scans and a matrix product by blocks of threads and by `qd.algorithms`, beside plain loops and
    CuPy."""
    import cupy

    start()
    n, side, cases, algorithms = 1 << 26, 2048, benchmark_cases("blocks"), qd.algorithms
    x, square = cupy.linspace(0.0, 1.0, n, dtype=cupy.float32), cupy.full((side, side), 0.3, cupy.float32)
    rows, whole = x.reshape(-1, cases.BLOCK), cupy.empty_like(x)
    held, out = qd.ndarray(qd.f32, n), qd.ndarray(qd.f32, n)
    scratch = qd.ndarray(qd.u32, algorithms.reduce_scratch_slots(n))
    held.from_numpy(cupy.asnumpy(x))

    @qd.kernel
    def reduce_add(x: qd.Tensor, out: qd.Tensor, scratch: qd.Tensor):
        algorithms.reduce_add(x, out, scratch, n, qd.f32, 0)

    @qd.kernel
    def exclusive_scan_add(x: qd.Tensor, out: qd.Tensor, scratch: qd.Tensor):
        algorithms.exclusive_scan_add(x, out, scratch, n, qd.f32, 0)

    ours = dict(zip(("sums", "scans", "products"), cases.kernels(qd, n, side), strict=True))
    rivals = {
        "sum": (x.sum, [*ours["sums"], cases.several_each(qd, n), partial(reduce_add, held, out, scratch)]),
        f"scan of each {cases.BLOCK}": (lambda: cupy.cumsum(rows, axis=1), ours["scans"]),
        "scan": (lambda: cupy.cumsum(x, out=whole), [partial(exclusive_scan_add, held, out, scratch)]),
        "matrix product": (lambda: cupy.matmul(square, square), ours["products"]),
        **_selections(n),
    }
    for what, (theirs, runs) in rivals.items():
        cupys = clock(theirs, cupy.cuda.runtime.deviceSynchronize)
        print(f"{what}, CuPy: {cupys * 1e3:.3f} ms", flush=True)
        for run in runs:
            took, name = clock(run, qd.sync), getattr(run, "func", run).__name__
            print(f"{what}, {name}: {took * 1e3:.3f} ms, CuPy's over it {cupys / took:.2f}", flush=True)


def _selections(n: int) -> dict[str, tuple[Callable[[], Any], list[Callable[[], Any]]]]:
    """Times select, reduce_by_key_add and parallel_sort of `qd.algorithms` beside CuPy, and compares the results."""
    import cupy

    A, rng = qd.algorithms, cupy.random.default_rng(0)
    x = rng.random(n, dtype=cupy.float32)
    flags, keys = x > 0.5, cupy.arange(n, dtype=cupy.int32) // 7
    held, chosen, runs, sums = (qd.ndarray(t, n) for t in (qd.f32, qd.u8, qd.i32, qd.f32))
    out, found, number = qd.ndarray(qd.f32, n), qd.ndarray(qd.i32, n), qd.ndarray(qd.i32, 1)
    scratch = qd.ndarray(qd.u32, A.select_scratch_slots(n))
    for to, array in ((held, x), (chosen, flags.astype(cupy.uint8)), (runs, keys)):
        to.from_numpy(cupy.asnumpy(array))

    @qd.kernel
    def select(x: qd.Tensor, flags: qd.Tensor, out: qd.Tensor, number: qd.Tensor, scratch: qd.Tensor):
        A.select(x, flags, out, number, scratch, n, 0)

    @qd.kernel
    def reduce_by_key(keys: qd.Tensor, x: qd.Tensor, found: qd.Tensor, sums: qd.Tensor, number: qd.Tensor,
                      scratch: qd.Tensor):  # fmt: skip
        A.reduce_by_key_add(keys, x, found, sums, number, scratch, n, qd.f32, 0)

    def by_key() -> Any:
        begins = cupy.concatenate([cupy.ones(1, bool), keys[1:] != keys[:-1]])
        at = cupy.cumsum(begins) - 1
        return keys[begins], cupy.bincount(at, x)

    def sorted_copy() -> None:
        out.copy_from(held)
        A.parallel_sort(out)

    runs_of = {
        "select": (lambda: x[flags], partial(select, held, chosen, out, number, scratch)),
        "reduce_by_key_add": (by_key, partial(reduce_by_key, runs, held, found, sums, number, scratch)),
        "sort": (lambda: cupy.sort(x), sorted_copy),
    }
    for what, (theirs, ours) in runs_of.items():
        ours()
        want, got = theirs(), sums if what == "reduce_by_key_add" else out
        want = want[1] if isinstance(want, tuple) else want
        assert cupy.allclose(cupy.asarray(got)[: len(want)], want, rtol=1e-5), what
    return {what: (theirs, [ours]) for what, (theirs, ours) in runs_of.items()}


def solvers(side: int = 1000) -> None:
    """Times products with the matrix of a 2-d Poisson equation, and 200 steps of conjugate gradients, beside cupyx."""
    import cupy
    import numpy as np
    import scipy.sparse as sparse
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import cg

    start()
    n, line = side * side, sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (side, side))
    poisson = (sparse.kron(line, sparse.eye(side)) + sparse.kron(sparse.eye(side), line)).tocsr()
    for t in (qd.f32, qd.f64):
        A, theirs = qd.linalg.SparseMatrix(sm=poisson, dtype=t), csr_matrix(poisson.astype(t.numpy))
        x, there = qd.ndarray(t, n), cupy.random.random(n).astype(t.numpy)
        x.from_cupy(there)
        assert cupy.allclose((A @ x).to_cupy(), theirs @ there, rtol=1e-4, atol=1e-4)
        solve = qd.linalg.SparseCG(A, x, max_iter=200, atol=0.0).solve
        in_f64, b = theirs.astype(np.float64), there.astype(np.float64)
        runs = {
            "product": (lambda A=A, x=x: A @ x, lambda A=theirs, x=there: A @ x),
            "200 steps of CG": (solve, lambda A=in_f64, b=b: cg(A, b, atol=0.0, maxiter=200)),
        }
        for what, (ours, rival) in runs.items():
            took, cupyx = clock(ours, qd.sync), clock(rival, cupy.cuda.runtime.deviceSynchronize)
            print(f"{what}, {t}, of {n} rows: {took * 1e3:.3f} ms, cupyx {cupyx * 1e3:.3f} ms, "
                  f"ratio {took / cupyx:.2f}", flush=True)  # fmt: skip


_BY_HAND = r"""
extern "C" __global__ void forward(const REAL* x, REAL* y, const int* trips, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  REAL v = x[i];
  for (int k = 0; k < trips[i & MASK]; k++) v = SIN(v) + (REAL)0.1;
  atomicAdd(y + (i & 1023), v);
}
extern "C" __global__ void gradient(const REAL* x, REAL* dx, const int* trips, REAL* stack, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  for (int i = t; i < n; i += all) {
    REAL v = x[i], g = 1;
    int m = trips[i & MASK];
    for (int k = 0; k < m; k++) { stack[k * all + t] = v; v = SIN(v) + (REAL)0.1; }
    for (int k = m - 1; k >= 0; k--) g *= COS(stack[k * all + t]);
    dx[i] += g;
  }
}
extern "C" __global__ void scatter(const REAL* px, const REAL* py, REAL* mass, int grid, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= n) return;
  REAL sx = px[p] * grid, sy = py[p] * grid;
  int bx = (int)(sx - (REAL)0.5), by = (int)(sy - (REAL)0.5);
  REAL fx = sx - bx, fy = sy - by;
  REAL wx[3] = {(REAL)0.5 * ((REAL)1.5 - fx) * ((REAL)1.5 - fx), (REAL)0.75 - (fx - 1) * (fx - 1),
             (REAL)0.5 * (fx - (REAL)0.5) * (fx - (REAL)0.5)};
  REAL wy[3] = {(REAL)0.5 * ((REAL)1.5 - fy) * ((REAL)1.5 - fy), (REAL)0.75 - (fy - 1) * (fy - 1),
             (REAL)0.5 * (fy - (REAL)0.5) * (fy - (REAL)0.5)};
  for (int a = 0; a < 3; a++) for (int b = 0; b < 3; b++) atomicAdd(mass + (bx + a) * grid + by + b, wx[a] * wy[b]);
}
"""


def by_hand() -> None:
    """Times loops and their gradients, and particles in one cell of a grid, beside CUDA C by hand. The C code is timed
    with the exact and the fast sine and with two numbers of threads, and the best time counts."""
    import cupy
    import numpy as np

    start()
    n, finish = 1 << 20, cupy.cuda.runtime.deviceSynchronize
    stacks: dict[str, Any] = {}

    def best(name: str, t: str, trips: Any) -> float:
        x, dx = cupy.full(n, 0.3, t), cupy.zeros(n, t)
        times = []
        for sine, cosine in (("sin", "cos"), ("__sinf", "__cosf")) if t == "float32" else (("sin", "cos"),):
            c = "float" if t == "float32" else "double"
            options = (f"-DREAL={c}", f"-DSIN={sine}", f"-DCOS={cosine}", f"-DMASK={len(trips) - 1}")
            kernel = cupy.RawModule(code=_BY_HAND, options=options).get_function(name)
            if name == "forward":
                times.append(clock(lambda k=kernel: k((n // 256,), (256,), (x, dx, trips, np.int32(n))), finish))
                continue
            for threads in (1 << 17, 1 << 18):
                stack = stacks.setdefault(t, cupy.zeros(64 << 18, t))
                grid = (threads // 256,), (256,)
                times.append(clock(lambda k=kernel, g=grid: k(*g, (x, dx, trips, stack, np.int32(n))), finish))
        return min(times)

    L = benchmark_cases("cases.loops")
    for name, dtype in (("sin", "f32"), ("sin", "f64"), ("trips", "f32")):
        make = L.own_trips if name == "trips" else L.one
        loop = L.Loop(make, n, 64, getattr(qd, dtype))
        trips = np.full(1, 64) if name == "sin" else np.random.default_rng(0).integers(0, 65, n)
        counts, t = cupy.asarray(trips.astype(np.int32)), {"f32": "float32", "f64": "float64"}[dtype]
        for mode, run in (("forward", loop.kernel), ("gradient", loop.kernel.grad)):
            ours, theirs = clock(run, qd.sync), best(mode, t, counts)
            print(f"1M x 64, {name}, {dtype}, {mode}: {ours * 1e3:.3f} ms, by hand {theirs * 1e3:.3f} ms, "
                  f"ratio {ours / theirs:.2f}")  # fmt: skip

    T = benchmark_cases("cases.throughput")
    for where, spread in (("in all cells", True), ("in one cell", False)):
        timed = T.particles_to_grid(spread)
        px, py = (0.05 + 0.9 * cupy.random.random(T.PARTICLES, dtype=cupy.float32) if spread
                  else cupy.full(T.PARTICLES, 0.4, cupy.float32) for _ in range(2))  # fmt: skip
        mass = cupy.zeros((T.GRID, T.GRID), cupy.float32)
        kernel = cupy.RawModule(code=_BY_HAND, options=("-DREAL=float", "-DSIN=sin", "-DCOS=cos", "-DMASK=0"))
        scatter = kernel.get_function("scatter")
        arguments = px, py, mass, np.int32(T.GRID), np.int32(T.PARTICLES)
        theirs = clock(lambda: scatter((T.PARTICLES // 256,), (256,), arguments), finish)
        ours = clock(timed.run, qd.sync)
        print(f"1M particles {where}: {ours * 1e3:.3f} ms, by hand {theirs * 1e3:.3f} ms, ratio {ours / theirs:.2f}")


def jax_ops(n: int = 1 << 22) -> None:
    """Times `qd.jax_op` under jit beside the same launches alone: value and gradient of n iterations of 64 sines.
    Counts the copies between host and GPU."""
    import jax
    import numpy as np

    start()
    driver, copies = import_module("quadrants_lab.backends.cuda.driver").Driver, [0]

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            # only copies of n bytes or more count: the arguments and the status of a launch take a few hundred
            copies[0] += args[-1] >= n
            return real(*args)

        return counted

    for name in ("upload", "download"):
        setattr(driver, name, counting(getattr(driver, name)))

    @qd.kernel
    def loop(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            v = x[i]
            for _ in range(64):
                v = qd.sin(v) + 0.1
            y[i] = v

    op = qd.jax_op(loop, outputs={"y": "x"})
    value_and_grad = jax.jit(jax.value_and_grad(lambda x: op(x).sum()))
    given = jax.numpy.linspace(0.0, 1.0, n, dtype=np.float32)
    x, y = (qd.ndarray(qd.f32, n, needs_grad=True) for _ in range(2))
    x.from_numpy(np.asarray(given))

    def alone() -> None:
        """The launches of the operation and its derivative, without JAX."""
        loop(x, y)
        loop(x, y)
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        loop.grad(x, y)

    alone()
    want = x.grad.to_numpy()
    found = value_and_grad(given)[1]
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)
    batch = jax.numpy.stack([given[:1000], given[-1000:]])
    slopes = jax.vmap(jax.grad(lambda x: op(x).sum()))(batch)
    np.testing.assert_allclose(np.asarray(slopes), np.stack([want[:1000], want[-1000:]]), rtol=1e-6)
    last, copies[0] = [found], 0

    def in_jax() -> None:
        last[0] = value_and_grad(given)[1]

    theirs = clock(in_jax, lambda: last[0].block_until_ready())
    assert not copies[0], f"{copies[0]} copies between host and GPU"
    ours = clock(alone, qd.sync)
    print(f"jax_op, value and gradient of {n} x 64 sines: {theirs * 1e3:.3f} ms, alone {ours * 1e3:.3f} ms, "
          f"ratio {theirs / ours:.2f}, no copy through the host")  # fmt: skip


RIVALS: dict[str, Callable[[], None]] = {"blocks": blocks, "by_hand": by_hand, "jax": jax_ops, "solvers": solvers}
