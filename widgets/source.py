"""The Linked pane: source, IR after any pass, and code of any backend side by side, with matching lines marked."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets import code
from quadrants_lab.widgets.html import empty, esc, listing, pick, slot
from quadrants_lab.widgets.model import KernelView
from quadrants_lab.widgets.passes import irs

LEGEND = (
    '<p class="hint legend"><span class="mark">forward</span> <span class="twin">its adjoint</span> '
    '<span class="near">same line</span></p>'
)


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    if not view.source:
        return empty("the source of this kernel is not known")
    kernel = prefix.partition("/")[0]
    mode = "gradient" if "gradient" in view.traces else next(iter(view.traces), "")
    codes = [
        (name, [*((title, f"{kernel}/code/{name}/{n}") for n, title in enumerate(code.titles(stages))),
                ("all sizes", f"{kernel}/code/{name}/sizes")])
        for name, stages in view.code.items()
    ]  # fmt: skip
    text = listing(view.source, "python", f"Source of {view.name}", notes=margin(view))
    columns = [("Source", f'<div class="slot">{text}</div>', "")]
    if view.traces:
        passes = irs(view, f"{kernel}/passes")
        last = next(req for trace, items in passes if trace == mode for _, req in reversed(items))
        columns.append(("IR after", slot("ir", load=last), pick("Pass", passes, "ir", last)))
    if codes:
        first = next((items[0][1] for name, items in codes if name == mode), codes[0][1][0][1])
        columns.append(("Code", slot("code", load=first), pick("Stage", codes, "code", first)))
    toggles = "".join(
        f'<button type="button" class="ch" aria-pressed="true" data-hide="{n}">{name}</button>'
        for n, (name, _, _) in enumerate(columns)
    )
    body = "".join(
        f'<section class="col" aria-label="{name}"><header><b>{name}</b> {choice}</header>{content}</section>'
        for name, content, choice in columns
    )
    bar = f'<div class="bar"><span class="chs" role="group" aria-label="Columns">{toggles}</span>{LEGEND}</div>'
    return f'{bar}<div class="linked">{body}</div>'


def margin(view: KernelView) -> dict[int, str]:
    """Source line -> badges for its stacks and its values without a stack; more than two are summarised."""
    notes: dict[int, list[tuple[str, str, str]]] = {}
    for stack in view.stacks:
        depth = "?" if stack.depth is None else f"{stack.depth:,}"
        badge = ("badge push", f"stack {stack.name}: depth {depth}", f"{stack.reason}; {stack.how}")
        notes.setdefault(stack.line, []).append(badge)
    for free in view.free:
        notes.setdefault(free.line, []).append(("badge", f"{free.name}: no stack", free.why))
    return {line: _badges(rows) for line, rows in notes.items()}


def _badges(rows: Sequence[tuple[str, str, str]]) -> str:
    shown = [f'<span class="{kind}" title="{esc(tip)}">{esc(text)}</span>' for kind, text, tip in rows[:2]]
    if len(rows) > 2:
        rest = "&#10;".join(esc(f"{text}: {tip}") for _, text, tip in rows[2:])
        shown.append(f'<span class="badge" title="{rest}">and {len(rows) - 2} more</span>')
    return f'<span class="notes">{" ".join(shown)}</span>'
