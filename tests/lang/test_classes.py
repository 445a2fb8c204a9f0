"""Classes whose methods are kernels and funcs."""

import gc
import weakref

import numpy as np
import pytest
from sessions import WITH_F64, session_of

import quadrants_lab as qd
from quadrants_lab.runtime.compile import compile as compiler

session = session_of(WITH_F64, default_fp=qd.f64)


@qd.data_oriented
class Spring:
    links = 3

    def __init__(self, n, stiffness):
        self.n = n
        self.stiffness = stiffness
        self.x = qd.field(qd.f64, n, needs_grad=True)
        self.energy = qd.field(qd.f64, (), needs_grad=True)

    @property
    def half(self):
        return self.stiffness / 2

    @qd.func
    def stretch(self, i):
        return self.x[i + 1] - self.x[i]

    @qd.func
    def law(self, s):
        return self.half * s * s

    @qd.kernel
    def measure(self, scale: qd.f64) -> qd.f64:
        for i in range(self.n - 1):
            self.energy[None] += scale * self.law(self.stretch(i))
        return self.links

    @staticmethod
    @qd.func
    def squared(a):
        return a * a

    @staticmethod
    @qd.kernel
    def plus_one(a: qd.i32) -> qd.i32:
        return a + 1

    @qd.kernel
    def norm(self) -> qd.f64:
        total = 0.0
        for i in self.x:
            total += self.squared(self.x[i])
        return total

    @qd.kernel
    def take(self, a: qd.types.ndarray(), f: qd.template(), other: qd.template()):
        for i in self.x:
            self.x[i] = a[i] + f[i] + other.stiffness


def test_methods_see_their_object():
    a, b = Spring(3, 2.0), Spring(4, 10.0)
    a.x.from_numpy(np.array([0.0, 1.0, 3.0]))
    b.x.from_numpy(np.array([0.0, 1.0, 3.0, 3.0]))
    assert a.measure(1.0) == 3
    b.measure(scale=0.5)
    assert a.energy[None] == 5.0
    assert b.energy[None] == 12.5
    assert b.norm() == 19.0
    assert Spring.plus_one(3) == a.plus_one(3) == 4
    assert Spring.norm(a) == 10.0
    a.take(np.ones(3), a.x, b)
    np.testing.assert_array_equal(a.x.to_numpy(), [11.0, 12.0, 14.0])


def test_gradients():
    a = Spring(3, 2.0)
    start = np.array([0.3, 1.0, 3.5])
    a.x.from_numpy(start)
    a.energy.grad[None] = 1.0
    a.measure.grad(2.0)
    want = 4.0 * np.array([start[0] - start[1], 2 * start[1] - start[0] - start[2], start[2] - start[1]])
    np.testing.assert_allclose(a.x.grad.to_numpy(), want)
    with qd.ad.Tape(a.energy):
        a.measure(2.0)
    np.testing.assert_allclose(a.x.grad.to_numpy(), want)
    assert "energy" in a.measure.ir()


class Softer(Spring):
    @qd.func
    def law(self, s):
        return Spring.law(self, s) * 0.5

    @property
    def half(self):
        return 0.25


def test_inheritance():
    a, b = Spring(2, 2.0), Softer(2, 2.0)
    for s in (a, b, a):
        s.x.from_numpy(np.array([0.0, 4.0]))
        s.measure(1.0)
    assert a.energy[None] == 32.0
    assert b.energy[None] == 2.0


@qd.data_oriented
class Nested:
    def __init__(self):
        self.one = Spring(2, 1.0)
        self.many = [Spring(2, 2.0), Spring(2, 3.0)]
        self.options = {"shift": 5, "on": True}
        self.array = qd.ndarray(qd.f64, 3)
        self.start = qd.Vector([1.0, 2.0])
        self.dtype = qd.f32
        self.op = qd.sin

    @qd.kernel
    def sum(self) -> qd.f64:
        r = self.one.law(2.0) + self.options["shift"] + self.start.dot(self.start)
        for s in qd.static(self.many):
            r += s.law(1.0)
            s.x[0] = s.stiffness
        for k in qd.static(range(len(self.many))):
            r += self.many[k].x[0]
        if qd.static(self.options["on"]):
            self.array[1] += r
        return self.array[1] + qd.cast(0.1, self.dtype) - 0.1 + self.op(0.0)


def test_attributes_of_every_kind():
    n = Nested()
    want = 2 + 5 + 5 + 1 + 1.5 + 2 + 3 + np.float32(0.1) - 0.1
    assert n.sum() == pytest.approx(want, abs=1e-12)
    assert n.sum() == pytest.approx(2 * 19.5 + np.float32(0.1) - 0.1, abs=1e-12)
    assert n.array.to_numpy().tolist() == [0.0, 39.0, 0.0]


@qd.data_oriented
class Buffers:
    def __init__(self):
        self.now, self.then = qd.field(qd.f64, 2), qd.field(qd.f64, 2)
        self.array = qd.ndarray(qd.f64, 2)
        self.factor = 2

    @qd.kernel
    def step(self) -> qd.i32:
        for i in self.now:
            self.then[i] = self.now[i] * 2 + 1
            self.array[i] += 1
        return self.factor


def test_fields_that_are_replaced():
    b = Buffers()
    first, second = b.now, b.then
    for _ in range(5):
        b.step()
        b.now, b.then = b.then, b.now
    assert first.to_numpy().tolist() == [15.0, 15.0]
    assert second.to_numpy().tolist() == [31.0, 31.0]
    old, b.array = b.array, qd.ndarray(qd.f64, 2)
    b.step()
    assert old.to_numpy().tolist() == [5.0, 5.0]
    assert b.array.to_numpy().tolist() == [1.0, 1.0]
    assert len(b.step.dispatcher.plans) == 3


def test_numbers_are_constants_unless_asked_otherwise():
    b = Buffers()
    assert b.step() == 2
    b.factor = 7
    assert b.step() == 2

    @qd.data_oriented(template_primitives=False, stable_members=True)
    class Fresh:
        def __init__(self):
            self.factor = 2

        @qd.kernel
        def get(self) -> qd.i32:
            return self.factor

    f = Fresh()
    for factor in (2, 7, 2):
        f.factor = factor
        assert f.get() == factor


def test_numbers_that_change_compile_nothing(monkeypatch):
    """Only numbers that must be known at compile time do; a gradient sees the numbers of its launch."""
    compiled = []
    compile_kernel = compiler.compile_kernel
    monkeypatch.setattr(
        compiler, "compile_kernel", lambda source, *a: compiled.append(source.name) or compile_kernel(source, *a)
    )

    @qd.data_oriented(template_primitives=False)
    class Spring:
        def __init__(self):
            self.n, self.k, self.wide = 0, 0.0, 2**40
            self.x = qd.field(qd.f32, shape=4, needs_grad=True)
            self.y = qd.field(qd.f32, shape=(), needs_grad=True)

        @qd.kernel
        def add(self):
            for i in range(self.n):
                self.y[None] += self.k * self.x[i] * self.x[i]

        @qd.kernel
        def unrolled(self) -> qd.i32:
            s = 0
            for i in qd.static(range(self.n)):
                s += self.n
            return s

        @qd.kernel
        def large(self) -> qd.i64:
            return self.wide

    s = Spring()
    s.x.fill(3)
    with qd.ad.Tape(s.y):
        for n, k in ((2, 0.5), (4, 0.25), (1, 2.0)):
            s.n, s.k = n, k
            s.add()
    assert s.y[None] == 9 * (1 + 1 + 2)
    assert s.x.grad.to_numpy() == pytest.approx(6 * np.array([2.75, 0.75, 0.25, 0.25]))
    assert compiled.count("add") == 2
    other = Spring()
    other.n, other.k = 3, 1.0
    other.x.fill(1)
    other.add()
    assert (other.y[None], s.unrolled(), other.unrolled(), other.large()) == (3, 1, 9, 2**40)
    s.k = 1
    s.add()  # an integer now
    assert s.y[None] == 9 * 5
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


class Equal:
    """Compares equal to everything, and has no hash."""

    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return True

    @qd.kernel
    def get(self) -> qd.i32:
        return self.k

    @qd.kernel
    def __getitem__(self, i: qd.i32) -> qd.i32:
        return self.k + i


def test_objects_are_distinguished_by_identity():
    class Same(Equal):
        pass
    with pytest.raises(qd.QuadrantsSyntaxError, match="Same, which is not data-oriented"):
        Same(1).get()
    qd.data_oriented(Same)
    a, b = Same(1), Same(2)
    assert (a.get(), b.get(), a[3]) == (1, 2, 4)
    assert "bound" in repr(a.get)
    with pytest.raises(qd.QuadrantsSyntaxError, match="decorates a class"):
        qd.data_oriented(3)
    with pytest.raises(qd.QuadrantsRuntimeError, match="only from kernels"):
        Spring(2, 1.0).law(1.0)


def test_a_method_cannot_assign_attributes():
    @qd.data_oriented
    class A:
        k = 1
        @qd.kernel
        def set(self):
            self.k = 5
    with pytest.raises(qd.QuadrantsSyntaxError, match="attribute"):
        A().set()


@qd.kernel
def apply(f: qd.template(), x: qd.f64) -> qd.f64:
    return f(x)


def test_methods_as_arguments():
    a, b = Spring(2, 2.0), Spring(2, 4.0)
    assert [apply(s.law, 3.0) for s in (a, b, a)] == [9.0, 18.0, 9.0]
    assert len(apply.dispatcher.plans) == 2
    assert a.law == a.law
    assert a.law != b.law


@qd.data_oriented
class Line:
    def __init__(self, slope):
        self.slope = slope

    @qd.func
    def __call__(self, x):
        return self.slope * x

    @qd.kernel
    def twice(self, x: qd.f64) -> qd.f64:
        return self(self(x))


def test_objects_that_are_called():
    a, b = Line(2.0), Line(3.0)
    assert [apply(line, 3.0) for line in (a, b)] == [6.0, 9.0]
    assert b.twice(3.0) == 27.0


@qd.kernel
def kinds(x: qd.template()) -> qd.i32:
    return qd.static(type(x) is int) + 10 * qd.static(type(x) is qd.ScalarField) + 100 * qd.static(type(x) is Line)


def test_types_of_arguments():
    assert [kinds(x) for x in (3, qd.field(qd.f64, 4), Line(1.0))] == [1, 10, 100]


class Option:
    """A plain class whose ``entries`` are its own matter."""

    def __init__(self, slope):
        self.slope, self.entries = slope, {}


@qd.data_oriented
class Steep:
    slope, entries = 2.0, {}


@qd.data_oriented
class Flat:
    slope, entries = 0.5, {}


@qd.kernel
def slope(of: qd.template()) -> qd.f64:
    return of.slope


def test_entries_of_other_classes_are_no_vectors():
    """Two vectors are told apart by their entries; two objects of another class are not."""
    assert [slope(o) for o in (Option(1.0), Option(3.0), Steep, Flat)] == [1.0, 3.0, 2.0, 0.5]
