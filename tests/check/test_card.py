"""The verdict as a card: what the first two lines say, in which colour, and what is no fault."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from check import defects_numbers, defects_programs  # noqa: F401  # they fill the table
from check.bench import DEFECTS, Bench, sines_in_python
from rich.console import Console
from sessions import NIGHT, ended  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.lang import doctor  # noqa: F401  # imported by the first check, it would keep what `noisy` patches
from quadrants_lab.notebook.inspection import as_text
from quadrants_lab.runtime.check import LEVELS, differences
from quadrants_lab.runtime.check.report import Tangent, Verdict
from quadrants_lab.widgets import terminal
from quadrants_lab.widgets.static import static
from quadrants_lab.widgets.verdict import verdict

# planted bugs -> badge, and what the first two lines say of the cause
BUGS = {
    "norm_by_hand_at_zero": ("NaN", "the root has no finite slope at 0"),
    "zero_over_zero": ("NaN", "a division by 0"),
    "log_of_a_negative": ("NaN", "the logarithm of what is not above 0"),
    "a_field_without_gradient_between_launches": ("zero", "the gradient stops at"),
    "a_cast_to_an_integer": ("not differentiable", "cast to i32 has no derivative"),
    "a_floor": ("not differentiable", "floor has no derivative"),
    "an_overwritten_field": ("zero", "written over before the loss reads it"),
    "abs_at_zero": ("not differentiable", "abs has two slopes at 0"),
    "a_gradient_of_ones_own_off_by_a_hundredth": ("wrong", "is not its derivative"),
    "a_gradient_that_is_not_cleared": ("wrong", "the gradient of squares ran 2 times"),
    "a_race_that_only_data_shows": ("wrong", "iterations race for w"),
    "an_index_out_of_bounds": ("error", "is out of bounds"),
}


def report_of(name):
    d = DEFECTS[name]
    fp = qd.f32 if d.f32 else qd.f64
    qd.init(arch=qd.cpu, default_fp=fp, offline_cache=False)
    bench = Bench(fp)
    return qd.ad.check(d.make(bench), bench.y, bench.x), d


def drawn(report, width=100, **options):
    """The card as text, and the colours in it."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="standard").print(report.card(**options))
    colours = {"31": "red", "32": "green", "33": "yellow"}
    codes = {c for code in re.findall(r"\x1b\[([\d;]*)m", out.getvalue()) for c in code.split(";")}
    return re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()), {colours[c] for c in codes & colours.keys()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BUGS)
def test_the_first_two_lines_name_line_and_cause(name) -> None:
    badge, says = BUGS[name]
    report, d = report_of(name)
    first, second, *_ = str(report).splitlines()
    assert first.startswith(badge.ljust(6))
    assert says in first
    line = d.here if d.line else report.causes[0].line
    assert second.endswith(f", line {line}")
    shown, colours = drawn(report)
    head, *body = shown.splitlines()
    assert head.split()[1 : 1 + len(badge.split())] == badge.split()
    two = " ".join(line.strip("│ ") for line in body[:2])
    assert f"line {line}: " in two
    assert " ".join(says.split()[:4]) in two
    assert bool(colours & {"red", "yellow"}) is not report.right
    answer, one, two, *_ = as_text(terminal.drawn(verdict(report)), 200).splitlines()
    assert re.search(r"not right\.|cannot be checked\.|fault\.|None of|^\d of", answer.rstrip()) or report.right
    assert one.startswith(badge)
    assert says in one
    assert f", line {line}" in two
    html = static(verdict(report))
    assert (LEVELS["bad"][1] in html or LEVELS["warning"][1] in html) is not report.right
    assert "look" not in shown


@pytest.mark.filterwarnings("ignore")
def test_step_sizes_are_folded() -> None:
    report, _ = report_of("a_gradient_of_ones_own_off_by_a_hundredth")
    folded, unfolded = drawn(report)[0], drawn(report, steps=True)[0]
    assert "8 step sizes: at " in folded
    assert folded.count("the loss changes by") == 1
    assert "the loss changes by" in unfolded
    assert "2e-08" in unfolded
    lines = str(report).splitlines()
    assert min(n for n, line in enumerate(lines) if "step 2e-01" in line) > next(
        n for n, line in enumerate(lines) if "it is WRONG at" in line
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["a_clamp_that_saturates", "a_factor_of_zero"])
def test_a_zero_that_is_right_is_no_warning(name) -> None:
    report, d = report_of(name)
    shown, colours = drawn(report)
    assert str(report).startswith("zero    the gradient of x: ")
    assert f"line {d.here}: " in shown.splitlines()[1]
    assert colours <= {"green"}
    assert report.right


def test_a_right_gradient_is_one_green_line() -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def k():
        for i in x:
            y[None] += qd.sin(x[i])

    shown, colours = drawn(qd.ad.check(k, y), 200)
    assert shown.startswith(" right  the gradient of x agrees with finite differences")
    assert shown.count("\n") == 1
    assert colours == {"green"}


def noisy(monkeypatch, size, seed=0):
    """Adds noise to each loss that is measured, as sums in another order would."""
    exact, rng = differences.loss_at, np.random.default_rng(seed)
    monkeypatch.setattr(differences, "loss_at", lambda *a: exact(*a) + size * rng.normal())


def test_noise_is_not_right(monkeypatch) -> None:
    """Differences scatter so much that they say nothing, and there is no forward mode."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x, v = (qd.field(qd.f32, 4, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)
    run, _ = sines_in_python(x, v, y, 1e4)
    noisy(monkeypatch, 0.1)
    report = qd.ad.check(run, y, {"x": x})
    (verdict,) = report.verdicts
    assert re.search(r"differences scatter by \d+%", verdict.says)
    seen = verdict.kind, verdict.card.badge, verdict.card.level, report.right
    assert seen == ("noisy", "noisy", "warning", False), verdict
    assert str(report).startswith("noisy   the gradient of x is within the noise")
    assert drawn(report)[1] >= {"yellow"}


def test_noise_is_right_where_forward_mode_agrees() -> None:
    seen = Verdict("x", "noisy", "is within the noise: differences scatter by 21%, too much to judge it by")
    assert (seen.good, seen.card.badge, seen.card.level) == (False, "noisy", "warning")
    seen = replace(seen, tangent=Tangent(1.0, 1.0, 0.0))
    assert (seen.good, seen.card.badge, seen.card.level) == (True, "right", "good")


@pytest.mark.parametrize("seed", range(4 if NIGHT else 1))
def test_an_error_common_to_all_is_found_under_noise(monkeypatch, seed) -> None:
    """On many threads sums come in any order: along random signs the noise hides what all elements have in common, and
    along their own signs it does not."""
    qd.init(arch=qd.cpu, default_fp=qd.f32, offline_cache=False)
    x, v = (qd.field(qd.f32, 40_000, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.random.default_rng(1).random(40_000).astype(np.float32))
    run, _ = sines_in_python(x, v, y, 30.0, 0.9)
    noisy(monkeypatch, 1.0, seed)
    (found, *_) = qd.ad.check(run, y, x).verdicts
    assert found.kind == "wrong", found


def test_a_gradient_that_was_passed_on_is_not_zero() -> None:
    """The check looks at every field that the launches touched, as in a checked cell."""
    from quadrants_lab.notebook.experiment import check, differentiate
    from quadrants_lab.runtime.check.by_hand import Forward
    from quadrants_lab.runtime.observe.observers import unwatched, watch

    qd.init(arch=qd.cpu, offline_cache=False)
    x, h = (qd.field(qd.f32, 4, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def one():
        for i in x:
            h[i] = x[i] * x[i]

    @qd.kernel
    def two():
        for i in h:
            y[None] += h[i]

    launches = Forward(repeatable=True)
    with watch(launches):
        one()
        two()
    differentiate(y, launches)
    with unwatched():
        report = check(launches, y, {"x": x, "h": h}, lambda text: None)
    assert report["h"].says.startswith("was passed on")
    assert (report["h"].card.badge, report["h"].card.level) == ("right", "good")
    assert "zero" not in str(report)
