"""A Tape that launches what the last one with its loss launched: the gradients are those of a Tape that begins anew,
whatever happened in the runs before or happens within one, and it clears what others have written meanwhile."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.runtime.session import checking

session = session_of(sessions("cpu", "cuda"), default_fp=qd.f64)
RUNS = 6


@qd.data_oriented
class Program:
    """Three arrays in a row and a loss; launches of kernels that take numbers or nothing, or read an attribute."""

    def __init__(self) -> None:
        x, y, _ = self.x, self.y, self.z = [qd.field(qd.f64, 3, needs_grad=True) for _ in range(3)]
        loss, _ = self.loss, self.other = [qd.field(qd.f64, (), needs_grad=True) for _ in range(2)]
        self.factor, self.more, self.count, self.last = 2.0, 0, 0, lambda: None
        x.from_numpy(np.array([0.3, 0.7, 1.1]))

        @qd.kernel
        def step(a: qd.f64):
            for i in x:
                y[i] += qd.sin(x[i] * a)

        @qd.kernel
        def total():
            for i in y:
                loss[None] += y[i] * y[i]

        @qd.kernel
        def in_place():
            for i in y:
                y[i] = y[i] * y[i]

        @qd.kernel
        def value() -> qd.f64:
            return x[0] * 2.0

        @qd.kernel
        def between(a: qd.template(), b: qd.template(), power: qd.template()):
            for i in a:
                b[i] += a[i] ** power

        self.step, self.total, self.in_place, self.value, self.between = step, total, in_place, value, between

    @qd.kernel
    def scaled(self):
        for i in self.x:
            self.y[i] += self.x[i] * qd.static(self.factor)

    def run(self, within) -> None:
        self.y.fill(0)
        with qd.ad.Tape(self.loss) as self.tape:
            self.step(0.5)
            within(self)
            self.step(1.5)
            self.total()
            for _ in range(self.more):
                self.total()
            self.last()


def nothing(p) -> None:
    pass


def another_number(p) -> None:
    p.step(0.25 + p.count)


def an_int(p) -> None:
    p.step(2 if p.count % 2 else 2.0)


def writes_a_constant(p) -> None:
    if p.count in (3, 4):
        p.y[1] = 0.25


def writes_after_a_launch_in_place(p) -> None:
    p.in_place()
    if p.count in (2, 4):
        p.y[1] = 0.25


def more_launches(p) -> None:
    for _ in range(p.count % 3):
        p.step(1.0)


def fewer_launches(p) -> None:
    p.more = 1 if p.count in (2, 4) else 2


def reads_before_it_is_overwritten(p) -> None:
    p.total()
    p.in_place()


def without_gradient(p) -> None:
    if p.count in (2, 4):
        constant_step(p)
    else:
        p.step(1.0)


@qd.ad.no_grad
def constant_step(p) -> None:
    p.step(1.0)


def with_checks(p) -> None:
    if p.count in (3, 5):
        with checking("check_out_of_bound"):
            p.step(1.0)
    else:
        p.step(1.0)


def by_a_global(p) -> None:
    p.factor = 3.0 if p.count in (3, 4) else 2.0
    p.scaled()


def takes_a_number_of_the_tape(p) -> None:
    p.step(p.value())


def other_template_fields(p) -> None:
    a, b = (p.z, p.y) if p.count in (3, 5) else (p.x, p.z)
    p.between(a, b, 2)


def another_template_number(p) -> None:
    p.between(p.x, p.y, 3 if p.count in (3, 4) else 2)


def a_kernel_of_each_run(p) -> None:
    factor = 2.0 + p.count % 3

    @qd.kernel
    def scale():
        for i in p.x:
            p.y[i] += factor * p.x[i]

    scale()


def a_field_of_each_run(p) -> None:
    more = qd.field(qd.f64, 3, needs_grad=True)
    p.between(p.x, more, 2)
    p.between(more, p.y, 1)


def an_error_in_between(p) -> None:
    p.step(0.75)
    if p.count in (3, 4):
        with pytest.raises(Exception, match="QL2040"):
            p.step("no number")


@qd.ad.grad_replaced
def triple(p) -> None:
    for i in range(3):
        p.y[i] += 3.0 * p.x[i]


@qd.ad.grad_for(triple)
def triple_back(p) -> None:
    for i in range(3):
        p.x.grad[i] += 3.0 * p.y.grad[i]


def a_call_of_python(p) -> None:
    if p.count in (3, 5):
        triple(p)


def a_call_that_is_inserted(p) -> None:
    p.step(0.75)
    if p.count in (3, 5):
        p.tape.insert(triple, (p,))


def an_inserted_call_at_the_end(p) -> None:
    if p.count in (3, 5):
        p.last = partial(a_call_that_is_inserted, p)
    else:
        p.last = partial(p.step, 0.75)


def gradients_in_between(p) -> None:
    if p.count in (3, 5):
        p.tape.grad()


WITHIN = [nothing, another_number, an_int, writes_a_constant, writes_after_a_launch_in_place, more_launches,
          fewer_launches, reads_before_it_is_overwritten, without_gradient, with_checks, by_a_global,
          takes_a_number_of_the_tape, gradients_in_between, other_template_fields, another_template_number,
          a_kernel_of_each_run, a_field_of_each_run, an_error_in_between, a_call_of_python, a_call_that_is_inserted,
          an_inserted_call_at_the_end]  # fmt: skip


def clears_from_python(p) -> None:
    p.z.grad.fill(3.0)
    p.x.grad[1] = 5.0


def gradients_by_hand(p) -> None:
    p.loss.grad.fill(1.0)
    p.total.grad()
    p.step.grad(0.5)


def another_tape(p) -> None:
    @qd.kernel
    def to_other():
        for i in p.x:
            p.other[None] += p.x[i] * p.z[i]

    with qd.ad.Tape(p.other):
        to_other()


def new_fields(p) -> None:
    p.late = qd.field(qd.f64, 2, needs_grad=True)
    p.late.grad.fill(4.0)


def an_error(p) -> None:
    def ends_early() -> None:
        with qd.ad.Tape(p.loss):
            p.step(0.5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ends_early()


def a_view_of_a_gradient(p) -> None:
    with suppress(ValueError):  # where the host cannot access the memory
        p.view = p.z.grad.to_numpy(copy=False)
        p.view[...] = 7.0


def another_loss_value(p) -> None:
    p.loss[None] = 5.0
    p.loss.grad[None] = 5.0


def launches_outside(p) -> None:
    p.step(0.75)
    p.total()


def a_tape_without_clearing(p) -> None:
    p.y.fill(0)
    with qd.ad.Tape(p.loss, clear_gradients=False):
        p.step(0.5)
        p.total()


BETWEEN = [nothing, clears_from_python, gradients_by_hand, another_tape, new_fields, an_error, a_view_of_a_gradient,
           another_loss_value, launches_outside, a_tape_without_clearing]  # fmt: skip


def gradients(fresh: bool, within, between) -> list[list[np.ndarray]]:
    p, found = Program(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for p.count in range(RUNS):
            if fresh:
                p.loss.recordings = None
            p.run(within)
            fields = [p.x, p.y, p.z, p.loss, p.other, *([p.late] if hasattr(p, "late") else [])]
            found.append([np.array(p.loss[None]), *(field.grad.to_numpy() for field in fields)])
            between(p)
    return found


@pytest.mark.parametrize("within", WITHIN)
def test_what_happens_within_a_run(within) -> None:
    for a, b in zip(gradients(False, within, nothing), gradients(True, within, nothing), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("between", BETWEEN)
def test_what_happens_between_runs(between) -> None:
    expected = gradients(True, nothing, nothing)
    for a, b in zip(gradients(False, nothing, between), expected, strict=True):
        for x, y in zip(a, b, strict=False):
            np.testing.assert_array_equal(x, y)
        assert all((x == 0).all() for x in a[len(b) :])  # of fields that came later


def steps_of(fields: int) -> int:
    """How many functions the third run of a Tape calls, in a session with so many more fields."""
    p = Program()
    p.others = [qd.field(qd.f64, (), needs_grad=True) for _ in range(fields)]
    for _ in range(4):
        p.run(nothing)
    p.y.fill(0)
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    with qd.ad.Tape(p.loss):
        p.step(0.5)
        p.step(1.5)
        p.total()
    sys.setprofile(None)
    return count


def test_an_equal_tape_takes_no_steps_for_fields_that_it_does_not_use() -> None:
    few, many = steps_of(1), steps_of(100)
    assert many <= few + 4, (few, many)
    if qd.cfg.arch == qd.cpu:  # a device takes more of them for a launch
        assert few < 180, few
