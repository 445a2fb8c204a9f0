"""Loops whose sines have arguments near zero: which they are, that they mean the same, and what is left of them."""

import math
from typing import Any

import numpy as np
import pytest
from oracle.sines import sines
from rigs import apart
from sessions import sessions, skips

import quadrants_lab as qd
from quadrants_lab.backends._gpu.schedule import GpuSchedule
from quadrants_lab.backends.cuda import listings
from quadrants_lab.backends.lower.near_sines import lower_near_sines
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.interpret.interpreter import interpret

LOOP = """
kernel k() forward {
  buffer @x: field f32[12]
  buffer @w: field f32[12]
  buffer @y: field f32[12]
  offload struct_for bounds {
    %0: i32 = const 0
    %1: i32 = const 12
    yield %0, %1
  } do (%2: i32 'i') {
    %3: f32 = load @x[%2]
    %4: f32 = load @w[%2]
    %5: i32 = const 5
    %6: f32 = const 0.75
    for %7: i32 'j' in %0..%5 carry (%8: f32 'v' = %3, %9: f32 'u' = %4) {
BODY
      yield %18, %19
    } -> (%20: f32 'v', %21: f32 'u')
    %22: f32 = sub %20, %21
    store @y[%2], %22
    yield
  }
}
"""
X = [0.0, -0.0, 1e-30, 0.0112, 0.5, -0.5, 2.9999, -3.0, 3.1, 100.0, math.inf, math.nan]
W = [0.1, -0.1, 0.0, 2.0, -math.inf, math.inf, 1.0, 1e-9, 1.0, 0.5, 0.1, 0.1]


def kernel(body: str) -> N.Kernel:
    return parse_kernel(LOOP.replace("BODY", body))


def units(kernel: N.Kernel) -> list[str]:
    return [s.prim for s in walk(kernel.body) if isinstance(s, N.Op) and s.prim.startswith("unit")]


def loops(kernel: N.Kernel) -> int:
    return sum(isinstance(s, N.For) for s in walk(kernel.body))


ARM = "%12: u1 = lt %8, %6\nif %12 {\n%10: f32 = sin %8\nyield %10\n} else {\nyield %6\n} -> (%18: f32)"
NEAR = {  # body of the loop, and which of its sines are the unit's
    "a sum": ("%10: f32 = sin %8\n%18: f32 = add %10, %6\n%19: f32 = cos %8", ["unit_sin", "unit_cos"]),
    "a product and a difference":
        ("%10: f32 = sin %8\n%11: f32 = mul %6, %10\n%18: f32 = sub %11, %6\n%19: f32 = sin %18", ["unit_sin"] * 2),
    "a product of a product":
        ("%10: f32 = sin %8\n%11: f32 = mul %4, %10\n%18: f32 = mul %6, %10\n%19: f32 = mul %11, %4", ["unit_sin"]),
    "a product with what may be infinite":
        ("%10: f32 = sin %8\n%11: f32 = mul %10, %4\n%19: f32 = add %11, %4\n%18: f32 = neg %8", ["unit_sin"]),
    "of what is taken from": ("%10: f32 = sin %8\n%18: f32 = sub %6, %10\n%19: f32 = add %10, %10", ["unit_sin"]),
    "two sines of one sum": ("%10: f32 = sin %8\n%11: f32 = sin %9\n%18: f32 = add %10, %11\n%19: f32 = neg %10",
                             ["unit_sin"] * 2),
    "one of two": ("%10: f32 = sin %8\n%18: f32 = add %10, %6\n%11: f32 = sin %9\n%19: f32 = add %9, %11",
                   ["unit_sin"]),
    "in an arm": (f"{ARM}\n%19: f32 = abs %8", ["unit_sin"]),
}  # fmt: skip
FAR = {
    "it grows": "%10: f32 = sin %8\n%18: f32 = add %10, %8\n%19: f32 = add %9, %6",
    "from memory": "%10: f32 = sin %4\n%18: f32 = add %10, %6\n%19: f32 = cos %4",
    "just beyond": "%10: f32 = sin %8\n%11: f32 = add %10, %6\n%12: f32 = add %11, %6\n%13: f32 = add %12, %6\n"
                   "%18: f32 = add %13, %6\n%19: f32 = neg %9",
    "a barrier": "%10: f32 = sin %8\nbarrier\n%18: f32 = add %10, %6\n%19: f32 = neg %9",
    "a quotient": "%10: f32 = sin %8\n%18: f32 = div %6, %10\n%19: f32 = neg %9",
}  # fmt: skip


def lowered(kernel: N.Kernel) -> N.Kernel:
    return lower_near_sines(GpuSchedule(near_sines=True)(kernel))


def test_what_is_near() -> None:
    for name, (body, found) in NEAR.items():
        made = lowered(kernel(body))
        assert units(made) == found, name
        assert loops(made) == 2, name
    for name, body in FAR.items():
        before = kernel(body)
        assert units(lowered(before)) == [], name


@pytest.mark.parametrize("name", NEAR)
def test_it_means_the_same(name: str) -> None:
    """The rewritten loop gives the same bits, but for the sign of zero, also if the second loop runs."""
    outcomes = []
    before = kernel(NEAR[name][0])
    for k in (before, lowered(before)):
        memory = {"x": np.float32(X), "w": np.float32(W), "y": np.zeros(12, np.float32)}
        interpret(k, {}, memory)
        outcomes.append(memory["y"])
    small = np.abs(np.float32(X)) < 0.0113
    np.testing.assert_array_equal(outcomes[1][~small], outcomes[0][~small])
    np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=1e-6, atol=1e-6)


# --- on devices -------------------------------------------------------------------------------------------------

@pytest.fixture(params=[*sessions("cuda"), pytest.param("apart", marks=skips("vulkan"), id="apart")])
def session(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    apart.start(request.param, monkeypatch)
    yield
    qd.reset()


def test_values_and_gradients(session: None) -> None:
    """Loops that start from small, near, far and infinite values are compared with f64."""
    x, y = qd.field(qd.f32, 12, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def swings():
        for i in x:
            v = x[i]
            for _ in range(20):
                v = qd.sin(v) * 0.8 + 0.1
            y[None] += v

    start = np.float32([0.0, 1e-30, 0.0112, -0.0112, 0.5, -0.5, 2.9999, -3.0, 3.1, 100.0, -1000.0, 4000.0])
    x.from_numpy(start)
    y.grad[None] = 1.0
    swings()
    swings.grad()
    v, slope = sines(start, 20, plus=0.1, times=0.8)
    assert abs(y[None] - v.sum()) < 2e-5
    np.testing.assert_allclose(x.grad.to_numpy(), slope, rtol=1e-4, atol=1e-6)


def test_nothing_waits_for_a_reduction() -> None:
    """In PTX, one loop has the unit's sine and one fused operation after it."""
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, 64)

    @qd.kernel
    def swings():
        for i in x:
            v = x[i]
            for _ in range(1000):
                v = qd.sin(v) + 0.1
            x[i] = v

    swings()
    plan = swings.dispatcher.last
    text = listings.ptx_of(plan.kernel, plan.compiled.options, 90)
    near, far = sorted((b for b in text.split("$L__") if "sin.approx" in b), key=len)
    assert (near.count("fma.rn"), far.count("fma.rn")) == (1, 3)
    assert near.index("sin.approx") < near.index("fma.rn")
