"""Numbers that Python gets under a Tape or a FwdMode and passes on: their derivative is lost, and a warning says so."""

from __future__ import annotations

import contextvars
import copy
import gc
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants_lab as qd

FLOAT = qd.f32


class Program:
    """``loss`` is 4 a x, where Python passes a."""

    def __init__(self) -> None:
        self.x = x = qd.field(qd.f32, (), needs_grad=True, needs_dual=True, name="x")
        self.y = y = qd.field(qd.f32, 4, needs_grad=True, needs_dual=True, name="y")
        self.loss = loss = qd.field(qd.f32, (), needs_grad=True, needs_dual=True, name="loss")
        self.log = log = qd.field(qd.f32, (), name="log")
        self.v = qd.Vector.field(2, qd.f32, shape=1, needs_grad=True, name="v")
        x[None] = 0.5

        @qd.kernel
        def half() -> FLOAT:
            return x[None] / 2

        @qd.kernel
        def constant() -> FLOAT:
            for i in y:
                y[i] = 0.0
            return 2.0

        @qd.kernel
        def use(a: FLOAT):
            for i in y:
                y[i] = a * x[None]

        @qd.kernel
        def use_both(a: qd.types.vector(2, FLOAT)):
            for i in y:
                y[i] = a[0] * a[1] * x[None]

        @qd.kernel
        def total():
            for i in y:
                loss[None] += y[i]

        @qd.kernel
        def show(a: FLOAT):
            print(a)

        @qd.kernel
        def record(a: FLOAT):
            log[None] = a + y[0]

        self.record = record
        self.half, self.constant, self.use, self.total, self.show = half, constant, use, total, show
        self.use_both = use_both


@pytest.fixture
def program() -> Program:
    qd.init(arch=qd.cpu)
    return Program()


def said(program: Program, steps: Callable[[Program], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with qd.ad.Tape(program.loss):
            steps(program)
            program.total()
    return [str(w.message).splitlines()[0].removeprefix("warning[QL0421]: ") for w in given]


READ = "a number that came from x, which Python read under this Tape: it counts as a constant"
BOTH = [f"kernel use_both takes, as a[{k}], {READ}".replace("from x", "from v") for k in (0, 1)]
RETURNED = "a number that came from kernel half, which returned it under this Tape: it counts as a constant"


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        (lambda p: p.use(p.x[None]), [f"kernel use takes, as a, {READ}"]),
        (lambda p: p.use(2 * (1 - p.x[None]) ** 2 / 3), [f"kernel use takes, as a, {READ}"]),
        (lambda p: p.use(max(abs(-p.x[None]), 0.1)), [f"kernel use takes, as a, {READ}"]),
        (lambda p: p.use(p.half() + 1), [f"kernel use takes, as a, {RETURNED}"]),
        (lambda p: p.y.__setitem__(1, p.half()), [f"Python writes to y {RETURNED}"]),
        (lambda p: p.y.fill(p.x[None]), [f"Python writes to y {READ}"]),
        (lambda p: p.use(p.v[0].y + p.v[0][1]), [f"kernel use takes, as a, {READ}".replace("from x", "from v")]),
        (lambda p: p.use_both(p.v[0]), BOTH),
        (lambda p: p.use_both([p.x[None], 2.0]), [f"kernel use_both takes, as a[0], {READ}"]),
        (lambda p: p.use(float(p.x[None])), []),
        (lambda p: p.use(p.constant()), []),
        (lambda p: p.show(p.x[None]), []),
        (lambda p: p.record(p.x[None]), []),
        (lambda p: p.log.__setitem__(None, p.x[None]), []),
        (lambda p: [p.use(0.5), p.x[None] < 1 and p.total()], []),
        (lambda p: qd.ad.no_grad(p.use)(p.x[None]), []),
    ],
    ids="read sum abs-max returned write fill entry vector list float constant show record log branch no-grad".split(),
)  # fmt: skip
def test_a_number_passed_on_is_a_constant(program: Program, steps: Callable[[Program], Any], want: list[str]):
    for _ in range(2):  # the second time over the recording of the first
        assert said(program, steps) == want


def test_the_gradient_lacks_what_the_warning_names(program: Program):
    assert said(program, lambda p: p.use(p.x[None]))
    assert program.x.grad[None] == 4 * 0.5  # of 4 x x it would be 8 x


def test_a_number_of_an_ended_tape_is_plain(program: Program):
    kept: list[float] = []
    said(program, lambda p: kept.append(p.x[None]))
    assert said(program, lambda p: p.use(kept[0])) == []
    assert type(program.x[None]) is type(copy.copy(kept[0])) is type(pickle.loads(pickle.dumps(kept[0]))) is float
    assert (repr(kept[0]), f"{kept[0]:.2f}", {kept[0]: 1}[0.5]) == ("0.5", "0.50", 1)


def test_numpy_takes_the_number_for_a_float(program: Program):
    row = np.arange(3, dtype=np.float32)
    def steps(p: Program) -> None:
        v = p.x[None]
        assert (v * row).dtype == (row / v).dtype == np.float32
        assert np.maximum(row, v).dtype == (np.float32(2) * v).dtype == np.array([v], np.float32).dtype == np.float32
        assert np.where(row > 0, row, v).dtype == np.clip(row, v, a_max=2 * v).dtype == np.float32
        assert type(v * np.float64(2)) is type(np.sqrt(v)) is np.float64
        with np.errstate(divide="ignore"):
            assert v / np.float64(0) == np.inf
    assert said(program, steps) == []


def test_a_number_is_a_float_in_messages(program: Program):
    with qd.ad.Tape(program.loss):
        program.total()
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match="must be an integer, not float"):
            program.y[program.x[None]]


def test_a_number_of_an_ended_tape_takes_the_fast_path(program: Program, monkeypatch: pytest.MonkeyPatch):
    kept: list[float] = []
    said(program, lambda p: kept.append(p.x[None]))
    assert type(kept[0] * 2) is float
    program.use(1.0)
    monkeypatch.setattr(type(program.use.dispatcher), "resolve", None)
    program.use(kept[0])
    assert program.y[0] == 0.25


def test_a_number_keeps_no_field_alive(program: Program):
    kept, fields = [], [qd.ndarray(qd.f32, 3, needs_grad=True)]
    said(program, lambda p: kept.append(fields[0][1]))
    gone = weakref.ref(fields.pop())
    gc.collect()
    assert gone() is None
    assert kept == [0.0]


def test_a_tape_that_ends_in_another_context(program: Program):
    def steps():
        with qd.ad.Tape(program.loss):
            program.use(0.5)
            program.total()
            yield
    ran = steps()
    contextvars.copy_context().run(next, ran)
    assert next(ran, None) is None
    assert program.x.grad[None] == 2.0
    assert said(program, lambda p: p.use(0.5)) == []


def test_the_same_in_forward_mode(program: Program):
    mode = qd.ad.FwdMode(loss=program.loss, param=program.x, seed=[1.0])
    with mode, pytest.warns(qd.QuadrantsWarning, match="QL0421.*as a.*which Python read under this FwdMode"):
        program.use(program.x[None])
    with mode, pytest.warns(qd.QuadrantsWarning, match="QL0421.*half, which returned it under this FwdMode"):
        program.use(program.half())
