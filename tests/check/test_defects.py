"""The doctor names the cause and the line of every planted defect."""

from pathlib import Path

import numpy as np
import pytest
from check import defects_numbers, defects_programs  # noqa: F401  # they fill the table
from check.bench import DEFECTS, Bench, sines_in_python
from sessions import ended, skips  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.runtime.check import compare_gradients
from quadrants_lab.runtime.check.launch_flow import TooLong

# causes that are not found by following values
BY_OTHERS = {
    "nonfinite", "custom gradient", "race", "error", "added", "filled", "seed", "changed bound", "changed value",
}  # fmt: skip


GPU = [pytest.param("vulkan", marks=[*skips("vulkan"), pytest.mark.slow])]


@pytest.mark.filterwarnings("ignore:.*QL0426")  # the Tape itself tells of it
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arch", ["cpu", *GPU])
@pytest.mark.parametrize("name", DEFECTS)
def test_the_doctor_names_cause_and_line(name: str, arch: str) -> None:
    d = DEFECTS[name]
    fp = qd.f32 if d.f32 else qd.f64
    qd.init(arch=getattr(qd, arch), simulate=True, enable_fallback=False, default_fp=fp, offline_cache=False)
    bench = Bench(fp)
    report = qd.ad.check(d.make(bench), bench.y, bench.x)
    text = str(report)
    if d.verdict:
        assert [v.kind for v in report.verdicts] == [d.verdict], text
    causes = [*report.causes, *(c for v in report.verdicts for c in v.causes)]
    found = [c for c in causes if c.kind == d.kind]
    assert found, text
    assert d.says in text
    if d.line:
        assert found[0].line == d.here, text
        assert "# HERE" in found[0].statement
        assert found[0].step == (found[0].launch, found[0].iteration, d.here)
        assert found[0].launch or d.kind in ("race", "error", "changed bound", "changed value")
        assert found[0].file == (d.where or d.make).__code__.co_filename


@pytest.mark.parametrize("name", [name for name, d in DEFECTS.items() if d.kind not in BY_OTHERS])
def test_where_all_is_too_much_some_iterations_show_the_same(name: str, monkeypatch) -> None:
    def too_long(*args) -> None:
        raise TooLong
    monkeypatch.setattr(compare_gradients, "follow", too_long)
    test_the_doctor_names_cause_and_line(name, "cpu")


def test_forty_defects_are_planted() -> None:
    assert len(DEFECTS) >= 40


def test_the_table_of_other_tools_has_each_defect() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "autodiff" / "elsewhere.md"
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    assert {row[0].strip("| `") for row in rows} == set(DEFECTS)
    assert all(len(row) == 5 for row in rows)
    assert "not measured" not in page.read_text()
    for row in rows:
        assert row[1].split(";")[0] == DEFECTS[row[0].strip("| `")].kind


def test_a_small_part_that_goes_through_python_is_noticed() -> None:
    """The part is a thousandth of a loss of several thousands."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    bench = Bench(qd.f64)
    x, y = bench.x, bench.y
    @qd.kernel
    def squares(by: qd.f64):
        y[None] += 4000.0
        for i in x:
            y[None] += by * x[i] * x[i]
    (verdict,) = qd.ad.check(lambda: squares(1.0 + 1e-3 * x[1]), y, x).verdicts
    assert (verdict.kind, [c.kind for c in verdict.causes]) == ("wrong", ["python"])


def test_a_custom_gradient_of_what_python_computes_is_to_blame() -> None:
    """The cause is the custom gradient, not that no launch reads x."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    bench = Bench(qd.f64)
    run, slopes = sines_in_python(bench.x, bench.w, bench.y, factor=-1.0)
    (verdict,) = qd.ad.check(run, bench.y, bench.x).verdicts
    cause, *_ = verdict.causes
    assert (verdict.kind, cause.kind) == ("wrong", "custom gradient")
    assert "slopes, which is given as the gradient of sines" in cause.says
    assert cause.line == slopes.__code__.co_firstlineno


@pytest.mark.parametrize("factor", [0.0, 1.0, 1.1, 2.0])
def test_one_wrong_element_of_many_is_found_in_single_precision(factor) -> None:
    """The error of the element is far within the tolerance for the sum of all elements."""
    qd.init(arch=qd.cpu, default_fp=qd.f32, offline_cache=False)
    x, v = (qd.field(qd.f32, 2000, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.random.default_rng(0).normal(size=2000).astype(np.float32))

    @qd.kernel
    def sines():
        for i in x:
            v[i] = qd.sin(3.0 * x[i]) - 0.99 * qd.sin(3.03 * x[i])

    @qd.kernel
    def slopes():
        for i in x:
            g = 3.0 * qd.cos(3.0 * x[i]) - 2.9997 * qd.cos(3.03 * x[i])
            x.grad[i] += (factor if i == 777 else 1.0) * g * v.grad[i]

    @qd.kernel
    def total():
        for i in x:
            y[None] += v[i] * x[i]

    forward = qd.ad.grad_replaced(lambda: sines())

    @qd.ad.grad_for(forward)
    def back():
        slopes()

    def run():
        forward()
        total()

    report = qd.ad.check(run, y, x)
    assert report.right == (factor == 1.0), report
    if factor != 1.0:
        assert report["x"].causes[0].kind == "custom gradient"
        assert "x.grad[777] becomes" in str(report)


@pytest.mark.parametrize(("scatter", "factor", "by"), [
    (None, 0.9, "a kernel"), (None, 0.9, "Python"), (None, 1.0, "a kernel"), (0.0, 0.9, "a kernel"),
    (0.0, 1.0, "Python"), (4e-4, 0.9, "Python"), (4e-4, 1.0, "a kernel"),
])  # fmt: skip
def test_an_error_that_all_of_many_elements_have_in_common_is_found(scatter, factor, by, monkeypatch) -> None:
    """Along a direction of random signs their contributions nearly cancel out, and the error with them: what is left
    of it is within the tolerance of forward mode, and within the noise of so large a loss. By how much the slopes at
    two widths differ is chance, which the last bits of sines on a processor decide (``scatter``; None: as here)."""
    if scatter is not None:
        monkeypatch.setattr("quadrants_lab.runtime.check.slopes.scatter", lambda found: scatter)
    qd.init(arch=qd.cpu, default_fp=qd.f32, offline_cache=False)
    x, v = (qd.field(qd.f32, 40_000, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.random.default_rng(1).random(40_000).astype(np.float32))

    @qd.kernel
    def waves():
        for i in x:
            y[None] += qd.sin(x[i]) + 30.0

    @qd.kernel
    def slopes():
        for i in x:
            x.grad[i] += factor * qd.cos(x[i]) * y.grad[None]

    forward = qd.ad.grad_replaced(lambda: waves())
    qd.ad.grad_for(forward)(lambda: slopes())
    run = sines_in_python(x, v, y, 30.0, factor)[0] if by == "Python" else lambda: forward()
    (found, *_) = qd.ad.check(run, y, x).verdicts
    assert found.kind == ("right" if factor == 1.0 else "wrong"), found
    if factor != 1.0:
        (cause,) = found.causes
        assert cause.kind == "custom gradient"
        assert ("0.9 times what it should" if by == "a kernel" else "launches nothing") in cause.says


@pytest.mark.parametrize("fp", ["f32", "f64"])
@pytest.mark.parametrize("by", ["a kernel", "Python"])
@pytest.mark.parametrize(("size", "high"), [(1, 0.0), (1000, 0.0), (1, 100.0)])
@pytest.mark.parametrize("factor", [1.0, 1.01, 1.1, -1.0])
def test_a_factor_of_a_custom_gradient_is_found(factor, size, high, by, fp) -> None:
    """In f32 a factor of 1.01 is lost in narrow steps, and wide steps are bent; ``high``: part of the loss."""
    dtype = getattr(qd, fp)
    qd.init(arch=qd.cpu, default_fp=dtype, offline_cache=False)
    x, v = (qd.field(dtype, size, needs_grad=True) for _ in range(2))
    y = qd.field(dtype, (), needs_grad=True)
    x.from_numpy((np.random.default_rng(2).random(size) + 0.5).astype(dtype.numpy))

    @qd.kernel
    def waves():
        for i in x:
            v[i] = qd.sin(x[i]) * x[i]

    @qd.kernel
    def total():
        for i in x:
            y[None] += v[i] * v[i] + high

    @qd.kernel
    def back():
        for i in x:
            x.grad[i] += factor * (qd.cos(x[i]) * x[i] + qd.sin(x[i])) * v.grad[i]

    @qd.ad.grad_replaced
    def forward():
        if by == "Python":
            v.from_numpy(np.sin(x.to_numpy()) * x.to_numpy())
        else:
            waves()

    @qd.ad.grad_for(forward)
    def given():
        back()

    def run():
        forward()
        total()

    report = qd.ad.check(run, y, x)
    assert report.right == (factor == 1.0), report
    if factor != 1.0:
        assert report["x"].causes[0].kind == "custom gradient"
    if (factor, fp, by, size) == (1.01, "f32", "Python", 1000):
        assert "along one direction it gives 1.01 times what finite differences give" in report["x"].says


@pytest.mark.parametrize(("high", "says"), [
    (0.0, "agrees with finite differences within rounding error"), (300.0, "which hides errors of less than"),
    (1e5, "is too small to be seen in the loss"),
])
def test_what_rounding_hides_of_a_gradient_is_said(high, says) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f32, offline_cache=False)
    bench = Bench(qd.f32)
    (verdict,) = qd.ad.check(sines_in_python(bench.x, bench.w, bench.y, high)[0], bench.y, bench.x).verdicts
    assert verdict.kind == "right"
    assert says in verdict.says
    assert ("hides" in verdict.says) == ("hides" in says)
