"""The inspector's panes: for each a function from the cell's view and a request to HTML.

A request is a path ``kernel/pane/rest``. What a pane does not show at once it offers as ``data-req="request"``: the
live widget sends it to Python, the exported page has every answer inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quadrants_lab.widgets import (
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
)
from quadrants_lab.widgets.html import empty
from quadrants_lab.widgets.model import CellView, KernelView

Render = Callable[[KernelView, str, Sequence[str]], str]  # view, prefix "kernel/pane", rest of the path


@dataclass(frozen=True, slots=True)
class Pane:
    """``title``: of its tab; "" for what other panes alone ask for."""

    id: str
    title: str
    render: Render


PANES = (
    Pane("source", "Linked", source.pane),
    Pane("passes", "Passes", passes.pane),
    Pane("cfg", "CFG", graph.pane),
    Pane("stacks", "Stacks", stacks.pane),
    Pane("sizes", "SizeExpr", sizes.pane),
    Pane("steps", "Steps", steps.pane),
    Pane("code", "", code.pane),
    Pane("run", "Run", run.pane),
    Pane("tape", "Tape", timeline.pane),
    Pane("history", "History", history.pane),
    Pane("matrix", "Backends", matrix.pane),
)


def shape(view: CellView) -> dict[str, Any]:
    """What the browser must know before it asks: titles of kernels and panes, and which of these is open."""
    return {
        "title": view.title,
        "open": view.open,
        "kernels": [k.name for k in view.kernels],
        "panes": [[p.id, p.title] for p in PANES if p.title and (p.id != "tape" or any(k.tapes for k in view.kernels))],
        "findings": view.findings,
    }


def render(view: CellView, request: str) -> str:
    """The HTML for a request; a KeyError-free sentence for one that asks for nothing that is there."""
    number, _, path = request.partition("/")
    pane_id, _, rest = path.partition("/")
    pane = next((p for p in PANES if p.id == pane_id), None)
    if pane is None or not number.isdigit() or int(number) >= len(view.kernels):
        return empty(f"nothing is known as {request!r}")
    return pane.render(view.kernels[int(number)], f"{number}/{pane_id}", rest.split("/") if rest else [])
