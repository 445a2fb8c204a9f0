"""`make elsewhere`: shows the inspector outside of JupyterLab. It installs the project's wheel, Notebook 7 and marimo
into a new environment, runs a cell in each, and says what a reader would miss: panes, requests to other hosts, a
sentence about an error, a notebook that grows with each run. It needs chromium, and a package index for pip."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from rich.console import Console
from workbench_programs import SETUP, WAVE

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
from child import Child  # noqa: E402
from notebook.browser import PANES, chromium, free_port, lab, offline, wait_for  # noqa: E402

COPIED = "Source", "Passes", "CFG", "Stacks", "Stack sizes (SizeExpr)", "Steps", "Code", "Run", "Tape"
PACKAGES = "notebook>=7,<8", "marimo"
CELL = "%%qdkernel --grad y" + WAVE.format(name="wave")
APP = """
import marimo
app = marimo.App()

@app.cell
def _():
{setup}
    with qd.recording() as seen:
        with qd.ad.Tape(y):
            wave()
    return (seen,)

@app.cell
def _(seen):
    seen
"""
Line = tuple[str, object, bool]  # what is looked at, what was found, whether that is right


def environment(out: Path, packages: tuple[str, ...]) -> Path:
    """The Python of a new environment that has only the wheel, with what it needs for notebooks, and ``packages``."""
    build = [sys.executable, "-m", "build", "-q", "-w", "--no-isolation", "-o", str(out / "wheel"), str(ROOT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    venv.create(out / "env", with_pip=True, clear=True)
    python, wheel = out / "env" / "bin" / "python", max((out / "wheel").glob("*.whl"), key=os.path.getmtime)
    given = [f"{wheel}[notebook]", *packages]
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *given], check=True)
    return python


def book() -> nbformat.NotebookNode:
    spec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in ("%load_ext quadrants_lab", SETUP, CELL)]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})


def notebook7(python: Path, out: Path) -> Iterator[Line]:
    (out / "books").mkdir(exist_ok=True)
    nbformat.write(book(), out / "books" / "wave.ipynb")
    with lab(out / "books", out, notebook7=str(python)) as shown:
        shown.open("wave.ipynb")
        own = len(shown.errors)  # Notebook's, while it starts
        file, sizes = shown.work / "wave.ipynb", []
        for _ in range(10):
            shown.run_all()
            shown.inspectors()
            shown.page.keyboard.press("Control+s")
            shown.page.wait_for_timeout(1500)
            sizes.append(file.stat().st_size)
        inspector = shown.inspectors()[0]
        filled = [pane for pane in PANES if shown.show(inspector, pane).inner_text().strip()]
        yield "panes with text", len(filled), len(filled) == len(PANES)
        yield "bytes after the first run and after the tenth", (sizes[0], sizes[-1]), sizes[-1] < 1.1 * sizes[0]
        yield "errors of the page while cells run", shown.errors[own:], len(shown.errors) == own
        inspector.screenshot(path=out / "notebook7.png")
        shown.end_kernels()
        shown.page.reload()
        again = shown.inspectors()[0]
        text = again.inner_text()
        yield "panes when it is opened again, without a kernel", text.count("wave"), "wave" in text
        error = "Error displaying" in shown.page.inner_text("body")
        yield "a sentence about an error", error, not error
        yield "requests to other hosts", shown.outside, not shown.outside


def marimo(python: Path, out: Path) -> Iterator[Line]:
    program = SETUP + WAVE.format(name="wave").rstrip().removesuffix("wave()")
    (out / "app.py").write_text(APP.format(setup="\n".join("    " + line for line in program.splitlines())))
    port = free_port()
    args = python, "-m", "marimo", "run", "--headless", "--no-token", "--port", str(port), out / "app.py"
    base = f"http://localhost:{port}"
    with Child(*args, cwd=out, env={"PYTHONPATH": None}) as server, chromium() as browser:
        wait_for(base, server)
        page, said, outside = browser.new_page(viewport={"width": 1300, "height": 1000}), list[str](), list[str]()
        own = base, base.replace("http", "ws"), "data:", "blob:"
        page.on("pageerror", lambda e: said.append(str(e)))
        page.on("request", lambda r: outside.append(r.url) if not r.url.startswith(own) else None)
        page.goto(base)
        page.get_by_role("tab").first.wait_for(timeout=90_000)
        filled = []
        for tab in page.get_by_role("tab").all():
            tab.click()
            page.locator("[role=tabpanel]:not([aria-busy])").first.wait_for()
            page.wait_for_timeout(300)
            if page.get_by_role("tabpanel").first.inner_text().strip():
                filled.append(tab.inner_text())
        page.screenshot(path=out / "marimo.png")
        yield "panes with text, of the live widget", len(filled), set(PANES) <= set(filled)
        yield "errors of the page", said, not said
        yield "requests to other hosts", outside, not outside


def nbconvert(python: Path, out: Path) -> Iterator[Line]:
    """As a reader converts it in whose environment nothing is set up. The pages of ``--to html`` ask other hosts for
    MathJax and for widgets, whatever is in the notebook; those of ``--to qdhtml``, which the wheel brings, do not."""
    slider = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import ipywidgets\nipywidgets.IntSlider()")])
    home = out / "home"
    home.mkdir(exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "JUPYTER_CONFIG_PATH")} | {"HOME": str(home)}
    heads, asked = {}, {}
    with chromium() as browser:
        for name, given, to in (("slider", slider, "html"), ("wave", book(), "html"), ("offline", book(), "qdhtml")):
            nbformat.write(given, out / f"{name}.ipynb")
            args = python, "-m", "nbconvert", "--log-level=ERROR", "--execute", "--to", to, out / f"{name}.ipynb"
            subprocess.run(args, cwd=out, env=env, check=True)
            page, said = offline(browser)
            page.goto((out / f"{name}.html").as_uri())
            page.wait_for_timeout(3000)
            page.screenshot(path=out / f"nbconvert_{name}.png", full_page=True)
            heads[name] = page.locator("summary b").all_inner_texts()
            asked[name] = [x for x in said if "ERR_INTERNET_DISCONNECTED" not in x]
    for name, to in (("wave", "html"), ("offline", "qdhtml")):
        yield f"--to {to}: panes of the copy", len(heads[name]), heads[name] == list(COPIED)
        more = [x for x in asked[name] if to == "qdhtml" or x not in asked["slider"]]
        than = "" if to == "qdhtml" else " that a page with a slider does not make"
        yield f"--to {to}: errors, and requests to other hosts{than}", more, not more


CHECKS: dict[str, Callable[[Path, Path], Iterator[Line]]] = {
    "Notebook 7": notebook7,
    "marimo": marimo,
    "nbconvert": nbconvert,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make elsewhere", description=__doc__)
    parser.add_argument("--only", choices=CHECKS, nargs="*", default=list(CHECKS), help="which of them")
    parser.add_argument("--python", type=Path, help="use this environment, made by an earlier run")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "elsewhere", help="where pictures and files go")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    python, console, wrong = args.python or environment(args.out, PACKAGES), Console(markup=False), 0
    for name in args.only:
        for what, found, right in CHECKS[name](python.absolute(), args.out.absolute()):
            wrong += not right
            console.print(f"{'ok   ' if right else 'WRONG'} {name}: {what}: {found}", soft_wrap=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
