"""Long loops that only add up, shared by threads that run together."""

from typing import Any

import numpy as np
import pytest
from rigs import apart
from sessions import sessions, skips

import quadrants_lab as qd
from quadrants_lab.backends._gpu.schedule import GpuSchedule
from quadrants_lab.backends.lower.long_sums import lower_long_sums
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk

n, m = 37, 1003


@pytest.fixture(params=[*sessions("cuda"), pytest.param("apart", marks=skips("vulkan"), id="apart")])
def session(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    apart.start(request.param, monkeypatch, default_fp=qd.f64)
    yield
    qd.reset()


def shared(kernel: N.Kernel) -> N.Kernel:
    return lower_long_sums(GpuSchedule(subgroup=32)(kernel))


def shares(kernel: N.Kernel) -> bool:
    return any(isinstance(s, N.GroupReduce) for s in walk(shared(kernel).body))


def test_values_and_gradients(session: None) -> None:
    """The loops are sums with an initial value, differences, sums in memory, and a product of sums."""
    x, w, a, y = (qd.field(qd.f64, s, needs_grad=True) for s in (m, m, (n, m), n))
    total = qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def k():
        for i in y:
            up = 0.5 * x[i]
            down = 0.0
            for j in range(3, m):
                d = x[j] - x[i]
                up += d * d * d * a[i, j]
                down -= w[j] * d
            y[i] = up + down
            total[None] += up * down

    rng = np.random.default_rng(0)
    values = {"x": rng.random(m), "w": rng.random(m), "a": rng.random((n, m))}
    for field, value in zip((x, w, a), values.values(), strict=True):
        field.from_numpy(value)
    k()
    assert shares(k.dispatcher.last.kernel)
    d = values["x"][None, 3:] - values["x"][:n, None]
    up = 0.5 * values["x"][:n] + (d**3 * values["a"][:, 3:]).sum(1)
    down = -(values["w"][3:] * d).sum(1)
    np.testing.assert_allclose(y.to_numpy(), up + down, rtol=1e-12)
    np.testing.assert_allclose(total[None], (up * down).sum(), rtol=1e-12)

    total.grad[None] = 1.0
    y.grad.from_numpy(g := rng.random(n))
    k.grad()
    g_up, g_down = (g + down)[:, None], (g + up)[:, None]
    g_a = g_up * d**3
    g_w = -(g_down * d).sum(0)
    g_d = g_up * 3 * d**2 * values["a"][:, 3:] - g_down * values["w"][3:]
    g_x = np.zeros(m)
    g_x[3:] += g_d.sum(0)
    g_x[:n] -= g_d.sum(1)
    g_x[:n] += 0.5 * g_up[:, 0]
    np.testing.assert_allclose(a.grad.to_numpy()[:, 3:], g_a, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(w.grad.to_numpy()[3:], g_w, rtol=1e-11)
    np.testing.assert_allclose(x.grad.to_numpy(), g_x, rtol=1e-10)


def test_the_gradient_of_a_product(session: None) -> None:
    """The gradient's loop carries no values."""
    a, x, y = (qd.field(qd.f64, s, needs_grad=True) for s in ((n, m), m, n))

    @qd.kernel
    def k():
        for i in y:
            s = 0.0
            for j in range(m):
                s += a[i, j] * x[j]
            y[i] = s

    rng = np.random.default_rng(3)
    for field in (a, x):
        field.from_numpy(rng.random(field.shape))
    k()
    y.grad.from_numpy(g := rng.random(n))
    k.grad()
    assert shares(k.grad.dispatcher.last.kernel)
    np.testing.assert_allclose(a.grad.to_numpy(), g[:, None] * x.to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.to_numpy(), g @ a.to_numpy(), rtol=1e-12)
    assert not y.grad.to_numpy().any()


def test_two_axes_and_integers(session: None) -> None:
    """A matrix product, of f32 and of i32."""
    for t in (qd.f32, qd.i32):
        a, b, c = qd.field(t, (5, 600)), qd.field(t, (600, 7)), qd.field(t, (5, 7))

        @qd.kernel
        def product(a: qd.template(), b: qd.template(), c: qd.template()):
            for i, j in c:
                s = c[i, j]
                for k in range(600):
                    s += a[i, k] * b[k, j]
                c[i, j] = s

        rng = np.random.default_rng(1)
        left, right, before = (rng.integers(-5, 6, f.shape).astype(t.numpy) for f in (a, b, c))
        for field, value in ((a, left), (b, right), (c, before)):
            field.from_numpy(value)
        product(a, b, c)
        assert (c.to_numpy() == before + left @ right).all()


LOOP = """kernel k() forward {
  buffer @x: field f32[1000]
  buffer @y: field f32[1000]
  buffer @a: field f32[1000x1000]

  offload struct_for bounds {
    %0: i32 = const 0
    %1: i32 = const ITERATIONS
    yield %0, %1
  } do (%2: i32 'i') {
    %4: f32 = const 0.0
    %5: i32 = const 0
    %6: i32 = const TRIPS
    BEFORE
    for %7: i32 'j' in %5..%6 carry (%8: f32 's' = %4) {
      %12: f32 = load @x[%7]
      BODY
      yield %14
    } -> (%16: f32 's')
    store @y[%2], %16
    yield
  }
}
"""


@pytest.mark.parametrize(("change", "shared"), [
    ({}, True),
    ({"BODY": "%14: f32 = sub %8, %12"}, True),
    ({"BODY": "%13: f32 = atomic add @y[%7], %12\n%14: f32 = add %8, %12"}, False),  # y is stored to
    ({"BODY": "%14: f32 = sub %12, %8"}, False),
    ({"BODY": "%14: f32 = mul %8, %12"}, False),
    ({"BODY": "%13: f32 = mul %8, %12\n%14: f32 = add %8, %13"}, False),
    ({"BODY": "%14: f32 = add %8, %8"}, False),
    ({"BODY": "store @x[%2], %12\n%14: f32 = add %8, %12"}, False),
    ({"BODY": "%13: f32 = atomic add @x[%2], %12\n%14: f32 = add %8, %12"}, False),  # and reads it
    ({"BEFORE": "store @y[%2], %4"}, True),
    ({"BEFORE": "store @x[%2], %4"}, False),  # which the loop reads
    ({"BEFORE": "store @y[%2], %4\n%3: f32 = load @y[%5]"}, False),
    ({"BEFORE": "%3: f32 = atomic add @y[%2], %4"}, False),
    ({"TRIPS": "500"}, False),
    ({"TRIPS": "2147483640"}, False),  # the index goes past what it can hold
    ({"ITERATIONS": "100000"}, False),
    ({"ITERATIONS": "100000", "BODY": "%13: f32 = load @a[%2, %7]\n%14: f32 = add %8, %13"}, True),  # rows
    ({"ITERATIONS": "10000", "BODY": "%13: f32 = load @a[%7, %2]\n%14: f32 = add %8, %13"}, False),  # columns
    ({"ITERATIONS": "1000", "BODY": "%13: f32 = load @a[%7, %2]\n%14: f32 = add %8, %13"}, True),
])
def test_which_loops(change: dict[str, str], shared: bool) -> None:
    text = LOOP
    usual = {"BODY": "%14: f32 = add %8, %12", "BEFORE": "", "TRIPS": "1000", "ITERATIONS": "1000"}
    for name, part in (usual | change).items():
        text = text.replace(name, part)
    assert shares(parse_kernel(text)) == shared


ADDS = """kernel k() reverse {
  buffer @x: field f32[1000]
  buffer @y: field f32[1000]
  buffer @z: field f32[1000]

  offload struct_for bounds {
    %0: i32 = const 0
    %1: i32 = const 1000
    yield %0, %1
  } do (%2: i32 'i') {
    %3: f32 = load @x[%2]
    %4: i32 = const 0
    %5: i32 = const 1000
    for %6: i32 'j' in %4..%5 {
      %7: f32 = load @READ[%6]
      %8: f32 = atomic add @z[%2], %7 private
      yield
    }
    %9: f32 = atomic add @z[%2], %3 private
    store @x[%2], %3
    yield
  }
}
"""


def test_additions_of_a_shared_loop_are_not_private() -> None:
    """Additions behind the loop are not private either: the first thread waits for the others there, which may still
    have to read what it stores."""
    kernel = shared(parse_kernel(ADDS.replace("READ", "y")))
    assert [s.private for s in walk(kernel.body) if isinstance(s, N.Atomic)] == [False, False]
    (waits,) = (s for s in walk(kernel.body) if isinstance(s, N.GroupReduce))
    (told,) = (s for s in walk(kernel.body) if isinstance(s, N.Op) and waits.id in s.args)
    (both,) = (s for s in walk(kernel.body) if isinstance(s, N.Op) and told.id in s.args)
    assert [s.cond for s in walk(kernel.body) if isinstance(s, N.If)] == [both.id]
