"""The inspector's panes: each is a function from a kernel's view and a request to a tree.

A request is a path ``kernel/pane/rest``. A tree contains further requests (`tree.requests`): the live widget sends them
to Python, an exported page contains their answers.
"""

from collections.abc import Callable, Sequence
from typing import Any

from quadrants_lab.widgets import (
    beside,
    code,
    graph,
    history,
    matrix,
    passes,
    run,
    sizes,
    source,
    stacks,
    steps,
    timeline,
    verdict,
)
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import CellView, KernelView
from quadrants_lab.widgets.tree import Tree, empty

Render = Callable[[KernelView, str, Sequence[str]], Tree]  # view, prefix "kernel/pane", rest of the path


PANES: dict[str, tuple[str, Render]] = {  # title of the tab, "" for a pane that only other panes request
    "check": ("Verdict", verdict.pane),
    "source": ("Linked", source.pane),
    "passes": ("Passes", passes.pane),
    "cfg": ("CFG", graph.pane),
    "stacks": ("Stacks", stacks.pane),
    "sizes": ("Stack sizes (SizeExpr)", sizes.pane),
    "steps": ("Steps", steps.pane),
    "code": ("", code.pane),
    "run": ("Run", run.pane),
    "tape": ("Tape", timeline.pane),
    "history": ("History", history.pane),
    "matrix": ("Backends", matrix.pane),
    "beside": ("Beside", beside.pane),
}
# what users call a pane, from its title: "stack-sizes" -> its id
NAMES = {title.partition(" (")[0].lower().replace(" ", "-"): pane for pane, (title, _) in PANES.items() if title}
NEEDS = {"tape": "tapes", "check": "check"}  # panes of cells that have these data


def known(view: CellView) -> list[str]:
    """The panes that have something to show."""
    return [p for p in PANES if p not in NEEDS or any(getattr(k, NEEDS[p]) for k in view.kernels)]


def shape(view: CellView) -> dict[str, Any]:
    """The data that the browser needs before its first request: titles of kernels and panes, and the open pane."""
    return {
        "title": view.title,
        "open": view.open,
        "kernel": max(range(len(view.kernels)), key=lambda n: view.kernels[n].seconds, default=0),
        "kernels": [k.name for k in view.kernels],
        "panes": [[p, PANES[p][0]] for p in known(view) if PANES[p][0]],
    }


def answer(view: CellView, request: str) -> Tree:
    """The tree for a request; for an unknown request a sentence that says so."""
    number, _, path = request.partition("/")
    pane, _, rest = path.partition("/")
    if pane not in PANES or not number.isdigit() or int(number) >= len(view.kernels):
        return empty(f"nothing is known as {request!r}")
    _, make = PANES[pane]
    return make(view.kernels[int(number)], f"{number}/{pane}", rest.split("/") if rest else [])


def render(view: CellView, request: str) -> str:
    """The HTML of `answer` for the live widget."""
    return write(answer(view, request))
