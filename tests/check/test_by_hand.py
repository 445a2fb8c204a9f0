"""Programs that launch gradients by themselves: the check says which one is not as it should be."""

import numpy as np
import pytest
from check.bench import Bench

import quadrants_lab as qd
from quadrants_lab.runtime.launch.dispatch import Dispatcher


@pytest.fixture
def b():
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    yield Bench(qd.f64)
    qd.reset()


def two(b):
    """Two kernels; the second one reads what the first one writes."""
    x, y, w = b.x, b.y, b.w

    @qd.kernel
    def one():
        for i in x:
            w[i] = x[i] * x[i]

    @qd.kernel
    def total():
        for i in x:
            y[None] += qd.sin(w[i]) + x[i]

    return one, total


def sums(b):
    """A kernel that sums up the input."""
    x, y = b.x, b.y

    @qd.kernel
    def total():
        for i in x:
            y[None] += x[i]

    return total


def begin(b, seed: float = 1.0) -> None:
    qd.ad.clear_all_gradients()
    b.y.grad[None] = seed


def cause_of(program, b):
    report = qd.ad.check(program, b.y, b.x)
    assert report["x"].kind == "right"
    assert len(report.causes) == 1, report
    return report.causes[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("gradients", "seed", "found", "says"), [
    ("one total", 1.0, ("order", "total", 2), "the gradient of one ran before that of total, launch 2"),
    ("total", 1.0, ("missing", "one", 1), "the gradient of launch 1, kernel one, did not run"),
    ("total total one", 1.0, ("added", "total", 2), "the gradient of total ran 2 times, for 1 launch"),
    ("total one", 2.0, ("seed", "", 0), "the gradients started from y.grad = 2, and not 1"),
    ("total one", 0.0, ("seed", "", 0), "the gradients ran, and had nothing to start from"),
], ids=["early", "missing", "twice", "another-seed", "no-seed"])
def test_gradients_of_two_launches(b, gradients, seed, found, says) -> None:
    kernels = dict(zip(("one", "total"), two(b), strict=True))
    def run():
        for kernel in kernels.values():
            kernel()
        begin(b, seed)
        for name in gradients.split():
            kernels[name].grad()
    cause = cause_of(run, b)
    assert (cause.kind, cause.kernel, cause.launch) == found
    assert says in cause.says
    if cause.kind == "seed":
        assert "set y.grad[None] = 1" in cause.help
        assert bool(cause.line) == (seed == 0.0)  # the line at which the derivative would start


def test_one_gradient_for_three_launches(b) -> None:
    total = sums(b)
    def run():
        for _ in range(3):
            total()
        begin(b)
        total.grad()
    assert "kernel total was launched 3 times, and its gradient once" in cause_of(run, b).says


def test_a_gradient_with_other_arguments(b) -> None:
    x, y = b.x, b.y
    @qd.kernel
    def total(c: qd.f64):
        for i in x:
            y[None] += c * x[i]
    def run():
        total(2.0)
        begin(b)
        total.grad(3.0)
    found = cause_of(run, b)
    assert "launch 1 had c = 2.0, and its gradient 3.0" in found.says


def test_steps_in_place(b) -> None:
    x = b.x

    @qd.kernel
    def step():
        for i in x:
            x[i] = qd.sin(x[i])

    total = sums(b)

    def run():
        for _ in range(2):
            step()
        total()
        begin(b)
        total.grad()
        for _ in range(2):
            step.grad()

    found = cause_of(run, b)
    assert (found.kind, found.launch) == ("changed value", 1)
    assert "the gradient of launch 1 reads x, which launch 2 overwrote" in found.says


def test_steps_along_an_axis_are_right(b) -> None:
    x, y = b.x, b.y
    u = qd.field(qd.f64, (3, 4), needs_grad=True)

    @qd.kernel
    def step(t: qd.i32):
        for i in x:
            if t == 0:
                u[0, i] = x[i]
            else:
                u[t, i] = qd.sin(u[t - 1, i])

    @qd.kernel
    def total():
        for i in x:
            y[None] += u[2, i]

    def run(order):
        for t in range(3):
            step(t)
        total()
        begin(b)
        total.grad()
        for t in order:
            step.grad(t)

    assert qd.ad.check(run, b.y, b.x, args=((2, 1, 0),)).right
    found = qd.ad.check(run, b.y, b.x, args=((0, 1, 2),)).causes
    assert ["launch 3 had t = 2, and its gradient 0" in c.says for c in found] == [True]


def test_a_gradient_that_is_not_cleared_on_the_way(b) -> None:
    one, total = two(b)
    def run():
        one()
        total()
        begin(b)
        b.w.grad.fill(3.0)
        total.grad()
        one.grad()
    assert "w.grad already held 3 when the first gradient ran" in cause_of(run, b).says


def test_a_gradient_that_is_cleared_between(b) -> None:
    total = sums(b)
    def run():
        for _ in range(2):
            begin(b)
            total()
            total.grad()
    found = cause_of(run, b)
    assert found.kind == "filled"
    assert "Python wrote to it after gradient 1 of 2" in found.says


def test_an_index_that_comes_from_the_input(b) -> None:
    x, y, w = b.x, b.y, b.w
    x.from_numpy(np.array([0.3, 1.3, 2.3, 1.6]))
    w.from_numpy(np.array([1.0, 5.0, 2.0, 4.0]))
    @qd.kernel
    def table():
        for i in x:
            y[None] += w[int(x[i])]  # HERE
    found = qd.ad.check(table, y, x)["x"].causes[0]
    assert found.kind == "decision"
    assert "x decides which element of w is read" in found.says
    assert "# HERE" in found.statement


def test_an_index_at_which_something_is_stored(b) -> None:
    x, y, w = b.x, b.y, b.w
    x.from_numpy(np.array([0.3, 1.3, 2.3, 1.6]))
    @qd.kernel
    def histogram():
        for i in w:
            w[i] = 0.0
        for i in x:
            w[int(x[i])] += 1.0  # HERE
        for i in w:
            y[None] += w[i] * w[i]
    found = qd.ad.check(histogram, y, x)["x"].causes[0]
    assert (found.kind, found.label) == ("integer", "it ends here")
    assert "# HERE" in found.statement


def test_a_loop_that_ends_when_it_has_converged(b) -> None:
    x, y = b.x, b.y
    x.fill(1.0)
    @qd.kernel
    def root():
        for i in x:
            s = x[i]
            while abs(s * s - x[i]) > 1e-12:  # HERE
                s = 0.5 * (s + x[i] / s)
            y[None] += s
    verdict = qd.ad.check(root, y, x)["x"]
    assert verdict.kind == "wrong"  # s is x where the loop does not run
    assert [c.kind for c in verdict.causes] == ["decision"]
    assert "# HERE" in verdict.causes[0].statement


def test_a_field_that_is_written_over_first(b) -> None:
    x, y, w = b.x, b.y, b.w
    @qd.kernel
    def total():
        for i in x:
            w[i] = 0.0  # HERE
            w[i] += x[i]
            y[None] += w[i]
    found = qd.ad.check(total, y, w)["w"].causes[0]
    assert "w is written over before anything reads it" in found.says
    assert "# HERE" in found.statement


def test_python_writes_after_the_last_launch(b) -> None:
    x, y = b.x, b.y
    @qd.kernel
    def total():
        for i in x:
            y[None] += x[i] * x[i]
    def run():
        total()
        y[None] = 0.5 * y[None]
    report = qd.ad.check(run, y, x)
    assert report["x"].kind == "wrong"
    assert report["x"].causes[-1].says.endswith(": to y, which Python writes before launch 2")


@pytest.mark.filterwarnings("ignore")
def test_many_launches_are_looked_at_once(b, monkeypatch) -> None:
    x, y, w = b.x, b.y, b.w
    finds, find = [], Dispatcher.plan_for

    @qd.kernel
    def add(k: int):
        for i in x:
            w[i] = x[i] * k
            y[None] += w[i]

    def run():
        for k in range(40):
            add(k)
        begin(b, 3.0)
        for k in reversed(range(40)):
            add.grad(k)

    monkeypatch.setattr(Dispatcher, "plan_for", lambda *given: finds.append(given) or find(*given))
    assert cause_of(run, b).kind == "seed"
    assert len(finds) < 200  # of pairs there are 780
