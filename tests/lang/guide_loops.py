"""Programs of the user guide: parallel loops, atomics, debugging, random numbers."""

import numpy as np
from lang.user_rows import page, refused

# --- parallel loops

row = page("parallelization")

@row(0, 6, 30)
def three_axes_in_one_loop(qd):
    image = qd.field(qd.i32, shape=(3, 5, 3))
    @qd.kernel
    def k(image: qd.Template) -> None:
        for row, column, channel in qd.ndrange(3, 5, 3):
            image[row, column, channel] = row + column
    k(image)
    a = image.to_numpy()
    return [a[0, 0, 0], a[2, 4, 1], a[:, :, 0].sum() - 15]

@row(12, 12, 1, 1)
def the_order_of_the_loops(qd):
    x, y = qd.field(qd.i32, shape=(2, 3)), qd.field(qd.i32, shape=(2, 3))
    @qd.kernel
    def k():
        for i, j in qd.ndrange(2, 3, axes=(1, 0)):
            x[i, j] = 10 * i + j
        for at in qd.grouped(qd.ndrange(2, 3, axes=(1, 0))):
            y[at] = 10 * at[0] + at[1]
    def bad(order):
        @qd.kernel
        def k():
            for i, j in qd.ndrange(2, 3, axes=order):
                x[i, j] = 0
        k()
    k()
    wrong = (qd.QuadrantsSyntaxError, (0, 0)), (qd.QuadrantsTypeError, (0, 0.5))
    return [x[1, 2], y[1, 2], *(refused(error, bad, order) for error, order in wrong)]

@row(55, 10)
def a_serial_loop_by_request(qd):
    y = qd.field(qd.i32, shape=11)
    @qd.kernel
    def k():
        qd.loop_config(serialize=True)
        for i in range(1, 11):
            y[i] = y[i - 1] + i
    k()
    return [y[10], y[4]]

@row(1024, 64)
def the_size_of_a_block(qd):
    y = qd.field(qd.i32, shape=1024)
    @qd.kernel
    def k():
        qd.loop_config(block_dim=64)
        for i in range(1024):
            y[i] = 1
    k()
    return [y.to_numpy().sum(), y.to_numpy()[:64].sum()]

@row(28)
def some_threads_are_enough(qd):
    y = qd.field(qd.i32, shape=8)
    @qd.kernel
    def k():
        qd.loop_config(parallelize=4)
        for i in range(8):
            y[i] = i
    k()
    return [y.to_numpy().sum()]

@row(4, 1)
def a_condition_of_the_run_around_a_loop(qd):
    y = qd.field(qd.i32, shape=4)
    @qd.kernel
    def k(on: qd.i32):
        if on > 0:
            for i in range(4):
                y[i] += 1
    k(1)
    k(0)
    return [y.to_numpy().sum(), y[3]]

# --- atomics

row = page("atomics")

@row(*range(8))
def each_thread_takes_a_slot(qd):
    n, y = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=8)
    @qd.kernel
    def k():
        for i in range(8):
            slot = qd.atomic_add(n[None], 1)
            y[slot] = i
    k()
    return np.sort(y.to_numpy())

@row(10, 7, 13)
def an_atomic_returns_the_old_value(qd):
    x, y = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=2)
    @qd.kernel
    def k():
        y[0] = qd.atomic_add(x[None], 3)
        y[1] = qd.atomic_sub(x[None], 6)
    x[None] = 10
    k()
    return [y[0], x[None], y[1]]

@row(0, 63, 24)
def extremes_and_products(qd):
    x = qd.field(qd.i32, shape=3)
    @qd.kernel
    def k():
        for i in range(64):
            qd.atomic_min(x[0], i)
            qd.atomic_max(x[1], i)
            if 0 < i < 5:
                qd.atomic_mul(x[2], i)
    x.from_numpy(np.array([100, -100, 1], np.int32))
    k()
    return x.to_numpy()

@row(4, 8, 12)
def an_atomic_of_vectors(qd):
    v = qd.Vector.field(3, qd.f32, shape=())
    @qd.kernel
    def k():
        for _ in range(4):
            qd.atomic_add(v[None], qd.Vector([1.0, 2.0, 3.0]))
    k()
    return v[None]

@row(5, -1, 7.5)
def an_exchange(qd):
    x, y = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=())
    z = qd.field(qd.f32, shape=())
    @qd.kernel
    def k():
        y[None] = qd.atomic_exchange(x[None], -1)
        qd.atomic_exchange(z[None], 7.5)
    x[None] = 5
    k()
    return [y[None], x[None], z[None]]

@row(5, 9, 9, 9)
def compare_and_swap(qd):
    x, y = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=2)
    @qd.kernel
    def k():
        y[0] = qd.atomic_cas(x[None], 5, 9)
        y[1] = qd.atomic_cas(x[None], 5, 11)
    x[None] = 5
    k()
    return [y[0], y[1], x[None], x[None]]

@row(63)
def an_extreme_by_compare_and_swap(qd):
    x, v = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=64)
    v.from_numpy(np.random.default_rng(1).permutation(64).astype(np.int32))
    @qd.kernel
    def k():
        for i in range(64):
            for _ in range(1000):
                now = x[None]
                if qd.atomic_cas(x[None], now, qd.max(now, v[i])) == now:
                    break
    k()
    return [x[None]]

@row(1, 1)
def bits_of_a_fraction_are_refused(qd):
    x = qd.field(qd.f32, shape=())
    @qd.kernel
    def k():
        qd.atomic_or(x[None], 1)
    @qd.kernel
    def h():
        qd.atomic_cas(x[None], 1.0, 2.0)
    return [refused(Exception, k), refused(Exception, h)]

# --- debugging

row = page("debug")

@row(1, debug=True)
def an_index_out_of_bounds(qd):
    x = qd.field(qd.i32, shape=(8, 16))
    @qd.kernel
    def k(j: qd.i32) -> None:
        x[3, j] = 1
    return [refused((RuntimeError, AssertionError, IndexError), lambda: (k(16), qd.sync()))]

@row(1, 1, debug=True)
def python_out_of_bounds(qd):
    x = qd.field(qd.f32, shape=3)
    return [refused((AssertionError, IndexError, RuntimeError), x.__setitem__, i, 10.0) for i in (3, -1)]

@row(0, 1, debug=True)
def an_assertion_in_a_kernel(qd):
    a = qd.field(qd.f32, shape=10)
    @qd.kernel
    def k(a: qd.Template) -> None:
        for i in range(10):
            assert a[i] >= 0, f"negative value at index {i}"
    found = []
    for v in (1, -1):
        a[4] = v
        found.append(refused((AssertionError, RuntimeError), lambda: (k(a), qd.sync())))
    return found

@row(1, 10, peer=(0, 0))
def an_assertion_without_debug(qd):
    a = qd.field(qd.f32, shape=10)
    @qd.kernel
    def k() -> None:
        for i in range(10):
            assert a[i] > 5, "never looked at"
            a[i] = 1
    k()
    return [a[3], a.to_numpy().sum()]

@row(45)
def a_kernel_prints(qd):
    a = qd.field(qd.f32, shape=10)
    @qd.kernel
    def k(a: qd.Template) -> None:
        for i in range(10):
            a[i] = i
            if i > 8:
                print("i =", i, "val =", a[i], f"{a[i]:.1f}")
    k(a)
    return [a.to_numpy().sum()]

@row(1, peer=(0,), check_out_of_bound=True)
def bounds_without_the_rest_of_debug(qd):
    x = qd.field(qd.i32, shape=8)
    @qd.kernel
    def k(j: qd.i32) -> None:
        x[j] = 1
    return [refused((RuntimeError, AssertionError, IndexError), lambda: (k(9), qd.sync()))]

# --- random numbers

row = page("random")

@row(1, 1, 1)
def uniform_numbers(qd):
    x = qd.field(qd.f32, shape=4096)
    @qd.kernel
    def k():
        for i in x:
            x[i] = qd.random()
    k()
    a = x.to_numpy()
    return [(a >= 0).all() and (a < 1).all(), abs(a.mean() - 0.5) < 0.05, abs(a.var() - 1 / 12) < 0.02]

@row(1, 1)
def normal_numbers(qd):
    x = qd.field(qd.f32, shape=4096)
    @qd.kernel
    def k():
        for i in x:
            x[i] = qd.randn()
    k()
    return [abs(x.to_numpy().mean()) < 0.1, abs(x.to_numpy().std() - 1) < 0.1]

@row(1, 1)
def random_integers(qd):
    x = qd.field(qd.i32, shape=1024)
    @qd.kernel
    def k():
        for i in x:
            x[i] = qd.random(qd.i32)
    k()
    a = x.to_numpy()
    return [len(set(a.tolist())) > 1000, (a < 0).any()]

@row(1, random_seed=7)
def numbers_by_a_seed(qd):
    x = qd.field(qd.f32, shape=64)
    @qd.kernel
    def k():
        for i in x:
            x[i] = qd.random()
    k()
    first = x.to_numpy()
    k()
    return [(first != x.to_numpy()).any()]

# --- loops over everything

row = page("loops")

@row(3, 20, 12)
def loops_over_a_field_and_its_neighbours(qd):
    x, y = qd.field(qd.f32, shape=(4, 4)), qd.field(qd.f32, shape=(4, 4))
    x.fill(1)
    @qd.kernel
    def k():
        for i, j in x:
            s = 0.0
            for di, dj in qd.static(qd.ndrange((-1, 2), (-1, 2))):
                if qd.static(abs(di) + abs(dj) == 1):
                    if 0 <= i + di < 4 and 0 <= j + dj < 4:
                        s += x[i + di, j + dj]
            y[i, j] = s
    k()
    a = y.to_numpy()
    return [a[0, 1], a[:, 1:3].sum() - 8, a[0].sum() + 2]
