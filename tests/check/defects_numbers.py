"""Planted defects: NaN, infinity, and zeros that cut a derivative."""

# ruff: noqa: F821
from check.bench import defect, in_order

import quadrants_lab as qd

# --- NaN and infinity on the way back -------------------------------------------------------------------------------

@defect("nonfinite", "nonfinite", "the root has no finite slope at 0")
def norm_by_hand_at_zero():
    for i in x:
        v = qd.Vector([x[i], 2.0 * x[i]])
        y[None] += qd.sqrt(v.dot(v))  # HERE

@defect("nonfinite", "nonfinite", "through the derivative")
def root_in_the_operand_that_is_not_selected():
    for i in x:
        y[None] += qd.select(x[i] > 0.0, qd.sqrt(x[i]), 0.0)  # HERE

@defect("nonfinite", "nonfinite", "the slope of acos is infinite at -1 and 1")
def acos_at_one():
    for i in range(3):
        y[None] += qd.acos(x[i])  # HERE

@defect("nonfinite", "nonfinite", "infinite at -1 and 1")
def asin_at_one_in_a_loop():
    for i in range(3):
        v = x[i]
        for _ in range(2):
            v = qd.asin(v) * 0.5  # HERE
        y[None] += v

@defect("nonfinite", "nonfinite", "through the derivative")
def power_with_a_fraction_at_zero():
    for i in x:
        y[None] += x[i] ** 0.5  # HERE

@defect("nonfinite", "nonfinite", "kernel two")
def second_of_two_launches(b):
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def one():
        for i in x:
            w[i] = x[i] * x[i]

    @qd.kernel
    def two():
        for i in x:
            y[None] += qd.sqrt(w[i])  # HERE

    return in_order(one, two)

# --- NaN and infinity on the way forwards ---------------------------------------------------------------------------

@defect("nonfinite", "", "the logarithm of what is not above 0")
def log_of_a_negative():
    for i in x:
        y[None] += qd.log(x[i] - 1.5)  # HERE

@defect("nonfinite", "", "a division by 0")
def division_by_a_count_of_zero():
    for i in x:
        y[None] += x[i] / n[None]  # HERE

@defect("nonfinite", "", "a power that has no finite value")
def power_of_a_negative_base():
    for i in x:
        y[None] += (x[i] - 1.2) ** 1.5  # HERE

@defect("nonfinite", "", "the exponential is too large")
def overflow_to_infinity():
    for i in x:
        y[None] += qd.exp(400.0 * x[i])  # HERE

@defect("nonfinite", "", "first infinity")
def a_product_that_overflows_after_steps(b):
    x, y, w = b.x, b.y, b.w
    w.fill(2.0)

    @qd.kernel
    def step():
        for i in x:
            w[i] = w[i] * w[i]  # HERE

    @qd.kernel
    def end():
        for i in x:
            y[None] += w[i] + x[i]

    def run():
        for _ in range(12):
            step()
        end()

    return run

@defect("nonfinite", "", "arises on the way forwards")
def zero_over_zero():
    for i in x:
        y[None] += qd.sin(x[i]) / x[i]  # HERE

# --- zero: an edge that no derivative crosses -----------------------------------------------------------------------

@defect("no gradient", "wrong", "make h with needs_grad=True")
def a_field_without_gradient_between_launches(b):
    x, y, h = b.x, b.y, b.h

    @qd.kernel
    def one():
        for i in x:
            h[i] = x[i] * 3.0  # HERE

    @qd.kernel
    def two():
        for i in x:
            y[None] += h[i]

    return in_order(one, two)

@defect("no gradient", "wrong", "the gradient stops at h")
def a_field_without_gradient_within_a_kernel():
    for i in x:
        h[i] = qd.sin(x[i])  # HERE
    for i in x:
        y[None] += h[i]

@defect("integer", "jumps", "cast to i32 has no derivative")
def a_cast_to_an_integer():
    for i in x:
        y[None] += 0.5 * int(4.0 * x[i] + 0.3)  # HERE

@defect("integer", "jumps", "cast to i32")
def integers_between_launches(b):
    x, y, k = b.x, b.y, b.k

    @qd.kernel
    def one():
        for i in x:
            k[i] = int(8.0 * x[i] + 0.3)  # HERE

    @qd.kernel
    def two():
        for i in x:
            y[None] += 0.5 * k[i]

    return in_order(one, two)

@defect("jumps", "jumps", "floor has no derivative")
def a_floor():
    for i in x:
        y[None] += qd.floor(4.0 * x[i] + 0.3)  # HERE

@defect("stop_grad", "wrong", "on purpose")
def a_stop_grad_of_a_value():
    for i in x:
        v = qd.stop_grad(x[i] * 2.0)  # HERE
        y[None] += v * v

@defect("stop_grad", "wrong", "on purpose")
def a_stop_grad_of_a_field():
    for i in x:
        qd.stop_grad(x)
        y[None] += x[i]  # HERE

@defect("stop_grad", "wrong", "qd.ad.no_grad")
def launches_under_no_grad(b):
    x, y = b.x, b.y

    @qd.kernel
    def total():
        for i in x:
            y[None] += x[i]  # HERE

    return qd.ad.no_grad(in_order(total))

@defect("branch", "right", "is not taken")
def a_branch_that_is_not_taken():
    for i in x:
        if n[None] > 3:  # HERE
            y[None] += x[i]

@defect("decision", "jumps", "decides what is computed")
def only_a_decision():
    for i in x:
        if x[i] > 0.55:  # HERE
            y[None] += 1.0

@defect("overwritten", "right", "is written over")
def an_overwritten_field(b):
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def one():
        for i in x:
            w[i] = x[i] * 2.0

    @qd.kernel
    def two():
        for i in x:
            w[i] = 1.0  # HERE

    @qd.kernel
    def three():
        for i in x:
            y[None] += w[i]

    return in_order(one, two, three)

@defect("overwritten", "right", "is written over by Python", line=False)
def overwritten_by_python(b):
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def one():
        for i in x:
            w[i] = x[i] * 2.0

    @qd.kernel
    def two():
        for i in x:
            y[None] += w[i]

    def run():
        one()
        w.fill(1.0)
        two()

    return run

@defect("no iterations", "right", "has no iterations")
def a_loop_bound_that_nobody_set():
    for i in x:
        for _ in range(n[None]):  # HERE
            y[None] += x[i]

@defect("unreached", "right", "does not depend on")
def a_loss_that_does_not_depend_on_it():
    for i in x:
        w[i] = x[i] * 2.0  # HERE
    y[None] += 1.0

@defect("unread", "right", "no launch reads", line=False)
def an_input_that_nobody_reads():
    for i in w:
        y[None] += w[i]

@defect("python", "wrong", "as the argument a of")
def a_number_that_goes_through_python(b):
    x, y = b.x, b.y

    @qd.kernel
    def square(a: qd.f64):  # HERE
        y[None] += a * a

    return lambda: square(x[1])

@defect("python", "wrong", "which Python writes before launch 2", line=False)
def a_detached_copy(b):
    x, y, w, v = b.x, b.y, b.w, b.v

    @qd.kernel
    def one():
        for i in x:
            w[i] = x[i] * 2.0
            v[i] = 1.0

    @qd.kernel
    def two():
        for i in x:
            y[None] += v[i]

    def run():
        one()
        v.from_numpy(w.to_numpy())
        two()

    return run

# --- zero: a derivative that is a number, and 0 ---------------------------------------------------------------------

@defect("saturated", "right", "takes its other operand")
def a_clamp_that_saturates():
    for i in x:
        y[None] += max(x[i], 5.0)  # HERE

@defect("zero factor", "right", "is 0 at these operands")
def a_factor_of_zero():
    for i in x:
        y[None] += x[i] * h[i]  # HERE

@defect("underflow", "right", "underflows here", f32=True)
def an_exponential_that_underflows():
    for i in x:
        y[None] += qd.exp(-200.0 - x[i])  # HERE
