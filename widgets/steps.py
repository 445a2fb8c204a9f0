"""The Steps pane: one iteration of a launch forwards and backwards, its stacks as columns, linked to its source."""

from __future__ import annotations

import json
from collections.abc import Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets.html import choices, empty, esc, listing, slot
from quadrants_lab.widgets.model import KernelView, StepsView, StepTrace

NONE = "none of its launches was recorded"
MOST_ROWS = 24  # of the table that stands for the stepper where nothing moves


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``task/lane``: one iteration, lane "" for the first."""
    steps = view.steps
    if isinstance(steps, str):
        return empty(steps or NONE)
    if len(rest) == 2 and rest[0].isdigit() and int(rest[0]) < len(steps.tasks):
        return _stepper(view, steps, int(rest[0]), rest[1])
    if len(rest) == 1 and rest[0].isdigit() and int(rest[0]) < len(steps.tasks):
        return _task(view, steps, f"{prefix}/{rest[0]}", int(rest[0]), "")
    which = ""
    if len(steps.tasks) > 1:
        items = [(title, f"{prefix}/{n}") for n, title in enumerate(steps.tasks)]
        which = f'<div class="bar">{choices("Which task", items, "task", steps.task)}</div>'
    return which + slot("task", _task(view, steps, f"{prefix}/{steps.task}", steps.task, steps.lane))


def _task(view: KernelView, steps: StepsView, request: str, task: int, lane: str) -> str:
    field = (
        f'<label class="tg">iteration <input class="lane" type="text" size="8" value="{esc(lane)}" placeholder="first" '
        f'data-ask="{esc(request)}/" data-into="steps" aria-label="Iteration to follow"></label>'
    )
    return f'<div class="bar">{field}</div>{slot("steps", _stepper(view, steps, task, lane))}'


def _stepper(view: KernelView, steps: StepsView, task: int, lane: str) -> str:
    try:
        trace = steps.make(task, lane)
    except QuadrantsError as e:
        return empty(str(e))
    title = f"{steps.launch} of {view.name}, iteration {trace.lane or 'of its own'}"
    if trace.box:
        title += f' <span class="muted">of {esc(trace.box)}</span>'
    source = listing(view.source, "python", f"Source of {view.name}")
    columns = "".join(
        f'<div class="stk" data-stack="{n}"><div class="slots"></div><div class="nm">{esc(name)} '
        f'<span class="muted">{esc(dtype)}</span></div></div>'
        for n, (name, _, dtype) in enumerate(trace.stacks)
    )
    held = f'<h4>Stacks</h4><div class="stks">{columns}</div>' if trace.stacks else ""
    return (
        f'<div class="stepper" data-stepper="{esc(json.dumps(_data(trace), separators=(",", ":")))}">'
        f"<h4>{title}</h4>"
        '<div class="drive" role="group" aria-label="Step"></div><p class="now" role="status" aria-live="polite"></p>'
        f'<div class="two"><div>{source}</div><div>'
        f'<h4>Values</h4><div class="vals"></div>{held}<h4>Written to memory</h4><div class="mem code"></div>'
        "</div></div></div>"
    )


def _data(trace: StepTrace) -> dict[str, object]:
    """What the script draws from."""
    return {
        "s": [
            [x.text, x.line, x.kind, x.name, x.stack, x.carried, int(x.back)] for x in trace.statements
        ],
        "e": trace.events,
        "n": len(trace.stacks),
        "cut": trace.cut,
    }


def rows(trace: StepTrace) -> list[tuple[str, str, str, str]]:
    """Number, line, statement and value of each step; of a long iteration the first and last ones, with a row in
    between that says how many are left out."""
    out = []
    for n, (at, value, _) in enumerate(trace.events, 1):
        s = trace.statements[at]
        out.append((str(n), str(s.line or ""), s.text if s.kind != "end" else f"end of: {s.text}", _told(value)))
    if len(out) <= MOST_ROWS:
        return out
    half = MOST_ROWS // 2
    return [*out[:half], ("…", "", f"{len(out) - 2 * half} more steps", ""), *out[-half:]]


def _told(value: str | list[str]) -> str:
    if isinstance(value, str):
        return value
    index, *carried = value
    return "; ".join(x for x in (index, ", ".join(carried)) if x)
