"""The doctor reports no cause for programs with right gradients: those of the table, and the sample kernels."""

import importlib
import pkgutil
import re
from contextlib import nullcontext

import numpy as np
import pytest
from programs import PROGRAMS
from running import Bench, f64, job_of
from sessions import ended, skips  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab import kernels
from quadrants_lab.ad import Tape
from quadrants_lab.notebook.experiment import differentiate
from quadrants_lab.runtime.check import LEVELS, compare_gradients
from quadrants_lab.runtime.check.by_hand import Forward
from quadrants_lab.runtime.check.recording import touched
from quadrants_lab.runtime.observe.observers import unwatched, watch
from quadrants_lab.runtime.session import current
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.widgets.static import static
from quadrants_lab.widgets.verdict import verdict as cards

STOPS = {"field_without_grad_stops_the_gradient"}  # on purpose
RIGHT = [p for p in PROGRAMS.values() if p.grad and not p.exact and not p.large and p.name not in STOPS]
EACH = 40  # by day one of so many


@pytest.mark.filterwarnings("ignore::quadrants_lab.errors.QuadrantsWarning")
@pytest.mark.parametrize(("program", "case", "arch"), [
    pytest.param(p, case, arch, id=f"{p.name}-{k}-{arch}", marks=[*marks, pytest.mark.slow] if n % EACH else marks)
    for arch, marks in {"cpu": [], "vulkan": skips("vulkan")}.items()
    for n, (p, k, case) in enumerate((p, k, case) for p in RIGHT for k, case in enumerate(p.cases))
])
def test_the_doctor_reports_nothing_for_a_right_program(program, case, arch) -> None:
    bench, job = Bench(f64, arch), job_of(program, case)
    kernel, args, placed = bench.kernel(job)
    loss = qd.field(qd.f64, (), needs_grad=True)
    sums = [total(f) for f in placed.values() if f.has_grad()]
    def run():
        kernel(*args)
        for one, f in zip(sums, (f for f in placed.values() if f.has_grad()), strict=True):
            one(f, loss)
    report = qd.ad.check(run, loss, {name: f for name, f in placed.items() if f.has_grad()})
    assert report.right, str(report)
    assert all(c.level == "good" for c in report.cards), str(report)
    colours = {colour for _, colour in LEVELS.values()} & set(re.findall(r"#\w{6}", static(cards(report))))
    assert colours == {LEVELS["good"][1]}, str(report)  # no card in a warning colour


def total(f):
    """A kernel that adds to a loss all numbers of a field, each times another one."""
    size = int(np.prod(f.element_shape)) if f.element_shape else 1

    @qd.kernel
    def scalars(f: qd.template(), loss: qd.template()):
        for at in qd.grouped(f):
            loss[None] += 0.7 * f[at]

    @qd.kernel
    def elements(f: qd.template(), loss: qd.template()):
        for at in qd.grouped(f):
            loss[None] += 0.7 * f[at].sum()

    return elements if size > 1 or f.element_shape else scalars


TAPELESS = {"chain", "kepler", "lorenz", "nbody"}  # they call kernel.grad
LATER = {"smoke"}  # without wind, each cell of its first round is about to take from another neighbour: all kinks


class _Repeatable(Launches):
    """What a Tape records, as for one with `grad_check`."""

    def __init__(self, repeatable: bool, memory: int | None) -> None:
        super().__init__(repeatable=True, memory=memory)


class _Enough(Exception):
    """Raised when the sample's first Tape has been checked."""


TAPES = [m.name for m in pkgutil.iter_modules(kernels.__path__)]


@pytest.mark.filterwarnings("ignore::quadrants_lab.errors.QuadrantsWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("eight", "diffusivity") else [pytest.mark.slow]) for n in TAPES]
)
def test_the_doctor_reports_nothing_for_the_sample_kernels(name, monkeypatch) -> None:
    seen = []
    rounds, finished = iter(range(9)), Tape._finish

    def finish(self) -> None:
        if next(rounds) < (name in LATER):
            finished(self)
            return
        self._differentiate(forget=False)
        with unwatched():
            fields = touched(self._launches, self.loss._memory, {}, inputs=True)
            seen.append(compare_gradients.check(self._launches, self.loss, fields))
        raise _Enough

    monkeypatch.setattr(Tape, "_finish", finish)
    monkeypatch.setattr("quadrants_lab.ad.Launches", _Repeatable)
    if name == "balance":
        pytest.importorskip("torch")
    launches = _UpToGradient(repeatable=True)
    with watch(launches) if name in TAPELESS else nullcontext():
        try:
            importlib.import_module(f"quadrants_lab.kernels.{name}").main()
        except Exception as e:
            if not _is_enough(e):
                raise
    if name in TAPELESS:
        seen.append(_without_tape(launches))
    elif not seen:
        pytest.skip("torch differentiates it, which no observer can see")
    kinds = {v.kind for report in seen for v in report.verdicts}
    assert not any(report.says for report in seen)
    assert kinds
    assert kinds <= {"right", "noisy"}, "\n".join(map(str, seen))


class _UpToGradient(Forward):
    """Ends a program that takes its gradients without a Tape at the first one."""

    def before(self, plan, args):
        if plan.owner.mode == "reverse":
            raise _Enough
        return super().before(plan, args)


def _is_enough(e: BaseException | None) -> bool:
    return e is not None and (isinstance(e, _Enough) or _is_enough(e.__cause__))


def _without_tape(launches):
    """A report on launches whose first gradient was about to run; the loss is the sum of what has a seed."""
    seeded = [f for f in list(current().differentiable) if f.has_grad() and f.grad.to_numpy().any()]
    loss = qd.field(seeded[0].dtype, (), needs_grad=True)
    with watch(launches):
        for f in seeded:
            total(f)(f, loss)
    differentiate(loss, launches)
    with unwatched():
        return compare_gradients.check(launches, loss, touched(launches, loss._memory, {}, inputs=True))


def turns(v):
    """Sixty turns of the logistic map, whose derivative of 1e14 no step can resolve; forward mode agrees with it."""
    for _ in range(60):
        v = 3.9 * v * (1.0 - v)
    return v


def stairs(steps):
    return lambda v: qd.floor(v * steps) / steps


def jumps(steps):
    return lambda v: qd.cast(steps * v, qd.i32) / steps


MANY = np.random.default_rng(0).random(1000) + 0.2
# what a term of the loss is -> the term, where the inputs are, the verdict on the gradient, and dtypes
TERMS = {
    # a bend close by is no kink
    "a root that is round below 1e-3": (lambda v: qd.sqrt(v * v + 1e-6), [10.0, 0.0], "right", "f32"),
    "a root that is round below 1e-6": (lambda v: qd.sqrt(v * v + 1e-12), [10.0, 0.0], "right", "f32"),
    "a ramp that begins close by": (lambda v: qd.max(v, 0.0), [1.0, 1e-4], "right", "f32"),
    "a kink": (lambda v: qd.abs(v), [10.0, 0.0], "kink", "f32"),
    "a kink between two slopes": (lambda v: qd.max(v, 0.5 * v), [10.0, 0.0], "kink", "f32"),
    "a kink on what is smooth": (lambda v: qd.sin(v) + qd.abs(v), [10.0, 0.0], "kink", "f32"),
    "a kink with both sides as high": (lambda v: qd.abs(v), [0.0, 0.0], "kink", "f32"),
    # at a cusp the gradient is 0, and so is the difference of two sides that are as high; but the slope is infinite
    "a cusp": (lambda v: qd.sqrt(qd.abs(v)), [0.0, 0.0], "kink", "f32"),
    "a blunter cusp": (lambda v: qd.pow(qd.abs(v), 0.75), [0.0, 0.0], "kink", "f32"),
    "none": (lambda v: qd.pow(qd.abs(v), 1.5), [0.0, 0.0], "right", "f32"),
    "a minimum": (lambda v: v * v, [0.0, 0.0], "right", "f32"),
    "jumps that every step crosses": (
        lambda v: 0.5 * qd.cast(4.0 * v, qd.i32), [0.0, 0.5, 1.0, 2.0], "jumps", "f32"),
    "zero but for rounding": (lambda v: 1.0 + v * 0.3 + v * 0.6 - v * 0.9, [0.7, 1.3], "right", "f32"),
    # a flat place is no jump
    "a cube at 0": (lambda v: v * v * v, [0.0, 0.0], "right", "f32 f64"),
    "a cube at 0, beside 1": (lambda v: v * v * v + 0.5, [0.0, 0.0], "right", "f32 f64"),
    "a fourth power at its minimum": (lambda v: (v - 1.0) ** 4, [1.0, 1.0], "right", "f32 f64"),
    "a ramp that begins within a wide step": (lambda v: qd.max(v - 1.05, 0.0), [0.0, 1.0], "right", "f32 f64"),
    "a power of a ramp at its corner": (lambda v: qd.max(v, 0.0) ** 1.5, [0.0, 0.0], "right", "f32 f64"),
    # all steps to one side cross the edge: the bend is that of a kink, and the gradient of 0 is that of no step
    "the edge of a jump": (jumps(100.0), [0.3, 0.5], "jumps", "f64"),
    "the edge of a fine jump": (jumps(1e5), [0.3, 0.5], "jumps", "f32"),
    # the narrowest steps of an f32 cross many of its jumps, so that differences show a slope
    **{f"a staircase of {steps:.0e} steps, {len(at)}": (stairs(steps), at, "jumps", "f32 f64")
       for steps in (1e3, 1e5, 1e6) for at in (MANY[:1], MANY)},
    # a slope beside a jump is no derivative
    "what floor leaves, at a jump": (lambda v: v - qd.floor(v), [1.0], "jumps", "f32"),
    "what floor leaves, at one of many": (
        lambda v: 100.0 * v - qd.floor(100.0 * v), [0.123, 0.345, 2.0], "jumps", "f32"),
    "what floor leaves, between jumps": (lambda v: v - qd.floor(v), [0.25, 1.75], "right", "f32"),
    "a slope and a staircase": (lambda v: v * v + qd.round(v * 1e5) / 1e5, [0.3, 0.7], "jumps", "f32"),
    "more turns than a step resolves": (turns, [0.3, 0.2, 0.123, 0.456], "noisy", "f64"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "fp"), [(name, fp) for name, row in TERMS.items() for fp in row[-1].split()])
def test_the_verdict_on_a_term(name, fp) -> None:
    term, at, want, _ = TERMS[name]
    dtype = getattr(qd, fp)
    qd.init(arch=qd.cpu, default_fp=dtype, offline_cache=False)
    v, loss, of = qd.field(dtype, len(at), needs_grad=True), qd.field(dtype, (), needs_grad=True), qd.func(term)
    v.from_numpy(np.array(at, dtype.numpy))

    @qd.kernel
    def run():
        for i in v:
            loss[None] += of(v[i])

    (verdict,) = qd.ad.check(run, loss, v).verdicts
    assert verdict.kind == want


@pytest.mark.parametrize("counts", ["launches", "an argument"])
def test_python_that_decides_by_an_input_leaves_its_gradient_right(counts) -> None:
    """A loop that ends when something is small enough: moved inputs end it earlier or later."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    x, y = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    u = qd.field(qd.f64, (12, 4), needs_grad=True)

    @qd.kernel
    def step(first: qd.i32, end: qd.i32):
        for i in x:
            for t in range(first, end):
                u[t, i] = x[i] if t == 0 else 0.5 * u[t - 1, i]

    @qd.kernel
    def total():
        for i in x:
            for t in range(12):
                y[None] += u[t, i] ** 2

    def run():
        enough = 3 + (x[0] < 1.0)
        if counts == "launches":
            for t in range(enough):
                step(t, t + 1)
        else:
            step(0, enough)
        total()

    x.fill(0.98)
    u.fill(0.0)
    report = qd.ad.check(run, y, x)
    assert report.right, report
    assert [c.kind for c in report.verdicts[0].causes] == ["decision"]


@pytest.mark.parametrize("seed", [18, 32, 43, 52, 58])
def test_where_rounding_hides_the_slope_and_wide_steps_see_bends_no_gradient_is_wrong(seed) -> None:
    """The loss is some thousands, in f32, and forty turns bend it within each step that changes it visibly."""
    qd.init(arch=qd.cpu, cpu_max_num_threads=1, offline_cache=False)
    x, y = qd.field(qd.f32, 50, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def turns():
        for i in x:
            v = x[i]
            for _ in range(40):
                v = qd.sin(1.3 * v) + 0.1
            y[None] += v
        for _ in range(1):
            y[None] += 2000.0

    x.from_numpy(np.random.default_rng(seed).normal(size=50).astype(np.float32))
    (found,) = qd.ad.check(turns, y).verdicts
    assert found.kind in ("noisy", "right")
    assert found.tangent.error < 1e-5  # of forward mode


def test_what_a_custom_gradient_computes_in_python_is_not_blamed() -> None:
    """Forward mode sees the launches of the function, and not the number that Python hands on between them."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    x, v = (qd.field(qd.f64, 4, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def scale(by: qd.f64):
        for i in x:
            v[i] = x[i] * x[i] * by

    @qd.kernel
    def total():
        for i in x:
            y[None] += v[i] * (1.0 + i)

    @qd.ad.grad_replaced
    def scaled():
        scale(float(x[0]))

    @qd.ad.grad_for(scaled)
    def slope():
        at, a = x.to_numpy(), v.grad.to_numpy()
        more = 2.0 * at * at[0] * a
        more[0] += (at * at * a).sum()
        x.grad.from_numpy(x.grad.to_numpy() + more)
        v.grad.fill(0.0)

    def run():
        scaled()
        total()

    x.from_numpy(np.array([0.3, 0.5, 1.0, 2.0]))
    report = qd.ad.check(run, y, x)
    assert report.right, report
    assert "hides some of it from forward mode" in str(report)
