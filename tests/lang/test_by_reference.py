"""Template parameters of funcs stand for what they are given: locals and elements can be assigned through them. Each
kernel is compared with one that says the same without them, values and gradients."""

import numpy as np
import pytest
from oracle.complex_step import gradient
from sessions import WITH_F64, session_of

import quadrants_lab as qd

session = session_of(WITH_F64, default_fp=qd.f64)


@qd.func
def swap(a: qd.template(), b: qd.template()):
    c = a
    a = b
    b = c


@qd.func
def advance(v: qd.template(), by, n: qd.i32):
    for j in range(n):
        if v > 3.0:
            return
        v = v * by + qd.sin(v)
    v += 1.0


@qd.func
def twice(v: qd.template(), by):
    advance(v, by, 2)
    advance(v, by * 0.5, 1)


@qd.func
def accumulate(target: qd.Template, value):
    target += value * value


@qd.func
def grow(v: qd.template(), k: qd.template(), value):
    v[k] = v[k] * value
    v[0] += value
    return v[0]

@qd.kernel
def locals_by_reference(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        a, b = x[i], x[7 - i] * 2.0
        swap(a, b)
        for j in range(n):
            if j % 2 == 0:
                swap(a, b)
            else:
                twice(v=a, by=b)
        y[i] += a * b

@qd.kernel
def locals_written_out(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        b, a = x[i], x[7 - i] * 2.0
        for j in range(n):
            if j % 2 == 0:
                c = a
                a = b
                b = c
            else:
                left = 0
                for k in range(2):
                    if left == 0 and a > 3.0:
                        left = 1
                    if left == 0:
                        a = a * b + qd.sin(a)
                if left == 0:
                    a += 1.0
                if a <= 3.0:
                    a = a * (b * 0.5) + qd.sin(a)
                    a += 1.0
        y[i] += a * b

@qd.kernel
def elements_by_reference(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        for j in range(n):
            accumulate(y[j], x[i])
    for i in range(4):
        advance(y[i], 0.5, 2)

@qd.kernel
def elements_written_out(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        for j in range(n):
            y[j] += x[i] * x[i]
    for i in range(4):
        left = 0
        for k in range(2):
            if left == 0 and y[i] > 3.0:
                left = 1
            if left == 0:
                y[i] = y[i] * 0.5 + qd.sin(y[i])
        if left == 0:
            y[i] += 1.0

@qd.kernel
def vectors_by_reference(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        v = qd.Vector([x[i], x[i] * 2.0])
        for j in range(n):
            y[i] += grow(v, 1, x[j])
        y[i] += v[1]

@qd.kernel
def vectors_written_out(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        v, w = x[i], x[i] * 2.0
        for j in range(n):
            w = w * x[j]
            v += x[j]
            y[i] += v
        y[i] += w


@qd.func
def add_to_row(row: qd.template(), other, k):
    row += other * k
    row[1] *= 1.5

@qd.kernel
def rows_by_reference(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        m = qd.Matrix([[x[i], x[0], 1.0], [x[1], x[i] * x[2], x[3]]])
        for j in range(n):
            add_to_row(m[j % 2, :], m[1 - j % 2, :], x[j])
            m[:, j % 3] = m[:, 0] * 0.5
            m[j % 2, 1:].y -= x[4]
        y[i] += m[n % 2, :].norm_sqr() + m[:, n % 3].sum()

@qd.kernel
def rows_written_out(x: qd.template(), y: qd.template(), n: qd.i32):
    for i in x:
        m = qd.Matrix([[x[i], x[0], 1.0], [x[1], x[i] * x[2], x[3]]])
        for j in range(n):
            for k in range(3):
                m[j % 2, k] += m[1 - j % 2, k] * x[j]
            m[j % 2, 1] *= 1.5
            for k in range(2):
                m[k, j % 3] = m[k, 0] * 0.5
            m[j % 2, 2] -= x[4]
        for k in range(3):
            y[i] += m[n % 2, k] ** 2
        for k in range(2):
            y[i] += m[k, n % 3]


PAIRS = [
    (rows_by_reference, rows_written_out),
    (locals_by_reference, locals_written_out),
    (elements_by_reference, elements_written_out),
    (vectors_by_reference, vectors_written_out),
]


def run(kernel, n, gradient):
    x, y = (qd.field(qd.f64, 8, needs_grad=True) for _ in range(2))
    rng = np.random.default_rng(2)
    x.from_numpy(rng.uniform(-1, 1, 8))
    y.from_numpy(rng.uniform(-1, 1, 8))
    kernel(x, y, n)
    if not gradient:
        return [y.to_numpy()]
    y.grad.from_numpy(rng.uniform(0.5, 1.5, 8))
    kernel.grad(x, y, n)
    return [y.to_numpy(), x.grad.to_numpy(), y.grad.to_numpy()]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p[0].name)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_same_as_written_out(pair, n):
    gradient = pair[0] is not elements_by_reference  # it overwrites what its derivative reads
    for a, b in zip(run(pair[0], n, gradient), run(pair[1], n, gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@qd.func
def mix(a: qd.ref(qd.f64), b: qd.ref(qd.f64), n: qd.i32):
    for j in range(n):
        a = a * b + 1.0
        if a > 2.0:
            b += a


@qd.func
def mix_twice(a: qd.template(), b: qd.template(), n: qd.i32):
    mix(a, b, n)
    a *= 0.5
    mix(b, a, 1)

@qd.kernel
def pairs_of_a_local(x: qd.template(), y: qd.template(), at: qd.template(), n: qd.i32):
    for i in at:
        v = qd.Vector([x[0], x[1], x[2]])
        m = qd.Matrix([[x[3], x[4]], [x[5], x[6]]])
        mix_twice(v[at[i][0]], v[at[i][1]], n)
        mix(v[1], v[at[i][1]], n)
        mix(m[at[i][0] % 2, 1], m[1, at[i][1] % 2], n)
        for k in qd.static(range(3)):
            y[i, k] = v[k]
        for k in qd.static(range(4)):
            y[i, 3 + k] = m[k // 2, k % 2]


def mixed(v, a, b, n):
    for _ in range(n):
        v[a] = v[a] * v[b] + 1.0
        if v[a].real > 2.0:
            v[b] = v[b] + v[a]


def mixed_pairs(x, a, b, n):
    """The result of `pairs_of_a_local` for one pair of indices, computed in Python."""
    v, m = list(x[:3]), {divmod(k, 2): x[3 + k] for k in range(4)}
    mixed(v, a, b, n)
    v[a] = v[a] * 0.5
    mixed(v, b, a, 1)
    mixed(v, 1, b, n)
    mixed(m, (a % 2, 1), (1, b % 2), n)
    return [*v, *m.values()]


def test_a_parameter_that_stands_for_an_element_is_the_target_of_an_atomic():
    x = qd.field(qd.i32, 4)
    @qd.func
    def count(c: qd.template()):
        return qd.atomic_add(c, 2)
    @qd.kernel
    def many():
        for i in range(100):
            x[3] += count(x[i % 2]) * 0
    many()
    assert x.to_numpy().tolist() == [100, 100, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 3])
def test_elements_that_turn_out_to_be_one_are_changed_as_one(n):
    where = [(a, b) for a in range(3) for b in range(3)]
    x, y = qd.field(qd.f64, 7, needs_grad=True), qd.field(qd.f64, (9, 7), needs_grad=True)
    at = qd.Vector.field(2, qd.i32, 9)
    x0 = np.linspace(0.4, 1.3, 7)
    x.from_numpy(x0)
    at.from_numpy(np.array(where, np.int32))
    pairs_of_a_local(x, y, at, n)
    np.testing.assert_allclose(y.to_numpy(), [mixed_pairs(x0, a, b, n) for a, b in where], rtol=1e-12)
    y.grad.fill(1.0)
    pairs_of_a_local.grad(x, y, at, n)
    slopes = gradient(lambda v: sum(sum(mixed_pairs(v, a, b, n)) for a, b in where), x0)
    np.testing.assert_allclose(x.grad.to_numpy(), slopes, rtol=1e-12)


def test_parts_of_elements_and_whole_structs_are_assigned_in_memory():
    struct = qd.types.struct(a=qd.f64, v=qd.types.vector(3, qd.f64))
    f, m = struct.field(shape=2), qd.Matrix.field(2, 3, qd.f64, shape=2)

    @qd.func
    def renew(s: qd.template(), a):
        s = struct(a=a, v=[a, 2.0 * a, 3.0])  # noqa: F841

    @qd.func
    def scale(v: qd.template(), k):
        v = v * k
        v -= 1.0

    @qd.func
    def put(v: qd.template(), k, x):
        v[k] += x

    @qd.kernel
    def run(n: qd.i32):
        renew(f[n], 5.0)
        renew(f[0], 1.0)
        swap(f[n], f[0])
        scale(f[0].v.zx, 2.0)
        for i in range(2):
            m[i] = qd.Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        for i in range(2):
            scale(m[i][i, :], 10.0)
            m[i][:, n] += m[i][:, 2]
            put(m[i][i, :], n + i, 1000.0)
        put(f[0].v.yx, n, 100.0)

    run(1)
    assert f.a.to_numpy().tolist() == [5, 1]
    assert f.v.to_numpy().tolist() == [[109, 10, 5], [1, 2, 3]]
    assert m.to_numpy().tolist() == [[[9, 1048, 29], [4, 11, 6]], [[1, 5, 3], [39, 108, 1059]]]


def test_a_row_of_a_local_that_iterations_share():
    x, own = qd.Matrix.field(3, 2, qd.f64, shape=()), qd.Matrix.field(3, 2, qd.f64, shape=())

    @qd.kernel
    def sums():
        m, o = qd.Matrix.zero(qd.f64, 3, 2), qd.Matrix.zero(qd.f64, 3, 2)
        for i in range(30):
            m[i % 3, :] += qd.Vector([1.0, i])
        for i in range(3):
            o[i, :] = qd.Vector([1.0 + i, 2.0 * i])
        x[None] = m
        own[None] = o

    sums()
    assert x.to_numpy().tolist() == [[10, 135], [10, 145], [10, 155]]
    assert own.to_numpy().tolist() == [[1, 0], [2, 2], [3, 4]]


def test_a_row_outside_of_a_matrix_is_found_by_checks():
    qd.init(arch=qd.cpu, debug=True)
    m = qd.Matrix.field(2, 2, qd.f32, shape=())

    @qd.kernel
    def row(k: qd.i32) -> qd.f32:
        return m[None][k, :].sum()

    assert row(1) == 0
    with pytest.raises(qd.QuadrantsAssertionError, match="index 2 is out of bounds"):
        row(2)
