"""Planted defects: kinks, custom gradients, gradients that the program computes itself, races."""

# ruff: noqa: F821
from __future__ import annotations

from check.bench import defect, in_order

import quadrants_lab as qd

# --- kinks ----------------------------------------------------------------------------------------------------------

@defect("tie", "kink", "the first operand takes the whole derivative")
def a_max_with_a_tie():
    for i in x:
        y[None] += max(x[i], 0.5)  # HERE

@defect("kink", "kink", "abs has two slopes at 0")
def abs_at_zero():
    for i in x:
        y[None] += abs(x[i])  # HERE

@defect("tie", "kink", "all iterations that reach it share the whole derivative")
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

    return in_order(least, square)

@defect("tie", "kink", "the two sides of a comparison are equal")
def a_branch_at_its_edge():
    for i in x:
        if x[i] >= 0.5:  # HERE
            y[None] += 3.0 * (x[i] - 0.5)

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
            x.grad[i] += 2.0 * factor * x[i] * y.grad[None]  # HERE

    return squares, slopes

def replaced(b, factor):
    """The sum of `own`, with its gradient in place of the derivative."""
    squares, slopes = own(b, factor)
    forward = qd.ad.grad_replaced(lambda: squares())

    @qd.ad.grad_for(forward)
    def back():
        slopes()

    return lambda: forward()

@defect("custom gradient", "wrong", "it gives 1.01 times what it should", where=own)
def a_gradient_of_ones_own_off_by_a_hundredth(b):
    return replaced(b, 1.01)

@defect("custom gradient", "wrong", "it gives 1.017 times what it should", f32=True, where=own)
def the_same_in_single_precision(b):
    return replaced(b, 1.017)

@defect("custom gradient", "wrong", "its sign is wrong", where=own)
def a_gradient_of_ones_own_with_the_wrong_sign(b):
    return replaced(b, -1.0)

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
            w.grad[i] += w[i] * v.grad[i]  # HERE 2 w is right

    @qd.kernel
    def three():
        for i in x:
            y[None] += v[i] * x[i]

    two = qd.ad.grad_replaced(lambda: middle())

    @qd.ad.grad_for(two)
    def back():
        middle_back()

    return in_order(one, two, three)

@defect("custom gradient", "wrong", "leaves w.grad as it is, but")
def a_gradient_of_ones_own_that_leaves_what_is_overwritten(b):
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def doubled():
        for i in x:
            if x[i] < 99.0:  # so that the Tape does not know that all is overwritten
                w[i] = 2.0 * x[i]

    @qd.kernel
    def doubled_back():
        for i in x:
            x.grad[i] += 2.0 * w.grad[i]

    @qd.kernel
    def sines():
        for i in x:
            x[i] = qd.sin(w[i])

    @qd.kernel
    def sums():
        for i in x:
            y[None] += x[i] * w[i]

    forward = qd.ad.grad_replaced(lambda: doubled())

    @qd.ad.grad_for(forward)  # HERE
    def back():
        doubled_back()

    return in_order(forward, sines, forward, sums)

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

@defect("added", "right", "ran 2 times, for 1 launch", line=False)
def a_gradient_that_is_not_cleared(b):
    squares, _ = own(b, 1.0)

    def run():
        b.x.grad.fill(0.0)
        b.y.grad[None] = 1.0
        squares()
        squares.grad()
        squares.grad()

    return run

@defect("changed bound", "right", "has other trip counts than its launch")
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
def a_race_that_the_compiler_sees():
    for i in x:
        m[None] = x[i] * 2.0  # HERE
    y[None] += m[None]

@defect("race", "", "race")
def a_race_that_only_data_shows():
    for i in x:
        w[k[i]] = x[i] * 2.0  # HERE
    y[None] += w[0]

@defect("error", "", "")
def an_index_out_of_bounds(b):
    x, y, n = b.x, b.y, b.n
    n[None] = 1

    @qd.kernel
    def run():
        for i in x:
            y[None] += x[min(i + n[None], 4)]  # HERE

    return run
