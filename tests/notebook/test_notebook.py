"""The notebooks in a real kernel, and Ctrl-C during a long launch there."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from quadrants_lab.notebook.offline import OfflineHTML

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# assertions and inspectors
LEAST = {"01_a_kernel_and_its_gradient": (6, 5), "02_backends": (4, 1), "03_why_is_my_gradient_wrong": (6, 0)}
SAYS = {
    "02_backends": "f64, which Metal does not have",
    "03_why_is_my_gradient_wrong": "is WRONG at [3]: it is 0.16 there, by finite differences it is 0.48",
}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def executed(request):
    """The notebook after all its cells; their assertions compare with closed forms."""
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), before])
    try:
        book = nbformat.read(request.param, as_version=4)
        book.metadata["least"] = LEAST[request.param.stem]
        book.metadata["says"] = SAYS.get(request.param.stem, "")
        where = {"metadata": {"path": str(ROOT)}}
        NotebookClient(book, timeout=300, kernel_name="python3", store_widget_state=True, resources=where).execute()
    finally:
        os.environ["PYTHONPATH"] = before
    return book


def inspected(book):
    return [c for c in book.cells if re.match(r"%%qdkernel(?!.*--quiet)", c.source)]


def test_the_notebook_runs_and_its_assertions_hold(executed):
    assert not [o for c in executed.cells for o in c.get("outputs", []) if o.output_type == "error"]
    assert sum("assert" in c.source for c in executed.cells if c.cell_type == "code") >= executed.metadata.least[0]


def test_each_inspected_cell_has_a_widget_and_beside_it_a_static_copy(executed):
    cells = inspected(executed)
    assert len(cells) >= executed.metadata.least[1]
    for cell in cells:
        data = [o.data for o in cell.outputs if "data" in o]
        assert any("application/vnd.jupyter.widget-view+json" in d for d in data)
        (static,) = [d["text/html"] for d in data if "text/html" in d]
        assert sum(len(str(d)) for d in data) + widget_bytes(executed, data) < 100_000
        assert "this pane failed" not in static
        assert not re.search(r"<(script|style|svg)\b", static)


def widget_bytes(book, outputs):
    """What the notebook's metadata hold of the widgets of these outputs."""
    state = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    shown = [d.get("application/vnd.jupyter.widget-view+json", {}).get("model_id") for d in outputs]
    return sum(len(str(state[model])) for model in shown if model)


def test_a_page_of_it_asks_no_other_host(executed):
    page, _ = OfflineHTML().from_notebook_node(executed)
    assert len(page) < 1_000_000
    asks = r"""(?:src|href)=["']?(?:https?:)?//|import\(["'][^"']|@import|url\(["']?(?:https?:)?//"""
    assert not re.findall(asks, page)
    assert page.count("Stacks</summary>") >= executed.metadata.least[1]
    assert "widgets" in executed.metadata  # it is as it was


def test_the_notebook_says_what_it_is_to_show(executed):
    printed = "".join(o.get("text", "") for c in executed.cells for o in c.get("outputs", []))
    assert executed.metadata.says in printed


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
def long():
    for i in z:
        v = z[i]
        for _ in range(2000000000):
            v = qd.sin(v) + 0.1
        z[i] = v

long()
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
        time.sleep(3)
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != sent:
            pass
        assert reply["content"]["status"] == "error"
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert run(AFTER.strip())["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
