"""Programs of the user guide: numbers, vectors, matrices, and how they are kept."""

import numpy as np
from lang.user_rows import page

# --- the first program

row = page("getting_started")

@row.filled(0, 3, 6, 9, dtype="i32")
def a_field_is_filled_in_parallel(qd, y):
    for i in range(4):
        y[i] = 3 * i

@row(16)
def a_generator_of_random_numbers_by_hand(qd):
    seeds = qd.ndarray(qd.i32, shape=(16,))
    @qd.kernel
    def k(s: qd.types.NDArray[qd.i32, 1], steps: qd.i32) -> None:
        for i in range(16):
            v = s[i]
            for _ in range(steps):
                v = (1664525 * v + 1013904223) % 2147483647
            s[i] = v
    seeds.from_numpy(np.arange(16, dtype=np.int32))
    k(seeds, 5)
    def right(v):
        for _ in range(5):  # the product wraps, and % is Python's
            v = ((1664525 * v + 1013904223 + 2**31) % 2**32 - 2**31) % 2147483647
        return v
    return [sum(seeds[i] == right(i) for i in range(16))]

@row(7, 4.5)
def a_kernel_takes_numbers_and_returns_one(qd):
    @qd.kernel
    def k(a: qd.i32, b: qd.i32) -> qd.i32:
        return a * b + 1
    @qd.kernel
    def h(a: float) -> float:
        return a * 3
    return [k(2, 3), h(1.5)]

# --- tensor types

row = page("tensor_types")

@row(1, 1, 1)
def three_ways_to_reach_memory(qd):
    a, b, c = qd.field(qd.i32, shape=10), qd.field(qd.i32, shape=10), qd.ndarray(qd.i32, shape=(10,))
    @qd.kernel
    def known() -> None:
        a[0] += 1
    @qd.kernel
    def given(p: qd.Template) -> None:
        p[0] += 1
    @qd.kernel
    def array(p: qd.types.NDArray[qd.i32, 1]) -> None:
        p[0] += 1
    known()
    given(b)
    array(c)
    return [a[0], b[0], c[0]]

@row(3, 5)
def an_array_of_another_size_is_no_other_kernel(qd):
    @qd.kernel
    def k(p: qd.types.NDArray[qd.f32, 1]) -> None:
        for i in range(p.shape[0]):
            p[i] = 1
    sums = []
    for n in (3, 5):
        p = qd.ndarray(qd.f32, shape=(n,))
        k(p)
        sums.append(p.to_numpy().sum())
    return sums

@row(12, 20, 30)
def a_template_is_each_field_in_turn(qd):
    fields = [qd.field(qd.f32, shape=(n, n + 1)) for n in (3, 4, 5)]
    @qd.kernel
    def k(p: qd.Template) -> None:
        for at in qd.grouped(p):
            p[at] = 1
    for p in fields:
        k(p)
    return [p.to_numpy().sum() for p in fields]

@row(2, 1)
def an_array_may_be_none(qd):
    y = qd.field(qd.i32, shape=())
    @qd.kernel
    def k(p: qd.types.NDArray[qd.f32, 1] | None) -> None:
        if qd.static(p is not None):
            y[None] = 2
        else:
            y[None] = 1
    k(qd.ndarray(qd.f32, shape=(1,)))
    first = y[None]
    k(None)
    return [first, y[None]]

# --- scalar tensors

row = page("scalar_tensors")

@row(4950)
def threads_sum_into_one_number(qd):
    total = qd.field(qd.i32, shape=())
    @qd.kernel
    def k(n: int) -> None:
        for i in range(n):
            qd.atomic_add(total[None], i)
    total[None] = 0
    k(100)
    return [total[None]]

@row(7, 8)
def python_reads_and_writes_one_number(qd):
    x = qd.field(qd.f32, shape=())
    x[None] = 7
    seen = x[None]
    @qd.kernel
    def k(a: qd.Template) -> None:
        a[None] += 1
    k(x)
    return [seen, x[None]]

# --- vectors and matrices

row = page("matrix_vector")

row.values("vectors_and_matrices_of_constants", "v = qd.Vector([1.0, 2.0, 3.0])",
    "m = qd.Matrix([[1.0, 0.0], [0.0, 1.0]])", {
    "v[0]": 1, "m[0, 1]": 0, "v.sum()": 6,
})

@row(0, 3, 10)
def fields_and_arrays_of_vectors(qd):
    vec = qd.types.vector(3, qd.f32)
    f, a = qd.field(vec, shape=(10,)), qd.ndarray(vec, shape=(10,))
    m = qd.field(qd.types.matrix(3, 3, qd.f32), shape=(10,))
    @qd.kernel
    def k(p: qd.Template, r: qd.Template, q: qd.types.NDArray[vec, 1]) -> None:
        for i in range(10):
            p[i] = qd.Vector([0.0, 0.0, 0.0])
            r[i] = qd.Matrix.diag(3, 1.0)
            q[i] = qd.Vector([1.0, 0.0, 0.0])
    k(f, m, a)
    return [f.to_numpy().sum(), m.to_numpy()[4].sum(), a.to_numpy().sum()]

@row(5, 7, 9)
def a_matrix_times_a_vector_for_each_element(qd):
    vec, mat = qd.types.vector(3, qd.f32), qd.types.matrix(3, 3, qd.f32)
    p, out = (qd.Vector.ndarray(3, qd.f32, shape=(2,)) for _ in range(2))
    ms = qd.Matrix.ndarray(3, 3, qd.f32, shape=(2,))
    p.from_numpy(np.array([[1, 2, 3]] * 2, np.float32))
    ms.from_numpy(np.array([np.eye(3), [[1, 2, 0], [0, 2, 1], [3, 0, 2]]], np.float32))
    @qd.kernel
    def k(
        p: qd.types.NDArray[vec, 1], m: qd.types.NDArray[mat, 1], out: qd.types.NDArray[vec, 1],
    ) -> None:
        for i in range(2):
            out[i] = m[i] @ p[i]
    k(p, ms, out)
    return out[1]

@row(3, 6, 9)
def fields_of_vectors_made_by_the_class(qd):
    v = qd.Vector.field(3, qd.f32, shape=2)
    v[1] = qd.Vector([1.0, 2.0, 3.0])
    v[1] = v[1] * 3
    return [v[1][0], v[1].y, v[1].z]

@row(0, 1, 4, 10)
def a_vector_whose_entries_are_apart(qd):
    @qd.dataclass
    class Tile:
        r: qd.types.vector(4, qd.f32, unpacked=True)
        scale: qd.f32
    y = qd.ndarray(qd.f32, shape=(4,))
    @qd.kernel
    def k(y: qd.types.NDArray[qd.f32, 1]) -> None:
        for _ in range(1):
            t = Tile()
            t.scale = 10.0
            for i in qd.static(range(4)):
                t.r[i] = i * i
            for i in qd.static(range(3)):
                y[i] = t.r[i]
            y[3] = t.scale
    k(y)
    return y.to_numpy()

@row.filled(1, 2, 3, 4, 5, 6)
def rows_and_columns_make_a_matrix(qd, y):
    m = qd.Matrix.rows([qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0]), qd.Vector([5.0, 6.0])])
    c = qd.Matrix.cols([qd.Vector([1.0, 3.0, 5.0]), qd.Vector([2.0, 4.0, 6.0])])
    for i, j in qd.static(qd.ndrange(3, 2)):
        y[i * 2 + j] = (m[i, j] + c[i, j]) / 2

@row(3, 2, 12)
def sizes_of_a_matrix_in_a_kernel(qd):
    m = qd.Matrix.field(3, 2, qd.f32, shape=2)
    m.fill(2)
    @qd.kernel
    def k() -> qd.f32:
        s = 0.0
        for i in qd.static(range(m.n)):
            for j in qd.static(range(m.m)):
                s += m[1][i, j]
        return s
    return [m.n, m.m, k()]

# --- operations on vectors and matrices

row = page("matrix_vector_per_thread")

@row.filled(32, -3, 6, -3, 14)
def products_of_vectors(qd, y):
    a, b = qd.Vector([1.0, 2.0, 3.0]), qd.Vector([4.0, 5.0, 6.0])
    y[0] = a.dot(b)
    c = a.cross(b)
    for i in qd.static(range(3)):
        y[i + 1] = c[i]
    y[4] = a.outer_product(a).trace()

row.values("norms", "v = qd.Vector([3.0, 4.0])", {
    "v.norm()": 5, "v.norm_sqr()": 25, "v.normalized()[0]": 0.6, "v.normalized()[1]": 0.8, "v.norm_inv()": 0.2,
})

row.values("determinant_trace_transpose_and_inverse", "m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])", {
    "m.determinant()": -2, "m.trace()": 5, "m.transpose()[0, 1]": 3, "m.inverse()[0, 0]": -2,
    "(m @ m.inverse())[0, 0]": 1,
})

@row(70)
def the_inner_product_of_two_matrices(qd):
    @qd.kernel
    def k() -> qd.f32:
        a = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
        b = qd.Matrix([[5.0, 6.0], [7.0, 8.0]])
        return a.frobenius_inner(b)
    return [k()]

row.values("arithmetic_is_for_each_entry", "a, b = qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0])",
    "s, p, q, c = a + b, a * b, b / 4.0, a < b", {
    "s[0]": 4, "s[1]": 6, "p[0]": 3, "p[1]": 8, "q[0] - 0.5": 0.25, "c.all() * c.any()": 1,
})

row.values("reductions_of_a_vector", "v = qd.Vector([3, 1, 4, 2])", {
    "v.sum()": 10, "v.min()": 1, "v.max()": 4, "qd.max(v[0], v[1])": 3, "qd.abs(qd.Vector([-2, 0]))[0]": 2,
}, dtype="i32")

@row.filled(3, 2, 1, 5)
def swizzles(qd, y):
    v = qd.math.vec3(1.0, 2.0, 3.0)
    w = v.zyx
    for i in qd.static(range(3)):
        y[i] = w[i]
    v.xy = qd.math.vec2(5.0, 6.0)
    y[3] = v.x

row.values("the_identity_and_zeros", {
    "qd.Matrix.identity(qd.f32, 3)[2, 2] + qd.Matrix.zero(qd.f32, 2, 2)[0, 0]": 1,
    "(qd.Matrix.one(qd.f32, 2, 2) * 0.5)[1, 1]": 0.5,
})

row.values("casts_of_vectors", "v = qd.Vector([3.7, 1.2])",
    "a, b = v.cast(qd.i32), qd.cast(qd.Vector([2.9, -1.9]), qd.i32)", {
    "a[0]": 3, "a[1]": 1, "b[0]": 2, "-b[1]": 1,
}, dtype="i32")
