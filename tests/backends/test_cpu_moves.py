"""Tasks that copy boxes of elements: the runtime moves the bytes, and LLVM gets no loop."""

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.backends.cpu import jit, tasks
from quadrants_lab.ir.options import CompileOptions


@pytest.fixture(autouse=True, params=[1, 4], ids="{} threads".format)
def threads(request):
    qd.init(arch=qd.cpu, cpu_max_num_threads=request.param, offline_cache=False)


def moved(kernel) -> list[bool]:
    """For each task of what the kernel launched last, whether it is one move."""
    return [t.moves for t in tasks.lowered(kernel.dispatcher.last.kernel, CompileOptions()).tasks]


@pytest.mark.parametrize("dtype", [qd.f16, qd.f32, qd.f64, qd.i8, qd.u16, qd.i64], ids=str)
@pytest.mark.parametrize(("low", "high"), [(0, 0), (5, 3), (0, 1), (1, 64), (3, 68), (7, 100_003)])
def test_exactly_the_range_is_copied(dtype, low, high):
    size = 100_010
    x, y = (qd.ndarray(dtype, size) for _ in range(2))
    values = np.random.default_rng(0).integers(1, 100, size).astype(dtype.numpy)
    x.from_numpy(values)
    y.fill(0)

    @qd.kernel
    def copy(a: qd.types.ndarray(dtype, 1), b: qd.types.ndarray(dtype, 1), low: qd.i32, high: qd.i32):
        for i in range(low, high):
            b[i - low + 2] = a[i]

    copy(x, y, low, high)
    expected = np.zeros(size, dtype.numpy)
    expected[2 : 2 + max(high - low, 0)] = values[low:high]
    np.testing.assert_array_equal(y.to_numpy(), expected)
    assert moved(copy) == [True]


@qd.kernel
def copy(a: qd.types.ndarray(qd.f32, 1), b: qd.types.ndarray(qd.f32, 1)):
    for i in a:
        b[i] = a[i]


def test_bits_stay_as_they_are():
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32)  # NaN of several kinds, -0, a denormal
    x, y = (qd.ndarray(qd.f32, 4) for _ in range(2))
    x.from_numpy(bits.view(np.float32))

    copy(x, y)
    np.testing.assert_array_equal(y.to_numpy().view(np.uint32), bits)


def test_boxes_of_several_axes():
    """Whole arrays, whole rows, and parts of each axis, of many short rows and of few long ones."""
    shape, long = (40, 300, 3), (3, 2, 9000)
    x, y, z, w = (qd.ndarray(qd.f32, shape) for _ in range(4))
    u, v = (qd.ndarray(qd.f32, long) for _ in range(2))
    rng = np.random.default_rng(0)
    values, long_values = rng.random(shape, np.float32), rng.random(long, np.float32)
    x.from_numpy(values)
    u.from_numpy(long_values)
    A = qd.types.ndarray(qd.f32, 3)

    @qd.kernel
    def copy(x: A, y: A, z: A, w: A, u: A, v: A, low: qd.i32):
        for i, j, k in x:
            y[i, j, k] = x[i, j, k]
        for i, j, k in qd.ndrange((low, 40), 300, 3):
            z[i - low, j, k] = x[i, j, k]
        for i, j, k in qd.ndrange((1, 40), 298, 2):
            w[i, j + 2, k] = x[i - 1, j, k + 1]
        for i, j, k in qd.ndrange(3, (low, 2), (7, 8999)):
            v[i, j, k] = u[i, j, k]

    for array in (y, z, w, v):
        array.fill(0)
    copy(x, y, z, w, u, v, 1)
    expected = {a: np.zeros(shape, np.float32) for a in "zw"} | {"v": np.zeros(long, np.float32)}
    expected["z"][:39] = values[1:]
    expected["w"][1:, 2:, :2] = values[:39, :298, 1:]
    expected["v"][:, 1, 7:8999] = long_values[:, 1, 7:8999]
    np.testing.assert_array_equal(y.to_numpy(), values)
    for array, name in ((z, "z"), (w, "w"), (v, "v")):
        np.testing.assert_array_equal(array.to_numpy(), expected[name], name)
    assert moved(copy) == [True] * 4


def test_arrays_of_different_shapes():
    x, y = qd.ndarray(qd.f64, (7, 40, 12)), qd.ndarray(qd.f64, (9, 41, 30))
    values = np.random.default_rng(0).random((7, 40, 12))
    x.from_numpy(values)
    A = qd.types.ndarray(qd.f64, 3)

    @qd.kernel
    def there(x: A, y: A):
        for i, j, k in x:
            y[i + 2, j, k + 1] = x[i, j, k]

    @qd.kernel
    def back(x: A, y: A):
        for i, j, k in x:
            x[i, j, k] = y[i + 2, j, k + 1]

    y.fill(0)
    there(x, y)
    expected = np.zeros((9, 41, 30))
    expected[2:, :40, 1:13] = values
    np.testing.assert_array_equal(y.to_numpy(), expected)
    x.fill(0)
    back(x, y)
    np.testing.assert_array_equal(x.to_numpy(), values)
    assert moved(there) == moved(back) == [True]


def test_other_copies_are_loops():
    x, y = (qd.ndarray(qd.f32, (20, 20)) for _ in range(2))
    values = np.random.default_rng(0).random((20, 20), np.float32)
    x.from_numpy(values)
    A = qd.types.ndarray(qd.f32, 2)

    @qd.kernel
    def copy(x: A, y: A):
        for i, j in x:
            y[i, j] = x[j, i]
        for i, j in qd.ndrange(10, 5):
            y[i, j] = x[i, 2 * j]
        for i, j in qd.ndrange(10, 5):
            y[i, j + 5] = x[i + j, j]
        for i in range(20):
            y[19, i] = x[i, 3]

    y.fill(0)
    copy(x, y)
    expected = values.T.copy()
    expected[:10, :5] = values[:10, :10:2]
    expected[:10, 5:10] = [[values[i + j, j] for j in range(5)] for i in range(10)]
    expected[19] = values[:, 3]
    np.testing.assert_array_equal(y.to_numpy(), expected)
    assert moved(copy) == [False] * 4


def test_the_same_memory_may_be_given_twice():
    x = np.arange(1000, dtype=np.float32)

    copy(x, x)
    np.testing.assert_array_equal(x, np.arange(1000))


def test_what_is_kept_for_a_gradient_takes_no_functions():
    """However many arrays a kernel overwrites, copies for its gradient add no functions to its code."""

    def functions(n: int) -> list[int]:
        arrays = [qd.field(qd.f32, shape=100, needs_grad=True) for _ in range(n)]

        @qd.kernel
        def square():
            for i in range(100):
                for a in qd.static(arrays):
                    a[i] = a[i] * a[i]

        for a in arrays:
            a.fill(3)
            a.grad.fill(1)
        square()
        square.grad()
        for a in arrays:
            np.testing.assert_array_equal(a.grad.to_numpy(), 6)
            np.testing.assert_array_equal(a.to_numpy(), 9)
        found = []
        for k in (square, square.grad):
            kernel = tasks.lowered(k.dispatcher.last.kernel, CompileOptions())
            lines, _ = tasks.module(kernel, CompileOptions(), *jit.triple_and_layout()).lines()
            found.append(sum(line.startswith("define ") for line in lines))
        return found

    assert functions(2) == functions(12) == [2, 4]  # an entry and a task; in the gradient, two that note its progress
