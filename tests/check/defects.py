"""Small programs with one planted defect each, and what the doctor has to say of it.

A defect is a function of a `Bench`, its fields, that returns what to check. The line that is to blame has a comment
``# HERE``; ``kind`` is the cause's, ``verdict`` that on the input. ``says`` has to be in the report.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import quadrants_lab as qd


class Bench:
    """x: four numbers; y: the loss; w, v: like x; h: like x, without a gradient; k: integers."""

    def __init__(self, dtype: Any) -> None:
        self.x, self.w, self.v = (qd.field(dtype, 4, needs_grad=True) for _ in range(3))
        self.y = qd.field(dtype, (), needs_grad=True)
        self.h = qd.field(dtype, 4)
        self.k = qd.field(qd.i32, 4)
        self.n = qd.field(qd.i32, ())
        self.m = qd.field(dtype, (), needs_grad=True)
        self.x.from_numpy(np.array([0.0, 0.5, 1.0, 2.0], dtype.numpy))


@dataclass(frozen=True)
class Defect:
    """``line``: whether a line is to be named."""

    make: Callable[[Bench], Any]
    kind: str
    verdict: str
    says: str = ""
    f32: bool = False
    line: bool = True

    @property
    def here(self) -> int:
        """The number of the line that is to blame."""
        lines, first = inspect.getsourcelines(self.make)
        return first + next((n for n, line in enumerate(lines) if "# HERE" in line), -first)


DEFECTS: dict[str, Defect] = {}


def defect(kind: str, verdict: str, says: str = "", f32: bool = False, line: bool = True) -> Callable[[Any], Any]:
    def add(make: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
        DEFECTS[make.__name__] = Defect(make, kind, verdict, says, f32, line)
        return make

    return add


# --- NaN and infinity on the way back -------------------------------------------------------------------------------


@defect("nonfinite", "nonfinite", "the root has no finite slope at 0")
def norm_by_hand_at_zero(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            v = qd.Vector([x[i], 2.0 * x[i]])
            y[None] += qd.sqrt(v.dot(v))  # HERE

    return run


@defect("nonfinite", "nonfinite", "through the derivative")
def root_in_the_operand_that_is_not_selected(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.select(x[i] > 0.0, qd.sqrt(x[i]), 0.0)  # HERE

    return run


@defect("nonfinite", "nonfinite", "the slope of acos is infinite at -1 and 1")
def acos_at_one(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in range(3):
            y[None] += qd.acos(x[i])  # HERE

    return run


@defect("nonfinite", "nonfinite", "infinite at -1 and 1")
def asin_at_one_in_a_loop(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in range(3):
            v = x[i]
            for _ in range(2):
                v = qd.asin(v) * 0.5  # HERE
            y[None] += v

    return run


@defect("nonfinite", "nonfinite", "through the derivative")
def power_with_a_fraction_at_zero(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += x[i] ** 0.5  # HERE

    return run


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

    def run():
        one()
        two()

    return run


# --- NaN and infinity on the way forwards ---------------------------------------------------------------------------


@defect("nonfinite", "", "the logarithm of what is not above 0")
def log_of_a_negative(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.log(x[i] - 1.5)  # HERE

    return run


@defect("nonfinite", "", "a division by 0")
def division_by_a_count_of_zero(b):
    x, y, n = b.x, b.y, b.n

    @qd.kernel
    def run():
        for i in x:
            y[None] += x[i] / n[None]  # HERE

    return run


@defect("nonfinite", "", "a power that has no finite value")
def power_of_a_negative_base(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += (x[i] - 1.2) ** 1.5  # HERE

    return run


@defect("nonfinite", "", "the exponential is too large")
def overflow_to_infinity(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.exp(400.0 * x[i])  # HERE

    return run


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
def zero_over_zero(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.sin(x[i]) / x[i]  # HERE

    return run


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

    def run():
        one()
        two()

    return run


@defect("no gradient", "wrong", "the gradient stops at h")
def a_field_without_gradient_within_a_kernel(b):
    x, y, h = b.x, b.y, b.h

    @qd.kernel
    def run():
        for i in x:
            h[i] = qd.sin(x[i])  # HERE
        for i in x:
            y[None] += h[i]

    return run


@defect("integer", "jumps", "cast to i32 has no derivative")
def a_cast_to_an_integer(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += 0.5 * int(4.0 * x[i] + 0.3)  # HERE

    return run


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

    def run():
        one()
        two()

    return run


@defect("jumps", "jumps", "floor has no derivative")
def a_floor(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.floor(4.0 * x[i] + 0.3)  # HERE

    return run


@defect("stop_grad", "wrong", "on purpose")
def a_stop_grad_of_a_value(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            v = qd.stop_grad(x[i] * 2.0)  # HERE
            y[None] += v * v

    return run


@defect("stop_grad", "wrong", "on purpose")
def a_stop_grad_of_a_field(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            qd.stop_grad(x)
            y[None] += x[i]  # HERE

    return run


@defect("stop_grad", "wrong", "qd.ad.no_grad")
def launches_under_no_grad(b):
    x, y = b.x, b.y

    @qd.kernel
    def total():
        for i in x:
            y[None] += x[i]  # HERE

    @qd.ad.no_grad
    def run():
        total()

    return run


@defect("branch", "right", "is not taken")
def a_branch_that_is_not_taken(b):
    x, y, n = b.x, b.y, b.n

    @qd.kernel
    def run():
        for i in x:
            if n[None] > 3:  # HERE
                y[None] += x[i]

    return run


@defect("decision", "jumps", "decides what is computed")
def only_a_decision(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            if x[i] > 0.55:  # HERE
                y[None] += 1.0

    return run


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

    def run():
        one()
        two()
        three()

    return run


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
def a_loop_bound_that_nobody_set(b):
    x, y, n = b.x, b.y, b.n

    @qd.kernel
    def run():
        for i in x:
            for _ in range(n[None]):  # HERE
                y[None] += x[i]

    return run


@defect("unreached", "right", "does not depend on")
def a_loss_that_does_not_depend_on_it(b):
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def run():
        for i in x:
            w[i] = x[i] * 2.0  # HERE
        y[None] += 1.0

    return run


@defect("unread", "right", "no launch reads", line=False)
def an_input_that_nobody_reads(b):
    y, w = b.y, b.w

    @qd.kernel
    def run():
        for i in w:
            y[None] += w[i]

    return run


@defect("python", "right", "as the argument a of")
def a_number_that_goes_through_python(b):
    x, y = b.x, b.y

    @qd.kernel
    def square(a: qd.f64):  # HERE
        y[None] += a * a

    return lambda: square(x[1])


@defect("python", "right", "which Python writes before launch 2", line=False)
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
def a_clamp_that_saturates(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += max(x[i], 5.0)  # HERE

    return run


@defect("zero factor", "right", "is 0 at these operands")
def a_factor_of_zero(b):
    x, y, h = b.x, b.y, b.h

    @qd.kernel
    def run():
        for i in x:
            y[None] += x[i] * h[i]  # HERE

    return run


@defect("underflow", "right", "underflows here", f32=True)
def an_exponential_that_underflows(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += qd.exp(-200.0 - x[i])  # HERE

    return run


# --- kinks ----------------------------------------------------------------------------------------------------------


@defect("tie", "kink", "the first one takes it all")
def a_max_with_a_tie(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += max(x[i], 0.5)  # HERE

    return run


@defect("kink", "kink", "abs has two slopes at 0")
def abs_at_zero(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            y[None] += abs(x[i])  # HERE

    return run


@defect("tie", "kink", "every iteration that reaches it shares it")
def a_tie_of_atomic_mins(b):
    x, y, m = b.x, b.y, b.m
    x.fill(0.25)

    @qd.kernel
    def least():
        m[None] = 3.0
        for i in x:
            qd.atomic_min(m[None], x[i])  # HERE

    @qd.kernel
    def square():
        y[None] += m[None] * m[None]

    def run():
        least()
        square()

    return run


@defect("tie", "kink", "the two sides of a comparison are equal")
def a_branch_at_its_edge(b):
    x, y = b.x, b.y

    @qd.kernel
    def run():
        for i in x:
            if x[i] >= 0.5:  # HERE
                y[None] += 3.0 * (x[i] - 0.5)

    return run


# --- gradients of one's own -----------------------------------------------------------------------------------------


def own(b, factor):
    """y = sum of squares, and a gradient of it that is ``factor`` times too large."""
    x, y = b.x, b.y

    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]

    @qd.kernel
    def slopes():
        for i in x:
            x.grad[i] += 2.0 * factor * x[i] * y.grad[None]

    return squares, slopes


@defect("custom gradient", "wrong", "it gives 1.01 times what it should")
def a_gradient_of_ones_own_off_by_a_hundredth(b):
    squares, slopes = own(b, 1.01)
    forward = qd.ad.grad_replaced(lambda: squares())

    @qd.ad.grad_for(forward)  # HERE
    def back():
        slopes()

    return lambda: forward()


@defect("custom gradient", "wrong", "it gives 1.017 times what it should", f32=True)
def the_same_in_single_precision(b):
    squares, slopes = own(b, 1.017)
    forward = qd.ad.grad_replaced(lambda: squares())

    @qd.ad.grad_for(forward)  # HERE
    def back():
        slopes()

    return lambda: forward()


@defect("custom gradient", "wrong", "its sign is wrong")
def a_gradient_of_ones_own_with_the_wrong_sign(b):
    squares, slopes = own(b, -1.0)
    forward = qd.ad.grad_replaced(lambda: squares())

    @qd.ad.grad_for(forward)  # HERE
    def back():
        slopes()

    return lambda: forward()


@defect("custom gradient", "wrong", "it gives nothing")
def a_gradient_of_ones_own_that_does_nothing(b):
    squares, _ = own(b, 1.0)
    forward = qd.ad.grad_replaced(lambda: squares())

    @qd.ad.grad_for(forward)  # HERE
    def back():
        pass

    return lambda: forward()


@defect("custom gradient", "wrong", "launch 2")
def the_second_of_three_steps(b):
    x, y, w, v = b.x, b.y, b.w, b.v

    @qd.kernel
    def one():
        for i in x:
            w[i] = qd.sin(x[i])

    @qd.kernel
    def middle():
        for i in x:
            v[i] = w[i] * w[i]

    @qd.kernel
    def middle_back():
        for i in x:
            w.grad[i] += w[i] * v.grad[i]  # 2 w is right

    @qd.kernel
    def three():
        for i in x:
            y[None] += v[i] * x[i]

    two = qd.ad.grad_replaced(lambda: middle())

    @qd.ad.grad_for(two)  # HERE
    def back():
        middle_back()

    def run():
        one()
        two()
        three()

    return run


# --- gradients that the program takes itself ------------------------------------------------------------------------


@defect("seed", "right", "had nothing to start from", line=False)
def a_loss_that_is_not_seeded(b):
    squares, _ = own(b, 1.0)

    def run():
        b.y.grad[None] = 0.0
        b.x.grad.fill(0.0)
        squares()
        squares.grad()

    return run


@defect("filled", "right", "Python wrote to it after the last gradient ran", line=False)
def a_gradient_that_is_cleared_after(b):
    squares, _ = own(b, 1.0)

    def run():
        b.y.grad[None] = 1.0
        squares()
        squares.grad()
        b.x.grad.fill(0.0)

    return run


@defect("added", "right", "2 times that", line=False)
def a_gradient_that_is_not_cleared(b):
    squares, _ = own(b, 1.0)

    def run():
        b.x.grad.fill(0.0)
        b.y.grad[None] = 1.0
        squares()
        squares.grad()
        squares.grad()

    return run


@defect("changed bound", "right", "runs other trips than its launch did")
def a_bound_that_changes_before_the_gradient(b):
    x, y, n = b.x, b.y, b.n

    @qd.kernel
    def power():
        for i in x:
            v = x[i]
            for _ in range(n[None]):  # HERE
                v = v * v
            y[None] += v

    def run():
        b.x.grad.fill(0.0)
        y.grad[None] = 1.0
        n[None] = 2
        power()
        n[None] = 1
        power.grad()

    return run


@defect("changed value", "right", "is the derivative at other values than the launch had")
def a_value_that_changes_in_place_before_the_gradient(b):
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def squares():
        for i in x:
            y[None] += w[i] * w[i] * x[i]  # HERE

    def run():
        b.x.grad.fill(0.0)
        y.grad[None] = 1.0
        w.fill(3.0)
        squares()
        w.fill(5.0)
        squares.grad()

    return run


# --- races, indices -------------------------------------------------------------------------------------------------


@defect("race", "", "race for")
def a_race_that_the_compiler_sees(b):
    x, y, m = b.x, b.y, b.m

    @qd.kernel
    def run():
        for i in x:
            m[None] = x[i] * 2.0  # HERE
        y[None] += m[None]

    return run


@defect("race", "", "race")
def a_race_that_only_data_shows(b):
    x, y, w, k = b.x, b.y, b.w, b.k

    @qd.kernel
    def run():
        for i in x:
            w[k[i]] = x[i] * 2.0  # HERE
        y[None] += w[0]

    return run


@defect("error", "", "")
def an_index_out_of_bounds(b):
    x, y, n = b.x, b.y, b.n
    n[None] = 1

    @qd.kernel
    def run():
        for i in x:
            y[None] += x[min(i + n[None], 4)]  # HERE

    return run
