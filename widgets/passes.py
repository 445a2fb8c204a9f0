"""The Passes pane: every step from source to sized IR, what each changed, and the difference in full."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.diff import counts, diff_html
from quadrants_lab.widgets.html import choices, empty, esc, listing, seconds, slot
from quadrants_lab.widgets.model import KernelView, PassView, kernel_lines


def changed(view: KernelView, step: PassView) -> tuple[int, int] | None:
    """Statements that came and went, or None when the pass changed nothing."""
    if step.before is step.after:
        return None
    before, after = kernel_lines(step.before, view.file), kernel_lines(step.after, view.file)
    if [x.text for x in before] == [x.text for x in after]:
        return None
    return counts(before, after)


def delta(change: tuple[int, int] | None) -> str:
    if change is None:
        return '<span class="same">no change</span>'
    came, gone = change
    return f'<span class="add">+{came}</span> <span class="del">−{gone}</span>'


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``trace``: the list of that trace; ``trace/n``: the diff of its step n."""
    if not view.traces:
        return empty("no pass was recorded: run the kernel in a %%qdkernel cell")
    if len(rest) == 2 and rest[0] in view.traces and rest[1].isdigit():
        return step_html(view, view.traces[rest[0]], int(rest[1]))
    names = list(view.traces)
    if rest and rest[0] in view.traces:
        return _trace(view, f"{prefix}/{rest[0]}", view.traces[rest[0]])
    which = choices("Which kernel", [(name, f"{prefix}/{name}") for name in names], "trace")
    toggles = (
        '<label class="tg"><input type="checkbox" data-toggle="show-same"> passes that changed nothing</label>'
        '<label class="tg"><input type="checkbox" data-toggle="unified"> one column</label>'
    )
    first = _trace(view, f"{prefix}/{names[0]}", view.traces[names[0]])
    return f'<div class="bar">{which}{toggles}</div>{slot("trace", first)}'


def _trace(view: KernelView, prefix: str, steps: Sequence[PassView]) -> str:
    deltas = [changed(view, step) for step in steps]
    chosen = next((n for n, d in enumerate(deltas) if d is not None), 0)
    items = []
    for n, (step, d) in enumerate(zip(steps, deltas, strict=True)):
        on = "true" if n == chosen else "false"
        items.append(
            f'<div class="ps{" noop" if d is None else ""}" role="option" data-item aria-selected="{on}" '
            f'tabindex="{0 if n == chosen else -1}" data-req="{esc(prefix)}/{n}" data-into="step" '
            f'title="{esc(step.doc)}">'
            f'<span class="nm">{esc(step.name)}</span><span class="dl">{delta(d)}</span>'
            f'<span class="tm">{seconds(step.seconds)}</span></div>'
        )
    total = seconds(sum(s.seconds for s in steps))
    noops = sum(d is None for d in deltas)
    foot = f'<div class="foot">{len(steps)} passes, {total}; {noops} changed nothing</div>'
    head = '<div class="list" data-roving data-follow role="listbox" aria-label="Passes">'
    side = f'<div class="side">{head}{"".join(items)}</div>{foot}</div>'
    return f'<div class="split">{side}{slot("step", step_html(view, steps, chosen))}</div>'


def step_html(view: KernelView, steps: Sequence[PassView], n: int) -> str:
    """What step n changed, under a heading that says what the pass guarantees."""
    if n >= len(steps):
        return empty("there is no such pass")
    step = steps[n]
    before, after = kernel_lines(step.before, view.file), kernel_lines(step.after, view.file)
    doc = f"<p>{esc(step.doc)}</p>" if step.doc else ""
    head = f"<h4>{esc(step.name)}</h4>{doc}"
    if changed(view, step) is None:
        return f'{head}<p class="none">This pass changed nothing.</p>{listing(after, "ir", step.name)}'
    return head + (diff_html(before, after) if before else listing(after, "ir", step.name))
