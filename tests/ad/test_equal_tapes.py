"""A Tape that repeats the recording of the last one: what a launch depends on changes in some of the runs, or something
happens between them, and the gradients must be those of a Tape that begins anew."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import partial
from weakref import ref

import numpy as np
import pytest
from child import together
from sessions import in_turn, session_of, sessions

import quadrants_lab as qd
from quadrants_lab.runtime.observe.observers import Observer, watch
from quadrants_lab.runtime.session import checking

session = session_of(in_turn(sessions("cpu", "cuda", "vulkan")), default_fp=qd.f64)
RUNS, OTHER = 8, (3, 4, 6)  # in which runs the other of two things happens


@qd.data_oriented
class Program:
    """``x`` to ``y`` to the loss, with work arrays that have no gradient. ``other``: whether this run is another."""

    def __init__(self) -> None:
        self.x, self.y, self.z = (qd.field(qd.f64, 4, needs_grad=True) for _ in range(3))
        self.half = qd.field(qd.f32, 4, needs_grad=True)
        self.turned = qd.field(qd.f64, needs_grad=True)
        qd.root.dense(qd.i, 2).dense(qd.i, 2).place(self.turned, self.turned.grad)
        self.loss, self.sum = (qd.field(qd.f64, (), needs_grad=True) for _ in range(2))
        self.work, self.at = qd.field(qd.f64, 4), qd.field(qd.i32, 4)
        self.arrays = [qd.ndarray(dtype, 4, needs_grad=grad) for dtype, grad in
                       ((qd.f64, True), (qd.f64, True), (qd.f64, False), (qd.f32, True))]  # fmt: skip
        self.host, self.factor, self.count, self.other = np.array([1.0, 2.0, 3.0, 4.0]), 2.0, 0, False
        self.at.from_numpy(np.array([2, 0, 3, 1], np.int32))
        for n, field in enumerate((self.x, self.half, self.turned, *self.arrays)):
            field.from_numpy(np.array([0.3, 0.7, 1.1, 0.2], field.dtype.numpy) + 0.1 * n)

    @qd.kernel
    def add(self, a: qd.template(), b: qd.template()):
        for i in range(4):
            b[i] += qd.sin(a[i])

    @qd.kernel
    def add_array(self, a: qd.types.ndarray(ndim=1)):
        for i in range(4):
            self.y[i] += a[i] * a[i] * self.x[i]

    @qd.kernel
    def add_twice(self, a: qd.types.ndarray(ndim=1), b: qd.types.ndarray(ndim=1)):
        for i in range(4):
            self.y[i] += a[i] * b[i] * self.x[i]

    @qd.kernel
    def scale(self, by: qd.f64):
        for i in self.y:
            self.y[i] = self.y[i] * self.y[i] * by

    @qd.kernel
    def scale_by_attribute(self):
        for i in self.y:
            self.y[i] = self.y[i] * self.y[i] * qd.static(self.factor)

    @qd.kernel
    def scatter(self):
        for i in range(4):
            if i < 1:
                self.y[self.at[i]] = self.y[self.at[i]] * self.x[i]

    @qd.kernel
    def keep(self):
        for i in self.y:
            for _ in range(3):
                self.y[i] = qd.sin(self.y[i]) * self.x[i]

    @qd.kernel
    def step(self, i: qd.i32):
        for _ in range(1):
            self.y[i + 1] = self.y[i] * self.y[i] + self.x[i]

    @qd.kernel
    def multiply(self, a: qd.types.ndarray(ndim=1)):
        for i in range(a.shape[0]):
            self.y[i] = self.y[i] * self.y[i] * a[i]

    @qd.kernel
    def draw(self):
        for i in self.y:
            self.y[i] += qd.random(qd.f64) * self.x[i]

    @qd.kernel
    def copy(self, a: qd.template(), b: qd.template()):
        for i in range(4):
            b[i] = 3.0 * a[i]

    @qd.kernel
    def norm(self, a: qd.template()) -> qd.f64:
        found = 0.0
        for i in range(4):
            found += a[i] * a[i]
        return found

    @qd.kernel
    def measure(self):
        for i in self.y:
            self.loss[None] += self.y[i] * self.y[i]

    def run(self, within: Callable[[Program], object]) -> None:
        """``within``: a function that returns what happens at the end of the Tape, or nothing."""
        self.y.from_numpy(np.array([0.5, 0.6, 0.7, 0.8]))
        self.z.fill(0.25)
        with qd.ad.Tape(self.loss) as self.tape:
            self.add(self.x, self.y)
            self.scale(0.5)
            self.measure()  # whose gradient reads what is overwritten from here on
            at_the_end = within(self)
            self.scale(0.75)
            self.add(self.x, self.z)  # which nothing but a custom gradient reads
            self.measure()
            if callable(at_the_end):
                at_the_end()


@qd.ad.grad_replaced
def tripled(p: Program, rounds: int = 1, back: float = 3.0) -> None:
    """y becomes 3 y, by launches over a work array; ``rounds`` launches change nothing more."""
    p.copy(p.y, p.work)
    for _ in range(rounds):
        p.norm(p.work)
    p.copy_back()


@qd.ad.grad_for(tripled)
def tripled_back(p: Program, rounds: int = 1, back: float = 3.0) -> None:
    values = p.y.grad.to_numpy()
    p.y.grad.from_numpy(back * values)
    p.x.grad.from_numpy(p.x.grad.to_numpy() + values * p.y.to_numpy())


@qd.kernel
def _copy(a: qd.template(), b: qd.template()):
    for i in range(4):
        b[i] = a[i]


Program.copy_back = lambda self: _copy(self.work, self.y)


@qd.ad.grad_replaced
def twice_tripled(p: Program) -> None:
    tripled(p)
    p.copy(p.y, p.work)


@qd.ad.grad_for(twice_tripled)
def twice_tripled_back(p: Program) -> None:
    tripled_back(p)


@qd.ad.grad_replaced
def looks(p: Program, which: str) -> None:
    p.seen = getattr(p, which)[1]


@qd.ad.grad_for(looks)
def looks_back(p: Program, which: str) -> None:
    p.x.grad[1] += getattr(p, which)[1]


@qd.ad.grad_replaced
def writes(p: Program) -> None:
    if p.other:
        p.y[2] = 0.125
    p.norm(p.y)


@qd.ad.grad_for(writes)
def writes_back(p: Program) -> None:
    p.x.grad[2] += 1.0


@qd.ad.grad_replaced
def fails(p: Program) -> None:
    p.copy(p.y, p.work)
    if p.other:
        raise ZeroDivisionError
    p.copy_back()


@qd.ad.grad_for(fails)
def fails_back(p: Program) -> None:
    p.y.grad[0] *= 3.0


def in_a_thread(run: Callable[[], object]) -> None:
    together(partial(copy_context().run, run))


def changed_after_its_launch(p: Program) -> None:
    p.add_array(p.host)
    p.host[1] += 1.0


def an_array_twice(p: Program) -> None:
    p.add_twice(p.arrays[0], p.arrays[0] if p.other else p.arrays[1])


def a_field_of_each_run(p: Program) -> None:
    more = qd.field(qd.f64, 4, needs_grad=True)
    p.add(p.x, more)
    p.add(more, p.y)


def a_kernel_of_each_run(p: Program) -> None:
    factor = 2.0 + p.count % 3

    @qd.kernel
    def scale():
        for i in p.x:
            p.y[i] += factor * p.x[i]

    scale()


# what happens in the middle of a run, and in the other runs
CASES: dict[str, tuple[Callable[[Program], object], Callable[[Program], object]]] = {
    "dtype of a field": (lambda p: p.add(p.x, p.y), lambda p: p.add(p.half, p.y)),
    "layout of a field": (lambda p: p.add(p.x, p.y), lambda p: p.add(p.turned, p.y)),
    "dtype of an ndarray": (lambda p: p.add_array(p.arrays[0]), lambda p: p.add_array(p.arrays[3])),
    "an ndarray without a gradient": (lambda p: p.add_array(p.arrays[0]), lambda p: p.add_array(p.arrays[2])),
    "another ndarray": (lambda p: p.add_array(p.arrays[0]), lambda p: p.add_array(p.arrays[1])),
    "one ndarray twice": (an_array_twice, an_array_twice),
    "the content of a numpy array": (changed_after_its_launch, changed_after_its_launch),
    "a numpy array of each run": (lambda p: p.add_array(p.host + p.count), lambda p: p.add_array(p.host - p.count)),
    "dtype of a numpy array": (lambda p: p.add_array(p.host), lambda p: p.add_array(p.host.astype(np.float32))),
    "shape of a numpy array": (lambda p: p.add_array(p.host), lambda p: p.add_array(np.tile(p.host, 2))),
    "how many elements it overwrites": (lambda p: p.multiply(p.host[:2]), lambda p: p.multiply(p.host)),
    "layout of a numpy array": (lambda p: p.add_array(p.host), lambda p: strided(p)),
    "numpy or ndarray": (lambda p: p.add_array(p.host), lambda p: p.add_array(p.arrays[0])),
    "kept values": (lambda p: p.keep(), lambda p: (p.keep(), p.keep())),
    "an index": (lambda p: (p.step(0), p.step(1)), lambda p: (p.step(0), p.step(2))),
    "where the data says": (lambda p: p.scatter(), lambda p: p.scatter()),
    "the order": (lambda p: (p.keep(), p.scatter()), lambda p: (p.scatter(), p.keep())),
    "a mode": (lambda p: p.scale(1.5), lambda p: constant(p)),
    "checks": (lambda p: p.keep(), lambda p: checked(p)),
    "an attribute": (lambda p: attribute(p, 2.0), lambda p: attribute(p, 3.0)),
    "a custom gradient": (lambda p: tripled(p), lambda p: p.keep()),
    "its arguments": (lambda p: tripled(p), lambda p: tripled(p, back=2.0)),
    "how many launches it makes": (lambda p: tripled(p, 2), lambda p: tripled(p, 3)),
    "that it launches": (lambda p: tripled(p), lambda p: (p.copy(p.y, p.work), p.norm(p.work), p.copy_back())),
    "that it is launched within": (lambda p: (p.copy(p.y, p.work), p.copy_back()), lambda p: tripled(p, 0)),
    "which one is called": (lambda p: tripled(p), lambda p: twice_tripled(p)),
    "what it reads in Python": (lambda p: looks(p, "x"), lambda p: looks(p, "z")),
    "what it writes in Python": (lambda p: writes(p), lambda p: writes(p)),
    "an error in it": (lambda p: caught(p), lambda p: caught(p)),
    "a call that is inserted": (lambda p: p.keep(), lambda p: p.tape.insert(tripled, (p,))),
    "the thread": (lambda p: p.keep(), lambda p: in_a_thread(p.keep)),
    "the caller": (lambda p: p.keep(), lambda p: qd.ad.checkpoint(p.keep)()),
    "a write of Python": (lambda p: p.keep(), lambda p: (p.keep(), p.y.fill(0.25))),
    "another loss in between": (lambda p: p.keep(), lambda p: p.keep() if p.other else None),
    "another number": (lambda p: p.scale(1.5), lambda p: p.scale(0.25)),
    "an int": (lambda p: p.scale(2.0), lambda p: p.scale(2)),
    "a number of the Tape": (lambda p: p.scale(p.norm(p.x)), lambda p: p.scale(p.norm(p.y))),
    "an element that Python writes": (lambda p: p.keep(), lambda p: (p.keep(), p.y.__setitem__(1, 0.25))),
    "a launch less at the end": (lambda p: p.measure, lambda p: None),
    "a call at the end": (lambda p: p.keep, lambda p: partial(p.tape.insert, tripled, (p,))),
    "gradients in between": (lambda p: p.keep(), lambda p: (p.keep(), p.tape.grad())),
    "an error in between": (lambda p: p.keep(), lambda p: (p.keep(), refused(p))),
    "a field of each run": (a_field_of_each_run, a_field_of_each_run),
    "a kernel of each run": (a_kernel_of_each_run, a_kernel_of_each_run),
}


def refused(p: Program) -> None:
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="QL2040"):
        p.scale("no number")


def strided(p: Program) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2043"):
        p.add_array(np.repeat(p.host, 2)[::2])


@qd.ad.no_grad
def constant(p: Program) -> None:
    p.scale(1.5)


def checked(p: Program) -> None:
    with checking("check_out_of_bound"):
        p.keep()


def attribute(p: Program, factor: float) -> None:
    p.factor = factor
    p.scale_by_attribute()


def caught(p: Program) -> None:
    with suppress(ZeroDivisionError):
        fails(p)


def another_tape(p: Program) -> None:
    @qd.kernel
    def to_other():
        for i in p.x:
            p.sum[None] += p.x[i] * p.z[i]

    with qd.ad.Tape(p.sum):
        to_other()


def a_new_field(p: Program) -> None:
    p.late = qd.field(qd.f64, 2, needs_grad=True)
    p.late.grad.fill(4.0)


def an_error(p: Program) -> None:
    with suppress(ZeroDivisionError), qd.ad.Tape(p.loss):
        p.scale(0.5)
        raise ZeroDivisionError


def a_view_of_a_gradient(p: Program) -> None:
    with suppress(ValueError):  # where the host cannot access the memory
        p.view = p.z.grad.to_numpy(copy=False)
        p.view[...] = 7.0


def a_tape_without_clearing(p: Program) -> None:
    with qd.ad.Tape(p.loss, clear_gradients=False):
        p.add(p.x, p.y)
        p.measure()


BETWEEN: dict[str, Callable[[Program], object]] = {
    "gradients from Python": lambda p: (p.z.grad.fill(3.0), p.x.grad.__setitem__(1, 5.0)),
    "gradients by hand": lambda p: (p.loss.grad.fill(1.0), p.measure.grad(), p.add.grad(p.x, p.y)),
    "another loss value": lambda p: (p.loss.fill(5.0), p.loss.grad.fill(5.0)),
    "launches outside": lambda p: (p.scale(0.75), p.measure()),
    "another Tape": another_tape, "a new field": a_new_field, "an error": an_error,
    "a view of a gradient": a_view_of_a_gradient, "a Tape without clearing": a_tape_without_clearing,
}  # fmt: skip
nothing = lambda p: None


def gradients(fresh: bool, usual, other, between=nothing) -> tuple[list[list[np.ndarray]], int]:
    """The gradients of each run, and how many runs repeated a recording. ``between``: what happens after each run."""
    p, found, repeated = Program(), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for p.count in range(RUNS):
            p.other = p.count in OTHER
            # the data that a launch writes by decides otherwise in each run
            p.at.from_numpy(np.roll(np.array([2, 0, 3, 1], np.int32), p.count))
            if fresh:
                p.loss.recordings = None
            known = [launches.rerun for launches in (p.loss.recordings or {}).values()]
            p.run(other if p.other else usual)
            repeated += any(launches.rerun in known for launches in (p.loss.recordings or {}).values())
            fields = [p.x, p.y, p.z, p.half, p.turned, p.loss, p.sum, p.work, *p.arrays]
            fields += [p.late] if hasattr(p, "late") else []
            found.append([np.array(p.loss[None]), p.y.to_numpy(), *(f.grad.to_numpy() for f in fields if f.grad)])
            between(p)
    return found, repeated


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_a_new_tape(case: str) -> None:
    expected, _ = gradients(True, *CASES[case])
    for n, (a, b) in enumerate(zip(gradients(False, *CASES[case])[0], expected, strict=True)):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=f"run {n} of {case}")


@pytest.mark.parametrize("between", BETWEEN)
def test_what_happens_between_runs(between: str) -> None:
    expected, _ = gradients(True, nothing, nothing)
    for a, b in zip(gradients(False, nothing, nothing, BETWEEN[between])[0], expected, strict=True):
        for x, y in zip(a, b, strict=False):
            np.testing.assert_array_equal(x, y)
        assert all((x == 0).all() for x in a[len(b) :])  # of a field that came later


# in which the run itself differs, or ends a derivative
NEVER = "that it is launched within", "a field of each run", "a kernel of each run"
NOT_ALWAYS = "what it writes in Python", "an error in it", "one ndarray twice", "another loss in between", "the thread"


@pytest.mark.parametrize("case", [case for case in CASES if case not in NEVER])
def test_an_equal_run_is_repeated(case: str) -> None:
    """If equal runs were not repeated, the test above would compare nothing."""
    usual = CASES[case][0]
    _, repeated = gradients(False, usual, usual)
    assert repeated >= (1 if case in NOT_ALWAYS else RUNS - 2), repeated


def test_a_gradient_repeats_the_draws_of_its_run() -> None:
    p = Program()
    for _ in range(RUNS):
        p.y.fill(0)
        with qd.ad.Tape(p.loss):
            p.draw()
            p.draw()
            p.measure()
        x, y = p.x.to_numpy(), p.y.to_numpy()
        np.testing.assert_allclose(p.x.grad.to_numpy(), 2 * y * y / x, rtol=1e-12)


def test_each_run_warns_of_a_derivative_that_ends_in_a_numpy_array() -> None:
    p, out = Program(), np.zeros(4)

    @qd.kernel
    def into(a: qd.types.ndarray(ndim=1)):
        for i in range(4):
            a[i] = p.x[i] * 2.0

    for _ in range(3):
        with pytest.warns(qd.QuadrantsWarning, match="QL0407"):
            p.run(lambda p: (into(out), p.add_array(out)))
        p.run(lambda p: p.add_array(out))


def test_each_run_refuses_a_numpy_array_in_a_checkpoint() -> None:
    p = Program()
    for _ in range(3):
        p.run(lambda p: p.add_array(p.host))
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2098.*uses a numpy array"):
            p.run(lambda p: qd.ad.checkpoint(p.add_array)(p.host))


@pytest.mark.parametrize("where", ["around", "within"])
def test_other_observers_see_the_launches_of_an_equal_run(where: str) -> None:
    class Seen(Observer):
        def after(self, plan, args, token, failed) -> None:
            kernels.append((plan.owner.mode, plan.kernel.name.split()[0]))
    p = Program()
    for n in range(6):
        kernels, at = [], where if n > 3 else "nowhere"
        def inner(p: Program, at: str = at) -> None:
            with watch(Seen()) if at == "within" else nullcontext():
                tripled(p)
        with watch(Seen()) if at == "around" else nullcontext():
            p.run(inner)
        all_of_it = "add scale measure copy norm _copy scale add measure"
        names = [name for mode, name in kernels if mode == "forward"]
        assert " ".join(names) == {"around": all_of_it, "within": "copy norm _copy", "nowhere": ""}[at]
        assert len(kernels) - len(names) == (6 if at == "around" else 0)


def test_what_a_recording_was_made_for_ends_with_the_program() -> None:
    """Arrays, objects and functions of the program, between two runs and after the last one."""
    p = Program()
    for _ in range(4):
        p.run(lambda p: (tripled(p), p.add_array(p.arrays[0]), p.add_array(p.host), p.keep(), p.scatter()))
    loss, gone = p.loss, [ref(p.arrays[0]), ref(p.host), ref(p)]
    assert loss.recordings
    p.arrays.clear()
    gc.collect()
    assert not loss.recordings, "which cannot be repeated without the array"
    p.tape = p.host = None
    del p
    gc.collect()
    assert [of() for of in gone] == [None] * 3


def steps_of(fields: int) -> int:
    """How many functions the product calls in a run of an equal Tape, in a session with so many more fields: the least
    of five runs, since what a collection frees has callbacks. Those of a backend, which waits, do not count."""
    p = Program()
    p.others = [qd.field(qd.f64, (), needs_grad=True) for _ in range(fields)]
    for _ in range(4):
        p.run(nothing)
    counts = []
    for _ in range(5):
        counts.append(0)

        def note(frame, event, arg):
            product = event in ("call", "c_call") and "quadrants_lab" in frame.f_code.co_filename
            counts[-1] += product and "backends" not in frame.f_code.co_filename

        sys.setprofile(note)
        p.run(nothing)
        sys.setprofile(None)
    return min(counts)


def test_an_equal_tape_takes_no_steps_for_fields_that_it_does_not_use() -> None:
    few, many = steps_of(1), steps_of(100)
    assert many <= few + 4, (few, many)
    if qd.cfg.arch == qd.cpu:  # a device takes more of them for a launch
        assert few < 436, few
