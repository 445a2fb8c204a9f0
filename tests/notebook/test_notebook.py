"""The course in a real kernel: lessons, exercises with wrong and right answers; and Ctrl-C during a long launch."""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

from quadrants_lab.notebook.inspection import NO_ERROR
from quadrants_lab.notebook.offline import OfflineHTML

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PANEL = 'class="qdl"'  # in the HTML of a panel that computes
SAYS = {
    "06_when_gradients_lie": "is WRONG at [3]: it is 0.16 there, by finite differences it is 0.48",
    "07_one_kernel_on_five_backends": "f64, which Metal does not have",
}


# "== exercise: what the reader is told", and below it a wrong answer
WRONG = re.findall(
    r"^== ([\d.]+): (.*)\n((?:(?!==).*\n)*)", Path(__file__).with_name("wrong_answers.txt").read_text(), re.MULTILINE
)


@dataclass
class Exercise:
    """``asked``: the cell that waits for an answer; ``wrong``: cells with wrong answers, and what they are to say."""

    name: str
    text: str
    asked: nbformat.NotebookNode
    solved: nbformat.NotebookNode
    wrong: list[tuple[nbformat.NotebookNode, str]]


@dataclass
class Lesson:
    book: nbformat.NotebookNode
    says: str
    exercises: list[Exercise] = field(default_factory=list)


def exercise_of(text: str, cell: nbformat.NotebookNode) -> Exercise:
    """From the question and the cell below it: its last lines, which check, stand below each answer."""
    name = re.search(r"### Exercise ([\d.]+)", text)[1]
    solution = re.search(r"<summary>Solution</summary>.*?```python\n(.*?)```", text, re.DOTALL)[1]
    check = "\n" + re.search(r"^(right = .*\n)?check_answer\(.*", cell.source, re.DOTALL | re.MULTILINE)[0]
    wrong = [(new_code_cell(answer + check), says) for of, says, answer in WRONG if of == name]
    return Exercise(name, text, cell, new_code_cell(solution + check), wrong)


def run_lesson(path: Path) -> Lesson:
    """Runs all cells as they are in the repository, and answers each exercise, first wrongly and then rightly."""
    book = nbformat.read(path, as_version=4)
    lesson, cells, question = Lesson(book, SAYS.get(path.stem, "")), list(book.cells), ""
    client = NotebookClient(
        book, timeout=300, kernel_name="python3", store_widget_state=True, resources={"metadata": {"path": str(ROOT)}}
    )

    def run(cell: nbformat.NotebookNode) -> None:
        book.cells.append(cell)
        try:
            client.execute_cell(cell, len(book.cells) - 1)
        except CellExecutionError:
            pass  # what a wrong answer raises is in its outputs

    with client.setup_kernel():
        for index, cell in enumerate(cells):
            if cell.cell_type == "markdown":
                question = cell.source if "### Exercise " in cell.source else question
                continue
            client.execute_cell(cell, index)
            if question and "\ncheck_answer(" in cell.source:
                lesson.exercises.append(exercise := exercise_of(question, cell))
                for answer, _ in exercise.wrong:
                    run(answer)
                run(exercise.solved)
                question = ""
        client.set_widgets_metadata()
    book.cells = cells
    return lesson


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def lesson(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        return run_lesson(request.param)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


def inspected(book, magic):
    return [c for c in book.cells if re.match(magic, c.source)]


def printed(cell):
    return "".join(o.get("text", "") for o in cell.get("outputs", []))


def shown(cell):
    """The printed text, and the text of cards."""
    return printed(cell) + "".join(o.get("data", {}).get("text/html", "") for o in cell.get("outputs", []))


def test_the_lesson_runs_and_its_assertions_hold(lesson):
    cells = [c for c in lesson.book.cells if c.cell_type == "code"]
    assert not [o for c in cells for o in c.outputs if o.output_type == "error"]
    assert sum("assert" in c.source for c in cells) >= 3
    assert lesson.says in "".join(map(shown, cells))
    assert not re.search(r"ipykernel_\d", "".join(map(printed, cells)))  # messages call cells by their numbers


def test_an_exercise_waits_for_its_answer(lesson):
    assert 3 <= len(lesson.exercises) <= 5
    assert len(lesson.exercises) == sum(c.source.count("### Exercise ") for c in lesson.book.cells)
    for x in lesson.exercises:
        assert printed(x.asked).startswith("Not answered yet"), x.name
        assert "<summary>Hint</summary>" in x.text, x.name


def test_the_solution_of_an_exercise_is_right(lesson):
    for x in lesson.exercises:
        assert printed(x.solved).endswith("Right.\n"), (x.name, x.solved.outputs)


def test_a_wrong_answer_is_told_why(lesson):
    for x in lesson.exercises:
        assert x.wrong, x.name
        for cell, says in x.wrong:
            (error,) = [o for o in cell.outputs if o.output_type == "error"]
            assert error.ename == "NotYet", (x.name, error)
            assert error.evalue.startswith("Not yet: "), x.name
            assert says in error.evalue, (x.name, error.evalue)
            assert error.traceback == [error.evalue], x.name  # no frames


def test_each_inspected_cell_has_a_widget_and_beside_it_a_static_copy(lesson):
    cells = inspected(lesson.book, r"%%qdkernel(?!.*--quiet)|%qdinspect|%qdstep")
    assert cells
    for cell in cells:
        data = [o.data for o in cell.outputs if "data" in o and PANEL not in o.data.get("text/html", "")]
        assert any("application/vnd.jupyter.widget-view+json" in d for d in data)
        (static,) = [d["text/html"] for d in data if "text/html" in d]
        assert sum(len(str(d)) for d in data) + widget_bytes(lesson.book, data) < 120_000
        assert "this pane failed" not in static
        assert not re.search(r"<(script|style|svg)\b", static.removeprefix(NO_ERROR))


def test_cells_with_live_have_a_panel_that_computes(lesson):
    cells = inspected(lesson.book, "%%qdkernel.*--live")
    assert cells
    for cell in cells:
        panels = [o.data["text/html"] for o in cell.outputs if "data" in o and PANEL in o.data.get("text/html", "")]
        assert panels, printed(cell)
        assert max(map(len, panels)) < 120_000


def widget_bytes(book, outputs):
    """How many bytes the notebook's metadata hold for the widgets of these outputs."""
    state = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    shown = [d.get("application/vnd.jupyter.widget-view+json", {}).get("model_id") for d in outputs]
    return sum(len(str(state[model])) for model in shown if model)


def test_a_page_of_it_asks_no_other_host(lesson):
    page, _ = OfflineHTML().from_notebook_node(lesson.book)
    assert len(page) < 1_000_000
    asks = r"""(?:src|href)=["']?(?:https?:)?//|import\(["'][^"']|@import|url\(["']?(?:https?:)?//"""
    assert not re.findall(asks, page)
    assert page.count("<summary><b>Stacks</b>") >= len(inspected(lesson.book, r"%%qdkernel(?!.*--quiet)|%qdinspect"))
    assert "widgets" in lesson.book.metadata  # it is as it was


@pytest.fixture(scope="module")
def compare():
    """`lesson_panels.compare` in one browser for all lessons, on a thread of its own: playwright has a loop of asyncio
    there, and clients of kernels have one here."""
    pytest.importorskip("playwright")
    from notebook import browser, lesson_panels  # after the skip: they import playwright

    with ThreadPoolExecutor(1) as thread:
        stack = ExitStack()
        opened = thread.submit(stack.enter_context, browser.chromium()).result()
        yield lambda file: thread.submit(lesson_panels.compare, opened, file).result()
        thread.submit(stack.close).result()


@pytest.mark.browser
@pytest.mark.needs("chromium")
def test_what_its_page_computes_is_what_formulas_say(lesson, compare, tmp_path):
    (tmp_path / "lesson.html").write_text(OfflineHTML().from_notebook_node(lesson.book)[0])
    panels, known = compare(tmp_path / "lesson.html")
    assert panels == len(inspected(lesson.book, r"%%qdkernel.*--live"))
    assert known >= panels // 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_in_the_repository_have_no_outputs(path):
    book = nbformat.read(path, as_version=4)
    assert all(not c.outputs and c.execution_count is None for c in book.cells if c.cell_type == "code")


SETUP = """
import quadrants_lab as qd
%load_ext quadrants_lab
qd.init(arch=qd.cpu)
z = qd.field(qd.f64, shape=64)
"""
LONG = """
%%qdkernel
@qd.kernel
def long(n: int):
    for i in z:
        v = z[i]
        for _ in range(n):
            v = qd.sin(v) + 0.1
        z[i] = v

long(1)
print("compiled", flush=True)
long(2000000000)
"""

AFTER = """
%%qdkernel --quiet
@qd.kernel
def one():
    for i in z:
        z[i] = 1.0

one()
assert z[63] == 1.0
"""


def test_ctrl_c_ends_a_long_launch_and_the_next_cell_works():
    manager, client = start_new_kernel(startup_timeout=60)

    def run(code: str, timeout: float = 60) -> dict:
        return client.execute_interactive(code, timeout=timeout, output_hook=lambda _: None)["content"]

    try:
        assert run(SETUP.strip())["status"] == "ok"
        sent = client.execute(LONG.strip(), stop_on_error=False)  # else requests sent at once are dropped
        while client.get_iopub_msg(timeout=120)["content"].get("text") != "compiled\n":
            pass
        time.sleep(0.5)
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != sent:
            pass
        assert reply["content"]["status"] == "error"
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert run(AFTER.strip())["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_the_page_without_network_takes_the_configuration_of_the_other():
    """docs/keeping.md gives one for `--to html`; with it `--to qdhtml` warned of an option that it did not know."""
    given = {"HTMLExporter": {"jupyter_widgets_base_url": "https://example.org/", "mathjax_url": ""}}
    page = OfflineHTML(config=Config(given))
    assert given["HTMLExporter"].keys() <= {*page.trait_names(config=True)}  # else traitlets warns
    made, _ = page.from_notebook_node(new_notebook())
    assert "example.org" not in made
    assert {name: url for name in page.trait_names() if name.endswith("_url") and (url := getattr(page, name))} == {}


def test_the_page_without_network_has_no_widgets_of_cells_that_were_executed_for_it():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "m"}}

    def execute(book, resources):
        book.cells[0].outputs.append(nbformat.v4.new_output("display_data", view))
        book.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"state": {"m": {}}}}
        return book, resources

    page = OfflineHTML(config=Config({"OfflineHTML": {"preprocessors": [execute]}}))
    made, _ = page.from_notebook_node(new_notebook(cells=[new_code_cell("k()")]))
    assert "embed-amd.js" not in made
    assert "widget-state" not in made
    assert "widget-view" not in made
