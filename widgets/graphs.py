"""The CFG pane: the control flow graph of each task's forward slice."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.graph import svg
from quadrants_lab.widgets.html import empty, esc
from quadrants_lab.widgets.model import GraphView, KernelView


def figure(graph: GraphView) -> str:
    """The graph in a frame that scrolls."""
    return f'<div class="gr" tabindex="0" role="region" aria-label="{esc(graph.title)}">{svg(graph)}</div>'


def cfg_pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    tasks = view.graphs
    if not tasks:
        return empty(
            "there is no gradient yet, so there is no forward slice to draw: call .grad() or give --grad LOSS"
        )
    return "".join(f"<h4>{esc(t.title)}</h4>{figure(t.cfg)}" for t in tasks)
