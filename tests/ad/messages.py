"""Programs whose derivative would be zero or wrong without a word: each function runs one, and is told so."""

from __future__ import annotations

import numpy as np

import quadrants_lab as qd


def field(*shape, dtype=qd.f64, needs_grad=True, **options):
    return qd.field(dtype, shape, needs_grad=needs_grad, **options)

def nothing_has_a_gradient():
    x = field(3, needs_grad=False)

    @qd.kernel
    def k():
        for i in x:
            x[i] = 1.0

    k.grad()

def the_gradient_needs_a_gradient_that_it_changes():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i] * x.grad[i]

    k.grad()

def a_gradient_decides_what_is_added_to_it():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            if x.grad[i] > 1.0:
                y[None] += x[i]

    k.grad()

def a_cast_to_integer_cuts_the_only_path():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            y[None] += qd.cast(x[i], qd.i32) * 2.0

    with qd.ad.Tape(y):
        k()

def a_cast_cuts_every_path_to_one_of_two_results():
    x, y, z = field(3), field(), field()

    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i]
            z[None] += qd.floor(x[i])

    with qd.ad.Tape(z):
        k()

def an_integer_field_on_the_way():
    x, steps, y = field(3), qd.field(qd.i32, 3), field()

    @qd.kernel
    def k():
        for i in x:
            steps[i] = int(x[i] * 10)
        for i in x:
            y[None] += steps[i] * 0.1

    with qd.ad.Tape(y):
        k()

def a_field_without_gradient_on_the_way():
    x, middle, y = field(3), field(3, needs_grad=False), field()

    @qd.kernel
    def k():
        for i in x:
            middle[i] = x[i] * 2
        for i in x:
            y[None] += middle[i]

    with qd.ad.Tape(y):
        k()

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

def an_atomic_without_derivative():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            qd.atomic_mul(y[None], x[i])

    with qd.ad.Tape(y):
        k()

def the_old_value_of_an_atomic():
    x, y, z = field(3), field(), field(3)

    @qd.kernel
    def k():
        for i in x:
            z[i] = qd.atomic_add(y[None], x[i])

    with qd.ad.Tape(y):
        k()

def the_old_value_of_an_atomic_in_a_product():
    counts, x, y = field(needs_grad=False), field(3), field()

    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i] * qd.atomic_add(counts[None], 1.0)

    with qd.ad.Tape(y):
        k()

def an_extreme_beside_another_use():
    x, y = field(3), field()

    @qd.kernel
    def k():
        for i in x:
            qd.atomic_max(y[None], x[i])
            y[None] += x[i]

    with qd.ad.Tape(y):
        k()

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

def iterations_that_race():
    x = field(8)

    @qd.kernel
    def k():
        for i in range(7):
            x[i + 1] = qd.sin(x[i])

    k()

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

def a_gradient_that_starts_from_zeros():
    x, y, z = field(3), field(), field(3)

    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i]
            z[i] = x[i]

    k()
    k.grad()

def a_gradient_of_arrays_that_starts_from_zeros():
    @qd.kernel
    def k(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(3):
            y[i] = x[i] * x[i]

    x, y = (qd.ndarray(qd.f64, 3, needs_grad=True) for _ in range(2))
    k.grad(x, y)

def a_loss_that_no_launch_writes():
    x, y, loss = field(3), field(), field()

    @qd.kernel
    def k():
        for i in x:
            y[None] += x[i]

    with qd.ad.Tape(loss):
        k()

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

def a_product_in_a_local():
    x, y = field(3), field()

    @qd.kernel
    def k():
        p = 1.0
        for i in x:
            p *= x[i]
        y[None] += p

    with qd.ad.Tape(y):
        k()

def the_old_value_of_a_local():
    x, y = field(3), field()

    @qd.kernel
    def k():
        p = 1.0
        for i in x:
            y[None] += qd.atomic_add(p, x[i])

    with qd.ad.Tape(y):
        k()


CASES = [v for v in list(globals().values()) if getattr(v, "__module__", "") == __name__ and v is not field]
