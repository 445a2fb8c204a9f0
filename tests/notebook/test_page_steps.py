"""The stepper in an exported page: by keys and by mouse, in windows, with questions; colours in both themes."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright")

from notebook.browser import chromium, offline  # after the skip: it imports playwright
from notebook.test_page import CONTRAST, DARK, NAMES, ROLES
from playwright.sync_api import Page, expect

import quadrants_lab as qd
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.notebook.saved import export
from quadrants_lab.notebook.stepping import add_verdict
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.report import Report
from quadrants_lab.runtime.interpret import interpreter_trace
from quadrants_lab.runtime.record.recorder import recording

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
OUT = Path(__file__).resolve().parents[2] / "out" / "browser"
START, TRIPS = np.array([0.1, 0.2, 0.3, 0.4]), 12
expect.set_options(timeout=60_000)  # a busy machine draws late


def steps_of(view, file: Path, lane: int) -> Path:
    """A page with only the steps, because listings, graphs and code take seconds."""
    for kernel in view.kernels:
        kernel.traces, kernel.lowered, kernel.code, kernel.graphs = {}, {}, {}, []
    return export(view, file, iterations=[lane])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A page of a kernel with a loop that breaks, launched twice; and one where its iterations do not fit a window."""
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    x, y, n = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True), qd.field(qd.i32, ())
    x.from_numpy(START)
    n[None] = TRIPS

    @qd.kernel
    def wave():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v)
                if v > 2.0:
                    break
            y[None] += v

    with recording() as recorder, qd.ad.Tape(y):
        wave()
        wave()
    view = cell_view("cell", recorder)
    line = wave.source.node.lineno + wave.source.offset + 4  # the sine
    cause = Cause("kink", "something is wrong", kernel="wave", launch=1, iteration=(2,))
    object.__setattr__(cause, "at", next(s.span for s in recorder.records()[0].plan.kernel.body if s.span))
    add_verdict(view, Report("y", 0.0, causes=(cause,)))
    folder = tmp_path_factory.mktemp("steps")
    whole = steps_of(view, folder / "whole.html", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter_trace, "WINDOW", 60)
        cut = steps_of(cell_view("cell", recorder), folder / "cut.html", 2)
    return whole, cut, line


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture
def opened(browser):
    """Opens a file at its steps; nothing is said to the console or asked of the network."""
    shown, said = offline(browser, height=1000)

    def at(file: Path) -> Page:
        shown.goto(f"file://{file}")
        shown.get_by_role("tab", name="Steps").click()
        shown.locator(".stepper").focus()
        return shown

    yield at
    assert said == []
    shown.close()


def number(page: Page) -> int:
    return int(re.match(r"step (\d+) of", page.locator(".now").inner_text())[1])


def press(page: Page, *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    return page.locator(".now").inner_text()


def test_places_are_reached_by_keys(opened, files):
    page = opened(files[0])
    assert "backwards" in page.locator(".now").inner_text()  # it opens at the turn
    opens = number(page)
    press(page, "Home", "t")
    assert number(page) == opens > 1
    press(page, "Home", "ArrowRight", "ArrowRight")
    assert number(page) == 3
    assert "adstack_push" in press(page, "u")
    assert number(page) > 3
    here = page.locator(".ln.here").get_attribute("data-span-line")
    press(page, "Shift+ArrowRight")
    assert page.locator(".ln.here").get_attribute("data-span-line") != here
    assert "backwards" in press(page, "t")
    assert page.locator(".stk").first.get_attribute("data-height") == str(TRIPS)
    assert "adstack_pop" in press(page, "o")
    assert page.locator(".stk").first.get_attribute("data-height") == str(TRIPS - 1)
    assert "all is finite after this" in press(page, "x")
    assert "nothing is pushed after this" in press(page, "u")
    press(page, "End")
    assert "x.grad[0] +=" in page.locator(".mem").inner_text()
    assert "nothing is popped after this" in press(page, "o")
    press(page, "Home", "g")
    page.keyboard.type(f":{files[2]}")
    assert "= sin" in press(page, "Enter")
    first = number(page)
    for _ in range(2):  # what was asked for before is not in the way, and can be asked for again
        page.locator(".stepper").focus()
        press(page, "g")
        page.keyboard.type(f":{files[2]}")
        press(page, "Enter")
    assert number(page) > first + 1
    page.locator(".stepper").focus()
    press(page, "g")
    page.keyboard.type("x")
    assert "a step is a number" in press(page, "Enter")
    page.locator(".stepper").focus()
    press(page, "g")
    page.keyboard.type("7")
    press(page, "Enter")
    assert number(page) == 7
    page.locator(".stepper").focus()
    press(page, "i")
    assert page.get_by_label("Iteration to follow").evaluate("x => x === document.activeElement")
    page.keyboard.type("2")
    press(page, "Enter")
    page.get_by_text("gradient of wave, iteration 2").wait_for()
    page.get_by_role("button", name="Next pop of v").click()
    assert "adstack_pop" in page.locator(".now").inner_text()
    page.keyboard.press("?")
    assert "push, pop, NaN" in page.get_by_role("dialog", name="Keys").inner_text()


def test_only_where_there_is_a_reverse_its_moves_have_buttons(opened, files):
    page = opened(files[0])
    moves = page.locator(".stepper [data-move]")
    reverse = {"turn", "push", "pop"}
    assert reverse < {x.get_attribute("data-move") for x in moves.all()}
    page.get_by_label("Launch", exact=True).select_option("launch 1, forward")
    page.get_by_text("forward of wave, iteration 0").wait_for()
    assert {x.get_attribute("data-move") for x in moves.all()} == {
        "first", "line-", "-", "+", "line+", "lost", "last",
    }  # fmt: skip
    assert "there is no reverse" in press(page, "t")


def test_a_source_line_leads_to_its_next_step(opened, files):
    page = opened(files[0])
    row = page.locator(f'.stepper .ln[data-span-line="{files[2]}"]')
    row.click()
    first = number(page)
    assert "here" in row.get_attribute("class")
    row.focus()
    press(page, "Enter")
    assert number(page) > first


def test_it_plays(opened, files):
    page = opened(files[0])
    for _ in range(9):
        press(page, "<")
    press(page, "p")  # so slowly that it surely plays when it is looked at
    expect(page.get_by_role("button", name="play (p)")).to_have_text("pause")
    for _ in range(9):
        press(page, ">")
    assert page.get_by_label("Steps a second").input_value() == "64"
    expect(page.get_by_role("button", name="play (p)")).to_have_text("play")  # it is at the end
    assert number(page) == 1 + int(page.get_by_label("Step", exact=True).get_attribute("max"))


def test_values_and_adjoints_are_plotted(opened, files):
    page = opened(files[0])
    press(page, "End")
    page.get_by_label("Plot v", exact=True).check()
    page.get_by_label("Plot v.grad", exact=True).check()
    captions = page.locator(".plot figcaption").all_inner_texts()
    v = [START[0]]
    for _ in range(TRIPS):
        v.append(np.sin(v[-1]))
    low, high = (float(x) for x in re.match(r"v: (\S+) to (\S+)", captions[0]).groups())
    assert (low, high) == (pytest.approx(v[-1], rel=1e-3), pytest.approx(v[0], rel=1e-3))
    assert captions[1].startswith("v.grad: ")
    assert captions[1].endswith(" to 1.000")
    drawn = page.locator(".plot path.val").get_attribute("d")
    assert drawn.count("V") >= 2 * TRIPS
    image = page.locator(".plot svg").first
    box = image.bounding_box()
    image.click(position={"x": box["width"] / 2, "y": 20})
    middle = 1 + int(page.get_by_label("Step", exact=True).get_attribute("max")) / 2
    assert abs(number(page) - middle) <= 2


def test_what_comes_next_is_asked_and_counted(opened, files):
    page = opened(files[0])
    press(page, "t", "q")
    page.get_by_label("Plot v", exact=True).check()
    page.locator(".stepper").focus()
    assert set(page.locator(".slots .slot1").all_inner_texts()) == {"?"}
    drawn = page.locator(".plot path.val").get_attribute("d")
    v, slopes = START[0], []
    for _ in range(TRIPS):
        slopes.append(v)
        v = np.sin(v)
    answers, wrong = 0, 0
    while answers < 4:
        if not page.locator(".quiz").is_visible():
            press(page, "ArrowRight")
            continue
        question = page.locator(".quiz").inner_text()
        top = slopes[TRIPS - 1 - answers // 2]
        want = top if "gives back" in question else np.prod(np.cos(slopes[TRIPS - 1 - answers // 2 :]))
        page.keyboard.type("99" if answers == 1 else f"{want:.6g}")
        told = press(page, "Enter")
        wrong += answers == 1
        assert ("no: it is" in told) if answers == 1 else told.endswith("right"), question
        answers += 1
        assert page.locator(".score").inner_text() == f"{answers - wrong} of {answers} predicted"
        assert page.locator(".stepper").evaluate("x => x === document.activeElement")
    assert page.locator(".plot path.val").get_attribute("d") != drawn
    while not page.locator(".quiz").is_visible():
        press(page, "ArrowRight")
    page.get_by_role("button", name="show it").click()
    assert page.locator(".score").inner_text() == "3 of 5 predicted"
    press(page, "q", "ArrowRight", "ArrowRight")
    assert not page.locator(".quiz").is_visible()
    assert "?" not in page.locator(".slots").inner_text()


def test_a_table_without_values_is_no_table(opened, tmp_path: Path):
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, 2, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]
            v = qd.sin(x[i])
            y[None] += v

    with recording() as recorder:
        squares()
    page = opened(steps_of(cell_view("cell", recorder), tmp_path / "k.html", 0))
    values, content = page.locator(".vals"), "(x) => getComputedStyle(x, '::before').content"
    assert not values.locator("table").is_visible()
    assert values.evaluate(content) == '"nothing yet"'
    press(page, "End")
    assert values.locator("table").is_visible()
    assert values.evaluate(content) == "none"


def test_names_of_the_compiler_are_hidden_until_asked_for(opened, files):
    page = opened(files[0])
    press(page, "t", "Shift+ArrowLeft")
    names = page.locator(".vals tbody td:first-child")
    assert "trips" not in names.all_inner_texts()
    assert "'" not in page.locator(".now").inner_text() or "'v" in page.locator(".now").inner_text()
    press(page, "c")
    assert {"trips", "live", "v"} <= set(names.all_inner_texts())
    press(page, "c")
    assert "trips" not in names.all_inner_texts()


def test_launches_and_causes_are_a_click_away(opened, files):
    page = opened(files[0])
    page.get_by_label("Launch").select_option("launch 2, forward")
    page.get_by_text("forward of wave, iteration 0").wait_for()
    page.get_by_role("tab", name="Verdict").click()
    card = page.locator(".card.bad")
    assert card.locator("p").first.inner_text() == "wrong the program: something is wrong"
    assert "launch 1, kernel wave, iteration 2" in card.locator("p").nth(1).inner_text()
    card.get_by_role("button", name="follow it step by step").press("Enter")
    page.get_by_text("forward of wave, iteration 2").wait_for()
    assert page.get_by_role("tab", selected=True).inner_text() == "Steps"
    assert page.get_by_label("Launch").evaluate("x => x.selectedOptions[0].textContent") == "launch 1, forward"


def test_a_click_into_a_plot_is_kept_while_it_is_drawn_again(opened, files):
    page = opened(files[0])
    press(page, "t", "ArrowRight", "ArrowRight")
    page.get_by_label("Plot v", exact=True).check()
    page.get_by_role("checkbox", name="predict").check()
    before = number(page)
    page.locator(".plot svg").hover(position={"x": 3, "y": 40})
    page.mouse.down()
    page.locator(".stepper").focus()
    press(page, "ArrowLeft")
    page.mouse.up()
    expect(page.locator(".now")).to_contain_text("step 1 of")
    assert before > 3


def test_a_long_iteration_moves_from_window_to_window(opened, files):
    page = opened(files[1])
    page.get_by_label("Iteration to follow").fill("2")
    page.keyboard.press("Enter")
    page.get_by_text("gradient of wave, iteration 2").wait_for()
    page.locator(".stepper").focus()
    assert "and more" in page.locator(".now").inner_text()
    press(page, "t")
    expect(page.locator(".now")).to_contain_text("backwards")
    assert page.locator(".stk").first.get_attribute("data-height") == str(TRIPS)
    turn = number(page)
    press(page, "End")
    page.locator(".mem", has_text="x.grad[2] +=").wait_for()
    assert number(page) > turn
    assert page.locator(".stk").first.get_attribute("data-height") == "0"
    press(page, "Home")  # a window that the page does not have
    page.get_by_text("this page does not contain this").wait_for()


def test_it_is_readable_in_both_themes(opened, files):
    page = opened(files[0])
    press(page, "t", "c", "ArrowRight", "ArrowRight")
    page.get_by_label("Plot v.grad", exact=True).check()
    page.locator(".stepper").focus()
    press(page, "q")
    while not page.locator(".quiz").is_visible():
        press(page, "ArrowRight")
    for theme in ("light", "dark"):
        for script in (CONTRAST, ROLES, NAMES):
            assert page.evaluate(script) == []
        page.screenshot(path=OUT / f"{theme}_steps.png")
        page.evaluate(DARK)


def test_a_plot_says_how_many_values_are_not_finite(opened, tmp_path: Path):
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, 1, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def falls():
        for i in x:
            v = x[i]
            for _ in range(3):
                v = qd.sqrt(v) - 1.0
            y[None] += v

    x.fill(4.0)
    with recording() as recorder:
        falls()
    page = opened(steps_of(cell_view("cell", recorder), tmp_path / "k.html", 0))
    press(page, "End")
    page.get_by_label("Plot v", exact=True).check()
    # 4, 1, 0, -1, and each again where a trip of the loop begins; then the root of -1 is never taken
    assert "NaN" not in page.locator(".plot figcaption").inner_text()
    x.fill(0.25)
    with recording() as recorder:
        falls()
    page = opened(steps_of(cell_view("cell", recorder), tmp_path / "nan.html", 0))
    press(page, "End")
    page.get_by_label("Plot v", exact=True).check()
    caption = page.locator(".plot figcaption").inner_text()
    assert re.fullmatch(r"v: -0.5000 to 0.2500, and [1-9] times NaN or infinity", caption)


def test_a_stack_of_what_an_operation_reads_does_not_restore_the_variable(opened, tmp_path: Path):
    """It holds 0.3 * v; what is left of v says so, and the slope is there to its last digit."""
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    x.from_numpy(START)

    @qd.kernel
    def fades():
        for i in x:
            v = x[i]
            for _ in range(40):
                v = qd.sin(0.3 * v)
            y[None] += v

    with recording() as recorder, qd.ad.Tape(y):
        fades()
    page = opened(steps_of(cell_view("cell", recorder), tmp_path / "k.html", 2))
    page.get_by_label("Iteration to follow").fill("2")
    page.keyboard.press("Enter")
    page.get_by_text("gradient of fades, iteration 2").wait_for()
    page.get_by_role("button", name="last step").click()
    assert f"x.grad[2] += {x.grad[2]:.6g}" in page.locator(".mem").inner_text()
    assert page.locator(".vals td.muted").get_attribute("title") == "as the way forwards left it"
