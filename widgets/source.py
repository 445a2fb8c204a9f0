"""The Linked pane: source, IR after any pass, and code of any backend side by side, with matching lines marked."""

from collections.abc import Sequence

from quadrants_lab.widgets import code
from quadrants_lab.widgets.html import empty, esc, listing, pick, slot
from quadrants_lab.widgets.model import KernelView, StackView
from quadrants_lab.widgets.passes import irs

LEGEND = (
    '<p class="hint legend"><span class="mark">forward</span> <span class="twin">its adjoint</span> '
    '<span class="near">same line</span></p>'
)


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    if not view.source:
        return empty("the source of this kernel is not known")
    kernel = prefix.partition("/")[0]
    mode = next((name for name in reversed(view.code) if name in view.traces), next(iter(view.traces), ""))
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
    """Source line -> a badge for its stacks, and badges for values without a stack; more than two are summarised."""
    stacks: dict[int, list[StackView]] = {}
    for stack in view.stacks:
        stacks.setdefault(stack.line, []).append(stack)
    notes = {line: [_pushed(of_line)] for line, of_line in stacks.items()}
    for free in view.free:
        notes.setdefault(free.line, []).append(("badge", f"{esc(free.name)}: no stack", free.why))
    return {line: _badges(rows) for line, rows in notes.items()}


def _pushed(stacks: Sequence[StackView]) -> tuple[str, str, str]:
    """The class, HTML and tip of the badge of a line's stacks. In a narrow column, where the badge would cover text,
    the part in <i> is left out."""
    depths = ["?" if s.depth is None else f"{s.depth:,}" for s in stacks]
    rows = [f"{s.name}: depth {depth}, {s.reason}; {s.how}" for s, depth in zip(stacks, depths, strict=True)]
    one = f"<i>stack </i>{esc(stacks[0].name)}<i>: depth</i> {depths[0]}"
    return "badge push", one if len(stacks) == 1 else f"{len(stacks)} stacks", "\n".join(rows)


def _badges(rows: Sequence[tuple[str, str, str]]) -> str:
    shown = [f' <span class="{kind}" title="{esc(tip)}">{text}</span>' for kind, text, tip in rows[:2]]
    if len(rows) > 2:
        rest = "&#10;".join(f"{text}: {esc(tip)}" for _, text, tip in rows[2:])
        shown.append(f' <span class="badge" title="{rest}">and {len(rows) - 2} more</span>')
    return "".join(shown)
