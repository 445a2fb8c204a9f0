"""What somebody sees who opens the inspector for the first time: where panes begin, how large letters are, and what
columns and the window do."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from notebook.browser import offline  # after the skip: it imports playwright
from notebook.sample import cell_view
from notebook.test_page import browser, page, show, view  # noqa: F401
from playwright.sync_api import Page

import quadrants_lab as qd
from quadrants_lab.notebook.collect import cell_view as collected
from quadrants_lab.notebook.compare import compare
from quadrants_lab.notebook.saved import export
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets.model import Line

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


def test_linked_opens_at_the_kernel_with_listings_side_by_side(browser, tmp_path: Path):
    made = cell_view()
    (kernel,) = made.kernels
    above = [Line(f"u{n} = {n}", n) for n in range(1, 201)]
    kernel.source = [*above, *(replace(x, span_line=x.span_line + 200) for x in kernel.source)]
    kernel.source += [Line("pass", n) for n in range(216, 300)]
    page, _ = offline(browser[0].context.browser)
    page.goto(f"file://{export(made, tmp_path / 'k.html')}")
    columns = show(page, "Linked").locator(".col")
    assert columns.nth(0).locator('.ln[data-span-line="205"]').is_visible()  # def k()
    assert "5 lines: 5 buffers" in columns.nth(1).locator(".folded").first.inner_text()
    tops = [x.bounding_box()["y"] for x in columns.locator(".lines").all()]
    assert len(tops) == 3
    assert len(set(tops)) == 1
    fold = columns.nth(1).locator(".folded").first
    fold.click()
    assert columns.nth(1).locator(".ln", has_text="buffer @x.grad").is_visible()
    page.close()


def test_columns_are_resized_with_the_mouse_and_with_keys(page: Page):
    panel = show(page, "Linked")
    grip, columns = panel.locator(".grip").first, panel.locator(".col")
    def widths() -> list[float]:
        return [x.bounding_box()["width"] for x in columns.all()]
    before, box = widths(), grip.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 104, box["y"] + 50, steps=4)
    page.mouse.up()
    dragged = widths()
    assert [round(b - a, -1) for a, b in zip(before, dragged, strict=True)] == [100, -100, 0]
    grip.press("ArrowLeft")
    assert widths()[0] < dragged[0] - 20
    page.get_by_role("button", name="Source", exact=True).click()
    assert [x.is_visible() for x in panel.locator(".grip").all()] == [False, True]


def test_a_pane_fills_the_window_until_escape(page: Page):
    show(page, "CFG")
    inspector = page.locator(".qdi")
    before = inspector.bounding_box()
    page.get_by_role("tab", name="CFG").press("w")
    size = page.viewport_size
    assert inspector.bounding_box() == {"x": 0, "y": 0, **size}
    page.keyboard.press("Escape")
    assert inspector.bounding_box() == before
    page.get_by_role("button", name="Full window").click()
    assert inspector.bounding_box()["width"] == size["width"]
    page.get_by_role("button", name="Full window").click()
    assert inspector.bounding_box() == before


LETTERS = """(panel) => [...panel.querySelectorAll("*")].flatMap((x) => {
  const own = [...x.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const shown = own && x.getClientRects().length && !["OPTION", "STYLE", "TITLE"].includes(x.tagName.toUpperCase());
  const least = x.closest("svg") ? 11 : 12, scale = x.closest("svg") ? (x.getScreenCTM?.()?.a ?? 1) : 1;
  const size = parseFloat(getComputedStyle(x).fontSize) * scale;
  return shown && size < least - 0.1 ? [`${size}: ${x.textContent.slice(0, 40)}`] : [];
})"""


def test_no_letters_are_too_small_and_each_pane_begins_with_what_it_says(page: Page):
    for pane in ("Linked", "Passes", "CFG", "Stacks", "Stack sizes (SizeExpr)", "Run", "Tape", "History", "Backends"):
        panel = show(page, pane)
        assert panel.evaluate(LETTERS) == [], pane
        assert panel.locator("xpath=descendant::*[self::p or self::h4][1]").get_attribute("class") == "answer", pane
    graph = show(page, "CFG").locator(".graph").first
    graph.get_by_role("button", name="smaller").click()
    graph.get_by_role("button", name="smaller").click()
    graph.locator(".tt", has_text="entry").wait_for()  # titles alone
    assert graph.locator(".ln").count() == 0
    assert page.get_by_role("tabpanel").evaluate(LETTERS) == []


def test_a_badge_covers_no_code(page: Page):
    line = show(page, "Linked").locator('.col:first-child .ln[data-span-line="9"]')
    for name, said in (("IR", "50"), ("Code", "v 50")):  # the column is narrow, then wide
        assert line.locator(".badge.push").inner_text() == said
        badge, text = (line.locator(x).bounding_box() for x in (".badge", ".tx"))
        assert badge["x"] + badge["width"] <= text["x"]
        page.get_by_role("button", name=name, exact=True).click()


@pytest.mark.needs("vulkan")
def test_cpu_and_vulkan_stand_side_by_side_by_keyboard_alone(browser, tmp_path):
    """A kernel that ran on both: values, times and code."""
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, 16, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def wave(n: int):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v)
            y[None] += v

    with recording() as recorder:
        wave(5)
        y.grad[None] = 1
        wave.grad(5)
    seen = collected("cell", recorder, compare(recorder.records(), ("cpu", "vulkan")))
    file = export(seen, tmp_path / "k.html")
    qd.reset()
    page, _ = offline(browser[0].context.browser)
    page.goto(f"file://{file}")
    page.get_by_role("tab", selected=True).press("End")
    panel = page.get_by_role("tabpanel")
    panel.get_by_text("cpu beside vulkan: forward").wait_for()
    for _ in range(4):
        page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.selectedOptions[0].textContent") == "vulkan"
    rows = {x.locator("td").first.inner_text(): x.inner_text() for x in panel.locator("tbody tr").all()}
    assert "times as long" in rows["launch, forward"] + rows["launch, gradient"]
    assert {"code", "y, forward", "x.grad, gradient", "stack heap"} <= {*rows}
    page.keyboard.press("ArrowDown")
    panel.get_by_text("cpu beside amdgpu").wait_for()  # of which there is code alone
    page.keyboard.press("ArrowUp")
    panel.get_by_text("cpu beside vulkan: forward").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert panel.get_by_role("radio", name="code of gradient", checked=True).count()
    panel.locator(".came", has_text="OpEntryPoint").first.wait_for()
    assert panel.locator(".gone").count()
    page.close()
