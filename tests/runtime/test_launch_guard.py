"""The launch guard: a gradient launch takes the fast path exactly if nothing has changed on which it depends."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from oracle.sines import slopes

import quadrants_lab as qd


class Sines:
    """A kernel that applies v = sin(v) * scale ``n`` times to each element, and adds the results to ``y``."""

    def __init__(self) -> None:
        self.x = qd.field(qd.f64, 4, needs_grad=True)
        self.y = qd.field(qd.f64, (), needs_grad=True)
        self.n = qd.field(qd.i32, ())
        self.x.fill(0.5)
        self.n[None] = 3
        self.y.grad[None] = 1.0

        @qd.kernel
        def sine(scale: qd.f64):
            for i in self.x:
                v = self.x[i]
                for _ in range(self.n[None]):
                    v = qd.sin(v) * scale
                self.y[None] += v

        self.sine = sine
        self.sine(1.0)

    def gradient(self, scale: float = 1.0) -> float:
        """How much a launch adds to x.grad[0]."""
        before = self.x.grad[0]
        self.sine.grad(scale)
        return float(self.x.grad[0] - before)

    def expected(self, scale: float = 1.0, seed: float = 1.0) -> Any:
        return pytest.approx(seed * slopes(0.5, self.n[None], times=scale), rel=1e-12)

    def steady(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next launch takes the fast path."""
        with monkeypatch.context() as patch:
            gradient = self.sine.grad.dispatcher.last.gradient
            patch.setattr(gradient, "set_gradients", lambda *a: pytest.fail("not the fast path"))
            self.gradient()


@pytest.fixture
def sines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sines]:
    qd.init(arch=qd.cpu, offline_cache=False)
    made = Sines()
    made.gradient()
    made.steady(monkeypatch)
    yield made
    qd.reset()


def test_nothing_changed(sines: Sines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [sines.gradient() for _ in range(3)] == [sines.expected()] * 3


def test_arguments_of_the_same_depth(sines: Sines) -> None:
    assert [sines.gradient(s) for s in (2.0, 0.5, 1.0)] == [sines.expected(s) for s in (2.0, 0.5, 1.0)]


def test_more_trips_after_a_launch_of_them(sines: Sines, monkeypatch: pytest.MonkeyPatch) -> None:
    for trips in (64, 1, 64):
        sines.n[None] = trips
        sines.sine(1.0)
        assert sines.gradient() == sines.expected()
    sines.steady(monkeypatch)


def test_other_trips_than_the_launch_ran(sines: Sines) -> None:
    sines.n[None] = 5
    with pytest.warns(qd.QuadrantsWarning, match="QL0410.*n was written in between"):
        assert sines.gradient() == sines.expected()
    assert sines.gradient() == sines.expected()


def test_another_launch_of_the_same_trips(sines: Sines, monkeypatch: pytest.MonkeyPatch) -> None:
    sines.sine(1.0)
    sines.steady(monkeypatch)


def test_another_seed(sines: Sines, monkeypatch: pytest.MonkeyPatch) -> None:
    sines.y.grad[None] = 2.0
    assert sines.gradient() == sines.expected(seed=2.0)
    sines.steady(monkeypatch)


def test_no_seed(sines: Sines) -> None:
    sines.y.grad[None] = 0.0
    with pytest.warns(qd.QuadrantsWarning, match="QL0409"):
        assert sines.gradient() == 0.0


def test_a_seed_that_one_of_several_iterations_takes(sines: Sines) -> None:
    x, y, z = (qd.field(qd.f64, 4, needs_grad=True) for _ in range(3))
    @qd.kernel
    def swapped():
        for i in x:
            y[i] = 2.0 * x[i]
        for i, j in qd.ndrange(2, 2):
            z[2 * i + j] = y[2 * i + 1 - j]
    swapped()
    for seed in (1.0, 0.0):
        x.grad.fill(0.0)
        z.grad.fill(seed)
        with pytest.warns(qd.QuadrantsWarning, match="QL0409.*y.grad, z.grad are 0") if not seed else nullcontext():
            swapped.grad()
        assert x.grad.to_numpy().tolist() == [2.0 * seed] * 4


def test_no_seed_in_an_array(sines: Sines) -> None:
    x, y, n = sines.x, qd.field(qd.f64, 4, needs_grad=True), sines.n
    @qd.kernel
    def apart():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v)
            y[i] = v
    apart()
    y.grad.fill(1.0)
    apart.grad()
    y.grad.fill(0.0)
    with pytest.warns(qd.QuadrantsWarning, match="QL0409"):
        apart.grad()


def test_a_tape_sizes_stacks_for_itself(sines: Sines) -> None:
    """A gradient under a Tape and one without it, for the same launch."""
    for grad in (sines.x.grad, sines.y.grad):
        grad.fill(0.0)
    with qd.ad.Tape(sines.y):
        sines.sine(1.0)
    once = float(sines.x.grad[0])
    sines.y.grad[None] = 1.0
    assert once == sines.expected()
    assert sines.gradient() == sines.expected()


def test_an_interrupt_between_depths(sines: Sines, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupt the depths are evaluated again, even if all dependencies equal those of an earlier launch."""
    def interrupted() -> None:
        raise KeyboardInterrupt
    sines.n[None] = 9
    sines.sine(1.0)
    with monkeypatch.context() as patch:
        patch.setattr(sines.sine.grad.dispatcher.last.stacks, "reserve", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sines.gradient()
    assert sines.gradient() == sines.expected()


@qd.kernel
def scaled(x: qd.types.ndarray(dtype=qd.f64, ndim=1), y: qd.types.ndarray(dtype=qd.f64, ndim=1), by: qd.f64, n: qd.i32):
    for i in x:
        v = x[i] * by
        for _ in range(n):
            v = qd.sin(v)
        y[i] += v


def frames(launch: Any, *args: Any) -> list[str]:
    """The functions of Python that a warm launch calls."""
    found: list[str] = []
    for _ in range(3):
        launch(*args)
    sys.setprofile(lambda frame, what, _: found.append(frame.f_code.co_name) if what == "call" else None)
    try:
        launch(*args)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("needs_grad", [False, True])
def test_a_warm_launch_takes_two_frames_of_python(needs_grad: bool) -> None:
    qd.init(arch="cpu")
    fields, (x, y) = Sines(), (qd.ndarray(qd.f64, 4, needs_grad=needs_grad) for _ in range(2))
    assert frames(fields.sine, 0.5) == ["__call__", "launch"]
    assert frames(scaled, x, y, 0.5, 3) == ["__call__", "launch"]


def test_a_warm_gradient_takes_four_frames_of_python() -> None:
    qd.init(arch="cpu")
    fields = Sines()
    fields.sine(0.5)
    assert frames(fields.sine.grad, 0.5) == ["__call__", "launch", "prepare_stacks", "stamp"]


def lines(launch: Any, *args: Any) -> int:
    """How many lines of Python a warm launch runs."""
    found = 0

    def trace(frame: Any, what: str, _: Any) -> Any:
        nonlocal found
        found += what == "line"
        return trace

    for _ in range(3):
        launch(*args)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        launch(*args)
    finally:
        sys.settrace(before)
    return found


@pytest.mark.parametrize("arch", ["cpu", "vulkan"])
def test_nothing_grows_with_the_square_of_the_arrays(arch: str, tmp_path: Any) -> None:
    found = []
    for count in (12, 24, 48):
        qd.init(arch=arch)
        names = [f"x{n}" for n in range(count)]
        file = tmp_path / f"many_{arch}_{count}.py"
        file.write_text(
            "import quadrants_lab as qd\n\n@qd.kernel\n"
            f"def add({', '.join(f'{x}: qd.types.ndarray(dtype=qd.f32, ndim=1)' for x in names)}):\n"
            "    for i in x0:\n" + "".join(f"        {x}[i] += x0[i] * 2.0\n" for x in names[1:])
        )
        space: dict[str, Any] = {"__name__": file.stem}
        exec(compile(file.read_text(), file, "exec"), space)
        arrays = [qd.ndarray(qd.f32, 4, needs_grad=True) for _ in names]
        arrays[1].grad.fill(1.0)
        found.append((lines(space["add"], *arrays), lines(space["add"].grad, *arrays)))
    for few, some, many in zip(*found, strict=True):
        assert many - some < 2.5 * (some - few)  # 4 times, if pairs were compared
