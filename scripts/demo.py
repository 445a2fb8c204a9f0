"""`make demo`: runs a lesson of the course up to its exercises, without a browser. It prints the gradients that the
cells compute beside the closed form, and writes all inspectors of the lesson into one HTML file. The file needs neither
network nor kernel; the lesson's kernels and gradients run in it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "03_loops_and_stacks.ipynb"

# code that runs in the notebook's kernel after the last cell
EXPORT = """
from quadrants_lab.lang.kernel import Kernel
from quadrants_lab.notebook import show
from quadrants_lab.notebook.live_page import of_kernel
from quadrants_lab.notebook.saved import export
from quadrants_lab.widgets.live_page import panel
from quadrants_lab.widgets.model import CellView
kernels = [v for v in dict(globals()).values() if isinstance(v, Kernel)]
above = "".join(panel(of_kernel(v.dispatcher)) for v in kernels)
print(export(CellView({title!r}, [show(v).view.kernels[0] for v in kernels]), {path!r}, above=above))
"""


def title_of(notebook: nbformat.NotebookNode) -> str:
    heads = [c.source for c in notebook.cells if c.cell_type == "markdown" and c.source.startswith("# ")]
    return str(heads[0].splitlines()[0].removeprefix("# "))


def printed(cell: nbformat.NotebookNode) -> str:
    """The text that the cell wrote to standard output."""
    return "".join(o.text for o in cell.get("outputs", []) if o.output_type == "stream" and o.name == "stdout")


def run(notebook: nbformat.NotebookNode, out: Path, console: Console) -> Path:
    """Executes the cells in one kernel, prints the output of each when it ends, and returns the path of the HTML
    file."""
    where = {"metadata": {"path": str(NOTEBOOK.parent)}}
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources=where, extra_arguments=["--log-level=ERROR"]
    )
    with client.setup_kernel():
        head = ""
        for index, cell in enumerate(notebook.cells):
            if cell.source.startswith("## Exercises"):
                break
            if cell.cell_type == "markdown":
                head = next((x.lstrip("# ") for x in reversed(cell.source.splitlines()) if x.startswith("#")), head)
                continue
            client.execute_cell(cell, index)
            if text := printed(cell):
                if head:
                    console.print(f"\n{head}", style="bold")
                console.print(text.rstrip())
                head = ""
        notebook.cells.append(nbformat.v4.new_code_cell(EXPORT.format(path=str(out), title=title_of(notebook))))
        return Path(printed(client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)).strip())


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "inspector.html", help="where the HTML file goes")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True, markup=False)
    start = time.perf_counter()
    try:
        page = run(nbformat.read(NOTEBOOK, as_version=4), args.out, console)
    except CellExecutionError as error:
        console.print(f"\nA cell of {NOTEBOOK.relative_to(ROOT)} failed:", Text.from_ansi(str(error)), sep="\n")
        return 1
    seconds = time.perf_counter() - start
    console.print(f"\nEvery gradient is its closed form: the lesson's checks passed ({seconds:.1f} s).")
    console.print(f"The inspector: {page} ({page.stat().st_size // 1024} KB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
