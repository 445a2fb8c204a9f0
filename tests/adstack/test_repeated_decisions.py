"""Conditions at their edge: products of k and 1/k, of which fused operations round one otherwise than a product alone.
Wherever a gradient decides such a condition twice, it decides it alike: else pops would not belong to pushes."""

import numpy as np
import pytest
from oracle.sines import slopes
from sessions import EVERYWHERE, sessions

import quadrants_lab as qd
from quadrants_lab.runtime.record.inspect import compiled_plan

pytestmark = pytest.mark.usefixtures("ended")
K = np.arange(3, 67).astype(np.float32)
X = np.linspace(0.2, 0.9, len(K)).astype(np.float32)


@pytest.fixture
def ended():
    yield
    qd.reset()


def field(values, **options):
    made = qd.field(qd.f32, len(values), **options)
    made.from_numpy(np.asarray(values, np.float32))
    return made


@qd.kernel
def pushed_in_an_arm(x: qd.template(), y: qd.template(), w: qd.template(), k: qd.template(), n: qd.template()):
    for i in x:
        v, r, total = x[i], x[i], 0.0
        for j in range(n[None]):
            a = w[j] * k[i]
            v, r = v * 1.01, r * 0.98
            if a + w[n[None]] > 0.0:  # the last of w is -1
                q = v + r + a * 0.25
                total += qd.sin(q) + a
        y[i] = total


@pytest.mark.parametrize("options", EVERYWHERE)
def test_pops_belong_to_pushes(options) -> None:
    qd.init(**options, default_fp=qd.f32)
    x, y, k = field(X, needs_grad=True), field(0 * X, needs_grad=True), field(K)
    w = field([*(1 / K), -1.0], needs_grad=True)
    n = qd.field(qd.i32, ())
    n[None] = len(K)
    pushed_in_an_arm(x, y, w, k, n)
    y.grad.fill(1.0)
    pushed_in_an_arm.grad(x, y, w, k, n)
    found = x.grad.to_numpy()
    for i, v in enumerate(X.astype(float)):
        shares = [
            np.cos(v * (1.01 ** (j + 1) + 0.98 ** (j + 1)) + 0.25 * K[i] / K[j]) * (1.01 ** (j + 1) + 0.98 ** (j + 1))
            for j in range(i + 1)
        ]
        without = sum(shares[:-1])  # the last condition may be true or false
        assert found[i] == pytest.approx(without, abs=1e-3) or found[i] == pytest.approx(sum(shares), abs=1e-3), i


@qd.kernel
def pushed_by_some(
    x: qd.template(), y: qd.template(), w: qd.template(), k: qd.template(), z: qd.template(), m: qd.template(),
    n: qd.template(),
):  # fmt: skip
    for i in x:
        v = x[i]
        a = w[i] * k[i]
        if a + z[i] * m[i] > 0.0:
            for _ in range(n[None]):
                v = qd.sin(v) + a * 0.1
        else:
            v = v * 2.0 * a
        y[i] = v


@pytest.mark.parametrize("options", sessions("cuda", "vulkan", "metal"))
def test_each_iteration_is_on_the_list_or_among_the_others(options) -> None:
    qd.init(**options, default_fp=qd.f32, ad_stack_sparse_threshold_bytes=1)
    pairs = np.stack(np.meshgrid(K, K)).reshape(2, -1)
    start = np.linspace(0.2, 0.9, pairs.shape[1])
    x, y = field(start, needs_grad=True), field(0 * start, needs_grad=True)
    k, m = map(field, pairs)
    w, z = field(1 / pairs[0], needs_grad=True), field(-1 / pairs[1])
    n = qd.field(qd.i32, ())
    n[None] = 5
    pushed_by_some(x, y, w, k, z, m, n)
    y.grad.fill(1.0)
    pushed_by_some.grad(x, y, w, k, z, m, n)
    slope = slopes(start, 5, plus=0.1)
    found = x.grad.to_numpy()
    taken = np.abs(found - slope) < 1e-4
    np.testing.assert_allclose(found[~taken], 2.0, rtol=1e-5)
    plan = compiled_plan(pushed_by_some.grad.dispatcher)  # the code that is shown is made with the options that ran
    assert plan.last_code[0] is not plan.kernel
    assert (plan.last_code[1].fast_math, plan.compiled.options.fast_math) == (False, True)
