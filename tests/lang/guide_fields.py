"""Programs of the user guide: numbers, vectors, matrices, fields, tensors, views."""

import numpy as np
from lang.user_rows import page

# --- fields and where they are

row = page("fields")

@row(1, 1, 0, 1)
def a_mask_of_bits(qd):
    x = qd.field(qd.f32)
    b = qd.root.bitmasked(qd.i, 4)
    b.place(x)
    y = qd.field(qd.i32, shape=4)
    @qd.kernel
    def put():
        for i in range(4):
            if i != 2:
                x[i] = 1.0
    @qd.kernel
    def look():
        for i in range(4):
            y[i] = qd.is_active(b, [i])
    put()
    look()
    return y.to_numpy()

@row(6, 2, 0)
def a_sparse_loop_visits_what_is_active(qd):
    x, s, n = qd.field(qd.f32), qd.field(qd.f32, shape=()), qd.field(qd.i32, shape=())
    p = qd.root.pointer(qd.i, 4)
    p.dense(qd.i, 2).place(x)
    @qd.kernel
    def k():
        for i in x:
            s[None] += x[i]
            n[None] += 1
    x[5] = 6
    k()
    first = [s[None], n[None]]
    p.deactivate_all()
    n[None] = 0
    k()
    return [*first, n[None]]

@row(3, 0, 1, 4)
def a_list_grows(qd):
    x = qd.field(qd.i32)
    p = qd.root.dynamic(qd.i, 16, chunk_size=4)
    p.place(x)
    n = qd.field(qd.i32, shape=())
    @qd.kernel
    def k():
        for _ in range(1):
            for i in range(3):
                qd.append(x.parent(), [], i * i)
            n[None] = qd.length(x.parent(), [])
    k()
    return [n[None], x[0], x[1], x[2]]

@row(4, 6)
def a_builder_of_fields(qd):
    builder = qd.FieldsBuilder()
    x = qd.field(qd.f32)
    builder.dense(qd.i, 3).place(x)
    tree = builder.finalize()
    x.fill(2)
    @qd.kernel
    def k() -> qd.f32:
        s = 0.0
        for i in x:
            s += x[i]
        return s
    total = k()
    tree.destroy()
    return [total - 2, total]

# --- tensors

row = page("tensor")

@row(2, 3, 1, 0, 12)
def a_tensor_is_transposed_in_memory(qd):
    a = qd.tensor(qd.f32, shape=(2, 3), layout=(1, 0))
    @qd.kernel
    def k(x: qd.Tensor):
        for i, j in qd.ndrange(2, 3, axes=(1, 0)):
            x[i, j] = 10 * i + j
    k(a)
    return [*a.shape, *a.layout, a.to_numpy()[1, 2]]

@row(0, 0, 1)
def whether_a_tensor_has_a_gradient(qd):
    a = qd.tensor(qd.f32, shape=(4,), backend=qd.Backend.FIELD)
    b = qd.tensor(qd.f32, shape=(4,))
    c = qd.tensor(qd.f32, shape=(4,), needs_grad=True)
    return [t.has_grad() for t in (a, b, c)]

# --- views

row = page("buffer_view")

@row(4, 12, 14, 3, 3)
def views_without_a_dtype(qd):
    data = qd.ndarray(qd.f32, shape=(8,))
    data.from_numpy(np.arange(8, dtype=np.float32))
    @qd.kernel
    def k(v: qd.BufferView):
        for i in range(v.size):
            v[i] = v[i] * 2.0
    view = qd.BufferView(data, offset=6, size=2)
    k(view)
    @qd.kernel
    def shape(v: qd.BufferView) -> qd.i32:
        return v.shape[0]
    return [data[4], data[6], data[7], shape(data[-3:]), data[2:5].size]

# --- the first program

row = page("getting_started")

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

# --- vectors and matrices

row = page("matrix_vector")

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
