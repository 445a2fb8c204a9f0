"""The Source pane: the cell's text with, beside each line, the stacks that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.html import empty, esc, listing
from quadrants_lab.widgets.model import KernelView


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    if not view.source:
        return empty("the source of this kernel is not known")
    return listing(view.source, "python", f"Source of {view.name}", notes=margin(view))


def margin(view: KernelView) -> dict[int, str]:
    """For each source line, badges for the stacks and the values without stack that come from it."""
    notes: dict[int, str] = {}
    for stack in view.stacks:
        depth = "?" if stack.depth is None else f"{stack.depth:,}"
        tip = esc(f"{stack.reason}; {stack.how}")
        notes[stack.line] = notes.get(stack.line, "") + (
            f' <span class="badge push" title="{tip}">stack {esc(stack.name)}: depth {depth}</span>'
        )
    for free in view.free:
        notes[free.line] = notes.get(free.line, "") + (
            f' <span class="badge" title="{esc(free.why)}">{esc(free.name)}: no stack</span>'
        )
    return notes
