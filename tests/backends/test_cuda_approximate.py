"""Sine and cosine of f32 on CUDA: with fast math, how arguments are brought to what the GPU's function unit takes, on
this machine's processor against f64; the code; on a device, what comes out; the short functions without fast math."""

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from rigs import apart
from rigs.llvm_rig import over
from sessions import sessions, skips

import quadrants_lab as qd
from quadrants_lab.backends import cuda
from quadrants_lab.backends.cuda import approximate, listings, sine, toolkit


def reduced(x: np.ndarray) -> np.ndarray:
    return over(approximate._reduced_text(), "reduced", x)


def arguments(most: float) -> np.ndarray:
    rng = np.random.default_rng(5)
    turns = rng.integers(-int(most / np.pi), int(most / np.pi), 100_000) * np.pi
    x = np.concatenate([rng.uniform(-most, most, 400_000), turns]).astype(np.float32)
    return x[np.abs(x) < most]


@pytest.mark.parametrize(
    ("most", "around", "off"), [(100.0, 3.15, 1.3e-7), (65536.0, 3.16, 1.3e-7), (approximate.LARGE, 4.3, 2.8e-7)]
)
def test_reduced_arguments(most: float, around: float, off: float) -> None:
    """The error is less than that of the GPU's function unit, which is 4.8e-7."""
    x = arguments(most)
    r = reduced(x)
    assert np.abs(r).max() < around
    turns = np.rint((x.astype(np.float64) - r) / (2 * np.pi))
    exact = x.astype(np.longdouble) - turns.astype(np.longdouble) * (2 * np.longdouble("3.14159265358979323846"))
    assert np.abs(r - exact).max() < off


def test_small_arguments_are_left_alone() -> None:
    """For small arguments it makes no difference whether they are reduced."""
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(-2, 2, 100_000), 10.0 ** rng.uniform(-38, 0, 100_000), [0.0, -0.0, 3.14, -3.14]])
    x = x.astype(np.float32)
    assert (reduced(x).view(np.uint32) == x.view(np.uint32)).all()


def test_nan_and_infinity_stay_nan() -> None:
    assert np.isnan(reduced(np.float32([np.inf, -np.inf, np.nan]))).all()


# --- code -------------------------------------------------------------------------------------------------------

@pytest.fixture(params=sessions("cuda"))
def session(request: Any) -> Any:
    qd.init(**request.param)
    return request.param


def made(kernel: Any, *arguments: Any) -> tuple[str, str]:
    """LLVM's text and PTX."""
    kernel(*arguments)
    text = kernel.code("llvm")
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    plan = kernel.dispatcher.last
    for chip in cuda.PTX_VERSIONS if toolkit.tool("ptxas") else ():
        (program,) = listings.assembled(listings.ptx_of(plan.kernel, plan.compiled.options, chip), chip).programs
        assert program.spilled == 0
    return text, kernel.code("ptx")


def test_several_are_reduced_together(session: Any) -> None:
    x = qd.field(qd.f32, shape=(4, 8))
    @qd.kernel
    def step():
        for i in range(4):
            a, b, c, d = x[i, 0], x[i, 1], x[i, 2], x[i, 3]
            for _ in range(5):
                a, b, c, d = qd.sin(a) + b, qd.cos(b) + c, qd.sin(c) + d, qd.sin(d) + qd.cos(a)
            x[i, 0] = a + b + c + d
    text, ptx = made(step)
    assert text.count(f", {1 << 30}") == 1
    assert text.count("call float @qd.reduced.f32") == 4
    assert (ptx.count("sin.approx.ftz.f32"), ptx.count("cos.approx.ftz.f32")) == (3, 2)


def test_one_after_the_other_is_reduced_alone(session: Any) -> None:
    x = qd.field(qd.f32, shape=8)
    @qd.kernel
    def chain():
        for i in x:
            v = x[i]
            for _ in qd.static(range(5)):
                v = qd.sin(v) + 0.5
            x[i] = v
    text, ptx = made(chain)
    assert f", {1 << 30}" not in text
    assert ptx.count("sin.approx.ftz.f32") == 5


def test_a_reduction_in_an_arm_does_not_serve_what_follows(session: Any) -> None:
    x = qd.field(qd.f32, shape=(4, 8))
    @qd.kernel
    def arms():
        for i in range(4):
            a, b, c, d = x[i, 0], x[i, 1], x[i, 2], x[i, 3]
            if a > 0.0:
                x[i, 4] = qd.sin(a) + qd.sin(b) + qd.sin(c) + qd.sin(d)
            x[i, 5] = qd.sin(a) + qd.cos(b) + qd.sin(c) + qd.cos(d)
    text, _ = made(arms)
    assert text.count(f", {1 << 30}") == 2


def test_exact_code_and_f64_do_without(session: Any) -> None:
    x, y = qd.field(qd.f32, shape=4), qd.field(qd.f64, shape=4)

    @qd.kernel
    def doubles():
        for i in y:
            y[i] = qd.sin(y[i])

    assert ".approx" not in made(doubles)[1]
    qd.init(**{**session, "fast_math": False})
    x = qd.field(qd.f32, shape=4)

    @qd.kernel
    def singles():
        for i in x:
            x[i] = qd.sin(x[i]) + qd.cos(x[i])

    assert ".approx" not in made(singles)[1]


# --- results ----------------------------------------------------------------------------------------------------

N = 1 << 16


@pytest.fixture(params=[*sessions("cuda"), pytest.param("apart", marks=skips("vulkan"), id="apart")])
def any_session(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """CUDA, or Vulkan with the functions of a device that has a unit for them."""
    apart.start(request.param, monkeypatch)
    yield "vulkan" if request.param == "apart" else "cuda"
    qd.reset()


def computed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sines and cosines; the sines are computed twice, by one statement of a block and by several."""
    given, one, other = (qd.field(qd.f32, shape=x.shape) for _ in range(3))
    many = qd.field(qd.f32, shape=x.shape)

    @qd.kernel
    def alone():
        for i in given:
            one[i] = qd.sin(given[i])
            other[i] = qd.cos(given[i])

    @qd.kernel
    def together():
        for i in range(x.shape[0] // 4):
            a, b, c, d = given[4 * i], given[4 * i + 1], given[4 * i + 2], given[4 * i + 3]
            many[4 * i], many[4 * i + 1] = qd.sin(a), qd.sin(b)
            many[4 * i + 2], many[4 * i + 3] = qd.sin(c), qd.sin(d)

    given.from_numpy(x)
    alone()
    together()
    sines = one.to_numpy()
    assert (sines.view(np.uint32) == many.to_numpy().view(np.uint32)).all()
    return sines, other.to_numpy()


@pytest.mark.parametrize(
    ("least", "most", "bound"),
    [(-6.3, 6.3, 6e-7), (0.0, 1e2, 6e-7), (0.0, 4000.0, 6e-7), (0.0, 65536.0, 8e-7), (65536.0, 2.6e7, 1e-6)],
)
def test_errors_are_within_the_documented_bounds(any_session: str, least: float, most: float, bound: float) -> None:
    if any_session == "vulkan" and most > 4000:
        bound += float(np.spacing(np.float32(most))) / 2
    x = np.random.default_rng(7).uniform(least, most, N).astype(np.float32)
    for got, want in zip(computed(x), (np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))), strict=True):
        assert np.abs(got - want).max() < bound


def test_small_sines_have_digits(any_session: str) -> None:
    x = (10.0 ** np.random.default_rng(8).uniform(-30, 0, N)).astype(np.float32)
    want = np.sin(x.astype(np.float64))
    assert (np.abs(computed(x)[0] - want) / want).max() < 4e-5


def test_arguments_without_a_sine(any_session: str) -> None:
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e9, -1e30, 3e38] * 8)
    sines, cosines = computed(x)
    assert np.isnan(sines[2:5]).all()
    assert np.isnan(cosines[2:5]).all()
    assert (np.abs(sines[5:8]) <= 1).all()
    assert (np.abs(cosines[5:8]) <= 1).all()
    assert sines[0] == sines[1] == 0
    assert np.signbit(sines[:2]).tolist() == [False, True]
    assert cosines[:2].tolist() == [1, 1]


def compute(name: str, x: np.ndarray) -> np.ndarray:
    return over((sine.far_text(0) + "\n" + sine.text(name)).replace(sine.DENORMALS, ""), name, x)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_within_two_units_in_the_last_place(name: str) -> None:
    rng = np.random.default_rng(3)
    turns = np.arange(-41700, 41700) * (np.pi / 2)
    x = np.concatenate([
        rng.uniform(-2 * np.pi, 2 * np.pi, 400_000), rng.uniform(-sine.LARGE, sine.LARGE, 400_000), turns,
        np.nextafter(turns.astype(np.float32), np.float32(1e9)), 10.0 ** rng.uniform(-38, 0, 100_000),
    ]).astype(np.float32)  # fmt: skip
    x = x[np.abs(x) < sine.LARGE]
    want = getattr(np, name)(x.astype(np.float64))
    gap = np.abs(compute(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert gap.max() < 2, (x[gap.argmax()], gap.max())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_arguments(name: str) -> None:
    rng = np.random.default_rng(4)
    exponents = rng.uniform(np.log2(sine.LARGE), 128, 400_000)
    turns = rng.integers(1 << 16, 1 << 40, 400_000) * (np.pi / 2)
    x = np.concatenate([2.0**exponents, -(2.0**exponents), turns, 2.0 ** np.arange(16, 128)]).astype(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.float32([16367173 * 2.0**72, np.finfo(np.float32).max])])  # near k pi / 2
    want = getattr(np, name)(x.astype(np.float64))
    gap = np.abs(compute(name, x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert gap.max() < 2.5, (x[gap.argmax()], gap.max())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_nan_infinity_and_zero(name: str) -> None:
    assert np.isnan(compute(name, np.float32([np.inf, -np.inf, np.nan]))).all()
    assert compute(name, np.float32([0])).tolist() == [0.0 if name == "sin" else 1.0]
