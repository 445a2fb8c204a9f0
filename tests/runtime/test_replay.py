"""A replay of a recorded launch gives its results on every backend and leaves the recorded session alone."""

import numpy as np
import pytest
from sessions import in_turn, session_of, sessions

import quadrants_lab as qd
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.backend import available, names
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.runtime.record.replay import MOST_SECONDS, replay, shadow

HERE = [name for name in names() if available(name).runs]
session = session_of(sessions("cpu"))


@pytest.fixture(params=in_turn([pytest.param(name, id=name) for name in HERE]))
def backend(request):
    return request.param


@qd.kernel
def mixed(a: qd.types.ndarray(dtype=qd.f32, ndim=1), by: qd.f32, out: qd.template()) -> qd.i32:
    for i in a:
        a[i] = a[i] * by + qd.random()
        out[None] += a[i]
    return 7

@qd.kernel
def halved(x: qd.template(), y: qd.template()):
    for i in x:
        v = x[i]
        while v > 0.1:
            v = qd.sin(v) * 0.5
        y[None] += v

@qd.kernel
def product(a: qd.types.ndarray(dtype=qd.f32, ndim=1), n: qd.i32, y: qd.template()):
    for i in range(a.shape[0]):
        v = a[i]
        for _ in range(n):
            v = v * v
        y[None] += v


def replayed(record, backend):
    beside = shadow(record.plan.session, backend)
    try:
        return replay(record, beside)
    finally:
        beside.end()


def test_arrays_scalars_draws_and_the_returned_value(backend) -> None:
    out, a = qd.field(qd.f32, ()), np.linspace(0, 1, 100, dtype=np.float32)
    with recording() as records:
        mixed(a, 0.5, out)
        mixed(a, 2.0, out)
    kept = a.copy()
    (record,) = records.records()
    made = replayed(record, backend)
    np.testing.assert_allclose(made.outputs["a"], record.outputs["a"], rtol=1e-6)
    np.testing.assert_allclose(made.outputs["out"], record.outputs["out"], rtol=1e-5)
    assert made.returned == record.returned == {"ret0": 7}
    assert made.seconds > 0 or made.first > MOST_SECONDS  # on a busy machine
    np.testing.assert_array_equal(a, kept)


def test_a_gradient_whose_stacks_are_counted(backend) -> None:
    x, y = qd.field(qd.f32, 50, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.linspace(0.05, 3, 50).astype(np.float32))
    with recording() as records:
        halved(x, y)
        y.grad[None] = 1
        halved.grad(x, y)
    x.fill(0)
    forward, gradient = records.records()
    assert gradient.report[0].how == "counted by the counting slice"
    np.testing.assert_allclose(replayed(forward, backend).outputs["y"], forward.outputs["y"], rtol=1e-5)
    made = replayed(gradient, backend)
    np.testing.assert_allclose(made.outputs["x.grad"], gradient.outputs["x.grad"], rtol=1e-5)
    assert made.lane_bytes >= sum(row.bytes_per_lane for row in gradient.report)
    assert made.heap_bytes >= made.lane_bytes


@pytest.mark.parametrize("forced", [0, 8])
def test_a_gradient_of_an_ndarray(backend, forced) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, ad_stack_size=forced)
    a, y = qd.ndarray(qd.f32, 3, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    a.from_numpy(np.array([1, 1.1, 1.2], np.float32))
    with recording() as records:
        product(a, 3, y)
        y.grad[None] = 1
        product.grad(a, 3, y)
    made = replayed(records.records()[1], backend)
    np.testing.assert_allclose(made.outputs["a.grad"], 8 * np.array([1, 1.1, 1.2]) ** 7, rtol=1e-5)


def test_a_gradient_that_overflows_says_so(backend) -> None:
    a, y = qd.ndarray(qd.f32, 3, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    with recording() as records:
        product.grad(a, 3, y)
    (record,) = records.records()
    record.plan.stacks.sizes = [SizeConst(1) for _ in record.plan.stacks.sizes]
    with pytest.raises(qd.QuadrantsAssertionError, match="holds 1, 3 were needed"):
        replayed(record, backend)


def test_the_default_session_stays(backend) -> None:
    out, a = qd.field(qd.f32, ()), np.ones(3, np.float32)
    with recording() as records:
        mixed(a, 0.5, out)
    before, version = S.current(), out.version
    replayed(records.records()[0], backend)
    assert S.current() is before
    assert out.version == version
    mixed(a, 0.5, out)
