"""`qd.ad.program`: launches that are recorded once and made again, alone and under a Tape."""

import warnings
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from sessions import in_turn, session_of, sessions

import quadrants_lab as qd

N, STEPS = 8, 6

session = session_of(in_turn(sessions("cpu", "cuda", "vulkan", "metal", "wasm")))


class Springs:
    """A program of ``steps`` steps in place and a loss, also computed by numpy."""

    def __init__(self) -> None:
        self.x, self.v, self.k = (qd.field(qd.f32, N, needs_grad=True) for _ in range(3))
        self.loss = qd.field(qd.f32, (), needs_grad=True)
        self.calls: list[float] = []
        self.called = self.calls.append

        @qd.kernel
        def push(x: qd.template(), v: qd.template(), k: qd.template(), dt: qd.f32):
            for i in x:
                v[i] -= dt * k[i] * qd.sin(x[i])

        @qd.kernel
        def move(x: qd.template(), v: qd.template(), dt: qd.f32):
            for i in x:
                x[i] += dt * v[i]

        @qd.kernel
        def measure(x: qd.template(), loss: qd.template()):
            for i in x:
                loss[None] += x[i] * x[i]

        @qd.ad.program
        def run(dt: float, steps: int = STEPS) -> None:
            self.called(dt)
            for _ in range(steps):
                push(self.x, self.v, self.k, dt)
                move(self.x, self.v, dt)
            measure(self.x, self.loss)

        self.run = run

    def start(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.x.from_numpy(rng.uniform(-1, 1, N).astype(np.float32))
        self.v.fill(0.25)
        self.k.from_numpy(rng.uniform(1, 2, N).astype(np.float32))
        self.loss[None] = 0.0

    def by_numpy(self, seed: int, dt: float, steps: int = STEPS) -> tuple[float, np.ndarray]:
        """The loss and its derivative by k, from complex steps."""
        rng = np.random.default_rng(seed)
        start, k = rng.uniform(-1, 1, N).astype(np.float32), rng.uniform(1, 2, N).astype(np.float32)
        h = 1e-20
        x, v, k = start.astype(complex), np.full(N, 0.25, complex), k + 1j * h
        for _ in range(steps):
            v = v - dt * k * np.sin(x)
            x = x + dt * v
        return float((x * x).real.sum()), (x * x).imag / h


def close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=2e-4, atol=1e-5))


def test_launches_are_made_again_over_new_contents():
    s = Springs()
    for seed in range(6):
        s.start(seed)
        s.run(0.1)
        assert close(s.loss[None], s.by_numpy(seed, 0.1)[0])
    assert len(s.calls) == 1
    s.start(1)
    s.run(0.2)
    assert close(s.loss[None], s.by_numpy(1, 0.2)[0])
    s.start(2)
    s.run(0.1, steps=2)
    assert close(s.loss[None], s.by_numpy(2, 0.1, 2)[0])
    assert len(s.calls) == 3


def test_under_a_tape():
    s = Springs()
    for seed, dt in enumerate([0.1] * 6 + [0.05, 0.1, 0.1]):
        s.start(seed)
        with qd.ad.Tape(s.loss):
            s.run(dt)
        loss, gradient = s.by_numpy(seed, dt)
        assert close(s.loss[None], loss)
        assert close(s.k.grad.to_numpy(), gradient)
    assert len(s.calls) == 2


def test_attributes_that_kernels_read_are_watched():
    @qd.data_oriented
    class Scaled:
        def __init__(self) -> None:
            self.x = self.a = qd.field(qd.f32, 3)
            self.b = qd.field(qd.f32, 3)

        @qd.kernel
        def scale(self):
            for i in self.x:
                self.x[i] = self.x[i] * 2.0 + 1.0

    s = Scaled()

    @qd.ad.program
    def twice() -> None:
        s.scale()
        s.scale()

    for x in (s.a, s.a, s.b, s.b, s.a, s.a, s.a, s.b):
        s.x = x
        x.fill(1.0)
        twice()
        assert x[1] == 7.0


@pytest.mark.parametrize("what", ["reads", "writes", "returns", "arrays", "kernel"])
def test_a_function_that_cannot_be_recorded_warns_once_and_runs_in_python(what: str):
    x, out = qd.field(qd.i32, 3), np.zeros(3, np.int32)

    @qd.kernel
    def add(by: qd.i32):
        for i in x:
            x[i] += by

    @qd.kernel
    def copied(out: qd.types.ndarray()):
        for i in x:
            out[i] = x[i]

    @qd.kernel
    def first() -> qd.i32:
        return x[0]

    @qd.ad.program
    def run() -> Any:
        add(1)
        if what == "reads" and x[0] > 2:
            add(10)
        elif what == "writes":
            x[2] = 5
        elif what == "arrays":
            copied(out)
        elif what == "kernel":
            add(first())
        return 7 if what == "returns" else None

    with pytest.warns(qd.QuadrantsWarning, match="QL2102.*run is run by Python each time"):
        run()
    for _ in range(4):
        assert run() == (7 if what == "returns" else None)
    assert list(x.to_numpy()) == {
        "reads": [35, 35, 35], "writes": [5, 5, 5], "returns": [5, 5, 5], "arrays": [5, 5, 5], "kernel": [62, 62, 62]
    }[what]  # fmt: skip
    assert what != "arrays" or out[0] == 5


def test_draws_differ_from_call_to_call():
    x = qd.field(qd.f32, 4)

    @qd.kernel
    def draw():
        for i in x:
            x[i] = qd.random()

    @qd.ad.program
    def run() -> None:
        draw()

    seen = set()
    for _ in range(8):
        run()
        seen.add(x[0])
    assert len(seen) == 8


def test_a_failing_program_raises_each_time():
    x = qd.field(qd.i32, 4)
    qd.init(arch=qd.cpu, check_out_of_bound=True)
    x = qd.field(qd.i32, 4)

    @qd.kernel
    def at(n: qd.i32):
        for i in range(1):
            x[i + n + x[0]] = 7

    @qd.ad.program
    def run() -> None:
        at(1)

    run()
    run()
    x[0] = 9
    for _ in range(3):
        with pytest.raises(AssertionError, match="out of bounds"):
            run()
    x[0] = 0
    run()


COUNT = 1


def test_a_function_that_changes_what_it_reads_is_run_by_python():
    @qd.data_oriented
    class Swapped:
        def __init__(self) -> None:
            self.x, self.y = qd.field(qd.f32, ()), qd.field(qd.f32, ())

        @qd.kernel
        def step(self):
            self.y[None] = self.x[None] + 1.0

        @qd.ad.program
        def run(self) -> None:
            self.step()
            self.x, self.y = self.y, self.x

    s = Swapped()
    with pytest.warns(qd.QuadrantsWarning, match="QL2102.*changes what it reads"):
        s.run()
    for n in range(2, 6):
        s.run()
        assert s.x[None] == n


def test_what_changes_between_launches_and_changes_back_is_seen_under_a_tape():
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.data_oriented
    class Swapped:
        def __init__(self) -> None:
            self.x, self.y = (qd.field(qd.f32, (), needs_grad=True) for _ in range(2))

        @qd.kernel
        def step(self):
            self.y[None] = self.x[None] * self.x[None]

        @qd.kernel
        def end(self, factors: qd.template()):
            loss[None] += factors[0] * self.x[None]

        @qd.ad.program
        def run(self) -> None:
            for _ in range(2):
                self.step()
                self.x, self.y = self.y, self.x
            for factors[0] in (3.0, 2.0):
                self.end(factors)

    s, factors = Swapped(), [2.0]
    for _ in range(3):
        s.x[None] = 2.0
        with warnings.catch_warnings(), qd.ad.Tape(loss):
            warnings.simplefilter("ignore", qd.QuadrantsWarning)
            s.run()
        assert (loss[None], s.x.grad[None]) == (80.0, 160.0)


def test_gradients_of_the_users_are_run_by_python():
    x, loss = (qd.field(qd.f32, (), needs_grad=True) for _ in range(2))

    @qd.kernel
    def add():
        loss[None] += x[None]

    @qd.ad.grad_replaced
    def replaced() -> None:
        add()

    @qd.ad.grad_for(replaced)
    def gradient() -> None:
        x.grad[None] += 100.0

    @qd.ad.program
    def run() -> None:
        replaced()

    with pytest.warns(qd.QuadrantsWarning, match="QL2102.*custom gradient"):
        run()
    for _ in range(3):
        with qd.ad.Tape(loss):
            run()
        assert x.grad[None] == 100.0


def test_gradients_by_hand_after_a_program():
    """Gradients by hand belong to the program's last launch and give no warning."""
    x, y = (qd.field(qd.f32, 4, needs_grad=True) for _ in range(2))
    n = qd.field(qd.i32, ())

    @qd.kernel
    def power():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = v * x[i]
            y[i] = v

    @qd.ad.program
    def run() -> None:
        power()

    for trips in range(6):
        n[None] = trips
        x.fill(1.5)
        y.grad.fill(1.0)
        x.grad.fill(0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run()
            power.grad()
        assert close(x.grad[0], (trips + 1) * 1.5**trips)


def test_a_gradient_that_another_array_takes():
    a, loss = qd.ndarray(qd.f32, (3,), needs_grad=True), qd.ndarray(qd.f32, (), needs_grad=True)
    @qd.kernel
    def square(a: qd.types.ndarray(), loss: qd.types.ndarray()):
        for i in range(3):
            loss[None] += a[i] ** 2
    for n in range(9):
        a.fill(n)
        if n in (6, 7):
            a.grad = qd.ndarray(qd.f32, (3,))
        a.grad.fill(0)
        with qd.ad.Tape(loss):
            square(a, loss)
        assert a.grad[0] == 2.0 * n


def test_a_failure_that_the_function_catches():
    qd.init(arch=qd.cpu, check_out_of_bound=True)
    x = qd.field(qd.i32, 4)

    @qd.kernel
    def at():
        for i in range(1):
            x[i + x[0]] += 1

    @qd.kernel
    def count():
        x[2] += 1

    @qd.ad.program
    def run() -> None:
        with suppress(AssertionError):
            at()
        count()

    x[0] = 9
    with pytest.warns(qd.QuadrantsWarning, match="QL2102.*a launch of at failed"):
        run()
    run()
    assert x[2] == 2


def test_two_threads_record_at_a_time():
    """A read by Python in one thread is noticed although the other recording ends first."""
    x = qd.field(qd.i32, 4)
    began, ended = Event(), Event()

    @qd.kernel
    def count():
        x[2] += 1

    @qd.ad.program
    def first() -> None:
        count()
        began.set()
        ended.wait(60)

    @qd.ad.program
    def second() -> None:
        began.wait(60)
        count()
        ended.set()
        thread.join()
        if x[2] < 100:
            count()

    thread = Thread(target=first)
    thread.start()
    with pytest.warns(qd.QuadrantsWarning, match="QL2102.*reads or writes"):
        second()


def test_scalars_that_launches_take_another_way():
    x = qd.field(qd.f32, 4)

    @qd.kernel
    def add(by: qd.f16):
        for i in x:
            x[i] += by

    @qd.ad.program
    def run() -> None:
        add(2.0)
        add(0.5)

    for n in range(6):
        run()
        assert x[1] == 2.5 * (n + 1)
