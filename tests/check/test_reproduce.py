"""`k.reproduce`: each script shows the fault, two of them in processes of their own."""

import re
import runpy
import sys

import numpy as np
import pytest
from check import helpers
from child import run
from programs import PROGRAMS
from running import Bench, f64, job_of
from sessions import ended  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError, QuadrantsRuntimeError
from quadrants_lab.lang.definitions import Definitions

SCALE = 0.5
SMALL = [name for name, p in PROGRAMS.items() if not p.large]


@pytest.fixture(autouse=True)
def session(request):
    level = getattr(request, "param", False)
    qd.init(arch=qd.cpu, offline_cache=False, check=level)


recorded = pytest.mark.parametrize("session", ["gradients"], indirect=True)


def shown_apart(path, tmp_path):
    """The output of the script, run in a process and a folder of its own."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    return run(sys.executable, str(path), cwd=elsewhere, env={"QL_CHECK": None}, status=1).output


@pytest.fixture
def shown(capsys):
    """The output of a script; its text must be Python that needs no other code."""

    def shows(path, status=1):
        assert "IPython" not in path.read_text()
        qd.reset()
        capsys.readouterr()
        with pytest.raises((QuadrantsError, SystemExit)) as ended:
            runpy.run_path(str(path), run_name="__main__")
        assert status == (ended.value.code if isinstance(ended.value, SystemExit) else 1)
        return f"{capsys.readouterr().out}{ended.value}"

    return shows


def line_of(path, text):
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)


@qd.func
def half(v):
    return v * SCALE


def test_a_nan_of_a_launch(tmp_path) -> None:
    x, y = qd.field(qd.f32, 100), qd.field(qd.f32, ())
    x.from_numpy(np.linspace(0, 1, 100, dtype=np.float32))

    @qd.kernel
    def k(n: qd.i32):
        for i in x:
            y[None] += half(x[i]) / (x[i] * n)

    path = k.reproduce(tmp_path / "case.py", 3)
    assert path.with_suffix(".npz").exists()
    out = shown_apart(path, tmp_path)
    assert "the first NaN arises on the way forwards: a division by 0 (launch 1, kernel k, iteration 0" in out
    assert f"case.py, line {line_of(path, 'y[None] +=')}" in out


def test_a_nan_of_a_gradient(shown, tmp_path) -> None:
    x, y = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def k():
        for i in x:
            y[None] += qd.sqrt(x[i])

    k()
    y.grad[None] = 1
    k.grad()
    out = shown(k.grad.reproduce(tmp_path / "case.py"))
    assert "NaN     the gradient of x: the first infinity arises" in out
    assert "the root has no finite slope at 0" in out
    assert not (tmp_path / "case.npz").exists()


def test_an_index_out_of_bounds(shown, tmp_path) -> None:
    @qd.kernel
    def k(a: qd.types.ndarray(), at: qd.types.ndarray()):
        for i in range(at.shape[0]):
            a[at[i]] = 1.0

    a, at = qd.ndarray(qd.f32, 50), np.arange(50, dtype=np.int32)
    at[7] = 50
    out = shown(k.reproduce(tmp_path / "case.py", a, at))
    assert "index 50 is out of bounds for axis 0 of a with extent 50, in the iteration i = 7" in out


def test_a_race(shown, tmp_path) -> None:
    x, to = qd.field(qd.f32, 40), qd.field(qd.i32, 40)
    to.from_numpy(np.array([*range(39), 3], np.int32))

    @qd.kernel
    def k():
        for i in x:
            x[to[i]] = i

    out = shown(k.reproduce(tmp_path / "case.py"))
    assert "iterations race for x[3]: the one of i = 3 writes it here, the one of i = 39 writes it" in out


def test_a_wrong_custom_gradient(shown, tmp_path) -> None:
    x, y = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    x.from_numpy(np.array([0.5, 1.0, 2.0, 3.0]))

    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]

    @qd.kernel
    def slopes():
        for i in x:
            x.grad[i] += 2.02 * x[i] * y.grad[None]

    @qd.ad.grad_replaced
    def energy():
        squares()

    @qd.ad.grad_for(energy)
    def energy_slope():
        slopes()

    with qd.ad.Tape(y):
        energy()
    path = energy.reproduce(tmp_path / "case.py")
    out = shown(path)
    assert "energy_slope, which is given as the gradient of energy, is not its derivative" in out
    assert f"case.py, line {line_of(path, '2.02')}" in out


def test_a_right_gradient_ends_with_0(shown, tmp_path) -> None:
    h = qd.Vector.field(3, qd.f64, 4, needs_grad=True)
    a = qd.ndarray(qd.f64, 4, needs_grad=True)
    a.from_numpy(np.array([1.0, 2.0, 3.0, 4.0]))

    @qd.kernel
    def k(a: qd.types.ndarray(), v: qd.types.vector(3, qd.f64), weights: qd.template()):
        for i in h:
            h[i] = v * qd.sin(a[i]) * qd.static(weights[0] + weights[1])

    k(a, qd.Vector([1.0, 2.0, 3.0]), (2.0, 3.0))
    out = shown(k.grad.reproduce(tmp_path / "case.py", a, qd.Vector([1.0, 2.0, 3.0]), (2.0, 3.0)), status=0)
    assert "the gradient of a agrees with finite differences" in out


@recorded
def test_the_last_launch_with_the_data_from_before_it(shown, tmp_path) -> None:
    x = qd.field(qd.f32, 4)
    x.fill(2.0)

    @qd.kernel
    def k(n: qd.i32, by: qd.types.ndarray()):
        for i in x:
            x[i] = (x[i] - n) / (x[i] - by[i])

    by = np.array([3.0, 2.0, 3.0, 3.0], np.float32)
    with pytest.raises(QuadrantsError, match="the first NaN"):
        k(2, by)
    x.fill(7.0)
    by.fill(7.0)
    path = k.reproduce(tmp_path / "case.py")
    assert "x.fill(2.0)" in path.read_text()
    assert "iteration 1" in shown(path)


@recorded
def test_the_last_gradient_begins_with_its_seeds(shown, tmp_path) -> None:
    x, y = qd.field(qd.f64, 3, needs_grad=True), qd.field(qd.f64, 3, needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def k(n: qd.i32):
        for i in x:
            y[i] = x[i] ** n

    k(3)
    y.grad.from_numpy(np.array([0.0, 5.0, 0.0]))
    k.grad(3)
    y.grad.fill(0.0)
    path = k.grad.reproduce(tmp_path / "case.py")
    assert "np.array([0.0, 5.0, 0.0], np.float64)" in path.read_text()
    assert "right   the gradient of x agrees" in shown(path, status=0)


def test_methods_modules_structs_and_names_that_mean_two_things(tmp_path) -> None:
    n = 3
    point = qd.types.struct(at=qd.f32, weight=qd.f32)

    @qd.func
    def times(v):
        return v * n

    def made():
        n = 5

        @qd.func
        def more(v):
            return times(v) + n

        return more

    more = made()

    @qd.data_oriented
    class Sim:
        def __init__(self) -> None:
            self.count, self.f, self.points = 2, qd.field(qd.f32, 4), point.field(shape=4)

        @qd.func
        def g(self, i):
            return more(self.f[i]) * self.count + helpers.SHIFT

        @qd.kernel
        def step(self, by: qd.i32):
            for i in self.f:
                self.points[i].at = self.g(i)
                self.f[i] = self.points[i].weight / (self.points[i].at - by)

    sim = Sim()
    sim.f.fill(1.0)
    wanted = (1.0 * 3 + 5) * 2 + helpers.SHIFT
    out = shown_apart(sim.step.reproduce(tmp_path / "case.py", int(wanted)), tmp_path)
    assert "the first NaN arises on the way forwards" in out
    assert re.search(r"iteration \d", out)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if n % 90 else []) for n, name in enumerate(SMALL)
])  # fmt: skip
def test_the_script_of_any_program_computes_the_same(name, tmp_path) -> None:
    program = PROGRAMS[name]
    bench, job = Bench(f64, "cpu"), job_of(program, program.cases[0])
    kernel, args, _ = bench.kernel(job)
    path = kernel.reproduce(tmp_path / "case.py", *args)
    made = Definitions(lambda x: x.to_numpy())
    made.expression(kernel, "kernel")
    for parameter, arg in zip(kernel._parameters, args, strict=True):
        made.expression(arg, parameter.name)
    kernel(*args)
    wanted = {field: x.to_numpy().copy() for field, x in made.fields.items()}
    space = runpy.run_path(str(path))
    for field, values in wanted.items():
        np.testing.assert_allclose(eval(field, dict(space)).to_numpy(), values, rtol=1e-6, atol=1e-9)


def test_arguments_that_nobody_knows_are_asked_for(tmp_path) -> None:
    @qd.kernel
    def k(n: qd.i32, a: qd.types.ndarray()):
        a[0] = n

    with pytest.raises(QuadrantsRuntimeError, match=r"no launch of k was recorded.*\n.*reproduce\(path, n, a\)"):
        k.reproduce(tmp_path / "case.py")
    with pytest.raises(QuadrantsRuntimeError, match="a launch cannot be written to case.txt"):
        k.reproduce(tmp_path / "case.txt", 1, np.zeros(3))


def test_what_no_script_can_make_is_named(tmp_path) -> None:
    x = qd.field(qd.f32)
    qd.root.pointer(qd.i, 4).place(x)

    @qd.kernel
    def k():
        for i in x:
            x[i] = 1.0

    with pytest.raises(QuadrantsRuntimeError, match="x cannot be written .* it is a field in a sparse layout"):
        k.reproduce(tmp_path / "case.py")


def test_in_a_cell(shown, tmp_path) -> None:
    """The last launch of a cell, although memory has changed since."""
    from quadrants_lab.notebook.collect import remember
    from quadrants_lab.runtime.record.recorder import recording

    x = qd.field(qd.f32, 4)
    x.fill(1.0)

    @qd.kernel
    def k(n: qd.i32):
        for i in x:
            x[i] = (x[i] - n) / (x[i] - 1.0)

    with recording() as recorder:
        k(1)
    remember(recorder)
    x.fill(9.0)
    path = k.reproduce(tmp_path / "case.py")
    assert "x.fill(1.0)" in path.read_text()
    assert "the first NaN" in shown(path)
