"""Custom gradients and what else users put in a derivative's place: programs that are told so, as in `messages`."""

from __future__ import annotations

import numpy as np
from ad.messages import field

import quadrants_lab as qd


def a_wrong_gradient_of_the_users():
    x, y = field(3), field()
    x.fill(1.0)

    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i]

    @qd.ad.grad_replaced
    def forward():
        k()

    @qd.ad.grad_for(forward)
    def backward():
        x.grad.fill(3.0)

    with qd.ad.Tape(y, grad_check=[x]):
        forward()

def a_replaced_function_without_gradient():
    @qd.ad.grad_replaced
    def forward():
        pass

    with qd.ad.Tape(field()):
        forward()

def a_gradient_for_a_kernel():
    @qd.kernel
    def k():
        pass

    qd.ad.grad_for(k)

def a_trip_count_that_the_kernel_itself_writes():
    x, y, count = field(3), field(), qd.field(qd.i32, 3, name="count")

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(count[i]):
                v = qd.sin(v)
            y[None] += v
            count[i] += 1

    k.grad()

def a_trip_count_written_between_launch_and_gradient():
    x, y, n = field(3), field(), qd.field(qd.i32, (), name="n")

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            trips = n[None] // 2
            for _ in range(trips):
                v = 0.5 * v
            y[None] += v

    n[None] = 6
    y.grad[None] = 1
    k()
    n[None] = 8
    k.grad()

def a_checkpointed_while_that_needs_what_an_atomic_returned():
    x, y, n = field(3), field(), qd.field(qd.i32, (), name="n")

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            while v > 0.1:
                at = qd.atomic_add(n[None], 1)
                v = 0.5 * qd.sin(v) * x[at % 3]
            y[None] += v

    k.grad()

def a_checkpointed_loop_that_needs_what_an_atomic_returned():
    x, y, n = field(3), field(), qd.field(qd.i32, (), name="n")

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for _ in range(10):
                at = qd.atomic_add(n[None], 1)
                v = qd.sin(v) * x[at % 3]
            y[None] += v

    k.grad()

def a_checkpointed_loop_with_random_numbers():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for _ in range(10):
                v = qd.sin(v) * qd.random()
            y[None] += v

    k.grad()

def a_checkpointed_loop_with_a_break_and_random_numbers():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for _ in range(10):
                v = qd.sin(v) * qd.random()
                if v < 0.2:
                    break
            y[None] += v

    k.grad()

def one_array_twice():
    @qd.kernel
    def k(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(3):
            y[i] = x[i] * x[i]

    x = qd.ndarray(qd.f64, 3, needs_grad=True)
    k.grad(x, x)

def a_second_derivative_of_a_decomposition():
    m, loss = qd.Matrix.field(2, 2, qd.f64, (), needs_grad=True), field()

    @qd.kernel
    def k():
        loss[None] += qd.svd(m[None])[1][0, 0]

    qd.ad.hessian_vector(k, loss, m, np.eye(2))

def bits_of_a_value():
    n = 600
    x, y, scratch = qd.ndarray(qd.f32, n, True), qd.ndarray(qd.f32, n, True), qd.ndarray(qd.u32, n)

    @qd.kernel
    def k(x: qd.types.ndarray(), y: qd.types.ndarray(), bits: qd.types.ndarray()):
        for i in x:
            bits[i] = qd.bit_cast(x[i], qd.u32)
        for i in x:
            y[i] = x[i] + qd.bit_cast(bits[n - 1 - i], qd.f32)

    k.grad(x, y, scratch)

def a_second_derivative_of_a_gradient_of_the_users():
    x, loss = field(3), field()

    @qd.ad.grad_replaced
    def f():
        pass

    @qd.ad.grad_for(f)
    def g():
        pass

    qd.ad.hessian_vector(f, loss, x, np.ones(3))

def a_third_derivative():
    x, loss = field(needs_dual=True), field()

    def program():
        with qd.ad.FwdMode(x, x):
            pass

    qd.ad.hessian_vector(program, loss, x, 1)

def a_second_derivative_in_forward_mode():
    x, loss = field(needs_dual=True), field()
    with qd.ad.FwdMode(x, x):
        qd.ad.hessian_vector(lambda: None, loss, x, 1)

def a_second_derivative_by_a_field_without_gradient():
    x, loss = field(3, needs_grad=False), field()
    qd.ad.hessian_vector(lambda: None, loss, x, np.ones(3))

def a_second_derivative_by_a_struct():
    s, loss = qd.types.struct(a=qd.f64).field(shape=3, needs_grad=True), field()
    qd.ad.hessian_vector(lambda: None, loss, s, np.ones(3))

def a_second_derivative_without_a_direction():
    x, loss = field(3), field()
    qd.ad.hessian_vector(lambda: None, loss, {"x": x}, {"y": np.ones(3)})

def a_second_derivative_along_too_few_numbers():
    x, loss = field(3), field()
    qd.ad.hessian_vector(lambda: None, loss, x, np.ones(2))

def a_second_derivative_by_one_field_twice():
    x, loss = field(3), field()
    qd.ad.hessian_vector(lambda: None, loss, [x, x], [np.ones(3), np.ones(3)])

def a_second_derivative_of_nothing():
    x, loss = field(3), field()
    qd.ad.hessian_vector(lambda: None, loss, x, np.ones(3))


CASES = [v for v in list(globals().values()) if getattr(v, "__module__", "") == __name__ and v is not field]
