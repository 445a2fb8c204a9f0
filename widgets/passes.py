"""The Passes pane: every pass from source to sized IR, what each changed, and the difference between any two."""

import re
from collections.abc import Sequence

from quadrants_lab.widgets.diff import counts
from quadrants_lab.widgets.html import choices, difference, empty, esc, listing, pick, seconds, slot
from quadrants_lab.widgets.model import KernelView, PassView, view_lines


def changed(view: KernelView, step: PassView) -> tuple[int, int] | None:
    """The numbers of added and removed statements, or None if the pass changed nothing."""
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
    if not came and not gone:
        return '<span class="same">statements unchanged</span>'
    return f'<span class="add">+{came}</span> <span class="del">−{gone}</span>'


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``trace``: the list of passes of that trace; ``trace/n``: what pass n changed;
    ``trace/n/given`` and ``trace/n/ir``: the IR before and after it, any two of which the browser can compare."""
    if not view.traces:
        return empty("no pass was recorded: run the kernel in a %%qdkernel cell")
    names = [*view.traces, *view.lowered]
    match rest:
        case [trace, n, *more] if trace in names and n.isdigit():
            if int(n) >= len(steps := view.trace(trace)) or more not in ([], ["ir"], ["given"]):
                return empty("there is no such pass")
            step = steps[int(n)]
            if more:
                kernel, when = (step.after, "after") if more == ["ir"] else (step.before, "before")
                return listing(view_lines(view, kernel), "ir", f"IR {when} {step.name} ({trace})")
            return step_html(view, step, f"{prefix}/{trace}/{n}", prefix)
        case [trace] if trace in names:
            return _trace(view, f"{prefix}/{trace}", view.trace(trace))
    which = choices("Which kernel", [(name, f"{prefix}/{name}") for name in names], "trace")
    toggles = (
        '<label class="tg"><input type="checkbox" data-toggle="show-same"> passes that changed nothing</label>'
        '<label class="tg"><input type="checkbox" data-toggle="unified"> one column</label>'
    )
    first = _trace(view, f"{prefix}/{names[0]}", view.traces[names[0]])
    return f'<div class="bar">{which}{toggles}</div>{slot("trace", first)}'


def irs(view: KernelView, prefix: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each trace (name of a pass, request for the IR after it) of the passes that changed something. A lazy trace
    has one pass."""
    made = [
        (trace, [(s.name, f"{prefix}/{trace}/{n}/ir") for n, s in enumerate(steps) if not n or changed(view, s)])
        for trace, steps in view.traces.items()
    ]
    return made + [(trace, [(x.name, f"{prefix}/{trace}/0/ir")]) for trace, x in view.lowered.items()]


def _trace(view: KernelView, prefix: str, steps: Sequence[PassView]) -> str:
    deltas = [changed(view, step) for step in steps]
    chosen = next((n for n, d in enumerate(deltas) if d is not None), 0)
    items = []
    for n, (step, d) in enumerate(zip(steps, deltas, strict=True)):
        on = "true" if n == chosen else "false"
        items.append(
            f'<div class="ps{" noop" if d is None else ""}" role="option" data-item aria-selected="{on}" '
            f'tabindex="{0 if n == chosen else -1}" data-req="{esc(prefix)}/{n}" data-into="step" '
            f'title="{esc(step.doc.replace("`", ""))}">'
            f'<span class="nm">{esc(step.name)}</span><span class="dl">{delta(d)}</span>'
            f'<span class="tm">{seconds(step.seconds)}</span></div>'
        )
    total = seconds(sum(s.seconds for s in steps)) or "in a process of its own"
    noops = sum(d is None for d in deltas)
    front = sum(s.before is None for s in steps[:1])  # the front end is no pass, and has a row
    count = len(steps) - front
    summary = f'{f"{steps[0].name} and " * front}{count} pass{"es" * (count != 1)}'
    foot = f'<div class="foot">{esc(summary)}, {total}; {noops} changed nothing</div>'
    head = '<div class="list" data-roving data-follow role="listbox" aria-label="Passes">'
    side = f'<div class="side">{head}{"".join(items)}</div>{foot}</div>'
    own, _, trace = prefix.rpartition("/")
    return f'<div class="split">{side}{slot("step", pane(view, own, (trace, str(chosen))))}</div>'


def step_html(view: KernelView, step: PassView, own: str, prefix: str) -> str:
    """What the pass changed, under a heading with what it guarantees."""
    doc = "<p>" + re.sub("`+([^`]+)`+", r"<code>\1</code>", esc(step.doc)) + "</p>" if step.doc else ""
    head = f"<h4>{esc(step.name)}</h4>{doc}"
    groups = [("", [("what it was given", f"{own}/given")] if step.before is not None else []), *irs(view, prefix)]
    menu = pick("compared with", groups, "since", f"{own}/given", to=f"{own}/ir")
    bar = f'<div class="bar"><span class="muted">compared with {menu}</span></div>'
    if same := changed(view, step) is None:
        bar += '<p class="none">This pass changed nothing.</p>'
    if same or step.before is None:
        return head + bar + slot("since", listing(view_lines(view, step.after), "ir", step.name))
    return head + bar + difference("since", f"{own}/given", f"{own}/ir")
