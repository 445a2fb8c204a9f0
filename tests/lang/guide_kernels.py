"""Programs of the user guide: `qd.static`, funcs, Python in kernels, parallel loops, atomics, random numbers."""

import enum

import numpy as np
from lang.user_rows import page

# --- qd.static

row = page("static")

@row(5, 5, 0)
def a_static_condition_around_a_parallel_loop(qd):
    y = qd.field(qd.i32, shape=5)
    @qd.kernel
    def k(on: qd.Template, n: int, a: qd.Template) -> None:
        if qd.static(on):
            for i in range(n):
                a[i] += 1
    k(True, 5, y)
    first = y.to_numpy().sum()
    k(False, 5, y)
    return [first, y.to_numpy().sum(), y[0] - 1]

@row(7, 1)
def an_entry_of_a_dict_by_name(qd):
    options, chosen = {"a": 7, "b": 2}, "a"
    y = qd.field(qd.i32, shape=2)
    @qd.kernel
    def k():
        v = qd.static(options[chosen])
        y[0] = v
        if qd.static(chosen == "a" and len(options) == 2):
            y[1] = 1
    k()
    return y.to_numpy()

@row(3, 2)
def static_assertions_and_prints(qd):
    x = qd.field(qd.f32, shape=(3, 4))
    @qd.kernel
    def k() -> qd.i32:
        qd.static_assert(len(x.shape) == 2, "a matrix is needed")
        qd.static_print("axes", len(x.shape))
        return x.shape[0]
    return [k(), len(x.shape)]

# --- funcs

row = page("sub_functions")

@row(1, 2, peer="")  # an array is no template
def memory_goes_to_a_func(qd):
    y, z = qd.field(qd.i32, shape=10), qd.ndarray(qd.i32, shape=(10,))
    @qd.func
    def add(a: qd.Template, i: qd.i32, v: qd.i32) -> None:
        a[i] += v
    @qd.kernel
    def k(a: qd.Template, b: qd.types.NDArray[qd.i32, 1]) -> None:
        for i in range(10):
            add(a, i, 1)
            add(b, i, 2)
    k(y, z)
    return [y[3], z[9]]

@row(2, 4, 1)
def funcs_at_the_top_alone(qd):
    @qd.func(requires_top_level=True)
    def phase(a: qd.Template, n: qd.i32) -> None:
        for i in range(n):
            a[i] = a[i] + 1
        for i in range(n):
            a[i] = a[i] + 1
    @qd.kernel
    def good(a: qd.Template, n: qd.i32) -> None:
        phase(a, n)
    @qd.kernel
    def unrolled(a: qd.Template, n: qd.i32) -> None:
        for _ in qd.static(range(2)):
            phase(a, n)
    @qd.kernel
    def bad(a: qd.Template, n: qd.i32, on: qd.i32) -> None:
        if on > 0:
            phase(a, n)
    y = qd.field(qd.i32, shape=4)
    good(y, 4)
    first = y[3]
    y.fill(0)
    unrolled(y, 4)
    try:
        bad(y, 4, 1)
    except qd.QuadrantsSyntaxError:
        return [first, y[3], 1]
    return [first, y[3], 0]

# --- Python in kernels

row = page("unsupported_python")

def _refused(qd, *kernels):
    found = []
    for kernel in kernels:
        try:
            kernel()
            found.append(0)
        except qd.QuadrantsCompilationError:
            found.append(1)
    return found

@row(2, 1)
def members_of_an_enum(qd):
    class Mode(enum.IntEnum):
        SLOW = 1
        FAST = 2
    @qd.kernel
    def k(m: qd.i32) -> qd.i32:
        r = 1
        if m == Mode.FAST:
            r = 2
        return r
    return [k(Mode.FAST), k(Mode.SLOW)]

@row(3, 2.5, 1, peer="")  # bool of a local ends the process
def casts(qd):
    y = qd.field(qd.f32, shape=3)
    @qd.kernel
    def k(v: qd.f32):
        y[0] = int(v)
        y[1] = float(5) / 2
        y[2] = bool(v)
    k(3.7)
    return y.to_numpy()

@row(1.5, 6, 2, 1, peer="")
def types_of_values(qd):
    y = qd.field(qd.f32, shape=4)
    @qd.kernel
    def k():
        a = qd.f32(3) / 2
        b = qd.i32(6)
        c = 2
        c = 2.7  # c stays an integer
        y[0] = a
        y[1] = b
        y[2] = c
        y[3] = qd.cast(qd.cast(a * 2, qd.i32) + 254, qd.u8)
    k()
    return y.to_numpy()

# --- parallel loops

row = page("parallelization")

@row(12, 12, 1, 1)
def the_order_of_the_loops(qd):
    x, y = qd.field(qd.i32, shape=(2, 3)), qd.field(qd.i32, shape=(2, 3))
    @qd.kernel
    def k():
        for i, j in qd.ndrange(2, 3, axes=(1, 0)):
            x[i, j] = 10 * i + j
        for at in qd.grouped(qd.ndrange(2, 3, axes=(1, 0))):
            y[at] = 10 * at[0] + at[1]
    def refused(order, error):
        @qd.kernel
        def bad():
            for i, j in qd.ndrange(2, 3, axes=order):
                x[i, j] = 0
        try:
            bad()
        except error:
            return 1
        return 0
    k()
    return [
        x[1, 2], y[1, 2], refused((0, 0), qd.QuadrantsSyntaxError), refused((0, 0.5), qd.QuadrantsTypeError),
    ]

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

@row(8, 15, 15)
def bits_of_one_number(qd):
    x = qd.field(qd.i32, shape=3)
    @qd.kernel
    def k():
        for i in range(4):
            qd.atomic_and(x[0], ~(1 << i) | 8)
            qd.atomic_or(x[1], 1 << i)
            qd.atomic_xor(x[2], 1 << i)
    x.from_numpy(np.array([15, 0, 0], np.int32))
    k()
    return x.to_numpy()

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
    found = []
    for kernel in (k, h):
        try:
            kernel()
            found.append(0)
        except Exception:
            found.append(1)
    return found

# --- debugging

row = page("debug")

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

@row(1, peer=(0,), check_out_of_bound=True)
def bounds_without_the_rest_of_debug(qd):
    x = qd.field(qd.i32, shape=8)
    @qd.kernel
    def k(j: qd.i32) -> None:
        x[j] = 1
    try:
        k(9)
        qd.sync()
    except (RuntimeError, AssertionError, IndexError):
        return [1]
    return [0]

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
