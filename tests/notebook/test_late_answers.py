"""The live inspector while answers are late, lost, or come where nobody looks, with a model of the test's own."""

import json
from datetime import datetime, timedelta

import pytest

pytest.importorskip("playwright")

from notebook.browser import chromium  # after the skip: it imports playwright
from playwright.sync_api import Page, expect

from quadrants_lab.widgets import pack
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import Line
from quadrants_lab.widgets.steps import stepper
from quadrants_lab.widgets.tree import Control, Lines, Slot, choices

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]

LIVE = """async (script) => {
  const { live } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const shape = { title: "k", kernels: ["k"], panes: [["run", "Run"], ["code", "Code"], ["steps", "Steps"]] };
  const model = { get: (name) => name === "shape" ? shape : "u", on: (_, f) => { model.hear = f; }, off() {} };
  window.sent = [];
  window.answer = (request, html) => model.hear({ kind: "html", request, html });
  window.wait = (request) => model.hear({ kind: "wait", request, text: "code" });
  model.send = ({ kind, request }) => {
    if (window.ended) throw new Error("Cannot send");
    window.sent.push(`${kind} ${request}`);
  };
  live({ model, el: document.body }, (request) => request === "0/run" ? "ran" : null);
}"""
FIELD = """<input aria-label="Launch" data-ask="0/code/" data-then="f" data-into="launch">"""
STEP = ["%1 = load", 1, "value", "v", -1, [], 0]
WINDOW = {"s": [STEP], "e": [[0, "1", ""]] * 3, "n": 0, "cut": True, "past": [], "below": [], "found": 0, "turn": -1,
          "back": True, "hidden": [], "names": [], "ask": "0/steps/1/0//"}  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture
def page(browser):
    """An inspector that has the answer of its first pane; nothing fails in it."""
    shown, said = browser.new_page(), []
    shown.on("pageerror", lambda e: said.append(str(e)))
    shown.evaluate(LIVE, pack.script())
    yield shown
    shown.close()
    assert said == []


def window(data: dict) -> str:
    return write(Control("div", {"data-window": json.dumps(data)}))


def answer(page: Page, request: str, html: str) -> None:
    page.evaluate("([request, html]) => answer(request, html)", [request, html])


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def test_an_inspector_whose_kernel_has_ended_says_so_at_once(page: Page):
    page.clock.install()
    page.clock.pause_at(datetime.now() + timedelta(hours=1))
    page.evaluate("window.ended = true")
    open_tab(page, "Code")
    page.clock.fast_forward(600)  # where a kernel is asked, this is said after three seconds
    page.get_by_text("no answer yet: the kernel is busy").wait_for()


def test_a_long_press_of_stop_is_not_lost(page: Page):
    open_tab(page, "Code")
    page.evaluate("wait('0/code')")
    page.get_by_role("button", name="stop").hover()
    page.mouse.down()
    said = page.locator(".none").inner_text()
    page.wait_for_function("(said) => document.querySelector('.none').innerText !== said", arg=said)
    page.mouse.up()
    assert page.evaluate("sent") == ["ask 0/code", "stop 0/code"]


def test_an_answer_goes_where_it_was_asked_and_a_lost_one_is_asked_again(page: Page):
    page.clock.install()  # before anything is asked: it cannot end an interval that began without it
    open_tab(page, "Code")
    open_tab(page, "Steps")
    answer(page, "0/code", "code")
    expect(page.get_by_role("tabpanel")).not_to_contain_text("code")
    page.clock.fast_forward(3000)
    open_tab(page, "Run")
    open_tab(page, "Steps")
    assert page.evaluate("sent") == ["ask 0/code", "ask 0/steps", "ask 0/steps"]
    answer(page, "0/steps", "steps")
    answer(page, "0/steps", "steps twice")
    expect(page.get_by_role("tabpanel")).to_have_text("steps")


def test_a_new_slot_shows_the_progress_of_what_an_old_one_asked_for(page: Page):
    open_tab(page, "Code")
    for _ in range(2):
        answer(page, "0/code", write(Slot("c", load="0/code/long")))
        page.evaluate("wait('0/code/long')")
        page.get_by_role("button", name="stop").wait_for()
        open_tab(page, "Run")
        open_tab(page, "Code")
    assert page.evaluate("sent").count("ask 0/code/long") == 1


def test_the_focus_stays_in_what_an_answer_replaces(page: Page):
    ways = write(choices("Which", [("forward", "0/code/3f"), ("gradient", "0/code/3")], "launch"))
    open_tab(page, "Code")
    answer(page, "0/code", f'<div class="slot" data-slot="launch">{FIELD}{ways}</div>')
    page.get_by_label("Launch").fill("3")
    page.keyboard.press("Enter")
    answer(page, "0/code/3f", FIELD + ways)
    expect(page.get_by_label("Launch")).to_be_focused()
    expect(page.get_by_label("Launch")).to_have_value("")
    page.get_by_role("radio", name="forward").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("asking the kernel").wait_for()  # which replaces it for a while
    answer(page, "0/code/3", FIELD + ways)
    expect(page.get_by_role("radio", name="gradient")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    answer(page, "0/code/3f", "no such launch")
    expect(page.get_by_role("tabpanel")).to_be_focused()


def test_a_search_looks_into_what_came_after_it_was_opened(page: Page):
    open_tab(page, "Code")
    field = FIELD.replace('data-then="f"', "")
    answer(page, "0/code", field + write(Slot("launch", Lines([Line("old")], "text", "code"))))
    page.get_by_role("tab", name="Code").press("/")
    page.get_by_label("Launch").fill("1")
    page.keyboard.press("Enter")
    answer(page, "0/code/1", write(Lines([Line("new")], "text", "code")))
    page.get_by_role("searchbox").fill("new")
    expect(page.locator(".search [role=status]")).to_have_text("1 of 1")


def test_a_late_window_of_steps_does_not_take_back_a_move(page: Page):
    open_tab(page, "Steps")
    source = Lines([Line("x")], "python", "Source")
    answer(page, "0/steps", write(stepper("", source, [], json.dumps({**WINDOW, "first": 0}))))
    page.get_by_role("button", name="last step").click()
    page.get_by_role("button", name="next step").click()
    expect(page.locator(".now")).to_contain_text("step 2 of 3 and more")
    answer(page, "0/steps/1/0//last", window({**WINDOW, "first": 900, "cut": False}))
    page.wait_for_timeout(50)
    assert "step 2 of 3 and more" in page.locator(".now").inner_text()
    page.get_by_role("button", name="last step").click()
    page.get_by_role("button", name="where the reverse begins").click()  # what was asked last counts
    answer(page, "0/steps/1/0//last", window({**WINDOW, "first": 900, "cut": False}))
    answer(page, "0/steps/1/0//turn", window({**WINDOW, "first": 500, "found": 501}))
    expect(page.locator(".now")).to_contain_text("step 502 of 503 and more")


def test_choices_are_whole_in_a_narrow_window(page: Page):
    page.add_style_tag(content=pack.style())
    page.set_viewport_size({"width": 500, "height": 900})
    open_tab(page, "Code")
    tasks = [(f"{n} of 6: the loop at line {n}", "0/code/1") for n in range(6)]
    answer(page, "0/code", write(choices("Which", tasks, "t")))
    places = [x.bounding_box() for x in page.get_by_role("radio").all()]
    assert len(places) == 6
    assert all(x["height"] < 32 and x["x"] + x["width"] <= 500 for x in places), "each is one line, in the window"
