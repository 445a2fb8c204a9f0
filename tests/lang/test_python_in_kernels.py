"""Python that may stand in kernels: plain functions, fills, loop variables, :=, reductions, vectors in logic, boxes.

A row of `KERNELS` is a kernel over the fields below and what they hold after a launch.
"""

from enum import IntEnum
from functools import partial

import numpy as np
import pytest
from sessions import EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)


def twice(v):
    s = 0.0
    for _ in range(2):
        if v > 0:
            s += v
    return s


def typed(v: int) -> int:  # whose annotations are Python's
    return v * 0.5


class Line:
    def __init__(self, slope):
        self.slope = slope

    def at(self, v):
        return v * self.slope

    __call__ = at


def lambdas(a):
    return [lambda v: v * a + 1, lambda v: (a if v > 1 else v) + 1]


LINE, FIRST, SECOND = Line(3.0), *lambdas(4.0)
TABLE = {"partial": partial(lambda a, b: a - b, b=1.0)}
BOX = ((1, 3), (0, 2))
PYTHON_BOX = qd.ndrange(2, (1, 3), axes=(1, 0))


@qd.real_func
def halves(a: qd.f32) -> tuple[qd.f32, qd.i32]:
    return a * 0.5, 3


@qd.real_func
def raise_by(a: qd.ref(qd.f32), b: qd.f32):
    a = a + b


def plain_functions(x, y, n, g):
    for i in x:
        y[i] = twice(x[i]) + typed(i) + LINE.at(i) + LINE(i)


def lambdas_and_partials(x, y, n, g):
    for i in x:
        y[i] = FIRST(i) + 100 * SECOND(i) + TABLE["partial"](i) + qd.func(typed)(2 * i)


def raised(a: qd.ref(qd.f32), v: qd.template(), by):
    a += by
    v[1] = a
    return by


def plain_functions_by_reference(x, y, n, g):
    s, v = 1.0, qd.Vector([0.0, 2.0])
    n[0] = raised(s, v, 3)
    y[0], y[1], y[2] = s, v[0], v[1]
    raised(x[0], by=0, v=v)
    y[3] = v[1]


def fills(x, y, n, g):
    y.fill(x[3])
    for i in x:
        y[i] += 1
    n.fill(2)
    qd.loop_config(serialize=True)
    for i in range(2):
        g.fill(i + 4)


def loop_variables(x, y, n, g):
    for i in range(3):
        i = qd.cast(i + 1, qd.i32)
        n[i] = i
    for i in range(1):
        for j in range(4):
            j = j * 2
            if j < 4:
                y[j] = j
    for i in qd.grouped(qd.ndrange(2)):
        i = i + 2
        y[i] += 10


def walrus(x, y, n, g):
    for i in x:
        if (v := i * 2) > 2:
            n[i] = v
        k = 0
        while (k := k + 1) < i:
            y[i] += k


def reductions(x, y, n, g):
    a, o, e, p, least, most, s = -1, 0, 0, 1, 9.0, -9.0, 1.0
    for i in x:
        a &= i + 12
        o |= i
        e = e ^ (i + 1)
        p *= i + 1
        least = min(least, x[i])
        most = qd.max(x[i], most)
        s = s - x[i]
    n[0], n[1], n[2], n[3] = a, o, e, p
    y[0], y[1], y[2] = least, most, s


def old_values_at_run_time_indices(x, y, n, g):
    v, w, u = qd.Vector([0, 0]), qd.Matrix([[0, 0], [7, 7]]), qd.Vector([1.0, 1.0])
    for i in x:
        g[i % 2, qd.atomic_add(v[i % 2], 1)] += 1
        w[0, i % 2] |= i
        qd.atomic_and(w[1, i // 2], i)
        u[i // 2] *= i + 1.0
    n[0], n[1], n[2], n[3] = w[0, 0], w[0, 1], w[1, 0], w[1, 1]
    y[0], y[1], y[2], y[3] = v[0], v[1], u[0], u[1]


def vectors_in_logic(x, y, n, g):
    a, b = qd.Vector([1, 0, 3]), qd.Vector([0, 0, 6])
    c = (a and b) + 10 * (a or b) + 100 * (not a)
    d = qd.Vector([1.0, 2.0]) if n[0] > 0 else 5.0
    e = a if a > b else 9
    for i in qd.static(range(3)):
        n[i] = c[i]
        g[0, i] = e[i]
    y[0], y[1] = d[0], d[1]


def boxes(x, y, n, g):
    for at in qd.grouped(qd.ndrange()):
        y[0] += 1
    for i, j in qd.ndrange(*BOX):
        if i < 2:
            g[i, j] += 1
    for i, j in PYTHON_BOX:
        g[i, j] += 10
    k = 0
    qd.loop_config(serialize=True)
    for i, j in qd.ndrange(2, 3, axes=(1, 0)):
        g[i, j] += 100 * k
        k += 1
    for at in qd.static(qd.grouped(qd.ndrange((1, 3)))):
        n[at] += 1


def real_functions(x, y, n, g):
    for i in x:
        half, three = halves(x[i])
        raise_by(half, 1.0)
        y[i] = half + three


X = np.array([-1.0, 0.5, 2.0, 3.0], np.float32)
N = np.arange(4)
def numbers_in_strings(x, y, n, g):
    for i in y:
        least = float("inf")
        for j in range(3):
            least = min(least, x[j] - i)
        y[i] = least
    y[3] = -float("inf") if int("7") == 7 else float("nan")


KERNELS = {
    plain_functions: {"y": np.where(X > 0, 2 * X, 0) + N * 0.5 + 6.0 * N},
    lambdas_and_partials: {"y": 4 * N + 1 + 100 * (np.where(N > 1, 4, N) + 1) + N - 1 + N},
    plain_functions_by_reference: {"y": [4, 0, 4, -1], "n": [3, 0, 0, 0]},
    fills: {"y": [4] * 4, "n": [2] * 4, "g": [[5] * 3] * 2},
    loop_variables: {"n": [0, 1, 2, 3], "y": [0, 0, 2 + 10, 10]},
    walrus: {"n": [0, 0, 4, 6], "y": [0, 0, 1, 3]},
    reductions: {"n": [12, 3, 4, 24], "y": [-1.0, 3.0, -3.5, 0]},
    old_values_at_run_time_indices: {"n": [2, 3, 0, 2], "y": [2, 2, 2, 12], "g": [[1, 1, 0]] * 2},
    vectors_in_logic: {"n": [10, 100, 11, 0], "y": [5, 5, 0, 0], "g": [[1, 9, 9], [0, 0, 0]]},
    boxes: {"y": [1, 0, 0, 0], "n": [0, 1, 1, 0], "g": [[0, 210, 410], [101, 311, 510]]},
    real_functions: {"y": X / 2 + 4},
    numbers_in_strings: {"y": [*(min(X[:3]) - N)[:3], -np.inf]},
}


@pytest.mark.parametrize("body", KERNELS, ids=lambda f: f.__name__)
def test_value(body):
    t = qd.template()
    body.__annotations__ = dict.fromkeys("xyng", t)
    shapes = {"x": (qd.f32, 4), "y": (qd.f32, 4), "n": (qd.i32, 4), "g": (qd.i32, (2, 3))}
    fields = {name: qd.field(*shape) for name, shape in shapes.items()}
    fields["x"].from_numpy(X)
    qd.kernel(body)(*fields.values())
    for name, want in {"x": X, **KERNELS[body]}.items():
        assert fields[name].to_numpy() == pytest.approx(np.array(want)), name


@qd.kernel
def measured(x: qd.template(), y: qd.template(), f: qd.template()):
    for i in x:
        i = i
        y[None] += f(v := x[i] * 2) + v


@pytest.mark.parametrize(("f", "slope"), [(lambda v: v * v, 8 * X), (LINE, 6.0 + 0 * X)])
def test_gradient_through_a_plain_function(f, slope):
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(X)
    y.grad[None] = 1
    measured(x, y, f)
    measured.grad(x, y, f)
    assert x.grad.to_numpy() == pytest.approx(slope + 2)


@qd.kernel
def tangents(x: qd.template(), a: qd.types.ndarray(), y: qd.template()):
    for i in y:
        y[i] = x.grad[i] + x.dual[i] + a.grad[i]
    x.grad.fill(0.0)


def test_gradients_and_duals_are_read():
    x = qd.field(qd.f32, 3, needs_grad=True, needs_dual=True)
    a, y = qd.ndarray(qd.f32, 3, needs_grad=True), qd.field(qd.f32, 3)
    for values, number in (x.grad, 1), (x.dual, 10), (a.grad, 100):
        values.fill(number)
    tangents(x, a, y)
    assert y.to_numpy().tolist() == [111] * 3
    assert x.grad.to_numpy().tolist() == [0] * 3


def test_a_gradient_that_is_read_is_a_constant(session):
    x, y = qd.field(qd.f32, 3, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    @qd.kernel
    def descend():
        for i in x:
            y[None] += 2.0 * x[i] - x.grad[i]
            x.grad[i] = 0.0
    x.grad.fill(3.0)
    descend()
    assert y[None] == -9.0
    y.grad[None] = 5.0
    descend.grad()
    assert x.grad.to_numpy().tolist() == [10.0] * 3


class Table:
    def __init__(self):
        self.f = qd.field(qd.i32, 4)
        self.parts = [[self.f]]

    def at(self, i):
        return self.f[i]

    def helper(self, i):
        return self.at(i) + 10 * self.inner(i)

    def inner(self, i):
        return self.parts[0][0][i]

    def guarded(self, i):
        try:
            return self.at(i)
        except Exception:
            return -1

    def put(self, v):
        self.f[3] = v


@pytest.mark.parametrize("name", ["at", "helper", "inner"])
def test_plain_functions_of_constants_read_fields_at_each_launch(name, recwarn):
    table = Table()
    read, put = getattr(table, name), table.put
    total = qd.field(qd.i32, ())
    @qd.kernel
    def run():
        total[None] = read(2)
        put(5)
    for value in 3, 4:
        table.f[2] = value
        table.f[3] = 0
        run()
        assert total[None] == value * (11 if name == "helper" else 1)
        assert table.f[3] == 5
    assert not [w for w in recwarn if "QL1904" in str(w.message)]


def test_what_reads_a_field_at_compile_time_and_cannot_be_inlined_is_an_error():
    table = Table()
    once, cached = table.guarded, qd.field(qd.i32, ())

    @qd.kernel
    def run():
        cached[None] = once(2)

    @qd.kernel
    def constant():
        cached[None] = qd.static(once(2))

    with pytest.raises(qd.QuadrantsCompilationError, match="QL1201"):
        run()
    table.f[2] = 8
    constant()
    assert cached[None] == 8


@pytest.mark.parametrize(("sizes", "axes", "code"), [
    (((0, 10, 2), 2), None, "QL1707"),
    ((1.5, 2), None, "QL1707"),
    ((2, 2), (0, 0), "QL1708"),
    ((2, 2), 5, "QL1719"),
    ((2, 2), (0, "n"), "QL1719"),
])
def test_a_python_ndrange_that_a_kernel_would_refuse(sizes, axes, code):
    with pytest.raises(qd.QuadrantsCompilationError, match=code):
        qd.ndrange(*sizes, axes=axes)
    assert list(qd.ndrange((np.int64(1), 2), [0, 1])) == [(1, 0)]


def test_a_property_that_reads_a_field_is_warned_about():
    class Counted:
        f = qd.field(qd.i32, ())
        shape = property(lambda self: self.f.shape)
        count = property(lambda self: self.f[None])

    box, y = Counted(), qd.field(qd.i32, 3)

    @qd.kernel
    def run():
        y[0] = len(box.shape)
        y[1] = qd.static(box.count)
        y[2] = box.count

    with pytest.warns(qd.QuadrantsWarning, match=r"QL1905.*'box.count' is a property that reads a field") as told:
        run()
    assert len(told) == 1


def test_slices_of_what_is_known_at_compile_time(session):
    a, b, c = (qd.field(qd.i32, 2) for _ in range(3))
    fields, numbers = [a, b, c], np.array([1, 2, 3, 4])

    @qd.kernel
    def fill():
        for k, f in qd.static(enumerate(fields[::-1])):
            f[0] = k + 1
        for f, n in qd.static(zip(fields[1:], numbers[:2])):  # noqa: B905
            f[1] = 10 * n

    @qd.kernel
    def ends(x: qd.types.ndarray()) -> qd.i32:
        t = (1, 2, 3)[::-1]
        return x.shape[1:][0] * 100 + len(x.shape[:2]) * 10 + t[0]

    fill()
    assert [f.to_numpy().tolist() for f in fields] == [[3, 0], [2, 10], [1, 20]]
    assert ends(np.zeros((2, 3, 4))) == 323


def test_text_and_lists_at_compile_time(session, capfd):
    name, offsets, nothing = "rows", [(-1, 0), (0, 0), [0, 2]], None

    @qd.kernel
    def steps() -> qd.i32:
        total = 0
        for d in qd.static(qd.ndrange((-1, 2), (-1, 2))):
            if qd.static(d != (0, 0)):
                total += 1
        for d in qd.static(offsets):
            if qd.static(d == (0, 2) or d in [(-1, 0)]):
                total += 10
        for k in qd.static([4] + list(range(2)) + [5]):
            total += 100 * k
        if qd.static(not nothing):
            total += 10000
        return total + (qd.Vector([3, 4]) + offsets[0]).sum() * 100000

    @qd.kernel
    def tell():
        print("-" * 3, name + ":", "n=%d" % 3)  # noqa: UP031

    assert steps() == 611028
    tell()
    qd.sync()
    assert capfd.readouterr().out == "--- rows: n=3\n"


class Joint(IntEnum):
    FIXED = 0
    HINGE = 5


def test_value_and_name_of_a_member_of_an_enumeration_of_integers(session):
    @qd.kernel
    def described(kind: qd.i32, known: qd.template()) -> qd.i32:
        total = 1000 * known.value
        if kind == Joint.HINGE.value:
            total += 100
        for joint in qd.static(list(Joint)):
            if qd.static(joint.name == known.name):
                total += 10 + joint
        return total
    assert described(5, Joint.HINGE) == 5115
    assert described(5, Joint.FIXED) == 110
    with pytest.raises(qd.QuadrantsNameError, match="QL1306.*'known' has no attribute 'value'"):
        described(5, 5)


def test_a_list_of_the_run_time_is_not_compared_at_compile_time(session):
    @qd.kernel
    def run(n: qd.i32) -> qd.i32:
        if qd.static((n, 1) == (2, 1)):
            return 1
        return 0
    with pytest.raises(qd.QuadrantsSyntaxError, match="QL1606"):
        run(2)
