"""The SizeExpr pane: for each stack the expression of its depth as a tree, with the values of this launch."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.html import empty, esc
from quadrants_lab.widgets.model import KernelView, SizeView

NO_STACK = "this gradient keeps nothing on a stack, so there is no depth to work out; the Stacks tab says why"


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    shown = [s for s in view.stacks if s.size is not None]
    if not shown:
        launched = "gradient" in view.traces
        return empty(NO_STACK if launched else "there is no gradient yet: call .grad() or give --grad LOSS")
    parts = []
    for s in shown:
        assert s.size is not None
        at = f' data-span-line="{s.line}"' if s.line else ""
        parts.append(
            f'<h4{at}>{esc(s.name)} <span class="muted">line {s.line}, {esc(s.dtype)}</span></h4>{tree(s.size)}'
        )
    return "".join(parts)


def tree(node: SizeView) -> str:
    """The tree as nested lists; a node with operands folds."""
    return f'<div class="tree">{_node(node)}</div>'


def _node(node: SizeView) -> str:
    value = "" if node.value is None else f'<span class="val">= {node.value:,}</span>'
    note = f' <span class="muted">{esc(node.note)}</span>' if node.note else ""
    role = f'<span class="muted">{esc(node.role)}</span> ' if node.role else ""
    head = f"{role}<code>{esc(node.text)}</code> {value}{note}"
    if not node.children:
        return f'<div class="leaf">{head}</div>'
    kids = "".join(map(_node, node.children))
    return f'<details open><summary>{head}</summary><div class="kids">{kids}</div></details>'
