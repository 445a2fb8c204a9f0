"""The Passes pane: every step from source to sized IR, what each changed, and the difference of any two."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.diff import counts, diff_html
from quadrants_lab.widgets.html import choices, empty, esc, pick, seconds, slot
from quadrants_lab.widgets.lines import listing
from quadrants_lab.widgets.model import KernelView, PassView, view_lines


def changed(view: KernelView, step: PassView) -> tuple[int, int] | None:
    """Statements that came and went, or None when the pass changed nothing."""
    if step.before is step.after:
        return None
    known = (id(step.before), id(step.after))
    if known not in view.changes:
        before, after = view_lines(view, step.before), view_lines(view, step.after)
        same = [x.text for x in before] == [x.text for x in after]
        view.changes[known] = None if same else counts(before, after)
    return view.changes[known]


def delta(change: tuple[int, int] | None) -> str:
    if change is None:
        return '<span class="same">no change</span>'
    came, gone = change
    return f'<span class="add">+{came}</span> <span class="del">−{gone}</span>'


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``trace``: the list of that trace; ``trace/n``: the diff of its step n; ``trace/n/ir``: the
    IR after it; ``trace/n/since/other/m``: the diff from what step m of another trace left to that."""
    if not view.traces:
        return empty("no pass was recorded: run the kernel in a %%qdkernel cell")
    names = list(view.traces)
    match rest:
        case [trace, n, *more] if trace in view.traces and n.isdigit():
            if int(n) >= len(view.traces[trace]) or not (step := _since(view, view.traces[trace][int(n)], more)):
                return empty("there is no such pass")
            if more == ["ir"]:
                return listing(view_lines(view, step.after), "ir", f"IR after {step.name} ({trace})")
            body = step_html(view, step)
            return body if more else _since_which(view, prefix, trace, int(n)) + slot("since", body)
        case [trace] if trace in view.traces:
            return _trace(view, f"{prefix}/{trace}", view.traces[trace])
    which = choices("Which kernel", [(name, f"{prefix}/{name}") for name in names], "trace")
    toggles = (
        '<label class="tg"><input type="checkbox" data-toggle="show-same"> passes that changed nothing</label>'
        '<label class="tg"><input type="checkbox" data-toggle="unified"> one column</label>'
    )
    first = _trace(view, f"{prefix}/{names[0]}", view.traces[names[0]])
    return f'<div class="bar">{which}{toggles}</div>{slot("trace", first)}'


def _since(view: KernelView, step: PassView, more: Sequence[str]) -> PassView | None:
    """The step, or what lies between it and the one that ``more`` names: ``since/trace/n``."""
    match more:
        case [] | ["ir"] | ["given"]:
            return step
        case ["since", trace, n] if trace in view.traces and n.isdigit() and int(n) < len(view.traces[trace]):
            before = view.traces[trace][int(n)]
            return PassView(f"from {before.name} ({trace}) to {step.name}", before.after, step.after, 0.0)
    return None


def _since_which(view: KernelView, prefix: str, trace: str, n: int) -> str:
    """The choice of what a step is compared with: what it was given, or what any other pass left."""
    own = f"{prefix}/{trace}/{n}"
    groups = [("", [("what it was given", f"{own}/given")])]
    groups += [
        (name, [(s.name, f"{own}/since/{name}/{m}") for m, s in enumerate(steps) if not m or changed(view, s)])
        for name, steps in view.traces.items()
    ]
    menu = pick("compared with", groups, "since", "", live=True)
    return f'<div class="bar"><span class="muted">compared with {menu}</span></div>'


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
    own, _, trace = prefix.rpartition("/")
    return f'<div class="split">{side}{slot("step", pane(view, own, (trace, str(chosen))))}</div>'


def step_html(view: KernelView, step: PassView) -> str:
    """What the step changed, under a heading that says what the pass guarantees."""
    before, after = view_lines(view, step.before), view_lines(view, step.after)
    doc = f"<p>{esc(step.doc)}</p>" if step.doc else ""
    head = f"<h4>{esc(step.name)}</h4>{doc}"
    if changed(view, step) is None:
        return f'{head}<p class="none">This pass changed nothing.</p>{listing(after, "ir", step.name)}'
    if not before:
        return head + listing(after, "ir", step.name)
    return head + diff_html(before, after, f"What {step.name} changed")
