"""Programs whose derivative would be zero or wrong without a word, and custom gradients that are: each function runs
one, or is the only kernel of one, and is told so."""

# ruff: noqa: F821
from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import quadrants_lab as qd


def field(*shape, dtype=qd.f64, needs_grad=True, **options):
    return qd.field(dtype, shape, needs_grad=needs_grad, **options)


def gradient(kernel, of):
    kernel.grad()


def launched(kernel, of):
    kernel()


def taped(loss: str):
    def run(kernel, of):
        with qd.ad.Tape(of[loss]):
            kernel()

    return run


def told(launch: Callable[[Any, dict[str, Any]], None]):
    """Makes a case of a kernel over the names of these fields."""

    def case(fn):
        def run():
            of = {"x": field(3), "w": field(3), "y": field(), "z": field(), "middle": field(3, needs_grad=False)}
            of |= {"steps": qd.field(qd.i32, 3), "n": qd.field(qd.i32, (), name="n")}
            of |= {"counts": field(needs_grad=False), "count": qd.field(qd.i32, 3, name="count")}
            launch(qd.kernel(FunctionType(fn.__code__, {**globals(), **of}, "k")), of)

        run.__name__ = fn.__name__
        return run

    return case


HELPERS = [*globals()]

@told(gradient)
def nothing_has_a_gradient():
    for i in middle:
        middle[i] = 1.0

@told(gradient)
def the_gradient_needs_a_gradient_that_it_changes():
    for i in x:
        y[None] += x[i] * x.grad[i]

@told(gradient)
def a_gradient_decides_what_is_added_to_it():
    for i in x:
        if x.grad[i] > 1.0:
            y[None] += x[i]

@told(taped("y"))
def a_cast_to_integer_cuts_the_only_path():
    for i in x:
        y[None] += qd.cast(x[i], qd.i32) * 2.0

@told(taped("z"))
def a_cast_cuts_every_path_to_one_of_two_results():
    for i in x:
        y[None] += x[i]
        z[None] += qd.floor(x[i])

@told(taped("y"))
def an_integer_field_on_the_way():
    for i in x:
        steps[i] = int(x[i] * 10)
    for i in x:
        y[None] += steps[i] * 0.1

@told(taped("y"))
def a_field_without_gradient_on_the_way():
    for i in x:
        middle[i] = x[i] * 2
    for i in x:
        y[None] += middle[i]

def a_field_without_gradient_between_two_kernels():
    x, middle, y = field(3), field(3, needs_grad=False, name="middle"), field()

    @qd.kernel
    def first():
        for i in x:
            middle[i] = x[i] * 2

    @qd.kernel
    def second():
        for i in x:
            y[None] += middle[i]

    with qd.ad.Tape(y):
        first()
        second()

def a_chain_of_two_fields_without_gradient():
    x, a, b, y = field(3), field(3, needs_grad=False), field(3, needs_grad=False), field()

    @qd.kernel
    def first():
        for i in x:
            a[i] = x[i] * 2

    @qd.kernel
    def second():
        for i in x:
            b[i] = a[i] + 1

    @qd.kernel
    def third():
        for i in x:
            y[None] += b[i]

    with qd.ad.Tape(y):
        first()
        second()
        third()

def a_field_without_dual_on_the_way():
    x, y = field(3, needs_dual=True), field(3, needs_dual=True)
    middle = field(3)

    @qd.kernel
    def k():
        for i in x:
            middle[i] = x[i] * 2
        for i in x:
            y[i] += middle[i]

    with qd.ad.FwdMode(y, x, seed=[1, 1, 1]):
        k()

@told(taped("y"))
def an_atomic_without_derivative():
    for i in x:
        qd.atomic_mul(y[None], x[i])

@told(taped("y"))
def the_old_value_of_an_atomic():
    for i in x:
        w[i] = qd.atomic_add(y[None], x[i])

@told(taped("y"))
def the_old_value_of_an_atomic_in_a_product():
    for i in x:
        y[None] += x[i] * qd.atomic_add(counts[None], 1.0)

@told(taped("y"))
def an_extreme_beside_another_use():
    for i in x:
        qd.atomic_max(y[None], x[i])
        y[None] += x[i]

def an_overwritten_value_of_no_launch():
    x, y = field(3), field()

    @qd.kernel
    def k(n: qd.i32):
        for i in range(n):
            y[None] += qd.sin(x[i])
            x[i] = 0.0

    k(3)
    k.grad(2)

def a_value_under_a_maximum_that_is_overwritten_on_both_sides():
    x = qd.field(qd.f64, 3, needs_grad=True, needs_dual=True)
    y = qd.field(qd.f64, (), needs_grad=True, needs_dual=True)

    @qd.kernel
    def k():
        for i in x:
            for _ in range(2):
                qd.atomic_max(y[None], qd.sin(x[i]))
                x[i] *= 0.5

    with qd.ad.FwdMode(loss=y, param=x, seed=[1.0, 0.0, 0.0]):
        k()

def an_extreme_in_a_field_that_is_overwritten():
    x = field(2, 4)

    @qd.kernel
    def k():
        for i in range(4):
            qd.atomic_min(x[0, 0], x[1, i] * x[1, i])
            x[1, i] = qd.sin(x[1, i])

    k.grad()

@told(launched)
def iterations_that_race():
    for i in range(2):
        x[i + 1] = qd.sin(x[i])

def iterations_that_race_for_an_element():
    x, target, y = field(3), qd.field(qd.i32, 2), field()
    target.from_numpy(np.array([2, 0], np.int32))

    @qd.kernel
    def k():
        for i in target:
            x[target[i]] = qd.sin(x[i])

    with qd.ad.Tape(y, validation=True):
        k()

def a_value_that_was_written_in_between():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            y[None] += qd.sin(x[i])

    k()
    x[1] = 5.0
    y.grad[None] = 1.0
    k.grad()

def values_that_the_tape_kept():
    x, y = field(3), field()

    @qd.kernel
    def read():
        for i in x:
            y[None] += qd.sin(x[i])

    @qd.kernel
    def write():
        for i in x:
            x[i] = 2.0

    with qd.ad.Tape(y, validation=True):
        read()
        write()

@told(lambda k, of: (k(), k.grad()))
def a_gradient_that_starts_from_zeros():
    for i in x:
        y[None] += x[i]
        w[i] = x[i]

def a_gradient_of_arrays_that_starts_from_zeros():
    @qd.kernel
    def k(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(3):
            y[i] = x[i] * x[i]

    x, y = (qd.ndarray(qd.f64, 3, needs_grad=True) for _ in range(2))
    k.grad(x, y)

@told(taped("z"))
def a_loss_that_no_launch_writes():
    for i in x:
        y[None] += x[i]

def a_tape_without_launches():
    with qd.ad.Tape(field()):
        pass

def a_tangent_of_a_loss_that_no_launch_writes():
    x, y = field(needs_dual=True), field(needs_dual=True)
    with qd.ad.FwdMode(y, x):
        pass

def a_loss_without_gradient():
    qd.ad.Tape(field(needs_grad=False))

def a_loss_of_several_elements():
    qd.ad.Tape(field(3))

def a_loss_that_is_a_number():
    qd.ad.Tape(3.0)

@told(taped("y"))
def a_product_in_a_local():
    p = 1.0
    for i in x:
        p *= x[i]
    y[None] += p

@told(taped("y"))
def the_old_value_of_a_local():
    p = 1.0
    for i in x:
        y[None] += qd.atomic_add(p, x[i])

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

@told(gradient)
def a_trip_count_that_the_kernel_itself_writes():
    for i in x:
        v = x[i]
        for _ in range(count[i]):
            v = qd.sin(v)
        y[None] += v
        count[i] += 1

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

@told(gradient)
def a_checkpointed_while_that_needs_what_an_atomic_returned():
    for i in x:
        v = x[i]
        qd.loop_config(checkpoint=True)
        while v > 0.1:
            at = qd.atomic_add(n[None], 1)
            v = 0.5 * qd.sin(v) * x[at % 3]
        y[None] += v

@told(gradient)
def a_checkpointed_loop_that_needs_what_an_atomic_returned():
    for i in x:
        v = x[i]
        qd.loop_config(checkpoint=True)
        for _ in range(10):
            at = qd.atomic_add(n[None], 1)
            v = qd.sin(v) * x[at % 3]
        y[None] += v

@told(gradient)
def a_checkpointed_loop_with_random_numbers():
    for i in x:
        v = x[i]
        qd.loop_config(checkpoint=True)
        for _ in range(10):
            v = qd.sin(v) * qd.random()
        y[None] += v

@told(gradient)
def a_checkpointed_loop_with_a_break_and_random_numbers():
    for i in x:
        v = x[i]
        qd.loop_config(checkpoint=True)
        for _ in range(10):
            v = qd.sin(v) * qd.random()
            if v < 0.2:
                break
        y[None] += v

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

@told(gradient)
def nothing_that_is_read_has_a_gradient():
    y[None] += middle[0] * middle[1]

@told(gradient)
def nothing_that_is_written_has_a_gradient():
    counts[None] += x[0]
    middle[0] = x[1]


CASES = [v for name, v in list(globals().items()) if name not in [*HELPERS, "HELPERS"]]
