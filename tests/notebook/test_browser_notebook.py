"""The notebooks in JupyterLab: every cell runs, every pane opens, every stage of the code; by day in one theme."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from notebook.browser import PANES, Lab, lab  # after the skip: it imports playwright
from playwright.sync_api import Locator

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "browser"
NOTEBOOKS = ROOT / "notebooks"

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


@pytest.fixture(scope="module", params=[pytest.param("light"), pytest.param("dark", marks=pytest.mark.slow)])
def themed(request: pytest.FixtureRequest) -> Iterator[tuple[Lab, str]]:
    with lab(NOTEBOOKS, OUT, request.param == "dark", height=1300) as page:
        yield page, request.param


@pytest.fixture
def page(themed: tuple[Lab, str]) -> Iterator[Lab]:
    """The console says nothing, and nothing is asked of others."""
    page, _ = themed
    page.page.goto("about:blank")
    page.end_kernels()
    page.errors.clear()
    yield page
    assert page.outside == []
    assert page.errors == []


def test_the_third_lesson(page: Lab, themed: tuple[Lab, str]):
    theme = themed[1]
    page.open("03_loops_and_stacks.ipynb")
    page.run_all()
    inspectors = page.inspectors(6)
    assert len(inspectors) == 6
    for pane in PANES:
        panel = page.show(inspectors[1], pane)
        if pane == "Passes":
            panel.get_by_role("radio", name="gradient", exact=True).click()
            page.filled(inspectors[1])
        inspectors[1].screenshot(path=OUT / f"{theme}_{pane}.png")
        assert panel.inner_text().strip()
        assert "this pane failed" not in panel.inner_text()
    follow(page, inspectors[2], theme)


def follow(page: Lab, inspector: Locator, theme: str) -> None:
    """One iteration forwards and backwards, by buttons, the slider and the field for the iteration."""
    now, column = inspector.locator(".now"), inspector.locator(".stk")
    assert "backwards" in now.inner_text()  # it opens at the turn
    inspector.locator('[data-move="first"]').click()
    assert "step 1 of" in now.inner_text()
    assert "iteration 3: " in inspector.locator(".answer").first.inner_text()
    inspector.locator('[data-move="turn"]').click()
    assert "backwards" in now.inner_text()
    assert column.get_attribute("data-height") == "50"
    for _ in range(9):
        inspector.locator('[data-move="+"]').click()
    assert int(column.get_attribute("data-height") or 0) < 50
    inspector.screenshot(path=OUT / f"{theme}_follow.png")
    inspector.locator('input[type="range"]').press("End")
    assert "x.grad[3] +=" in inspector.locator(".mem").inner_text()
    assert column.get_attribute("data-height") == "0"
    field = inspector.locator(".lane")
    field.fill("99")
    field.press("Enter")
    inspector.get_by_text("there are 0 .. 15").wait_for()
    field.fill("7")
    field.press("Enter")
    inspector.get_by_text("iteration 7").wait_for()
    inspector.locator('[data-move="last"]').click()
    assert "x.grad[7] +=" in inspector.locator(".mem").inner_text()


STAGES = {"llvm": "cpu", "asm": "cpu", "ptx": "cuda", "msl": "metal", "spirv": "vulkan"}


@pytest.mark.needs("vulkan")
def test_the_code_of_every_backend(page: Lab, themed: tuple[Lab, str]):
    theme = themed[1]
    page.open("07_one_kernel_on_five_backends.ipynb")
    page.run_all()
    (inspector,) = page.inspectors()
    panel = page.show(inspector, "Linked")
    column = panel.locator(".col").nth(2)
    column.locator(".lines").wait_for()
    stages = column.get_by_label("Stage")
    offered = [x for x in stages.locator("option").all() if "gradient" in x.get_attribute("data-req")]
    for stage, backend in STAGES.items():
        option = next(x for x in offered if x.inner_text() == stage)
        stages.select_option(index=int(option.evaluate("x => x.index")))
        column.locator(f'.ms:text-matches("^{backend} ")').wait_for()
        assert column.locator(".lines .ln").count() > 20, stage
        assert "data-lines" not in column.inner_html()
        inspector.screenshot(path=OUT / f"{theme}_stage_{stage}.png")
    stages.select_option(index=int(offered[-1].evaluate("x => x.index")))
    column.locator("table").wait_for()
    assert set(STAGES.values()) <= set(column.locator("td:nth-child(2)").all_inner_texts())
    inspector.screenshot(path=OUT / f"{theme}_sizes.png")
    for pane in ("Run", "Stacks"):
        panel = page.show(inspector, pane)
        for name in ("cpu", "vulkan", "metal"):
            assert panel.locator("td", has_text=name).count(), (pane, name)
        inspector.screenshot(path=OUT / f"{theme}_backends_{pane}.png")
