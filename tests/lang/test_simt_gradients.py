"""Blocks of threads: gradients through shared memory and barriers against differences, on every backend."""

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, NEEDS_F64, session_of

import quadrants_lab as qd

block, subgroup = qd.simt.block, qd.simt.subgroup
session = session_of(EVERYWHERE)


@qd.kernel
def shifted(x: qd.template(), y: qd.template()):
    qd.loop_config(block_dim=16)
    for i in range(40):
        held = block.SharedArray(16, qd.f64)
        t = block.thread_idx()
        w = qd.sin(x[i])
        held[t] = w * x[i]
        block.sync()
        y[i] = held[15 - t] * w + held[(t + 1) % 16] ** 2

@qd.kernel
def reduced(x: qd.template(), y: qd.template()):
    qd.loop_config(block_dim=16)
    for i in range(40):
        held = block.SharedArray(16, qd.f64)
        t = block.thread_idx()
        held[t] = x[i] * x[i]
        block.sync()
        stride = 8
        while stride > 0:
            if t < stride:
                held[t] = held[t] * 1.5 + qd.sin(held[t + stride]) * held[t]
            block.sync()
            stride //= 2
        if t == 0:
            y[0] += qd.sqrt(held[0])

@qd.kernel
def tiles(x: qd.template(), y: qd.template()):
    qd.loop_config(block_dim=16)
    for i in range(40):
        held = block.SharedArray((2, 8), qd.f64)
        t = block.thread_idx()
        a = qd.f64(0.0)
        for n in range(3):
            held[t // 8, t % 8] = x[(i + 7 * n) % 40] * (a + 1.0)
            block.sync()
            for m in range(8):
                a += held[t // 8, m] * held[(t // 8 + 1) % 2, m] * 0.1
            block.sync()
        y[i] = a

@qd.kernel
def collected(x: qd.template(), y: qd.template()):
    qd.loop_config(block_dim=16)
    for i in range(40):
        held = block.SharedArray(2, qd.f64)
        held[block.thread_idx() % 2] += x[i] * x[i]
        block.sync()
        y[i] = held[block.thread_idx() % 2] * held[0] * x[i]

@qd.kernel
def greatest(x: qd.template(), y: qd.template()):
    qd.loop_config(block_dim=16)
    for i in range(40):
        held = block.SharedArray(3, qd.f64)
        qd.atomic_max(held[i * i % 3], x[i] * x[i])
        block.sync()
        y[i] = held[i % 2] * x[i]

@qd.kernel
def scanned(x: qd.template(), y: qd.template()):
    qd.loop_config(block_dim=64)
    for i in range(40):
        most = block.reduce_all_max(x[i], 64, qd.f64)
        y[i] = subgroup.inclusive_mul(x[i]) * subgroup.shuffle_down(x[i], 3) + most


@NEEDS_F64
@pytest.mark.parametrize("program", [shifted, reduced, tiles, collected, greatest, scanned], ids=lambda f: f.__name__)
def test_gradients_through_barriers(session, program):
    """The gradient of a random weighting of the results runs twice, to see that it restores its memory."""
    x, y = (qd.field(qd.f64, 40, needs_grad=True) for _ in range(2))
    v = np.random.default_rng(0).random(40) + 0.5
    weights = np.random.default_rng(1).random(40)

    def value(a):
        x.from_numpy(a)
        y.fill(0)
        program(x, y)
        return (y.to_numpy() * weights).sum()

    value(v)
    found = []
    for _ in range(2):
        x.grad.fill(0)
        y.grad.from_numpy(weights)
        program.grad(x, y)
        found.append(x.grad.to_numpy())
    steps = np.eye(40) * 1e-5
    want = np.array([(value(v + h) - value(v - h)) / 2e-5 for h in steps])
    for gradient in found:
        np.testing.assert_allclose(gradient, want, rtol=2e-6, atol=1e-7 * abs(want).max())


@CPU_ALONE
def test_second_and_forward_derivatives(session):
    x = qd.field(qd.f64, 40, needs_grad=True, needs_dual=True)
    y = qd.field(qd.f64, 40, needs_grad=True, needs_dual=True)
    total = qd.field(qd.f64, (), needs_grad=True)
    v, step = np.random.default_rng(0).random(40) + 0.5, np.eye(40)[17] * 1e-5

    @qd.kernel
    def add_up():
        for i in y:
            total[None] += y[i] * y[i]

    def program():
        total[None] = 0
        shifted(x, y)
        add_up()

    def at(a):
        x.from_numpy(a)
        with qd.ad.Tape(total):
            program()
        return x.grad.to_numpy(), y.to_numpy()

    (less, before), (more, after) = at(v - step), at(v + step)
    x.from_numpy(v)
    found = qd.ad.hessian_vector(program, total, x, np.eye(40)[17])
    np.testing.assert_allclose(found, (more - less) / 2e-5, rtol=1e-5, atol=1e-6)
    with qd.ad.FwdMode(loss=y, param=x, seed=np.eye(40)[17].tolist()):
        shifted(x, y)
    np.testing.assert_allclose(y.dual.to_numpy(), (after - before) / 2e-5, rtol=1e-6, atol=1e-7)
