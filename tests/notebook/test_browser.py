"""The inspector in JupyterLab, by day in one theme. On hand-made data: the keyboard alone, and what a saved notebook
shows. In lessons: every cell runs, every pane opens, every stage of the code."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("playwright")

from notebook.browser import PANES, Lab, lab  # after the skip: it imports playwright
from playwright.sync_api import Locator

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "browser"
THIRD, SEVENTH = "03_loops_and_stacks.ipynb", "07_one_kernel_on_five_backends.ipynb"
SAMPLE = f"""
import sys
import time
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, {str(ROOT / "tests")!r})
from notebook.sample import cell_view
from quadrants_lab.notebook.inspection import Inspection
from quadrants_lab.widgets.model import LaunchSteps, Line, NotReady, StepStatement, StepsView, StepTrace
view = cell_view()
(kernel,) = view.kernels
last = kernel.source[-1].span_line
kernel.source += [Line("    pass", n) for n in range(last + 1, last + 90)]
lines = range(last, last + 90)
statements = [StepStatement(f"%{{n}} = const {{n}}", n, "value", f"v{{n}}", -1, [], False) for n in lines]
trace = StepTrace("0", "0 .. 3", statements, [(k, str(n), "") for k, n in enumerate(lines)], [], False, back=True)
far = replace(trace, first=1000, found=1044)
known = []

def make():
    while not Path("go").exists():  # until the browser has seen that it waits
        time.sleep(0.05)
    known.append(far)

def follow(task, lane, where):
    if where and not known:
        raise NotReady("the steps of iteration 0", make)
    return known[0] if where else replace(trace, cut=True)

kernel.steps = StepsView([LaunchSteps(1, "gradient", ["parallel"], follow)])
Inspection(view).display(get_ipython())
"""

STATIC = {  # something of each pane of the copy
    "Source": "qd", "Passes": "reverse", "CFG": "<img", "Stacks": "operand of sin", "Stack sizes (SizeExpr)": "n[None]",
    "Steps": "%104", "Code": "sinf@PLT", "Run": "0.4301",
}  # fmt: skip

MISSING = "Error displaying widget: model not found"  # what JupyterLab says in the place of a widget

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]


@pytest.fixture(scope="module", params=[pytest.param("light"), pytest.param("dark", marks=pytest.mark.slow)])
def themed(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[tuple[Lab, str]]:
    """JupyterLab with a notebook of one inspector on hand-made data, and with lessons; the theme."""
    folder = tmp_path_factory.mktemp("nb")
    spec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    cells = [nbformat.v4.new_code_cell(SAMPLE), nbformat.v4.new_code_cell("1 + 1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec}), folder / "s.ipynb")
    for name in (THIRD, SEVENTH):
        shutil.copy(ROOT / "notebooks" / name, folder)
    with lab(folder, OUT, request.param == "dark", height=1300) as page:
        yield page, request.param


@pytest.fixture(scope="module")
def sample(themed: tuple[Lab, str]) -> Lab:
    """The notebook with hand-made data, opened and run."""
    page, _ = themed
    page.open("s.ipynb")
    page.run_all()
    return page


def _tab_until(page: Lab, wanted: str) -> None:
    for _ in range(40):
        if page.focused(f"x && !!x.closest('.qdi') && x.matches({wanted!r})"):
            return
        page.page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {wanted}")


def test_the_buttons_of_the_stepper_stay_where_they_are(sample: Lab):
    (inspector,) = sample.inspectors()
    panel = sample.show(inspector, "Steps")
    button = panel.locator('[data-move="last"]')
    def place(x: Locator) -> float:
        return x.bounding_box()["y"] - panel.bounding_box()["y"]
    before = place(button)
    panel.locator('[data-move="+"]').evaluate("(x) => { for (let n = 0; n < 89; n++) x.click(); }")
    assert "step 90 of 90 and more" in panel.locator(".now").inner_text()
    assert place(button) == before
    for x in (".ln.here", ".vals .fresh"):
        assert before < place(panel.locator(x)) < panel.bounding_box()["height"]


def test_a_far_step_is_asked_of_the_kernel(sample: Lab):
    """While the kernel looks for the step, the pane says so."""
    (inspector,) = sample.inspectors()
    panel = sample.show(inspector, "Steps")
    panel.locator('[data-move="turn"]').click()
    panel.get_by_text("making the steps of iteration 0").wait_for()
    (sample.work / "go").touch()
    panel.get_by_text("step 1,045 of 1,090").wait_for()
    panel.locator('[data-move="last"]').click()
    panel.get_by_text("step 1,090 of 1,090").wait_for()


def test_the_static_copy_is_hidden_while_the_widget_lives(sample: Lab):
    copy = sample.page.locator("[data-qd-static]")
    assert copy.count() == 1
    assert not copy.is_visible()


def test_the_keyboard_alone_suffices(sample: Lab):
    page, keys = sample.page, sample.page.keyboard
    (inspector,) = sample.inspectors()
    sample.show(inspector, "Linked")
    page.locator(".jp-CodeCell").first.click(position={"x": 5, "y": 5})
    keys.press("Escape")
    _tab_until(sample, "[role=tab]")
    keys.press("Home")
    panes = inspector.get_by_role("tab").all_inner_texts()
    assert {*PANES} <= {*panes}
    for pane in panes:
        assert sample.focused("x.textContent") == pane
        assert inspector.get_by_role("tab", selected=True).inner_text() == pane
        sample.filled(inspector)
        keys.press("ArrowRight")
    assert sample.focused("x.textContent") == panes[0]
    keys.press("End")
    assert sample.focused("x.textContent") == panes[-1]
    keys.press("Home")
    sample.filled(inspector)

    _tab_until(sample, ".lines")
    keys.press("Home")
    for _ in range(9):
        keys.press("ArrowDown")
    keys.press("Enter")
    assert inspector.locator(".col").first.locator(".ln.mark").get_attribute("data-span-line") == "10"

    keys.press("2")
    assert inspector.get_by_role("tab", selected=True).inner_text() == "Passes"
    panel = sample.filled(inspector)
    panel.locator(".mark").first.wait_for()
    _tab_until(sample, "[role=radio]")
    keys.press("ArrowLeft")  # it opens at the gradient
    assert panel.get_by_role("radio", name="forward").get_attribute("aria-checked") == "true"
    keys.press("ArrowRight")
    sample.filled(inspector)
    assert panel.get_by_role("radio", name="gradient").get_attribute("aria-checked") == "true"
    _tab_until(sample, ".ps")
    keys.press("ArrowDown")
    panel.locator('h4:text-is("determine ad stack size")').wait_for()


def test_bare_keys_do_not_reach_the_notebook(sample: Lab):
    (inspector,) = sample.inspectors()
    cells = sample.page.locator(".jp-CodeCell")
    before = cells.count()
    inspector.get_by_role("tab", name="Linked").focus()
    for key in ("a", "b", "d", "d", "x", "Enter"):
        sample.page.keyboard.press(key)
    sample.page.wait_for_timeout(200)
    assert cells.count() == before
    assert sample.focused("!!x.closest('.qdi')")


def test_tabs_and_panels_say_what_they_are(sample: Lab):
    (inspector,) = sample.inspectors()
    sample.show(inspector, "Stacks")
    tab = inspector.get_by_role("tab", selected=True)
    panel = inspector.get_by_role("tabpanel")
    assert tab.get_attribute("aria-controls") == panel.get_attribute("id")
    assert panel.get_attribute("aria-labelledby") == tab.get_attribute("id")
    assert [t.get_attribute("tabindex") for t in inspector.get_by_role("tab").all()].count("0") == 1


def test_nothing_leaves_the_machine_and_the_console_is_quiet(sample: Lab):
    assert sample.outside == []
    assert sample.errors == []


@pytest.fixture(scope="module")
def saved(sample: Lab) -> dict[str, bytes]:
    """The notebook as JupyterLab saves it, with and without the state of its widgets."""
    found = {}
    for state in ("without state", "with state"):  # what a notebook has of widgets, stays
        with sample.page.expect_response(lambda r: r.request.method == "PUT" and "/api/settings/" in r.url):
            sample.menu("Settings", "Save Widget State Automatically")
        for _ in range(240):  # the shell hears of a setting some time after the server
            sample.save()
            found[state] = (sample.work / "s.ipynb").read_bytes()
            if (b"widget-state+json" in found[state]) == (state == "with state"):
                break
            sample.page.wait_for_timeout(250)
    return found


def _restore(sample: Lab) -> None:
    """Waits for the inspector of a saved notebook. JupyterLab's widgets look for models in the notebook and in its new
    kernel at the same time. If the kernel's answer comes first, they say that there is none, and do not look again: the
    copy takes their place, and a reader opens the notebook once more."""
    found, missing = sample.page.locator(".qdi"), sample.page.get_by_text(MISSING)
    for _ in range(4):
        found.or_(missing).first.wait_for(state="attached")
        if found.count():
            return
        assert sample.page.locator("[data-qd-static]").is_visible()
        sample.open("s.ipynb")
    found.wait_for()


@pytest.mark.parametrize(
    ("state", "trusted"), [("with state", True), ("with state", False), ("without state", True)],
    ids=["trusted", "not trusted", "without state"],
)  # fmt: skip
def test_a_saved_notebook_is_complete_without_its_kernel(
    sample: Lab, saved: dict[str, bytes], state: str, trusted: bool
):
    assert len(saved[state]) < 120_000
    assert (b"widget-state+json" in saved[state]) == (state == "with state")
    (sample.work / "s.ipynb").write_bytes(saved[state])
    if not trusted:  # whatever is changed beside JupyterLab is not
        book = nbformat.read(sample.work / "s.ipynb", as_version=4)
        book.cells[0].outputs.append(nbformat.v4.new_output("display_data", {"text/html": "<b>not signed</b>"}))
        nbformat.write(book, sample.work / "s.ipynb")
    sample.end_kernels()
    sample.open("s.ipynb")  # with a kernel that knows nothing of it
    if state == "with state" and trusted:
        _restore(sample)
        (inspector,) = sample.inspectors()
        for pane in PANES:
            assert sample.show(inspector, pane).inner_text().strip()
        assert not sample.page.locator("[data-qd-static]").is_visible()
        assert "operand of sin" in sample.show(inspector, "Stacks").inner_text()
    else:
        copy = sample.page.locator(".jp-OutputArea-output", has=sample.page.locator("summary")).first
        copy.wait_for()
        assert not sample.page.locator(".qdi").count()
        for pane, holds in STATIC.items():
            fold = copy.locator("details", has=sample.page.locator(f'summary b:text-is("{pane}")')).first
            if fold.get_attribute("open") is None:
                fold.locator("summary").first.click()
            assert holds in fold.inner_html(), pane
        if trusted:  # the copy hides the sentence
            said = sample.page.get_by_text(MISSING)
            said.wait_for(state="attached")
            assert not said.is_visible()
    sample.page.screenshot(path=OUT / f"saved_{state.replace(' ', '_')}_{trusted}.png")
    sample.errors.clear()  # a model that is not there


# --- lessons ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def page(themed: tuple[Lab, str]) -> Iterator[Lab]:
    """A page; at its end, the console must be empty and no other host was asked."""
    page, _ = themed
    page.page.goto("about:blank")
    page.end_kernels()
    page.errors.clear()
    yield page
    assert page.outside == []
    assert page.errors == []


def test_the_third_lesson(page: Lab, themed: tuple[Lab, str]):
    theme = themed[1]
    page.open(THIRD)
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
    page.open(SEVENTH)
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
