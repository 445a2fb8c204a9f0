"""What users do between launches under a Tape: writes from Python, data changed in place, buffers used in turn.

Gradients are held to central differences of the whole run in float64.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from child import together

import quadrants_lab as qd
from quadrants_lab.runtime.tape import keeper
from quadrants_lab.widgets.timeline import launches, timeline_view

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64)


def field(*shape: int) -> Any:
    return qd.field(float, shape=shape, needs_grad=True)


def drawn(x: Any) -> Any:
    x.from_numpy(RNG.normal(size=x.to_numpy().shape))
    return x


def check(loss: Any, run: Callable[[], None], *params: Any) -> None:
    """d loss / d params after ``run`` under a Tape; ``run`` may overwrite the params."""
    start = [p.to_numpy() for p in params]

    def value(k: int, moved: np.ndarray) -> float:
        for p, s in zip(params, start, strict=True):
            p.from_numpy(s)
        params[k].from_numpy(np.asarray(moved))
        loss[None] = 0.0
        run()
        return float(loss[None])

    with qd.ad.Tape(loss):
        run()
    slopes = [p.grad.to_numpy() for p in params]
    for k, slope in enumerate(slopes):
        right = np.zeros_like(slope)
        for i in np.ndindex(*slope.shape):
            step = np.zeros_like(slope)
            step[i] = 1e-6
            right[i] = (value(k, start[k] + step) - value(k, start[k] - step)) / 2e-6
        assert np.abs(right).max() > 1e-3
        np.testing.assert_allclose(slope, right, atol=1e-7 * max(1.0, np.abs(right).max()))


@pytest.mark.parametrize("kind", ["field", "ndarray", "numpy"])
def test_a_batch_that_is_filled_again(kind: str) -> None:
    x, loss, data = drawn(field(4)), field(), RNG.normal(size=(3, 4))
    batch = {"field": qd.field(float, shape=4), "ndarray": qd.ndarray(qd.f64, shape=4), "numpy": np.zeros(4)}[kind]

    @qd.kernel
    def add(b: qd.Tensor):
        for i in x:
            loss[None] += qd.exp(x[i] * b[i])

    def run() -> None:
        for row in data:
            if kind == "numpy":
                batch[:] = row
            else:
                batch.from_numpy(row)
            add(batch)

    check(loss, run, x)


def test_trip_counts_that_change() -> None:
    x, loss, count = drawn(field(4)), field(), qd.ndarray(qd.i32, shape=4)

    @qd.kernel
    def step(n: qd.types.ndarray()):
        for i in x:
            p = 1.0
            for _ in range(n[i]):
                p *= qd.sin(x[i]) + p
            loss[None] += p

    def run() -> None:
        for t in range(3):
            for i in range(4):
                count[i] = (i + t) % 3
            step(count)

    check(loss, run, x)


def test_a_field_with_gradient_that_is_filled() -> None:
    """The fill ends what flows back through the field."""
    x, y, loss = drawn(field(4)), field(4), field()

    @qd.kernel
    def step():
        for i in x:
            y[i] = y[i] + x[i] ** 2

    def run() -> None:
        for _ in range(3):
            y.fill(0.0)
            step()
            cubes(y, loss)

    check(loss, run, x)


@pytest.mark.parametrize("power", [1, 2])
def test_a_leaf_that_python_writes_between_launches(power: int) -> None:
    """The gradient is that by the field's first values, whether or not a gradient needs these values."""
    x, loss = drawn(field(4)), field()

    @qd.kernel
    def add():
        for i in x:
            loss[None] += (i + 1) * x[i] ** power

    def run() -> None:
        add()
        x[2] = 0.7
        add()

    with pytest.warns(qd.QuadrantsWarning, match="QL0415"):
        check(loss, run, x)


def test_one_field_as_both_arguments() -> None:
    x, loss = drawn(field(4)), field()

    @qd.kernel
    def step(a: qd.template(), b: qd.template()):
        for i in a:
            b[i] += 0.1 * a[i]

    def run() -> None:
        step(x, x)
        step(x, x)
        cubes(x, loss)

    check(loss, run, x)


@qd.kernel
def cubes(x: qd.template(), loss: qd.template()):
    for i in x:
        loss[None] += x[i] ** 3

@qd.kernel
def grown(x: qd.template(), c: qd.template(), y: qd.template(), trips: qd.i32):
    for i in x:
        v = x[i] * c[0]
        for _ in range(trips):
            v = qd.sin(v)
        y[None] += v * c[i]

@qd.kernel
def scaled(c: qd.template(), by: qd.f64):
    for i in c:
        c[i] *= by


def test_what_only_the_reverse_part_of_a_gradient_reads() -> None:
    """The field is read after the guard of the stacks; before it, one element of the same field is read."""
    x, c, y = drawn(field(3)), drawn(field(3)), field()
    def run() -> None:
        for _ in range(2):
            grown(x, c, y, 2)
            scaled(c, 2.0)
    check(y, run, x, c)


def test_a_write_by_an_unrecorded_launch_is_an_error() -> None:
    """Launches of another thread are not recorded, so one that changes what gradients read must be an error."""
    x, c, y = drawn(field(3)), drawn(field(3)), field()
    def run() -> None:
        with qd.ad.Tape(y):
            grown(x, c, y, 2)
            other = threading.Thread(target=scaled, args=(c, 2.0))
            other.start()
            other.join()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2094.*c was written under a Tape by a launch"):
        run()
    with qd.ad.Tape(y):  # and the next one is as ever
        grown(x, c, y, 2)


@pytest.mark.parametrize("first", [False, True])
def test_an_unrecorded_launch_before_or_after_all_others_is_an_error(first: bool) -> None:
    """The launch writes memory that no recorded launch has used yet, or that none uses any more."""
    x, c, y = drawn(field(3)), drawn(field(3)), field()

    def elsewhere() -> None:
        other = threading.Thread(target=scaled, args=(c, 2.0)) if first else threading.Thread(target=grown, args=seen)
        other.start()
        other.join()

    def mixed() -> None:
        with qd.ad.Tape(y):
            if first:
                elsewhere()
            grown(*seen)
            if not first:
                elsewhere()

    seen = x, c, y, 2
    for _ in range(2):  # the second one is compared with the recording of the one below
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2094.*[cy] was written under a Tape"):
            mixed()
        elsewhere()
        with qd.ad.Tape(y):
            grown(*seen)


def test_too_much_to_keep_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "KEEP_BYTES", 100)
    x, c, y = drawn(field(3)), drawn(field(3)), field()
    def run() -> None:
        with qd.ad.Tape(y):
            for _ in range(5):  # 24 bytes each time
                grown(x, c, y, 2)
                scaled(c, 2.0)
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2093.*the last ones are of c, which the gradient"):
        run()


def test_an_array_that_is_given_away_under_a_tape() -> None:
    """Writes through the array are found by comparison, as those of other libraries are."""
    x, c, y = drawn(field(3)), qd.field(float, shape=3), field()
    c.fill(2.0)
    with qd.ad.Tape(y):
        grown(x, c, y, 0)
        c.to_numpy(copy=False)[0] = 7.0
        grown(x, c, y, 0)
    assert x.grad.to_numpy() == pytest.approx([2.0 * 2.0 + 7.0 * 7.0, 2.0 * 2.0 + 7.0 * 2.0, 2.0 * 2.0 + 7.0 * 2.0])


def test_the_report_tells_where_steps_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, c, y = drawn(field(3)), drawn(field(3)), field()

    def run(**options: Any) -> qd.ad.Tape:
        with qd.ad.Tape(y, **options) as tape:
            for _ in range(12):
                grown(x, c, y, 2)
                scaled(c, 1.1)
        return tape

    with monkeypatch.context() as patched:
        patched.setattr("quadrants_lab.runtime.tape.report.StepRow", None)  # nobody looks: no row is made
        first = run()
    run()  # over the same recording
    plain, budget = first.report, run(memory=200).report
    assert (plain.made_again, plain.stretches) == (0, [])
    said = f"24 steps under no budget: at most {plain.kept_bytes:,} bytes kept, 0 steps run again\nwhat gradients read"
    assert str(plain).startswith(said)
    assert [row.what for row in plain.steps] == ["grown", "scaled"] * 12
    assert sum(row.bytes for row in plain.steps) == plain.kept_bytes - 24  # c, as it was in the end
    assert {row.why.partition(" at line")[0] for row in plain.steps[1::2]} == {
        "it overwrites c, which the gradient of grown reads"
    }
    assert plain == run().report
    assert budget.kept_bytes <= 250 < plain.kept_bytes
    assert [row.what for row in budget.steps] == ["grown", "scaled"] * 12
    assert budget.made_again == sum(row.times for row in budget.steps) > 0
    assert all(row.times > 0 for s in budget.stretches for row in budget.steps[s.first : s.first + s.steps])
    assert "to keep all would take more than the budget" in str(budget)
    again, names = sum(s.steps for s in budget.stretches), " ".join(timeline_view(budget).names)
    assert sum(map(int, re.findall(r"stretch \d+: (\d+) steps?, up to", names))) == again
    rows = launches(budget)[0].rows
    assert sum(int(row[1]) for row in rows if re.search(r"in stretch \d+, which the budget", row[-1])) == again


def test_a_tape_leaves_the_gradients_of_other_threads_alone() -> None:
    """A Tape clears a gradient that another thread used last only when its own launches use this gradient."""
    qd.init(arch=qd.cpu)
    x, y, loss = (qd.field(qd.f64, shape=(), needs_grad=True) for _ in range(3))
    x[None] = 3.0

    @qd.kernel
    def square(x: qd.template(), loss: qd.template()):
        loss[None] += x[None] ** 2

    said: list[str] = []

    def other(of: Any = None, **how: bool) -> None:
        of, mine = of or qd.field(qd.f64, shape=(), needs_grad=True), qd.field(qd.f64, shape=(), needs_grad=True)
        of[None] = 3.0
        try:
            with qd.ad.Tape(mine, **how):
                square(of, mine)
        except qd.QuadrantsRuntimeError as error:
            said.append(str(error))
        else:
            said.append(f"{of.grad[None]}")

    def beside(*given: Any, **how: bool) -> str:
        together(lambda: other(*given, **how))
        return said.pop()

    y.grad.fill(5.0)
    with qd.ad.Tape(loss):
        square(x, loss)
        assert y.grad[None] == 0.0
        assert beside() == "6.0"
        error = beside(x)
        assert "QL2092" in error
        assert "a Tape of another thread is open and uses x" in error
    assert x.grad[None] == 6.0
    y.grad.fill(5.0)
    assert beside() == "6.0"
    assert (x.grad[None], y.grad[None]) == (6.0, 5.0)
    assert beside(x, clear_gradients=False) == "12.0"
    assert beside(x) == "6.0"
    with suppress(ZeroDivisionError), qd.ad.Tape(loss):
        square(x, loss)
        raise ZeroDivisionError
    assert beside(x) == "6.0"
    assert beside(y) == "6.0"
    for _ in range(3):  # the later ones compare versions
        with qd.ad.Tape(loss):
            square(x, loss)
    assert y.grad[None] == 6.0
