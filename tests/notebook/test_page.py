"""The inspector as a page in a browser, on hand-made data: one browser, no server; colours in both themes."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest

pytest.importorskip("playwright")

from nbconvert.nbconvertapp import NbConvertApp
from notebook.browser import chromium, offline  # after the skip: it imports playwright
from notebook.sample import Live, cell_view
from notebook.test_listings import loops
from playwright.sync_api import Locator, Page

from quadrants_lab.adstack.evaluate_sizes import evaluate
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.notebook.collect import EDITS, remember_edit
from quadrants_lab.notebook.saved import export
from quadrants_lab.widgets.model import Line, TaskGraphs
from quadrants_lab.widgets.static import static_html

ROOT = Path(__file__).resolve().parents[2]
WIDGETS = ROOT / "widgets"
pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
DARK = 'document.getElementById("theme").click()'


@pytest.fixture(scope="module")
def view():
    """The sample, with a second task whose graph has 2,000 boxes, as the second run of an edited cell."""
    EDITS.clear()
    made = cell_view()
    remember_edit(made, "")
    made.kernels[0].source = [replace(x, text=x.text.replace("0.1", "0.2")) for x in made.kernels[0].source]
    made.kernels[0].launches = [replace(x, warm=2 * x.warm) for x in made.kernels[0].launches]
    remember_edit(made, "")
    made.kernels[0].edits[-1].stacks = 100
    made.kernels[0].graphs.append(TaskGraphs("big", loops(3, 170)))
    return made


@pytest.fixture(scope="module")
def browser(view, tmp_path_factory):
    """The page with one inspector; what it says to the console and asks of the network."""
    file = export(view, tmp_path_factory.mktemp("page") / "k.html")
    with chromium() as made:
        shown, said = offline(made)
        shown.goto(f"file://{file}")
        shown.locator(".qdi").wait_for()
        yield shown, said


@pytest.fixture
def page(browser):
    """The page, with nothing marked, the first pane open; afterwards nothing was said or asked for."""
    shown, said = browser
    shown.reload()
    shown.locator(".qdi").wait_for()
    yield shown
    assert said == []


def show(page: Page, pane: str) -> Locator:
    page.get_by_role("tab", name=pane, exact=True).click()
    panel = page.get_by_role("tabpanel")
    panel.locator("xpath=self::*[not(@aria-busy)]").wait_for()
    page.wait_for_function("() => !document.querySelector('.qdi [aria-busy]')")
    return panel


def test_a_line_marks_its_kin_in_source_ir_and_code(page: Page):
    panel = show(page, "Linked")
    columns = panel.locator(".col")
    sine = columns.nth(1).locator('.ln[data-stmt="9"]')
    sine.click()
    assert "mark" in sine.get_attribute("class").split()
    assert columns.nth(0).locator(".ln.mark").get_attribute("data-span-line") == "10"
    twins = columns.nth(1).locator(".ln.twin")
    assert twins.count() >= 1
    assert {x.get_attribute("data-span-line") for x in twins.all()} == {"10"}
    assert columns.nth(2).locator(".ln.mark, .ln.twin").count() >= 1
    graph = show(page, "CFG").locator("svg").first
    graph.locator('.mark[data-stmt="9"]').wait_for()  # it is drawn in the next frame
    assert graph.locator('.mark[data-stmt="9"]').count() == 1
    panel = show(page, "Linked")
    panel.locator(".col").nth(0).locator('.ln[data-span-line="10"]').click()
    assert panel.locator(".col").nth(1).locator(".ln.mark").count() >= 2
    panel.locator(".col").nth(0).locator('.ln[data-span-line="10"]').click()  # again: taken back
    page.mouse.move(5, 5)
    page.wait_for_function("() => !document.querySelector('.lines .mark, .lines .twin')")


def test_a_click_is_kept_when_its_listing_scrolls_under_it(page: Page):
    column = show(page, "Linked").locator(".col").nth(1)
    sine = column.locator('.ln[data-stmt="9"]')
    sine.hover()
    page.mouse.down()
    column.locator(".scroller").evaluate("""async (x) => { for (const by of [90, -180, 90]) {
             x.scrollTop += by;
             await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); } }""")
    sine.hover()
    page.mouse.up()
    assert page.locator(".say").inner_text().startswith("line 10: ")  # the pointer alone says nothing


def test_a_click_on_a_graph_is_kept_when_its_size_changes(page: Page):
    graph = show(page, "CFG").locator("svg").first
    name = graph.locator("[data-fold]").first
    boxes = graph.locator("[data-node]").count()
    name.hover()
    page.mouse.down()
    graph.evaluate("(x) => { x.style.width = `${x.clientWidth - 9}px`; }")
    page.wait_for_timeout(100)  # it is drawn again
    page.mouse.up()
    graph.locator("text", has_text="▸").first.wait_for()
    assert graph.locator("[data-node]").count() < boxes


def test_pointing_marks_without_a_click(page: Page):
    panel = show(page, "Linked")
    panel.locator(".col").nth(0).locator('.ln[data-span-line="11"]').hover()
    panel.locator(".col").nth(1).locator('.ln.mark[data-span-line="11"]').first.wait_for()
    page.mouse.move(5, 5)
    page.wait_for_function("() => !document.querySelector('.lines .mark')")


def test_every_pane_is_searched(page: Page):
    for pane, text in (("Linked", "sin"), ("Passes", "reverse"), ("CFG", "after loop"), ("Stacks", "operand of sin"),
                       ("Stack sizes (SizeExpr)", "n[none]"), ("Run", "0.4301")):  # fmt: skip
        panel = show(page, pane)
        page.get_by_role("tab", name=pane, exact=True).focus()
        page.keyboard.press("/")
        page.keyboard.type(text)
        told = page.locator(".search [role=status]")
        assert told.inner_text().startswith("1 of"), pane
        page.keyboard.press("Enter")
        assert panel.locator(".hit").count() >= 1, pane
        page.keyboard.press("Escape")
        assert page.locator(".search").count() == 0


def test_a_diff_marks_words_and_opens_folds(page: Page):
    panel = show(page, "Passes")
    panel.get_by_role("radio", name="gradient", exact=True).click()
    panel.locator(".ps", has_text="determine ad stack size").click()
    panel.locator("h4", has_text="determine ad stack size").wait_for()
    panel.locator(".came mark").first.wait_for()
    assert "max" in "".join(panel.locator(".came mark").all_inner_texts())
    fold = panel.locator(".folded").first
    before = panel.locator(".lines").get_attribute("style")
    fold.click()
    assert panel.locator(".lines").get_attribute("style") != before
    assert panel.locator(".folded").count() >= 1
    panel.locator(".lines").focus()
    page.keyboard.press("/")
    page.keyboard.type("atomic")  # in what is folded
    assert page.locator(".search [role=status]").inner_text().startswith("1 of")
    page.keyboard.press("Escape")


def test_a_graph_folds_zooms_and_is_saved(page: Page):
    panel = show(page, "CFG")
    graph = panel.locator(".graph").first
    graph.locator("[data-node]").first.wait_for()
    boxes = graph.locator("[data-node]").count()
    graph.locator("[data-fold]").first.click()
    assert graph.locator("[data-node]").count() < boxes
    graph.locator("[data-fold]").first.click()
    assert graph.locator("[data-node]").count() == boxes
    svg = graph.locator("svg")
    svg.focus()
    world = svg.locator("> g")
    before = world.get_attribute("transform")
    page.keyboard.press("+")
    assert world.get_attribute("transform") != before
    page.keyboard.press("ArrowDown")
    assert svg.get_attribute("aria-activedescendant")
    for kind in ("SVG", "PNG"):
        with page.expect_download() as saved:
            graph.get_by_role("button", name=f"save as {kind}").click()
        content = Path(saved.value.path()).read_bytes()
        if kind == "SVG":
            root = ElementTree.fromstring(content)
            assert "after loop" in "".join(root.itertext())
        else:
            assert content.startswith(b"\x89PNG")


def test_of_two_thousand_boxes_those_in_view_are_drawn(page: Page, view):
    graph = show(page, "CFG").locator(".graph").nth(1)
    graph.scroll_into_view_if_needed()
    graph.locator("[data-node]").first.wait_for()
    assert len(view.kernels[0].graphs[1].cfg.nodes) > 2000
    assert graph.locator("*").count() < 1500
    graph.get_by_role("button", name="all of it").click()
    assert graph.locator("*").count() < 1500


def test_what_if(page: Page, view):
    panel = show(page, "Stack sizes (SizeExpr)")
    (kernel,) = view.kernels
    sized = kernel.traces["gradient"][-1].after
    slider = panel.locator('input[data-leaf="n"]')
    for n in (80, 7):
        slider.fill(str(n))

        class Other(Live):
            def array(self, buffer: str, n: int = n):
                return np.array(n)

        depth = evaluate(stack_allocas(sized)[0].size, Other())
        assert f"depth {depth}, {4 * depth} B per thread" in panel.locator(".depth").first.inner_text()
        assert f"= {n}" in panel.locator(".leaf .val").first.inner_text()
    assert "the launch: 200 B" in panel.locator(".total").inner_text()
    panel.get_by_role("button", name="as in the launch").click()
    assert panel.locator(".total").inner_text().startswith("200 B per thread")


def test_a_launch_that_was_not_recorded_shows_its_depth(browser, tmp_path: Path):
    """An exported kernel's: what its leaves were is not known, so there was "?" for every depth."""
    made = cell_view()
    for stack in made.kernels[0].stacks:
        stack.size = valueless(stack.size)
    page, _ = offline(browser[0].context.browser)
    page.goto(f"file://{export(made, tmp_path / 'k.html')}")
    panel = show(page, "Stack sizes (SizeExpr)")
    assert panel.locator("input").count() == 0
    assert panel.locator(".total").inner_text().startswith("200 B per thread")
    assert "depth 50, 200 B per thread" in panel.locator(".depth").first.inner_text()
    assert [x.inner_text() for x in panel.locator(".bars > div:visible").all()] == ["in the launch\n50"]
    assert panel.get_by_role("button", name="watch iterations").count() == 0
    page.close()


def valueless(size):
    return size and replace(size, value=None, children=[valueless(x) for x in size.children])


@pytest.mark.parametrize("width", [700, 850, 1300])
def test_the_keys_stay_beside_the_first_tab(page: Page, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    try:
        keys, tab = (page.get_by_role(role, name=name, exact=True).bounding_box()
                     for role, name in (("button", "Keys"), ("tab", "Linked")))
        assert keys
        assert tab
        assert tab["y"] <= keys["y"] < tab["y"] + tab["height"] / 2
        assert page.get_by_role("tab").last.bounding_box()["x"] < keys["x"]
    finally:
        page.set_viewport_size({"width": 1300, "height": 900})


CONTRAST = """() => {
  const parse = (c) => { const v = c.match(/[\\d.e-]+/g).map(Number), k = c.startsWith("color(") ? 255 : 1;
    return [v[0] * k, v[1] * k, v[2] * k, v[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map((k) => a[k] * a[3] + b[k] * (1 - a[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((s, c, k) => s + c * [.2126, .7152, .0722][k], 0);
  const bad = [];
  for (const x of document.querySelectorAll(".qdi *")) {
    const own = [...x.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || x.closest("svg") || !x.getClientRects().length || x.tagName === "OPTION") continue;
    const layers = [];
    for (let y = x; y; y = y.parentElement) layers.push(parse(getComputedStyle(y).backgroundColor));
    const back = layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
    const fore = over(parse(getComputedStyle(x).color), back);
    const [a, b] = [light(fore), light(back)].sort((p, q) => q - p);
    const ratio = (a + .05) / (b + .05);
    const least = /[\\p{L}\\p{N}]/u.test(x.textContent) ? 4.5 : 3; // a square of a legend is no text
    if (ratio < least) bad.push(`${ratio.toFixed(2)} ${x.className || x.tagName}: ${x.textContent.slice(0, 30)}`);
  }
  return bad;
}"""
ROLES = """() => [...document.querySelectorAll(".qdi [role=listbox]")].flatMap((box) =>
  [...box.querySelectorAll("*")].filter((x) => !x.closest("[role=option]") &&
    x.getAttribute("role") !== "presentation" && !["path", "rect", "text", "g", "I"].includes(x.tagName))
    .map((x) => x.outerHTML.slice(0, 80)))"""
NAMES = """() => [...document.querySelectorAll(
  ".qdi button, .qdi select, .qdi input, .qdi img, .qdi [role=listbox], .qdi [role=group]")]
  .filter((x) => !(x.getAttribute("aria-label") || x.alt || x.textContent.trim() || x.labels?.[0]?.textContent.trim()))
  .map((x) => x.outerHTML.slice(0, 80))"""


def test_text_is_readable_controls_have_names_and_listboxes_hold_options(page: Page):
    for _ in ("light", "dark"):
        for pane in ("Linked", "Passes", "CFG", "Stacks", "Stack sizes (SizeExpr)", "Run", "Tape", "History",
                     "Backends", "Beside"):
            panel = show(page, pane)
            if pane == "Linked":
                panel.locator(".col").nth(0).locator('.ln[data-span-line="10"]').click()
            for script in (CONTRAST, ROLES, NAMES):
                assert page.evaluate(script) == [], pane
        page.evaluate(DARK)


def test_an_edit_is_shown(page: Page):
    panel = show(page, "History")
    assert [x.inner_text() for x in panel.locator("tbody tr td:first-child").all()] == ["1", "2"]
    assert panel.locator("figure").count() >= 3
    assert [x.inner_text() for x in panel.locator("mark").all()] == ["0.1", "0.2"]
    panel.get_by_role("button", name="what run 1 changed").click()
    panel.get_by_text("nothing was edited before it").wait_for()


def test_two_edits_and_two_backends_stand_side_by_side_by_keyboard_alone(page: Page):
    page.get_by_role("tab", selected=True).press("End")
    page.wait_for_function("() => !document.querySelector('.qdi [aria-busy]')")
    panel = page.get_by_role("tabpanel")
    assert page.get_by_role("tab", selected=True).inner_text() == "Beside"
    pick = panel.get_by_label("beside", exact=True)
    for _ in range(4):  # two buttons of the inspector, and the panel, are before it
        page.keyboard.press("Tab")
    assert pick.evaluate("x => x === document.activeElement")
    assert pick.evaluate("x => x.selectedOptions[0].textContent") == "the last edit"
    panel.get_by_text("the last edit beside this edit").wait_for()
    panel.locator(".lines mark").first.wait_for()
    assert [x.inner_text() for x in panel.locator(".lines mark").all()] == ["0.1", "0.2"]
    page.keyboard.press("ArrowDown")
    panel.get_by_text("cpu beside metal").wait_for()
    assert "16.7 times as long" in panel.locator("table").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # from the code of forward to that of the gradient
    page.keyboard.press("ArrowLeft")
    panel.locator(".came", has_text="precise::sin").first.wait_for()
    assert panel.locator(".gone", has_text="sinf@PLT").count()


def test_a_page_compares_any_two_passes(page: Page):
    panel = show(page, "Passes")
    panel.get_by_role("radio", name="gradient", exact=True).click()
    panel.locator(".ps", has_text="determine ad stack size").click()
    panel.locator(".lines mark").first.wait_for()
    menu = panel.get_by_label("compared with")
    menu.select_option(index=1)  # of the forward kernel what the first pass left
    panel.locator(".came", has_text="adstack_push").first.wait_for()
    assert not panel.locator(".gone", has_text="adstack_push").count()
    menu.select_option(index=0)
    panel.locator(".lines mark").first.wait_for()


def test_the_matrix_has_a_row_a_backend(page: Page):
    panel = show(page, "Backends")
    results, devices = (
        {row.locator("td").first.inner_text(): row.inner_text() for row in rows.locator("tbody tr").all()}
        for rows in panel.locator("table").all()
    )
    assert "3e-08 in y" in results["metal"]
    assert "did not run" in results["vulkan"]
    assert "no device: this is a test" in devices["vulkan"]
    assert panel.locator(".bars i").count() >= 2


def test_a_narrow_notebook_hides_nothing_and_keeps_what_is_selected(browser, tmp_path: Path):
    made = cell_view()
    (kernel,) = made.kernels
    kernel.source += [Line("    pass", n) for n in range(len(kernel.source) + 1, 300)]
    (stack,) = kernel.stacks
    kernel.stacks.append(replace(stack, name="u"))
    kernel.traces["gradient"][0].doc = "Each task has its adjoint (`reverse`)."
    kernel.devices = lambda: [("vulkan", "The driver is a long way from here, " * 9)]
    # as wide as a cell of JupyterLab in a window of 1280
    page, _ = offline(browser[0].context.browser, 880)
    page.set_default_timeout(60_000)
    page.goto(f"file://{export(made, tmp_path / 'k.html')}")
    column = show(page, "Linked").locator(".col")

    badge = column.nth(0).locator('.ln[data-span-line="9"] .badge.push')
    assert badge.inner_text() == "2"  # two badges lay on each other
    assert [x.split(":")[0] for x in badge.get_attribute("title").splitlines()] == ["v", "u", "w"]

    assert [x.inner_text() for x in column.locator("[data-group]").all()] == ["gradient", "gradient"]
    for header in column.locator("header:has(select)").all():
        parts = [x.bounding_box() for x in header.locator("select, [data-group]").all()]
        assert parts[1]["x"] >= parts[0]["x"] + parts[0]["width"], "the word stands below the menu"
    column.nth(2).get_by_label("Stage").select_option(index=0)
    column.nth(2).locator("[data-group]").get_by_text("forward").wait_for()

    select = "(x) => { getSelection().selectAllChildren(x); return String(getSelection()); }"
    chosen = column.nth(0).locator('.ln[data-span-line="5"] .tx').evaluate(select)
    assert "def k()" in chosen
    column.nth(0).locator(".scroller").evaluate("(x) => { x.scrollTop = x.scrollHeight; }")
    column.nth(0).locator('.ln[data-span-line="299"]').wait_for()
    assert page.evaluate("String(getSelection())") == chosen
    page.evaluate("getSelection().removeAllRanges()")

    scroller = column.nth(0).locator(".scroller")
    x, y, width, height = scroller.bounding_box().values()
    edge = {"x": x + width - 6, "y": y + 40, "width": 4, "height": height - 80}
    cut = page.screenshot(clip=edge)  # a shadow says that lines go on
    assert scroller.evaluate("(x) => { x.scrollLeft = x.scrollWidth; return x.scrollLeft; }")
    assert page.screenshot(clip=edge) != cut

    panel = show(page, "Passes")
    panel.get_by_role("radio", name="gradient", exact=True).click()
    assert panel.locator("p code").get_by_text("reverse").inner_text() == "reverse"
    assert "`" not in panel.locator(".slot p").first.inner_text()

    panel = show(page, "CFG")
    buttons, drawing = (panel.locator(x).first.bounding_box() for x in (".graph .tools", ".graph svg"))
    assert drawing["y"] >= buttons["y"] + buttons["height"] - 1, "the buttons lie on the graph"

    panel = show(page, "Backends")
    assert panel.evaluate("x => x.scrollWidth <= x.clientWidth")
    page.close()


@pytest.mark.parametrize("width", [420, 640])
def test_a_wide_table_is_a_list_in_a_narrow_window(page: Page, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    try:
        for pane in ("Passes", "Stacks", "Run", "Tape", "History", "Backends"):
            panel = show(page, pane)
            assert panel.evaluate("x => x.scrollWidth <= x.clientWidth"), pane
        cells = show(page, "History").locator("tbody tr").first.locator("td")
        if width < 600:
            titles = [x.get_attribute("data-title") for x in (cells.first, cells.last)]
            assert titles == ["run", "gradient off by"]
    finally:
        page.set_viewport_size({"width": 1300, "height": 900})
    page.wait_for_function("() => !document.querySelector('.qdi .stacked')")


def test_keys(page: Page):
    show(page, "Run")
    page.get_by_role("tab", name="Run").focus()
    page.keyboard.press("2")
    assert page.get_by_role("tab", selected=True).inner_text() == "Passes"
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    assert keys.is_visible()
    assert "search" in keys.inner_text()
    page.keyboard.press("Escape")
    assert keys.count() == 0
    assert page.get_by_role("tab", name="Passes").evaluate("x => x === document.activeElement")
    page.keyboard.press("1")
    listing = page.get_by_role("listbox", name="Source of k")
    listing.focus()
    page.keyboard.press("Home")
    for _ in range(10):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "line 11:" in page.locator(".say").inner_text()


def test_an_inspector_in_a_shadow_root_has_its_style_and_takes_keys(page: Page):
    """marimo puts each widget into a shadow root."""
    page.evaluate("""async () => {
        const host = document.createElement("div"), el = document.createElement("main");
        document.body.append(host);
        host.attachShadow({ mode: "open" }).append(el);
        const data = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
        const here = [...document.scripts].find((x) => x.textContent.includes("async function unpack")).textContent;
        const unpack = new Function(`${here.slice(0, here.indexOf("const body"))}; return unpack`)();
        const { mount, shape, answers } = await unpack(data, el);
        mount(el, shape, async (request) => answers(request));
        document.getElementById("view").remove();
        host.id = "shadow";
    }""")
    inside = page.locator("#shadow .qdi")
    inside.get_by_role("tab", name="Run", exact=True).click()
    inside.get_by_role("tab", name="Run", exact=True).press("?")
    inside.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("shadow.shadowRoot.activeElement.textContent") == "Run"
    assert inside.evaluate("x => getComputedStyle(x).borderRadius") == "6px"


@pytest.mark.parametrize("to", ["html", "qdhtml"])
def test_a_page_of_nbconvert_asks_nobody_and_shows_the_copy(browser, view, tmp_path: Path, to: str, monkeypatch):
    """For ``html`` with the settings that lie beside the notebooks."""
    model = {"model_name": "AnyModel", "model_module": "anywidget", "model_module_version": "0.9.0", "state": {}}
    state = {"state": {"m": model}, "version_major": 2, "version_minor": 0}
    shown = [
        {"application/vnd.jupyter.widget-view+json": {"model_id": "m"}, "text/plain": "The live inspector"},
        {"text/html": static_html(view)},
    ]
    cell = nbformat.v4.new_code_cell("k()", outputs=[nbformat.v4.new_output("display_data", x) for x in shown])
    book = nbformat.v4.new_notebook(
        cells=[cell], metadata={"widgets": {"application/vnd.jupyter.widget-state+json": state}}
    )
    nbformat.write(book, tmp_path / "s.ipynb")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(ROOT / "notebooks"))
    monkeypatch.chdir(tmp_path)
    program = NbConvertApp()
    program.initialize(["--to", to, "s.ipynb"])
    program.start()
    asked: list[str] = []
    page, _ = offline(browser[0].context.browser)
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto(f"file://{tmp_path / 's.html'}")
    page.locator("summary", has_text="Stacks – 1 value kept").click()
    page.locator("td", has_text="operand of sin").first.wait_for()
    page.close()
    assert asked == []
