"""What C and MSL share: a variable stays one while nothing reads its old value, and what is read again keeps it."""

import numpy as np
import pytest

import quadrants_lab as qd


@pytest.fixture(params=["c", "metal"])
def stage(request: pytest.FixtureRequest) -> str:
    qd.init(arch=getattr(qd, request.param), offline_cache=False, simulate=True)
    return {"c": "c", "metal": "msl"}[request.param]


def test_a_variable_stays_one(stage: str) -> None:
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def carried(n: qd.i32):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = v * v
                if v > 0.5:
                    v -= 0.25
            y[None] += v

    x.from_numpy(np.array([0.5, -0.9, 0.7, 1.1], np.float32))
    y.grad[None] = 1.0
    carried(3)
    carried.grad(3)
    forward, reverse = carried.code(stage), carried.grad.code(stage)
    assert "v *= v;" in forward
    assert "v -= 0.25f;" in forward
    assert "v_2" not in forward
    assert "v_grad += v_grad;" in reverse
    assert "v_grad_2" not in reverse
    v, slope = x.to_numpy().astype(np.float64), np.ones(4)
    for _ in range(3):
        slope, v = slope * 2 * v, v * v
        v = np.where(v > 0.5, v - 0.25, v)
    assert y[None] == pytest.approx(v.sum(), rel=1e-5)
    assert x.grad.to_numpy() == pytest.approx(slope, rel=1e-5)


def test_a_value_that_is_read_again_keeps_its_variable(stage: str) -> None:
    """The later read may be in another trip, behind the loop, in its end, or in a variable that changes then."""
    x, n = qd.field(qd.f32, 4), qd.field(qd.i32, ())
    again, behind, end, swapped = (qd.field(qd.f32, 4) for _ in range(4))

    @qd.kernel
    def hazards(m: qd.i32):
        for i in x:
            for j in range(4):  # the square stands in front of the loop
                again[i] += x[(m * m + j) % 4] * ((m * m + j) % 4 + j)
            v = x[i]
            w = v
            for _ in range(3):
                w = w * 2.0 + 1.0
            behind[i] = v + w
            count = n[None]
            for _ in range(count):
                count = count * 2
            end[i] = count
            a, b = x[i], 1.0
            for j in range(3):
                a, b = b, a
                if j == 1:
                    a, b = a + b, a
            swapped[i] = a * 10 + b

    values = np.array([0.5, -0.9, 0.7, 1.1])
    x.from_numpy(values.astype(np.float32))
    n[None] = 3
    hazards(3)
    a, b = values, np.ones(4)
    for j in range(3):
        a, b = b, a
        a, b = (a + b, a) if j == 1 else (a, b)
    for field, right in ((again, values @ [3, 1, 3, 5]), (behind, values * 9 + 7), (end, 24.0), (swapped, a * 10 + b)):
        np.testing.assert_allclose(field.to_numpy(), right * np.ones(4), rtol=1e-5)


def test_a_condition_that_is_read_again_keeps_its_variable(stage: str) -> None:
    x, z = qd.field(qd.i32, 4), qd.field(qd.i32, 4)
    both, either = qd.field(qd.u1, 4), qd.field(qd.u1, 4)
    @qd.kernel
    def logic():
        for i in x:
            both[i] = bool(x[i]) and bool(z[i])
            either[i] = i > 2 or bool(x[i])
    x.from_numpy(np.array([3, 3, 0, 0], np.int32))
    z.from_numpy(np.array([0, 1, 1, 0], np.int32))
    logic()
    assert both.to_numpy().tolist() == [0, 1, 0, 0]
    assert either.to_numpy().tolist() == [1, 1, 0, 1]
