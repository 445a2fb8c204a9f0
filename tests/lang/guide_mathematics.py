"""Programs of the user guide: decompositions, mathematics, structs and objects."""


import numpy as np
from lang.user_rows import page

# --- decompositions

row = page("linalg_per_thread")

@row(0, 0, 0, peer=(0, 0, 0))
def singular_values_give_the_matrix_back(qd):
    y = qd.field(qd.f32, shape=3)
    @qd.kernel
    def k():
        for _ in range(1):
            a = qd.Matrix([[2.0, 1.0, 0.0], [0.5, 3.0, 0.2], [0.1, 0.4, 1.0]])
            u, s, v = qd.svd(a)
            y[0] = (u @ s @ v.transpose() - a).norm()
            y[1] = (u @ u.transpose() - qd.Matrix.identity(qd.f32, 3)).norm()
            y[2] = (v @ v.transpose() - qd.Matrix.identity(qd.f32, 3)).norm()
    k()
    return np.round(y.to_numpy(), 4)

@row(1, 2, 4, 7)
def eigenvalues_of_four_rows(qd):
    vec, mat = qd.types.vector(4, qd.f32), qd.types.matrix(4, 4, qd.f32)
    a, values = qd.field(mat, shape=2), qd.field(vec, shape=2)
    q, _ = np.linalg.qr(np.arange(16).reshape(4, 4) % 5 + np.eye(4))
    a.from_numpy(np.array([np.eye(4), q @ np.diag([1, 2, 4, 7]) @ q.T], np.float32))
    @qd.kernel
    def k():
        for i in range(2):
            values[i], _vectors = qd.sym_eig(a[i])
    k()
    return np.round(values.to_numpy()[1], 3)

@row(0, 0)
def rotation_times_stretch(qd):
    y = qd.field(qd.f32, shape=2)
    @qd.kernel
    def k():
        for _ in range(1):
            a = qd.Matrix([[1.0, -2.0], [0.5, 1.0]])
            r, s = qd.polar_decompose(a)
            y[0] = (r @ s - a).norm()
            y[1] = (r @ r.transpose() - qd.Matrix.identity(qd.f32, 2)).norm()
    k()
    return np.round(y.to_numpy(), 4)

@row(0, 1, 0, -1)
def complex_eigenvalues(qd):
    y = qd.field(qd.f32, shape=4)
    @qd.kernel
    def k():
        for _ in range(1):
            values, _vectors = qd.eig(qd.Matrix([[0.0, -1.0], [1.0, 0.0]]))
            for i, j in qd.static(qd.ndrange(2, 2)):
                y[i * 2 + j] = values[i, j]
    k()
    return y.to_numpy()

@row(1, -1)
def a_reflection_is_made_a_rotation(qd):
    y = qd.field(qd.f32, shape=2)
    @qd.func
    def rotation(a):
        u, _, v = qd.svd(a)
        r = u @ v.transpose()
        before = r.determinant()
        if before < 0.0:
            v[:, 1] *= -1.0
            r = u @ v.transpose()
        return r.determinant(), before
    @qd.kernel
    def k():
        for _ in range(1):
            after, before = rotation(qd.Matrix([[1.0, 0.2], [0.1, -2.0]]))
            y[0] = after
            y[1] = before
    k()
    return np.round(y.to_numpy(), 4)

# --- mathematics

row = page("math")

@row(3, 32, 28, 0)
def bits_are_counted(qd):
    y = qd.field(qd.i32, shape=4)
    @qd.kernel
    def k():
        y[0] = qd.math.popcnt(qd.u32(0b10110))
        y[1] = qd.math.clz(qd.u32(0))
        y[2] = qd.math.clz(qd.i32(15))
        y[3] = qd.math.clz(qd.i32(-1))
    k()
    return y.to_numpy()

@row(0, 1, 4, 32)
def the_lowest_bit(qd):
    y = qd.field(qd.i32, shape=4)
    @qd.kernel
    def k():
        y[0] = qd.math.ffs(qd.i32(0))
        y[1] = qd.math.ffs(qd.i32(-1))
        y[2] = qd.math.ffs(qd.u32(8))
        y[3] = qd.math.ffs(qd.u32(0x80000000))
    k()
    return y.to_numpy()

@row(4, 1, 4294967295, 2)
def the_nth_bit_of_a_mask(qd):
    y = qd.field(qd.u32, shape=4)
    @qd.kernel
    def k():
        mask = qd.u32(0b10110)
        y[0] = qd.math.fns(mask, qd.u32(0), 3)
        y[1] = qd.math.fns(mask, qd.u32(3), -2)
        y[2] = qd.math.fns(mask, qd.u32(0), 4)
        y[3] = qd.math.fns(mask, qd.u32(2), 0)
    k()
    return y.to_numpy()

@row(0, 1, 1, 1)
def numbers_that_are_none(qd):
    y = qd.field(qd.i32, shape=4)
    x = qd.field(qd.f32, shape=3)
    x.from_numpy(np.array([1, np.nan, np.inf], np.float32))
    @qd.kernel
    def k():
        y[0] = qd.math.isnan(x[0])
        y[1] = qd.math.isnan(x[1])
        y[2] = qd.math.isinf(x[2])
        y[3] = not qd.math.isinf(x[0])
    k()
    return y.to_numpy()

@row(1069547520, 1.5, 3)
def the_bits_of_a_number(qd):
    y = qd.field(qd.i32, shape=1)
    x = qd.field(qd.f32, shape=2)
    @qd.kernel
    def k():
        y[0] = qd.bit_cast(qd.f32(1.5), qd.i32)
        x[0] = qd.bit_cast(y[0], qd.f32)
        x[1] = qd.cast(3.9, qd.i32)
    k()
    return [y[0], *x.to_numpy()]

# --- compound types

row = page("compound_types")

@row(1, 2, 3, 4)
def members_apart_and_side_by_side(qd):
    S = qd.types.struct(a=qd.f32, b=qd.f32)
    x, y = S.field(shape=2, layout=qd.Layout.SOA), S.field(shape=2, layout=qd.Layout.AOS)
    @qd.kernel
    def k():
        x[1].a = 1
        x[1].b = 2
        y[1].a = 3
        y[1].b = 4
    k()
    return [x[1].a, x.b[1], y[1].a, y.b[1]]

@row(2, 10)
def a_part_of_a_dataclass_goes_to_a_func(qd):
    from dataclasses import dataclass
    array = qd.types.NDArray[qd.f32, 1]
    @dataclass
    class Inner:
        x: array
    @dataclass
    class Outer:
        inner: Inner
        y: array
    @qd.func
    def touch(inner: Inner) -> None:
        inner.x[0] += 1.0
    @qd.func
    def all_of_it(s: Outer) -> None:
        s.y[0] += 10.0
        touch(s.inner)
    @qd.kernel
    def k(s: Outer) -> None:
        all_of_it(s)
        touch(inner=s.inner)
    x, y = qd.ndarray(qd.f32, shape=(1,)), qd.ndarray(qd.f32, shape=(1,))
    k(Outer(Inner(x), y))
    return [x[0], y[0]]

@row(8, 3)
def a_dataclass_with_numbers(qd):
    from dataclasses import dataclass
    @dataclass(frozen=True)
    class Settings:
        n: int
        scale: float
        y: qd.types.NDArray[qd.f32, 1]
    @qd.kernel
    def k(s: Settings) -> None:
        for i in range(s.n):
            s.y[0] += s.scale
    y = qd.ndarray(qd.f32, shape=(1,))
    y.fill(0)
    k(Settings(4, 2.0, y))
    first = y[0]
    y.fill(0)
    k(Settings(2, 1.5, y))
    return [first, y[0]]

@row(1, 4)
def an_array_of_an_object_is_replaced(qd):
    @qd.data_oriented
    class A:
        def __init__(self):
            self.x = qd.ndarray(qd.f32, shape=(2,))
        @qd.kernel
        def k(self):
            for i in range(self.x.shape[0]):
                self.x[i] += 1
    a = A()
    a.k()
    first = a.x[1]
    a.x = qd.ndarray(qd.i32, shape=(4,))
    a.k()
    return [first, a.x.to_numpy().sum()]
