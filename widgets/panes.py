"""Lists the inspector's panes: each is a function from a kernel's data and a request to a tree.

A request is a path ``kernel/pane/rest``. A tree contains further requests (`tree.requests`): the live widget sends them
to Python, an exported page contains their answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from quadrants_lab.widgets.tree import Block, Tree, empty

Render = Callable[[KernelView, str, Sequence[str]], Tree]  # view, prefix "kernel/pane", rest of the path


@dataclass(frozen=True, slots=True)
class Pane:
    """A pane of the inspector. ``title``: the title of its tab, if it has a ``tab``; a pane without a tab is only
    requested by other panes. ``answer``: makes a sentence that stands above the pane, "" if the pane has nothing to
    show. ``needs``: the data of a cell that the pane needs. ``of_code``: whether the pane shows code or IR."""

    title: str
    make: Render
    answer: Callable[[KernelView], str] = lambda view: ""
    needs: str = ""
    tab: bool = True
    of_code: bool = False


PANES = {
    "check": Pane("Verdict", verdict.pane, needs="check"),
    "source": Pane("Linked", source.pane, source.answer),
    "passes": Pane("Passes", passes.pane, passes.answer),
    "cfg": Pane("CFG", graph.pane, graph.answer),
    "stacks": Pane("Stacks", stacks.pane, stacks.answer),
    "sizes": Pane("Stack sizes (SizeExpr)", sizes.pane, sizes.answer),
    "steps": Pane("Steps", steps.pane),
    "code": Pane("Code", code.pane, tab=False, of_code=True),
    "run": Pane("Run", run.pane, run.answer),
    "tape": Pane("Tape", timeline.pane, timeline.answer, needs="tapes"),
    "history": Pane("History", history.pane, history.answer),
    "matrix": Pane("Backends", matrix.pane, matrix.answer, of_code=True),
    "beside": Pane("Beside", beside.pane, of_code=True),
}
# what users call a pane, from its title: "stack-sizes" -> its id
NAMES = {x.title.partition(" (")[0].lower().replace(" ", "-"): pane for pane, x in PANES.items() if x.tab}


def known(view: CellView) -> list[str]:
    """The panes that have something to show."""
    return [p for p, x in PANES.items() if not x.needs or any(getattr(k, x.needs) for k in view.kernels)]


def shape(view: CellView) -> dict[str, Any]:
    """The data that the browser needs before its first request: titles of kernels and panes, and what is open."""
    told = [(bool(kernel.graphs), kernel.seconds) for kernel in view.kernels]
    return {
        "title": view.title,
        "open": view.open,
        # one with a gradient comes first, then the one that took longest
        "kernel": max(range(len(told)), key=told.__getitem__, default=0),
        "kernels": [k.name for k in view.kernels],
        "panes": [[p, PANES[p].title] for p in known(view) if PANES[p].tab],
    }


def answer(view: CellView, request: str) -> Tree:
    """The tree for a request; for an unknown request a sentence that says so."""
    number, _, path = request.partition("/")
    pane, _, rest = path.partition("/")
    if pane not in PANES or not number.isdigit() or int(number) >= len(view.kernels):
        return empty(f"nothing is known as {request!r}")
    kernel = view.kernels[int(number)]
    tree = PANES[pane].make(kernel, f"{number}/{pane}", rest.split("/") if rest else [])
    said = "" if rest else PANES[pane].answer(kernel)
    return [Block(said, "answer"), tree] if said else tree


def render(view: CellView, request: str) -> str:
    """The HTML of `answer` for the live widget."""
    return write(answer(view, request))
