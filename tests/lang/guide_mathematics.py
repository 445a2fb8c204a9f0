"""Programs of the user guide: decompositions, mathematics, structs and objects."""

import math

import numpy as np
from lang.user_rows import page

# --- decompositions

row = page("linalg_per_thread")

row.values("singular_values_give_the_matrix_back", "a = qd.Matrix([[2.0, 1.0, 0.0], [0.5, 3.0, 0.2], [0.1, 0.4, 1.0]])",
    "u, s, v = qd.svd(a)", {
    "(u @ s @ v.transpose() - a).norm()": 0, "(u @ u.transpose() - qd.Matrix.identity(qd.f32, 3)).norm()": 0,
    "(v @ v.transpose() - qd.Matrix.identity(qd.f32, 3)).norm()": 0,
}, digits=4, peer=(0, 0, 0))

row.values("eigenvalues_of_a_symmetric_matrix", "a = qd.Matrix([[2.0, 1.0], [1.0, 2.0]])",
           "values, q = qd.sym_eig(a)", {
    "qd.min(values[0], values[1])": 1, "qd.max(values[0], values[1])": 3,
    "(a @ q[:, 0] - values[0] * q[:, 0]).norm()": 0,
}, digits=5)

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

row.values("the_nearest_positive_matrix", "a = qd.Matrix.zero(qd.f32, 4, 4)", "a[0, 0] = -3.0", "a[1, 1] = 2.0",
    "m = qd.make_spd(a)", {
    "m[0, 0]": 0, "m[1, 1]": 2,
}, digits=5)

row.values("rotation_times_stretch", "a = qd.Matrix([[1.0, -2.0], [0.5, 1.0]])", "r, s = qd.polar_decompose(a)", {
    "(r @ s - a).norm()": 0, "(r @ r.transpose() - qd.Matrix.identity(qd.f32, 2)).norm()": 0,
}, digits=4)

@row.filled(0, 1, 0, -1)
def complex_eigenvalues(qd, y):
    for _ in range(1):
        values, _vectors = qd.eig(qd.Matrix([[0.0, -1.0], [1.0, 0.0]]))
        for i, j in qd.static(qd.ndrange(2, 2)):
            y[i * 2 + j] = values[i, j]

@row.filled(1, 2, 1, -1, 2, digits=5)
def systems_of_equations(qd, y):
    for _ in range(1):
        x = qd.solve(qd.Matrix([[2.0, 1.0], [1.0, 3.0]]), qd.Vector([4.0, 7.0]))
        z = qd.solve(qd.Matrix([[0.0, 1.0, 0.0], [2.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), qd.Vector([-1.0, 4.0, 2.0]))
        y[0] = x[0]
        y[1] = x[1]
        for i in qd.static(range(3)):
            y[i + 2] = z[i]

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

row.values("bits_are_counted", {
    "qd.math.popcnt(qd.u32(0b10110))": 3, "qd.math.clz(qd.u32(0))": 32, "qd.math.clz(qd.i32(15))": 28,
    "qd.math.clz(qd.i32(-1))": 0,
}, dtype="i32")

row.values("the_lowest_bit", {
    "qd.math.ffs(qd.i32(0))": 0, "qd.math.ffs(qd.i32(-1))": 1, "qd.math.ffs(qd.u32(8))": 4,
    "qd.math.ffs(qd.u32(0x80000000))": 32,
}, dtype="i32")

row.values("the_nth_bit_of_a_mask", "mask = qd.u32(0b10110)", {
    "qd.math.fns(mask, qd.u32(0), 3)": 4, "qd.math.fns(mask, qd.u32(3), -2)": 1,
    "qd.math.fns(mask, qd.u32(0), 4)": 4294967295, "qd.math.fns(mask, qd.u32(2), 0)": 2,
}, dtype="u32")

@row(10)
def bits_of_an_array_are_summed(qd):
    masks, total = qd.ndarray(qd.u32, shape=(4,)), qd.ndarray(qd.i32, shape=(1,))
    masks.from_numpy(np.array([1, 7, 0, 63], np.uint32))
    total.fill(0)
    @qd.kernel
    def k(m: qd.types.NDArray[qd.u32, 1], total: qd.types.NDArray[qd.i32, 1]) -> None:
        for i in range(m.shape[0]):
            qd.atomic_add(total[0], qd.math.popcnt(m[i]))
    k(masks, total)
    return total.to_numpy()

@row(*(f(0.5) for f in (math.sin, math.cos, math.tan, math.asin, math.acos, math.exp, math.log, math.sqrt, math.tanh)))
def elementary_functions(qd):
    y = qd.field(qd.f32, shape=9)
    @qd.kernel
    def k(v: qd.f32):
        for j, f in qd.static(enumerate((
            qd.sin, qd.cos, qd.tan, qd.asin, qd.acos, qd.exp, qd.log, qd.sqrt, qd.tanh,
        ))):
            y[j] = f(v)
    k(0.5)
    return y.to_numpy()

row.values("rounding_and_powers", {
    "qd.floor(v)": 2, "qd.ceil(v)": 3, "qd.round(v)": 2, "qd.floor(-1.5)": -2, "qd.pow(2.0, 3.0)": 8,
    "qd.atan2(1.0, 2.0)": math.atan2(1, 2), "qd.rsqrt(4.0)": 0.5,
}, given={"v": 2.4})

row.values("functions_of_shaders", {
    "qd.math.fract(v)": 0.25, "qd.math.mix(1.0, 3.0, 0.5)": 2, "qd.math.clamp(v, 0.0, 1.0)": 1,
    "qd.math.smoothstep(0.0, 2.0, 1.0)": 0.5, "qd.math.step(3.0, v)": 0, "qd.math.sign(v)": 1,
    "qd.math.mod(v, 1.0)": 0.25,
}, given={"v": 2.25})

row.values("lengths_distances_and_angles", "a, b = qd.math.vec2(3, 4), qd.math.vec2(3, 1)", {
    "qd.math.length(a)": 5, "qd.math.distance(a, b)": 3, "qd.math.dot(qd.math.vec2(1, 0), qd.math.vec2(0, 1))": 0,
    "qd.math.normalize(qd.math.vec2(2, 0))[0]": 1, "qd.math.degrees(qd.math.pi / 2)": 90,
}, digits=4)

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

@row.filled(-5, 10, 0, 2, digits=4)
def complex_numbers(qd, y):
    z = qd.math.cmul(qd.math.vec2(1, 2), qd.math.vec2(3, 4))
    y[0] = z[0]
    y[1] = z[1]
    r = qd.math.csqrt(qd.math.vec2(-4, 0))
    y[2] = r[0]
    y[3] = r[1]

@row.filled(0, 1, 2, 0, 1, digits=5)
def rotations(qd, y):
    v = qd.math.rotation2d(qd.math.pi / 2) @ qd.math.vec2(1, 0)
    y[0] = v[0]
    y[1] = v[1]
    w = qd.math.translate(2.0, 0.0, 1.0) @ qd.math.vec4(0, 0, 0, 1)
    for i in qd.static(range(3)):
        y[i + 2] = w[i]

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

@row(7.5)
def structs_with_a_method(qd):
    @qd.dataclass
    class Particle:
        velocity: qd.types.vector(3, qd.f32)
        mass: qd.f32
        @qd.func
        def energy(self):
            return 0.5 * self.mass * self.velocity.dot(self.velocity)
    p = Particle.field(shape=2)
    for i in range(2):
        p[i].mass = 1 + i
        p[i].velocity = [2 - i, 1, i]
    @qd.kernel
    def k() -> qd.f32:
        s = 0.0
        for i in range(2):
            s += p[i].energy()
        return s + 2.0
    return [k()]

@row(3, 5, 1)
def a_type_of_structs_is_made_by_a_call(qd):
    vec = qd.types.vector(3, qd.f32)
    Particle = qd.types.struct(position=vec, mass=qd.f32)
    p = Particle.field(shape=3)
    @qd.kernel
    def k():
        for i in p:
            p[i] = Particle(position=vec(i, i + 1, 0), mass=i + 3)
    k()
    return [p[0].mass, p[2].mass, p.position[0][1]]

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

@row(1, 2, 7)
def structs_in_structs(qd):
    Ball = qd.types.struct(center=qd.math.vec2, radius=qd.f32)
    Pair = qd.types.struct(first=Ball, second=Ball)
    y = qd.field(qd.f32, shape=3)
    @qd.kernel
    def k():
        p = Pair(first=Ball(center=qd.math.vec2(1, 2), radius=3), second=Ball(center=qd.math.vec2(0, 0), radius=4))
        y[0] = p.first.center[0]
        y[1] = p.first.center[1]
        y[2] = p.first.radius + p.second.radius
    k()
    return y.to_numpy()

@row(3, 5)
def a_dataclass_holds_arrays(qd):
    from dataclasses import dataclass
    @dataclass
    class Both:
        a: qd.types.NDArray[qd.i32, 1]
        b: qd.types.NDArray[qd.i32, 1]
    @qd.kernel
    def k(s: Both) -> None:
        s.a[35] += 3
        s.b[37] += 5
    a, b = qd.ndarray(qd.i32, shape=(55,)), qd.ndarray(qd.i32, shape=(57,))
    k(Both(a=a, b=b))
    return [a[35], b[37]]

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

@row(2, 2, 2)
def an_object_holds_every_kind_of_tensor(qd):
    @qd.data_oriented
    class State:
        def __init__(self, n):
            self.n = n
            self.a = qd.field(qd.f32, shape=n)
            self.b = qd.ndarray(qd.f32, shape=(n,))
            self.c = qd.tensor(qd.f32, shape=(n,))
        @qd.kernel
        def step(self):
            for i in range(self.n):
                self.a[i] += 1.0
                self.b[i] += 1.0
                self.c[i] += 1.0
    s = State(3)
    s.step()
    s.step()
    return [s.a[1], s.b[2], s.c[0]]

@row(3, 5)
def each_number_of_an_object_is_baked_in(qd):
    @qd.data_oriented
    class Sum:
        def __init__(self, n):
            self.n = n
            self.y = qd.field(qd.i32, shape=())
        @qd.kernel
        def step(self):
            for _ in range(self.n):
                self.y[None] += 1
    found = []
    for n in (3, 5):
        s = Sum(n)
        s.step()
        found.append(s.y[None])
    return found

@row(6)
def an_object_in_an_object(qd):
    @qd.data_oriented
    class Inner:
        def __init__(self):
            self.x = qd.field(qd.f32, shape=3)
    @qd.data_oriented
    class Outer:
        def __init__(self):
            self.inner = Inner()
            self.scale = 2.0
    @qd.kernel
    def k(o: qd.template()):
        for i in o.inner.x:
            o.inner.x[i] = o.scale * i
    o = Outer()
    k(o)
    return [o.inner.x.to_numpy().sum()]

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
