"""The CFG pane: the control flow graph of each task's forward slice."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.graph import drawing
from quadrants_lab.widgets.html import data, empty, esc
from quadrants_lab.widgets.model import GraphView, KernelView


def figure(graph: GraphView) -> str:
    """The place where the browser draws the graph."""
    if not graph.drawn:
        graph.drawn = f'<div class="graph" data-graph="{data(drawing(graph))}"></div>'
    return graph.drawn


def cfg_pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    tasks = view.graphs
    if not tasks:
        return empty(
            "there is no gradient yet, so there is no forward slice to draw: call .grad() or give --grad LOSS"
        )
    return "".join(f"<h4>{esc(t.title)}</h4>{figure(t.cfg)}" for t in tasks)
