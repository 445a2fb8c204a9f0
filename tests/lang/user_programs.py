"""What programs of users rely on: each function is one such program, which returns numbers. Names and annotations."""

import dataclasses
from typing import Final

from lang import user_programs_memory  # noqa: F401  # more rows
from lang.user_rows import ROWS, row

__all__ = ["ROWS"]


# --- names and scopes

@row(0, 1, 10, 11)
def a_func_returns_an_ndrange_to_a_static_loop(qd):
    x = qd.field(qd.i32, shape=4)
    @qd.func
    def near():
        return qd.ndrange(2, 2)
    @qd.kernel
    def k():
        for o in qd.static(qd.grouped(near())):
            x[o[0] * 2 + o[1]] = o[0] * 10 + o[1]
    k()
    return x.to_numpy()

@row(10, 25, 5, 1, 15, 1, 1, 37)
def objects_of_python_are_compared_without_static(qd):
    @qd.data_oriented
    class Model:
        def __init__(self, mode):
            self.mode = mode
        @qd.func
        def f(self, v):
            r = v
            if self.mode == "double":
                r = v * 2
            elif self.mode == "square":
                r = v * v
            return r
        @qd.kernel
        def k(self) -> qd.i32:
            return self.f(5)
    x = qd.field(qd.f32, shape=(3, 4))
    @qd.kernel
    def chosen(mode: qd.template(), n: qd.i32) -> qd.i32:
        r = 1 if mode == "a" and n > 2 else 5
        if mode != "a" or n < 0:
            r += 10
        return r
    @qd.kernel
    def shape_and_dtype() -> qd.i32:
        r = 0
        if x.shape == (3, 4) and x.dtype == qd.f32:
            r = 1
        return r
    @qd.kernel
    def pair(p: qd.template()) -> qd.i32:
        same = p == (1, 2)
        r = 0
        if same:
            r = 1
        return r
    @qd.func
    def signed(v, mode: qd.template()):
        r = v
        if mode == "minus":
            r = -v
        return r
    @qd.kernel
    def funcs() -> qd.i32:
        return signed(3, "minus") + signed(4, "plus") * 10
    return [*(Model(mode).k() for mode in ("double", "square", "other")), chosen("a", 3), chosen("b", 3),
            shape_and_dtype(), pair((1, 2)), funcs()]  # fmt: skip

@row(0, 1, 10, 11)
def a_method_returns_an_ndrange(qd):
    @qd.data_oriented
    class Grid:
        def __init__(self):
            self.dim = 2
            self.x = qd.field(qd.i32, shape=4)
        @qd.func
        def near(self):
            return qd.ndrange(*((2,) * self.dim))
        @qd.kernel
        def k(self):
            for o in qd.static(qd.grouped(self.near())):
                self.x[o[0] * 2 + o[1]] = o[0] * 10 + o[1]
    grid = Grid()
    grid.k()
    return grid.x.to_numpy()

@row(0, 4, 0, 3, 5)
def one_of_several_targets_has_an_unpacked_vector_in_its_index(qd):
    x = qd.field(qd.i32, shape=5)
    @qd.func
    def at(i, j):
        return 2 * i + j
    @qd.kernel
    def k():
        p = qd.Vector([1, 1])
        x[at(*p)], x[1], x[4] = 3, 4, 5
    k()
    return x.to_numpy()

@row(10, 22, 2)
def methods_call_those_of_their_superclass(qd):
    x = qd.field(qd.i32, shape=3)
    @qd.data_oriented
    class Base:
        def __init__(self, n):
            self.n = n
        @property
        def two(self):
            return 2
        @qd.func
        def f(self, i):
            return i + self.n
    @qd.data_oriented
    class Middle(Base):
        @qd.func
        def f(self, i):
            return super().f(i) * 2
    @qd.data_oriented
    class Last(Middle):
        @qd.func
        def f(self, i):
            return 0
        @qd.kernel
        def k(self, at: qd.i32):
            x[at] = super().f(at)
            x[2] = super().two
    Last(5).k(0)
    Last(10).k(1)
    return x.to_numpy()

@row(0, 1, 10, 11, peer="")
def a_func_returns_an_ndrange_to_a_parallel_loop(qd):
    x = qd.field(qd.i32, shape=4)
    @qd.func
    def near():
        return qd.ndrange(2, 2)
    @qd.kernel
    def k():
        for a, b in near():
            x[a * 2 + b] = a * 10 + b
    k()
    return x.to_numpy()

@row(4)
def a_func_returns_a_field(qd):
    a = qd.field(qd.f32, shape=3)
    a[1] = 4
    @qd.func
    def which():
        return a
    @qd.kernel
    def k() -> qd.f32:
        return which()[1]
    return [k()]

@row(3)
def a_func_returns_a_template(qd):
    @qd.func
    def f(a) -> qd.template():
        return a * 2.0
    @qd.kernel
    def k() -> qd.f32:
        return f(1.5)
    return [k()]

@row(0, 1, 2, 0, 1, 2)
def a_comprehension_reuses_the_name_of_a_loop(qd):
    x = qd.Vector.field(3, qd.f32, shape=2)
    @qd.kernel
    def k():
        for i in range(2):
            x[i] = qd.Vector([i * 1.0 for i in range(3)])
    k()
    return x.to_numpy().flatten()

@row(73)
def a_comprehension_leaves_names_alone(qd):
    @qd.kernel
    def k() -> qd.i32:
        n = 7
        v = [n for n in range(3)]  # noqa: C416
        return n * 10 + v[0] + v[1] + v[2]
    return [k()]

@row(3, 6)
def a_static_loop_reuses_the_name_of_a_local(qd):
    x = qd.field(qd.i32, shape=2)
    @qd.kernel
    def k():
        for i in range(2):
            n = i + 1
            s = 0
            for n in qd.static(range(3)):
                s += n * (i + 1)
            x[i] = s
    k()
    return x.to_numpy()

@row(73)
def a_static_loop_leaves_names_alone(qd):
    @qd.kernel
    def k() -> qd.i32:
        n = 7
        s = 0
        for n in qd.static(range(3)):
            if n > 0:
                s += n
        return n * 10 + s
    return [k()]

@row(23, 44, peer="")
def a_func_returns_from_a_static_loop_that_reuses_a_name(qd):
    @qd.func
    def first_above(least):
        n = 1
        for j in range(3):
            n += j
            for n in qd.static(range(3)):
                if n + 2 * j > least:
                    return n + 20 * j
        return n * 11
    @qd.kernel
    def k(least: qd.i32) -> qd.i32:
        return first_above(least)
    return [k(2) + 2, k(9)]

@row(1, 2, 3)
def a_local_name_for_a_member(qd):
    @qd.data_oriented
    class Memory:
        def __init__(self):
            self.a = qd.field(qd.f32, shape=3)
    @qd.data_oriented
    class Simulation:
        def __init__(self):
            self.memory = Memory()
        @qd.kernel
        def k(self):
            memory = self.memory
            for i in range(3):
                memory.a[i] = i + 1.0
    simulation = Simulation()
    simulation.k()
    return simulation.memory.a.to_numpy()

@row(4, 2, 3, peer="")
def local_names_for_fields_funcs_and_dtypes(qd):
    a = qd.field(qd.f32, shape=3)
    a[1] = 4
    @qd.func
    def above(x):
        return x + 1.0
    @qd.kernel
    def k(n: qd.i32) -> qd.f32:
        b = a
        g = above
        t = qd.f32
        r = b[1]
        if n == 1:
            r = g(1.0)
        if n == 2:
            r = qd.cast(3, t)
        return r
    return [k(0), k(1), k(2)]

@row(4)
def a_local_name_for_an_ndrange(qd):
    @qd.kernel
    def k() -> qd.i32:
        s = 0
        square = qd.ndrange(2, 2)
        for i, j in qd.static(square):
            s += i + j
        return s
    return [k()]


# --- annotations

@row(0.5, 1)
def a_scalar_annotation_takes_a_vector(qd):
    x = qd.Vector.field(2, qd.f32, shape=())
    @qd.func
    def half(s: qd.f32):
        return s * 0.5
    @qd.kernel
    def k():
        x[None] = half(qd.Vector([1.0, 2.0]))
    k()
    return x.to_numpy()

@row(4, 5)
def a_scalar_annotation_casts_each_element(qd):
    @qd.func
    def taken(x: qd.i32):
        return x + 0.5
    @qd.func
    def returned(x) -> qd.i32:
        return x + 0.5
    @qd.kernel
    def k() -> qd.f32:
        return taken(qd.Vector([1.7, 2.7])).sum()
    @qd.kernel
    def h() -> qd.f32:
        return (returned(qd.Vector([1.7, 2.9])) * 1.0).sum()
    return [k(), h()]

@row(3)
def a_local_is_annotated_as_a_number_and_is_a_vector(qd):
    @qd.kernel
    def k() -> qd.f32:
        a: qd.f32 = qd.Vector([1.0, 2.0])
        return a.sum()
    return [k()]

@row(3, 3, 3)
def options_of_funcs(qd):
    x = qd.field(qd.f32, shape=3)
    @qd.func(requires_top_level=False, is_real_function=False)
    def twice(a):
        return a * 2.0
    @qd.func(is_real_function=True)
    def really(a: qd.f32) -> qd.f32:
        return a * 2.0
    @qd.func(requires_top_level=True)
    def above():
        for i in x:
            x[i] += 1.0
    @qd.kernel
    def k() -> qd.f32:
        return twice(1.5)
    @qd.kernel
    def h() -> qd.f32:
        return really(1.5)
    @qd.kernel
    def at_the_top():
        above()
    at_the_top()
    return [k(), h(), x.to_numpy().sum()]

@row(6, 0)
def members_that_are_final(qd):
    settings = dataclasses.make_dataclass(
        "Settings", [("n", Final[int]), ("x", qd.types.NDArray[qd.f32, 1])], frozen=True
    )
    @qd.kernel
    def k(s: settings):
        for _ in qd.static(range(s.n)):
            s.x[0] += s.n
    x = qd.ndarray(qd.f32, shape=(2,))
    for n in (1, 2, 1):
        k(settings(n, x))
    return x.to_numpy()

@row(1, 2)
def members_that_are_no_templates(qd):
    @qd.data_oriented(template_primitives=False)
    class A:
        def __init__(self):
            self.n = 1
            self.x = qd.field(qd.i32, shape=())
        @qd.kernel
        def k(self):
            self.x[None] = self.n
    a, found = A(), []
    for n in (1, 2):
        a.n = n
        a.k()
        found.append(a.x[None])
    return found
