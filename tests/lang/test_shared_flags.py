"""Locals of a kernel that parallel loops set to a constant, or element by element."""

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd

session = session_of(EVERYWHERE)
COUNT = 500


@pytest.mark.parametrize("at", [None, 0, 311])
def test_a_flag_is_set_where_an_iteration_finds_something(at) -> None:
    x = qd.field(qd.i32, COUNT)

    @qd.kernel
    def look() -> qd.types.vector(3, qd.i32):
        found, none, sign = 0, True, -1
        for i in x:
            if x[i] > 0:
                found = 1
                none = False
            elif x[i] < 0:
                found = 1
        for i in x:
            sign = -1
        return qd.Vector([found, none, sign])

    if at is not None:
        x[at] = 3
    assert list(look()) == [int(at is not None), int(at is None), -1]


def test_the_derivative_ends_where_the_constant_is_set() -> None:
    x, y = qd.field(qd.f32, COUNT, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def capped():
        scale = x[0] * 2.0
        for i in x:
            if x[i] > 1.0:
                scale = 5
        y[None] += scale * x[1]

    for greatest, slopes in ((0.5, [0.6, 1.0]), (2.0, [0.0, 5.0])):
        x.from_numpy(np.full(COUNT, 0.3, np.float32))
        x[0], x[COUNT - 1] = 0.5, greatest
        x.grad.fill(0)
        y.grad[None] = 1.0
        capped()
        capped.grad()
        np.testing.assert_allclose(x.grad.to_numpy()[:3], [*slopes, 0.0], rtol=1e-6)


@CPU_ALONE  # the front end refuses them
@pytest.mark.parametrize(("other", "code"), [("constant", "QL1704"), ("sum", "QL1705"), ("read", "QL1705")])
def test_other_changes_and_reads_beside_it_are_errors(other: str, code: str) -> None:
    x = qd.field(qd.i32, 4)
    @qd.kernel
    def mixed() -> qd.i32:
        s = 0
        for i in x:
            s = 1
            if qd.static(other == "constant"):
                s = 2
            elif qd.static(other == "sum"):
                s += 1
            else:
                x[i] = s
        return s
    with pytest.raises(qd.QuadrantsCompilationError, match=code):
        mixed()


def test_each_iteration_assigns_its_own_elements_of_a_matrix() -> None:
    @qd.kernel
    def tables() -> qd.types.matrix(4, 3, qd.i32):
        m, a = qd.Matrix([[0, 0, 0], [0, 0, 0]]), qd.Matrix([[5, 5, 5], [5, 5, 5]])
        for i in range(2):
            for j in range(3):
                m[i, j] = 10 * i + j
        for i, j in qd.ndrange(2, (1, 3)):
            a[i, j] = 10 * i + j
        for j in range(3):
            a[1, j] = m[1, j] + 1
        return qd.Matrix([[m[0, 0], m[0, 1], m[0, 2]], [m[1, 0], m[1, 1], m[1, 2]],
                          [a[0, 0], a[0, 1], a[0, 2]], [a[1, 0], a[1, 1], a[1, 2]]])
    assert tables().to_list() == [[0, 1, 2], [10, 11, 12], [5, 1, 2], [11, 12, 13]]


@CPU_ALONE  # the front end refuses them
@pytest.mark.parametrize(("other", "code"), [("index", "QL1704"), ("axis", "QL1704"), ("sum", "QL1705"),
                                             ("read", "QL1705"), ("constant index", "QL1704")])  # fmt: skip
def test_elements_that_other_iterations_may_reach_are_not_assigned(other: str, code: str) -> None:
    x = qd.field(qd.i32, (4, 4))

    @qd.kernel
    def mixed():
        v = qd.Vector([0, 0, 0, 0])
        for i, j in x:
            if qd.static(other == "index"):
                v[(i + j) % 4] = 1 + i
            elif qd.static(other == "axis"):
                v[i] = j
        for i in range(4):
            v[i] = i
            if qd.static(other == "sum"):
                v[i] += 1
            elif qd.static(other == "constant index"):
                v[0] = i
            elif qd.static(other == "read"):
                x[i, 0] = v[3 - i]

    with pytest.raises(qd.QuadrantsCompilationError, match=code):
        mixed()
