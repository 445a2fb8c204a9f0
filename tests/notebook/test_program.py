"""The Tape pane in a browser: the timeline by keys and mouse, the graph of the program, and their files."""

import json
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from ad.test_tape_shown import validate
from notebook.sample import tape
from notebook.test_graphs import is_dot
from notebook.test_page import browser, page, show, view  # noqa: F401
from playwright.sync_api import Locator, Page, expect

from quadrants_lab.runtime.tape.timeline import COMPILE, Ran
from quadrants_lab.widgets.program import program, seconds_of
from quadrants_lab.widgets.timeline import MOST_BARS, SHORT, timeline_view

MOVED = "(old) => document.querySelector('.time text[text-anchor]').textContent !== old"
pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


def opened(page: Page) -> tuple[Locator, Locator]:
    """The drawing of the timeline, which has the focus, and what it says."""
    drawing = show(page, "Tape").locator(".time svg")
    drawing.locator("path[fill]").first.wait_for()
    drawing.focus()
    return drawing, page.locator(".time .now")


def ticks(drawing: Locator) -> list[str]:
    return drawing.locator("text[text-anchor]").all_text_contents()  # at one moment: a frame may draw others


def test_the_timeline_is_walked_by_keys(page: Page):
    drawing, now = opened(page)
    for key, says in (
        ("ArrowRight", "forward 1: step"), ("ArrowRight", "forward 2: damp"), ("End", "forward 13: total"),
        ("Enter", "gradient 14: total"), ("ArrowRight", "gradient 15: damp"), ("Home", "gradient 14: total"),
        ("ArrowRight", "gradient 15"), ("ArrowUp", "forward 13: total"), ("ArrowDown", "gradient 14"),
        ("ArrowRight", "gradient 15: damp"), ("Enter", "forward 12: damp"),
    ):  # fmt: skip
        drawing.press(key)
        assert now.inner_text().startswith(says), key
    assert now.inner_text() == "forward 12: damp, 10 µs at 132 µs, 384 B kept; Enter goes to its gradient"
    assert drawing.locator(".at").count() == 1


def test_the_timeline_zooms_and_moves(page: Page):
    drawing, _ = opened(page)
    whole = ticks(drawing)
    assert whole[0] == "0"
    assert drawing.locator("text.in").count() == 0  # bars are narrower than their names
    for _ in range(6):
        drawing.press("+")
    drawing.locator("text.in").first.wait_for()
    large = ticks(drawing)
    assert set(large) != set(whole)
    drawing.press("Shift+ArrowLeft")
    page.wait_for_function(MOVED, arg=large[0])
    box = drawing.bounding_box()
    before = ticks(drawing)
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_function(MOVED, arg=before[0])
    page.get_by_role("toolbar", name="Timeline").get_by_role("button", name="all of it").click()
    page.wait_for_function("() => document.querySelector('.time text[text-anchor]').textContent === '0'")
    expect(drawing.locator("text[text-anchor]")).to_have_text(whole)
    page.mouse.move(box["x"] + 100, box["y"] + 12)
    page.locator(".time .now", has_text="forward 1: step").wait_for()


def test_the_program_and_its_trace_are_saved(page: Page, tmp_path: Path):
    panel = show(page, "Tape")
    for name, file in (("JSON", "t.json"), ("DOT", "t.gv"), ("SVG", "t.svg")):
        with page.expect_download() as made:
            panel.get_by_role("button").get_by_text(name, exact=True).click()
        made.value.save_as(tmp_path / file)
    validate(json.loads((tmp_path / "t.json").read_text()))
    texts = [(tmp_path / name).read_text() for name in ("t.gv", "t.svg")]
    assert is_dot(texts[0])
    for text in texts:
        for part in ("step × 6", "6 times", "kept 384 B", "total"):
            assert part in text
    with page.expect_download() as made:
        show(page, "CFG").get_by_role("button", name="save as DOT").first.click()
    made.value.save_as(tmp_path / "cfg.gv")
    assert is_dot((tmp_path / "cfg.gv").read_text())


def test_a_launch_of_the_graph_is_tied_to_its_kernel(page: Page):
    graph = show(page, "Tape").locator(".graph:not(.time) svg")
    graph.locator("[data-node]", has_text="damp × 6").locator(".ln").first.click()
    assert page.locator(".say").inner_text().startswith("line 5")


def test_elements_of_an_array_are_chosen_and_its_slices_slid(page: Page):
    panel = show(page, "Run")
    row = panel.locator("tr", has=page.locator("code").get_by_text("u", exact=True))
    cells = row.locator(".cells")
    cells.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"):
        cells.press(key)
    assert cells.locator(".now").inner_text() == "u[2, 0, 1] = -0.158623"
    cells.locator("img").first.click(position={"x": 3 * 16 + 5, "y": 2 * 16 + 5})
    assert cells.locator(".now").inner_text() == "u[2, 2, 3] = 0.670229"
    slider = row.get_by_role("slider", name="slice of u")
    slider.press("ArrowLeft")
    panel.locator("tr", has_text="u[1, :, :]").locator(".cells").wait_for()
    assert slider.evaluate("x => x === document.activeElement")


def test_each_step_has_its_time_and_pauses_are_cut():
    report = tape()
    assert {k: [round(1e6 * t) for t in times] for k, times in seconds_of(report).items()} == {
        k: [10, 10, 0] for k in range(13)
    }
    shown = timeline_view(report)
    (cut,) = shown.cuts
    assert cut[1] == pytest.approx(1, rel=1e-4)
    assert max(end for _, _, end, *_ in shown.bars) == pytest.approx(26 * 1.2e-5, rel=0.05)
    assert [bar[-1] for bar in shown.bars] == [-1] * 13 + list(reversed(range(13)))


def test_a_compile_is_a_bar_of_its_own_and_as_short_as_a_pause():
    report = tape()
    report.ran.append(Ran(report.ran[0].kernel, COMPILE, -2.0, -1.0, 0, None, ""))
    shown = timeline_view(report)
    launches, compiled = shown.bars[:-1], shown.bars[-1]
    assert [bar[-1] for bar in launches] == [-1] * 13 + list(reversed(range(13)))  # they keep their numbers
    assert shown.tracks == ["forward", "gradient", "compile"]
    assert (shown.tracks[compiled[0]], shown.names[compiled[3]]) == ("compile", report.ran[0].kernel)
    assert compiled[2] - compiled[1] + shown.cuts[0][1] == pytest.approx(1)
    assert compiled[2] - compiled[1] == pytest.approx(SHORT * 26 * 1e-5, rel=1e-3)


def test_a_long_program_has_as_many_bars_as_a_browser_can_draw():
    shown = timeline_view(tape(MOST_BARS))
    assert MOST_BARS / 3 < len(shown.bars) <= MOST_BARS + 2
    assert len(program(tape(MOST_BARS)).nodes) == 6
