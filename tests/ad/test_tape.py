"""`qd.ad.Tape`: what it keeps, what validation and grad_check find, custom gradients, chains that end on the way."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sessions import WITH_F64, session_of

import quadrants_lab as qd

session = session_of(WITH_F64, default_fp=qd.f64)
pytestmark = pytest.mark.filterwarnings("error")  # what is not expected


def field(*shape, **options):
    return qd.field(qd.f64, shape, needs_grad=True, **options)


@qd.kernel
def total(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] * x[i]


# --- writes between launches

@pytest.mark.parametrize("kind", ["field", "offsets", "0-d", "vectors", "ndarrays", "other dtype"])
def test_copy_from_is_differentiated(kind) -> None:
    source, target = {
        "field": lambda: (field(3), field(3)),
        "offsets": lambda: (field(3, offset=-1), field(3, offset=2)),
        "0-d": lambda: (field(), field()),
        "vectors": lambda: [qd.Vector.field(2, qd.f64, 3, needs_grad=True) for _ in range(2)],
        "ndarrays": lambda: [qd.ndarray(qd.f64, 3, needs_grad=True) for _ in range(2)],
        "other dtype": lambda: (field(3), qd.ndarray(qd.f32, 3, needs_grad=True)),
    }[kind]()
    loss = field()

    @qd.kernel
    def double(a: qd.Tensor):
        for i in qd.grouped(a):
            a[i] = 2.0 * a[i]

    @qd.kernel
    def measure(a: qd.Tensor):
        for i in qd.grouped(a):
            for k in qd.static(range(2 if kind == "vectors" else 1)):
                entry = a[i][k] if qd.static(kind == "vectors") else a[i]
                loss[None] += entry * entry

    source.fill(3.0)
    with qd.ad.Tape(loss):
        double(source)
        target.copy_from(source)
        source.fill(0.0)
        measure(target)
    assert loss[None] == 36 * target.to_numpy().size
    assert np.unique(source.grad.to_numpy()).tolist() == [24]
    assert not target.grad.to_numpy().any()


def test_a_tape_inside_of_a_tape_is_refused() -> None:
    """The outer Tape would run the inner one's gradients again, with the seed that the inner one left."""
    x, inner, outer = field(3), field(), field()
    x.fill(1.0)
    with qd.ad.Tape(outer):
        total(x, outer)
        with pytest.raises(qd.QuadrantsRuntimeError, match="QL2092.*another Tape is recording"):
            qd.ad.Tape(inner).__enter__()
    assert x.grad.to_numpy().tolist() == [2, 2, 2]


def test_launches_that_read_integers_are_recorded_in_the_fast_way_until_a_launch_writes_these() -> None:
    x, w, kind, loss = field(3), field(3), qd.field(qd.i32, 3), field()
    x.fill(0.37)
    w.fill(1.0)

    @qd.kernel
    def find():
        for i in x:
            kind[i] = int(x[i] * 10.0)

    @qd.kernel
    def measure():
        for i in x:
            loss[None] += w[i] * kind[i]

    def taped(*kernels: Any) -> None:
        with qd.ad.Tape(loss):
            for k in kernels:
                k()

    taped(measure)
    assert measure._dispatch.here.summaries is not None
    for _ in range(2):
        with pytest.warns(qd.QuadrantsWarning, match="QL0406"):
            taped(find, measure)
    assert find._dispatch.here.summaries is None


def test_a_gradient_that_integers_of_another_launch_cut_is_named() -> None:
    x, cell, loss = field(3), qd.field(qd.i32, 3), field()
    x.fill(0.37)

    @qd.kernel
    def find():
        for i in x:
            cell[i] = int(x[i] * 10.0)

    @qd.kernel
    def measure():
        for i in x:
            loss[None] += 0.5 * cell[i]

    @qd.kernel
    def inside():
        for i in x:
            loss[None] += x[i] * 10.0 - cell[i]

    @qd.kernel
    def gather():
        for i in x:
            loss[None] += w[cell[i]] * x[i] * 0.0 + w[cell[i]]

    w = field(10)
    w.fill(1.0)
    def found_and_measured():
        with qd.ad.Tape(loss):
            find()
            measure()

    with pytest.warns(qd.QuadrantsWarning, match="QL0406.*the gradient of x gets nothing from loss"):
        found_and_measured()
    for use in (inside, gather):  # there is another way; an index has no derivative
        with qd.ad.Tape(loss):
            find()
            use()
        assert (x.grad.to_numpy() == (10 if use is inside else 0)).all()


def test_a_chain_that_a_numpy_array_breaks_is_named() -> None:
    x, middle, loss = field(3), np.zeros(3), field()

    @qd.kernel
    def squares(t: qd.types.ndarray()):
        for i in x:
            t[i] = x[i] * x[i]

    @qd.kernel
    def measure(t: qd.types.ndarray()):
        for i in x:
            loss[None] += t[i] + x[i]

    with qd.ad.Tape(loss):
        squares(middle)
        with pytest.warns(qd.QuadrantsWarning, match="QL0407.*the gradient stops at t"):
            measure(middle)
        squares(middle)  # once is enough
        measure(middle)
    with qd.ad.Tape(loss):
        measure(middle)  # a constant of this Tape


def test_python_overwrites_equal_values() -> None:
    """Python writes the value that y has already: the value stays, but the derivative ends."""
    x, y, loss = field(2), field(2), field()
    @qd.kernel
    def k():
        for i in x:
            y[i] += 3.0 * x[i]
    with qd.ad.Tape(loss):
        k()
        y.fill(0)
        k()
        total(x, loss)
        for_y(y, loss)
    assert x.grad.to_numpy().tolist() == [3.0, 3.0]


@qd.kernel
def for_y(y: qd.template(), loss: qd.template()):
    for i in y:
        loss[None] += y[i]


# --- validation

def test_validation_reports_what_launches_kept() -> None:
    """A kernel saves the values that it overwrites and its gradient needs; with validation, a warning says so."""
    b, order, target, loss = field(5, name="b"), qd.field(qd.i32, 5), qd.field(qd.i32, 5), field()
    order.from_numpy(np.array([0, 1, 2, 3, 4], np.int32))
    target.from_numpy(np.array([1, 1, 1, 2, 3], np.int32))

    @qd.kernel
    def k():
        for _ in range(1):
            for j in range(5):
                loss[None] += b[order[j]] * b[order[j]]
                b[target[j]] = 1.5

    tape = qd.ad.Tape(loss, validation=True)
    start = np.arange(5) * 0.5
    b.from_numpy(start)
    with pytest.warns(qd.QuadrantsWarning, match="QL2100") as told, tape:
        k()
    assert "kept 5 values (40 bytes) of b: the gradient of k reads what k overwrote" in str(told[0].message)
    assert [(k.name, k.reader, k.writer, k.elements) for k in tape.kept] == [("b", "k", "k", 5)]
    np.testing.assert_allclose(b.grad.to_numpy(), 2 * start * [1, 0, 1, 1, 1])


def test_validation_reports_what_the_tape_kept() -> None:
    x, y, loss = field(4, name="x"), field(4), field()
    x.fill(0.5)

    @qd.kernel
    def square():
        for i in x:
            y[i] = x[i] * x[i]

    @qd.kernel
    def put():
        for i in x:
            x[i] = y[i]

    tape = qd.ad.Tape(loss, validation=True)

    def run():
        with tape:
            square()
            put()
            square()
            for_y(y, loss)

    with pytest.warns(qd.QuadrantsWarning, match="QL2100") as caught:
        run()
    assert "kept 4 values (32 bytes) of x: the gradient of square reads what put overwrote" in str(caught[0].message)
    assert [(k.name, k.reader, k.writer, k.elements) for k in tape.kept] == [("x", "square", "put", 4)]
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * 0.5**3)


# --- grad_check

def test_grad_check_passes_right_gradients_and_restores_memory() -> None:
    x, y, n, loss = field(3, name="x"), field(3), qd.field(qd.i32, ()), field()
    x.from_numpy(np.array([0.1, 0.5, 0.9]))
    n[None] = 4

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v) + qd.random(qd.f64)
            y[i] = v
            loss[None] += v

    @qd.kernel
    def feed():
        for i in x:
            x[i] = y[i] * 0.5

    for _ in range(2):  # other draws each time
        with qd.ad.Tape(loss, grad_check=[x, y]):
            k()
            feed()
            k()
            x[1] = 0.25
            k()
        assert x[1] == 0.25


def test_grad_check_wants_f64() -> None:
    x, loss = qd.field(qd.f32, 3, needs_grad=True), field()
    with pytest.raises(AssertionError, match="Only f64 is supported"):
        qd.ad.Tape(loss, grad_check=[x])
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs_grad=True"):
        qd.ad.Tape(loss, grad_check=[qd.field(qd.f64, 3)])


# --- never silently zero


def test_a_gradient_that_is_launched_by_hand() -> None:
    """A force that is the gradient of an energy: neither mode differentiates it."""
    x, energy, loss = (qd.field(qd.f64, n, needs_grad=True, needs_dual=True) for n in (2, (), ()))

    @qd.kernel
    def move():
        for i in x:
            x[i] -= 0.1 * x.grad[i]

    def run() -> None:
        energy.grad[None] = 1.0
        total(x, energy)
        total.grad(x, energy)
        move()
        total(x, loss)

    for mode, how in ((qd.ad.Tape(loss), "a Tape"), (qd.ad.FwdMode(loss, x, seed=[1.0, 0.0]), "a FwdMode")):
        says = f"QL0420.*gradient of kernel total was launched under {how}"
        with pytest.warns(qd.QuadrantsWarning, match=says), mode:
            run()

    @qd.ad.grad_replaced
    def own() -> None:
        run()

    @qd.ad.grad_for(own)
    def own_gradient() -> None:
        x.grad.fill(1.0)

    with qd.ad.Tape(loss):
        own()


def test_a_constant_that_turns_out_to_come_from_a_value_with_a_gradient():
    """The warning comes also where an earlier launch of the reading kernel was recorded."""
    h = qd.field(qd.f64, ())
    x, y, loss = (qd.field(qd.f64, (), needs_grad=True) for _ in range(3))

    @qd.kernel
    def hand_over():
        h[None] = 2 * x[None]

    @qd.kernel
    def add():
        loss[None] += h[None] * y[None]

    def run(times):
        with qd.ad.Tape(loss):
            for _ in range(times):
                add()
            hand_over()
            add()

    for times in (1, 3):
        with pytest.warns(qd.QuadrantsWarning, match="h has no gradient|gradient.*h") as told:
            run(times)
        assert len(told) == 1
    with qd.ad.Tape(loss):
        for _ in range(3):
            add()


def test_a_tape_over_data_without_gradients_says_so():
    loss, x = qd.field(qd.f32, (), needs_grad=True), qd.field(qd.f32, 4)
    w = qd.field(qd.f32, 4, needs_grad=True)

    @qd.kernel
    def over_x(a: qd.types.ndarray()):
        for i in x:
            loss[None] += x[i] * a[i]

    @qd.kernel
    def over_w():
        for i in w:
            loss[None] += w[i]

    told = "QL2096.*no kernel launched under this Tape reads anything with a gradient for its loss"
    for given in (np.ones(4, np.float32), qd.ndarray(qd.f32, 4)):
        for _ in range(3):  # also when it is recorded again
            with pytest.warns(qd.QuadrantsWarning, match=f"{told}(.|\n)*make a, x with needs_grad=True") as caught:
                with qd.ad.Tape(loss):
                    over_x(given)
            assert len(caught) == 1
            assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with qd.ad.Tape(loss):
            over_w()
        with qd.ad.Tape(loss):
            over_x(qd.ndarray(qd.f32, 4, needs_grad=True))
        with qd.ad.Tape(loss):
            over_x(np.ones(4, np.float32))
            over_w()
