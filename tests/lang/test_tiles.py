"""Tiles, of which each thread of a subgroup has a row, and shared memory of vectors and structs, against numpy."""

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, NEEDS_F64, by_night, in_turn, session_of, sessions

import quadrants_lab as qd

block, subgroup = qd.simt.block, qd.simt.subgroup
session = session_of(EVERYWHERE)
RNG = np.random.default_rng(5)
TILES = {16: qd.simt.Tile16x16, 32: qd.simt.Tile32x32}
SIZES = pytest.mark.parametrize("n", TILES)


def positive(count, n):
    """Symmetric positive definite matrices."""
    a = RNG.random((count, n, n))
    return a @ a.transpose(0, 2, 1) + np.eye(n)


def solved(factors, right):
    """The solution X of X @ L.T = B."""
    return np.linalg.solve(factors, right.transpose(0, 2, 1)).transpose(0, 2, 1)


# --- shared memory of vectors, matrices and structs -----------------------------------------------------------------

vec3, mat2 = qd.types.vector(3, qd.f32), qd.types.matrix(2, 2, qd.i32)


@qd.dataclass
class Particle:
    pos: vec3
    n: qd.i32


def test_shared_vectors_matrices_and_structs():
    """Reads, writes, swizzles, slices of elements and atomics."""
    y, z, shape = qd.field(vec3, 70), qd.field(qd.i32, (3, 70)), qd.field(qd.i32, 3)

    @qd.kernel
    def k():
        qd.loop_config(block_dim=32)
        for i in y:
            t = block.thread_idx()
            v, m = block.SharedArray(32, vec3), block.SharedArray((2, 2), mat2)
            p = block.SharedArray((2, 16), Particle)
            v[t] = [i * 1.0, 2.0, 3.0]
            v[t].xy = v[t].yx
            v[t].z += 1.0
            v[t] += 0.5
            p[t // 16, t % 16].pos = qd.Vector([1.0, 2.0, 3.0]) * t
            p[t // 16, t % 16].n = t
            m[t % 2, t % 4 // 2][0, 1] += t
            qd.atomic_max(m[t % 2, t % 4 // 2][1, 1], t)
            block.sync()
            last = block.reduce_all_max(t, 32, qd.i32)
            y[i] = v[last - t] + p[last // 16, last % 16].pos
            z[0, i] = m[t % 2, t % 4 // 2][0, 1]
            z[1, i] = m[t % 2, t % 4 // 2][1, 1]
            z[2, i] = p[(last - t) // 16, (last - t) % 16].n
            if i == 0:
                shape[0], shape[1] = m.shape
                shape[2] = v.shape[0] + 100 * v.n

    k()
    found, counts = y.to_numpy(), z.to_numpy()
    for first in (0, 32, 64):
        i = np.arange(first, min(first + 32, 70))
        t = i - first
        other = i[::-1]
        want = np.stack([np.full(len(i), 2.5), other + 0.5, np.full(len(i), 4.5)], 1) + t[-1] * np.array(
            [1, 2, 3]
        )
        np.testing.assert_array_equal(found[i], want)
        same = t % 4 == (t % 4)[:, None]
        np.testing.assert_array_equal(counts[0, i], (same * t).sum(1))
        np.testing.assert_array_equal(counts[1, i], (same * t).max(1))
        np.testing.assert_array_equal(counts[2, i], t[::-1])
    assert shape.to_numpy().tolist() == [2, 2, 332]


def test_more_shared_memory_than_threads_is_cleared():
    """Each block clears the memory, which another block has used before."""
    y = qd.field(qd.f32, 96)

    @qd.kernel
    def k():
        qd.loop_config(block_dim=32)
        for i in y:
            v, t = block.SharedArray(70, qd.types.vector(2, qd.f32)), block.thread_idx()
            for n in range(3):
                if t + 32 * n < 70:
                    y[i] += v[t + 32 * n].sum()
                    v[t + 32 * n] += 1.0
            block.sync()

    k()
    np.testing.assert_array_equal(y.to_numpy(), np.zeros(96))


@CPU_ALONE
def test_indices_of_shared_vectors_are_checked(session):
    qd.init(arch=qd.cpu, debug=True)
    y = qd.field(vec3, 32)

    @qd.kernel
    def k(n: qd.i32):
        qd.loop_config(block_dim=32)
        for i in y:
            v = block.SharedArray((4, 8), vec3)
            v[i // 8, i % 8].y = 1.0 * i
            block.sync()
            y[i] = v[3 - i // 8, i % 8 + n]

    k(0)
    np.testing.assert_array_equal(y.to_numpy()[:, 1].reshape(4, 8), np.arange(32).reshape(4, 8)[::-1])
    with pytest.raises(qd.QuadrantsAssertionError, match=r"index 8 is out of bounds for axis 1 .* with extent 8"):
        k(1)


# --- tiles ----------------------------------------------------------------------------------------------------------


def test_loads_and_stores_leave_what_is_outside():
    """Elements of the tile, or of the array, that a load or store does not reach keep their values."""
    a = RNG.random((3, 20, 24)).astype(np.float32)
    x, y = qd.field(qd.f32, (3, 20, 24)), qd.ndarray(qd.f32, (5, 16, 40))
    x.from_numpy(a)
    tile = qd.simt.Tile16x16

    @qd.kernel
    def k(y: qd.types.NDArray[qd.f32, 3], rows: qd.i32):
        qd.loop_config(block_dim=64)
        for team, _ in qd.ndrange(5, 64):
            t = tile.eye(dtype=qd.f32)
            if team == 0:
                t[:] = x[1, 0:16, 8:24]
            if team == 1:
                t[:] = x[2, 3 : 3 + rows, 2:6]
            if team == 2:
                t[:] = x[0, 10:26, 20:36]
            if team < 3:
                y[team, 0:16, 0:16] = t
            elif team == 3:
                y[team, 8:100, 0:3] = t
            else:
                y[team, 5 : 5 + rows, 30:46] = t

    k(y, 2)
    found, want = y.to_numpy(), np.zeros((5, 16, 40), np.float32)
    want[:3, :, :16] = np.eye(16)
    want[0, :, :16] = a[1, :16, 8:24]
    want[1, :2, :4] = a[2, 3:5, 2:6]
    want[2, :10, :4] = a[0, 10:20, 20:24]
    want[3, 8:16, :3] = np.eye(16)[:8, :3]
    want[4, 5:7, 30:40] = np.eye(16)[:2, :10]
    np.testing.assert_array_equal(found, want)


def sums_outer_products(n, dtype):
    """Of columns of an array, and of what is in shared memory, in two subgroups of a block."""
    t, tile, rows = getattr(qd, dtype), TILES[n], n + 5
    a = RNG.integers(-4, 5, (rows, 7)).astype(t.numpy)
    b = RNG.integers(-4, 5, (7, n)).astype(t.numpy)
    x, w, y = qd.field(t, (rows, 7)), qd.field(t, (7, n)), qd.field(t, (4, rows, n))
    x.from_numpy(a)
    w.from_numpy(b)

    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(128):
            team, lane = i // 32, i % 32
            first = team % 2 * n
            held = block.SharedArray((32, n), t)
            if lane < 7 and i % 64 < 32:
                for c in range(n):
                    held[lane, c] = w[lane, c]
            block.sync()
            product, copied = tile.zeros(dtype=t), tile.zeros(dtype=t)
            for q in range(7):
                v = x[first : first + n, q]
                product -= qd.outer(v, held[q, lane % n])
                copied += qd.outer(x[first : first + n, q], v)
            y[team, first : first + n, 0:n] = product
            product[:] = held[0:7, 0:n]
            if team > 1:
                y[team, first : first + n, 0:n] = copied

    k()
    found, below = y.to_numpy(), np.vstack([a, np.zeros((n, 7), t.numpy)])[n : 2 * n]
    np.testing.assert_array_equal(found[0, :n], -(a[:n] @ b))
    np.testing.assert_array_equal(found[1, n:], -(a[n:] @ b))
    np.testing.assert_array_equal(found[2, :n], a[:n] @ a[:n].T)
    np.testing.assert_array_equal(found[3, n:], (below @ below.T)[:5])


@SIZES
@pytest.mark.parametrize("dtype", ["f32", "i32", "u32", "f16"])
def test_a_sum_of_outer_products(n, dtype):
    sums_outer_products(n, dtype)


def test_a_shared_row_is_there_wherever_it_is_read():
    """A product under a condition does not make the row for those behind it."""
    y = qd.field(qd.f32, (16, 16))

    @qd.kernel
    def k(n: qd.i32):
        qd.loop_config(block_dim=16)
        for i in range(16):
            t, v = qd.simt.Tile16x16.zeros(), 1.0 + i
            if n > 0:
                t += qd.outer(1.0, v)
            t += qd.outer(v, v)
            for _ in range(n):
                t -= qd.outer(v, v)
            t += qd.outer(2.0, v)
            y[0:16, 0:16] = t

    v = np.arange(1, 17)
    for n in (0, 2):
        k(n)
        want = np.outer(v, v) * (1 - n) + np.outer(np.full(16, 2 + (n > 0)), v)
        np.testing.assert_array_equal(y.to_numpy(), want)


def test_products_with_rows_of_arrays():
    """Elements beyond the end of the slice, or of the array, add nothing."""
    a = RNG.integers(-4, 5, (2, 3, 20)).astype(np.float32)
    x, y = qd.field(qd.f32, (2, 3, 20)), qd.field(qd.f32, (4, 16, 16))
    x.from_numpy(a)

    @qd.kernel
    def k(last: qd.i32):
        qd.loop_config(block_dim=64)
        for i in range(64):
            t, u = qd.simt.Tile16x16.zeros(), qd.simt.Tile16x16.zeros()
            held = block.SharedArray((2, 16), qd.f32)
            if i < 32:
                held[i // 16, i % 16] = x[1, i // 16, i % 16]
            block.sync()
            v = i % 32 + 1.0
            t += qd.outer(v, x[1, 2, 2:18])
            t -= qd.outer(1.0, x[0, 1, 10:26])
            u += qd.outer(2.0, held[1, 0:16])
            u -= qd.outer(v, held[0, last - 5 : last])
            y[i // 32 * 2, 0:16, 0:16] = t
            y[i // 32 * 2 + 1, 0:16, 0:16] = u

    k(9)
    v = np.arange(1, 17)
    first = np.outer(v, a[1, 2, 2:18]) - np.outer(np.ones(16), np.pad(a[0, 1, 10:], (0, 6)))
    second = np.outer(np.full(16, 2), a[1, 1, :16]) - np.outer(v, np.pad(a[1, 0, 4:9], (0, 11)))
    np.testing.assert_array_equal(y.to_numpy(), [first, second, first, second])


def factorises_and_solves(n, dtype):
    t, tile = getattr(qd, dtype), TILES[n]
    a, b = positive(3, n), RNG.random((3, n, n))
    x, y = qd.field(t, (3, n, n)), qd.field(t, (3, n, n))
    x.from_numpy(a.astype(t.numpy))
    y.from_numpy(b.astype(t.numpy))

    @qd.kernel
    def k():
        qd.loop_config(block_dim=n)
        for i, _ in qd.ndrange(3, n):
            factor, right = tile.zeros(dtype=t), tile.zeros(dtype=t)
            factor[:] = x[i, 0:n, 0:n]
            factor.cholesky_(1e-8)
            right[:] = y[i, 0:n, 0:n]
            factor.solve_triangular_(right, lower=True)
            x[i, 0:n, 0:n] = factor
            y[i, 0:n, 0:n] = right

    k()
    factors, close = np.linalg.cholesky(a), {"rtol": 1e-12 if dtype == "f64" else 2e-5}
    np.testing.assert_allclose(np.tril(x.to_numpy()), factors, atol=close["rtol"], **close)
    np.testing.assert_allclose(y.to_numpy(), solved(factors, b), atol=close["rtol"], **close)


@SIZES
def test_a_factorisation_and_a_solution(n):
    factorises_and_solves(n, "f32")


@pytest.mark.parametrize(
    "session", [*in_turn(sessions("cpu", "cuda", "amdgpu", "wasm")), *by_night(sessions("c", "vulkan"))], indirect=True
)  # llvmpipe compiles it for as long as all other tests of this file take
@SIZES
def test_double_precision(session, n):
    sums_outer_products(n, "f64")
    factorises_and_solves(n, "f64")


def test_a_blocked_factorisation_of_a_larger_matrix():
    """Of 40 rows by tiles of both sizes; the last tile is padded with the identity. A matrix that is almost singular
    has ``eps`` under its roots."""
    n = 40
    a = positive(2, n).astype(np.float32)
    a[1] = np.diag(np.linspace(1, 0, n))
    x = qd.field(qd.f32, (2, n, n))
    x.from_numpy(a)

    @qd.func
    def factorised(tile: qd.template(), i, row, end):
        t = tile.eye()
        t[:] = x[i, row:end, row:end]
        for k in range(row):
            v = x[i, row:end, k]
            t -= qd.outer(v, v)
        t.cholesky_(1e-4)
        x[i, row:end, row:end] = t
        return t

    @qd.kernel
    def k():
        qd.loop_config(block_dim=32)
        for i, _ in qd.ndrange(2, 32):
            large, small = qd.simt.Tile32x32, qd.simt.Tile16x16
            t = factorised(large, i, 0, 32)
            below = large.zeros()
            below[:] = x[i, 32:n, 0:32]
            t.solve_triangular_(below)
            x[i, 32:n, 0:32] = below
            block.sync()
            factorised(small, i, 32, n)

    k()
    found = np.tril(x.to_numpy())
    np.testing.assert_allclose(found[0], np.linalg.cholesky(a[0].astype(np.float64)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], np.diag(np.sqrt(np.maximum(np.diag(a[1]), 1e-4))), atol=1e-6)


@qd.func
def by_value(t):
    t.eye_()


@qd.func
def by_reference(t: qd.template()):
    t.eye_()


@qd.func
def made(a):
    t = qd.simt.Tile16x16.zeros(qd.f32)
    t += qd.outer(a, 1.0)
    return t


ONE, ONES = np.eye(16), np.ones((16, 16))


def test_a_tile_is_a_value_that_its_methods_change():
    y = qd.field(qd.f32, (3, 16, 16))

    @qd.kernel
    def k():
        qd.loop_config(block_dim=16)
        for _ in range(16):
            t = qd.simt.Tile16x16.zeros()
            u = t
            u.eye_()
            y[0, 0:16, 0:16] = t
            by_value(t)
            y[1, 0:16, 0:16] = t
            by_reference(t)
            y[2, 0:16, 0:16] = t

    k()
    np.testing.assert_array_equal(y.to_numpy(), [0 * ONES, 0 * ONES, ONE])


@CPU_ALONE  # llvmpipe compiles many products for minutes
def test_a_tile_that_conditions_and_loops_assign(session):
    y = qd.field(qd.f32, (2, 16, 16))

    @qd.kernel
    def k(n: qd.i32):
        qd.loop_config(block_dim=16)
        for _ in range(16):
            t = qd.simt.Tile16x16.zeros()
            if n > 2:
                t = made(2.0)
            u = t
            t = qd.simt.Tile16x16.zeros()
            y[0, 0:16, 0:16] = u
            for m in range(n):
                w = made(m * 1.0)
                u = w
                w = t
            y[1, 0:16, 0:16] = u

    k(3)
    np.testing.assert_array_equal(y.to_numpy(), [2 * ONES, 2 * ONES])


@CPU_ALONE
def test_tiles_of_a_list_and_of_one_statement(session):
    y = qd.field(qd.f32, (4, 16, 16))
    tile = qd.simt.Tile16x16

    @qd.kernel
    def k():
        qd.loop_config(block_dim=16)
        for _ in range(16):
            several = [tile.eye() for _ in range(2)]
            first = several[0]
            several[0] += qd.outer(3.0, 1.0)
            by_reference(several[1])
            y[0, 0:16, 0:16] = first
            y[1, 0:16, 0:16] = several[0]
            a = b = tile.eye()
            a -= qd.outer(1.0, 1.0)
            y[2, 0:16, 0:16] = b
            y[3, 0:16, 0:16] = a

    k()
    np.testing.assert_array_equal(y.to_numpy(), [ONE, ONE + 3, ONE, ONE - 1])


# --- gradients ------------------------------------------------------------------------------------------------------

@qd.kernel
def products(x: qd.template(), y: qd.template()):
    """x[0] @ x[1].T, less a column that a loop updates in place."""
    tile = qd.simt.Tile16x16
    qd.loop_config(block_dim=16)
    for _ in range(16):
        t = tile.zeros(qd.f64)
        t[:] = x[1, 0:16, 0:16]
        for k in range(5):
            v = x[0, 0:16, k]
            t += qd.outer(v * v, x[1, 0:16, k])
            t -= qd.outer(v, qd.sin(v))
        y[0, 0:16, 0:16] = t

@qd.kernel
def factorised(x: qd.template(), y: qd.template()):
    tile = qd.simt.Tile16x16
    qd.loop_config(block_dim=32)
    for _ in range(32):
        t, u = tile.zeros(qd.f64), tile.zeros(qd.f64)
        t[:] = x[0, 0:16, 0:16]
        t.cholesky_(1e-9)
        u[:] = x[1, 0:16, 0:16]
        t.solve_triangular_(u)
        y[0, 0:16, 0:16] = t
        y[1, 0:16, 0:16] = u

@qd.kernel
def vectors(x: qd.template(), y: qd.template()):
    """Through shared memory of vectors, in which threads meet."""
    qd.loop_config(block_dim=16)
    for i in range(16):
        held = block.SharedArray(16, qd.types.vector(3, qd.f64))
        for k in qd.static(range(3)):
            held[i][k] = x[0, i, k] * x[1, k, i]
        block.sync()
        held[i % 3].yz += x[0, i, 4]
        block.sync()
        y[0, 0, i] = held[15 - i].dot(held[i]) * held[(i + 2) % 16].x


@NEEDS_F64
@pytest.mark.parametrize("program", [products, factorised, vectors], ids=lambda f: f.__name__)
def test_gradients(session, program):
    """Gradients of a random weighting are compared with differences along random directions; twice."""
    x, y = (qd.field(qd.f64, (2, 16, 16), needs_grad=True) for _ in range(2))
    start = np.stack([positive(1, 16)[0], RNG.random((16, 16))])
    weights = np.tril(RNG.random((2, 16, 16)))

    def value(a):
        x.from_numpy(a)
        y.fill(0)
        program(x, y)
        return (y.to_numpy() * weights).sum()

    value(start)
    for _ in range(2):
        x.grad.fill(0)
        y.grad.from_numpy(weights)
        program.grad(x, y)
        found = x.grad.to_numpy()
        for step in 1e-5 * RNG.standard_normal((4, 2, 16, 16)):
            want = (value(start + step) - value(start - step)) / 2
            np.testing.assert_allclose((found * step).sum(), want, rtol=1e-6, atol=1e-12)
        value(start)
