"""Reports as data: their text, errors and limits; loops that carry a tangent on."""

import numpy as np
import pytest
from check.bench import Bench

import quadrants_lab as qd
from quadrants_lab.runtime.check import differences, launch_flow
from quadrants_lab.runtime.check.by_hand import Forward
from quadrants_lab.runtime.check.flow import follow
from quadrants_lab.runtime.observe.observers import watch


@pytest.fixture
def b():
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    yield Bench(qd.f64)
    qd.reset()


def test_the_tangent_of_the_loss_is_that_of_mathematics(b) -> None:
    x, y, n = b.x, b.y, b.n
    n[None] = 3

    @qd.kernel
    def power():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = v * x[i]
            if v > 0.1:
                y[None] += v

    launches = Forward(repeatable=True)
    with watch(launches):
        power()
    way = np.array([0.5, 0.75, -1.0, 0.625])
    trace = follow(launches, y._memory, x._memory, way, 10.0)
    at = x.to_numpy()
    np.testing.assert_allclose(trace.loss.tangent, (4 * at**3 * way)[at**4 > 0.1].sum(), rtol=1e-12)
    launches.clear()


class Looks:
    """A time limit that is over when the clock has been read a given number of times."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __radd__(self, now: float) -> "Looks":
        return self

    def __lt__(self, now: float) -> bool:
        self.left -= 1
        return self.left < 0


def test_its_time_ends_within_an_iteration(b) -> None:
    x, y = b.x, b.y

    @qd.kernel
    def power():
        for i in x:
            v = x[i]
            for _ in range(100):
                v = v * x[i]
            y[None] += v

    launches = Forward(repeatable=True)
    with watch(launches):
        power()
    limit = Looks(50)
    with pytest.raises(launch_flow.TooLong):
        follow(launches, y._memory, x._memory, np.ones(4), limit)
    assert limit.left == -1
    launches.clear()


def test_a_report_is_data_and_raises_on_request(b) -> None:
    x, y, h = b.x, b.y, b.h

    @qd.kernel
    def right():
        for i in x:
            y[None] += x[i] * x[i]

    @qd.kernel
    def wrong():
        for i in x:
            h[i] = x[i]
        for i in x:
            y[None] += h[i]

    report = qd.ad.check(right, y, {"mine": x})
    assert report.raise_if_wrong() is report
    assert report.right
    assert report["mine"].kind == "right"
    assert report.value == 5.25
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * x.to_numpy())  # as a Tape leaves it
    with pytest.raises(KeyError, match="there are mine"):
        report["x"]
    with pytest.raises(qd.QuadrantsAssertionError, match="make h with needs_grad=True"):
        qd.ad.check(wrong, y).raise_if_wrong()


def test_an_interrupt_ends_it_with_what_was_found(b) -> None:
    x, w, y = b.x, b.w, b.y

    @qd.kernel
    def both():
        for i in x:
            y[None] += x[i] * w[i]

    def stop(text: str) -> None:
        if "(2 of 2)" in text:
            raise KeyboardInterrupt

    report = qd.ad.check(both, y, progress=stop)
    assert report.stopped
    assert [v.field for v in report.verdicts] == ["x"]
    assert "stopped before everything was checked" in str(report)


def test_memory_is_as_one_run_leaves_it(b) -> None:
    x, w, y = b.x, b.w, b.y
    @qd.kernel
    def grow():
        for i in x:
            w[i] = w[i] + x[i]
            y[None] += w[i]
    w.fill(1.0)
    qd.ad.check(grow, y)
    np.testing.assert_allclose(w.to_numpy(), 1.0 + x.to_numpy())
    np.testing.assert_allclose(y[None], (1.0 + x.to_numpy()).sum())


def test_a_loss_without_gradient_is_refused(b) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match="QL2099"):
        qd.ad.check(lambda: None, b.y, b.h)


def test_a_program_in_the_place_of_the_loss_is_named(b) -> None:
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"the program comes before its loss"):
        qd.ad.check(b.y, lambda: None)


def test_a_nan_of_one_input_is_no_fault_of_another(b) -> None:
    x, g, y = b.x, b.w, b.y

    @qd.kernel
    def rooted():
        for i in x:
            g[i] += qd.sqrt(x[i] - x[i])

    @qd.kernel
    def summed():
        for i in x:
            y[None] += g[i] * g[i]

    def program():
        rooted()
        summed()

    report = qd.ad.check(program, y, {"x": x, "g": g})
    assert [v.kind for v in report.verdicts] == ["nonfinite", "right"]


@pytest.mark.parametrize("function", ["sqrt", "acos"])
def test_a_value_outside_of_the_domain_is_not_said_to_be_a_slope(b, function: str) -> None:
    x, y, of = b.x, b.y, getattr(qd, function)
    @qd.kernel
    def outside():
        for i in x:
            y[None] += of(-2.0 - x[i] * x[i])
    said = str(qd.ad.check(outside, y, {"x": x}))
    assert "the first NaN arises on the way forwards" in said
    assert ("below 0 no value" if function == "sqrt" else "beyond them it has no value") in said
    assert "1e-12)" not in said.partition("help: ")[2].replace("max(v, 1e-12)", "")  # v + 1e-12 would not help


def test_an_interrupt_ends_the_check_of_a_tape(b, monkeypatch) -> None:
    x, y = b.x, b.y
    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]
    def stop(*args) -> None:
        raise KeyboardInterrupt
    monkeypatch.setattr(differences, "moves", stop)
    with pytest.raises(KeyboardInterrupt, match="stopped before everything was checked"), qd.ad.Tape(y, grad_check=[x]):
        squares()
    assert x[3] == 2.0  # memory is as the launch left it


def test_many_launches_over_many_elements_are_checked_with_a_notice(b) -> None:
    n = 65_536
    x, w, y = qd.field(qd.f64, n, needs_grad=True), qd.field(qd.f64, n, needs_grad=True), b.y
    x.from_numpy(np.linspace(0.1, 1.0, n))

    @qd.kernel
    def start():
        for i in x:
            w[i] = x[i]

    @qd.kernel
    def step():
        for i in w:
            w[i] = w[i] - 0.01 * w[i] ** 3

    @qd.kernel
    def total():
        for i in w:
            y[None] += w[i]

    def program(launches):
        start()
        for _ in range(launches):
            step()
        total()

    said = []
    assert qd.ad.check(program, y, x, args=(200,), progress=said.append).right
    assert said[:2] == ["races and indices", "the gradient of x (1 of 1)"]


def test_only_operands_that_the_user_wrote_are_shown() -> None:
    """qd.stop_grad stood beside its operand with 0, which is the derivative that it has in the IR."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x, loss = qd.field(qd.f32, 2, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.fill(3.0)
    @qd.kernel
    def stopped():
        for i in x:
            loss[None] += qd.stop_grad(x[i]) * x[i]
    assert "= with x[i] = 3.0, result = 3.0" in str(qd.ad.check(stopped, loss, x))
