"""The Steps pane: the trace of one iteration, forward and reverse, with its stacks as columns and linked to the
source."""

import json
import re
from collections.abc import Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets.html import choices, empty, esc, pick, short_listing, slot
from quadrants_lab.widgets.model import KernelView, StepsView, StepTrace

NONE = "none of its launches was recorded"
MOST_ROWS = 24  # of the table in the static copy
MOST_SLOTS = 12  # shown slots of a stack
MOST_LAUNCHES = 12  # in a menu; of more launches one gives the number, and an exported page has the shown one


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``launch``, ``launch/task``, ``launch/task/lane``: the launch with this `LaunchSteps.id`, its
    task number, and the iteration (lane "" is the first); ``launch/task/lane/where``: the data of the window around a
    place; ``launch/task/lane/where/open``: everything, opened at that place."""
    steps = view.steps
    if isinstance(steps, str):
        return empty(steps or NONE)
    asked = _asked(steps, rest)
    if asked is not None and len(rest) == 4:
        try:
            return json.dumps(_data(asked.trace()), separators=(",", ":"))
        except QuadrantsError as e:
            return empty(str(e))
    if asked is None and rest:
        return _by_number(steps, prefix, rest[0]) + empty(_not_kept(steps, rest[0]))
    parts = {1: _launch, 2: _task, 3: _stepper}
    return parts.get(len(rest), _all)(view, asked or steps, prefix)


def _asked(steps: StepsView, rest: Sequence[str]) -> StepsView | None:
    """The steps at the requested launch, task, iteration and place; None if there is no such launch or task."""
    at = next((n for n, x in enumerate(steps.launches) if rest and x.id == rest[0]), -1)
    if at < 0 or not all(part.isdigit() for part in rest[1:2]):
        return None
    task = int(rest[1]) if len(rest) > 1 else steps.launches[at].task
    if task >= len(steps.launches[at].tasks):
        return None
    lane, where = [*rest[2:4], "", ""][:2]
    return steps.placed(at, lane, where, task)


def _all(view: KernelView, steps: StepsView, prefix: str) -> str:
    which = ""
    if 1 < len(steps.launches) <= MOST_LAUNCHES:
        items = [(f"launch {x.number}, {x.mode}", f"{prefix}/{x.id}") for x in steps.launches]
        menu = pick("Launch", [("", items)], "launch", items[steps.at][1])
        which = f'<div class="bar"><label class="tg">{menu} of the program</label></div>'
    return which + slot("launch", _launch(view, steps, prefix))


def _by_number(steps: StepsView, prefix: str, shown: str) -> str:
    """The field for the number of a launch, and the choice between it and its gradient, if there are too many for a
    menu. ``shown``: a launch's id, which may be unknown."""
    if len(steps.launches) <= MOST_LAUNCHES:
        return ""
    number, forward = shown.removesuffix("f"), shown.endswith("f")
    kept = [x.number for x in steps.launches if forward == (x.mode == "forward")] or [steps.shown.number]
    some = "" if kept[-1] - kept[0] == len(kept) - 1 else "some from "
    told = f"{some}{kept[0]} to {kept[-1]}" if len(kept) > 1 else str(kept[0])
    field = (
        f'<label class="tg">launch <input class="lane" type="text" inputmode="numeric" size="8" value="{esc(number)}" '
        f'data-ask="{esc(prefix)}/" data-then="{"f" if forward else ""}" data-into="launch" '
        f'aria-label="Launch of the program"> of the program; kept: {told}</label>'
    )
    if len({x.mode for x in steps.launches}) == 1:
        return f'<div class="bar">{field}</div>'
    launches = [("forward", f"{prefix}/{number}f"), ("gradient", f"{prefix}/{number}")]
    return f'<div class="bar">{field}{choices("Which of the two", launches, "launch", int(not forward))}</div>'


def _not_kept(steps: StepsView, asked: str) -> str:
    """Why a launch cannot be followed, and which ones near it can."""
    mode, of = ("forward", "launch") if asked.endswith("f") else ("gradient", "gradient of launch")
    number = asked.removesuffix("f")
    if not number.isdecimal():
        return f"{number!r} is not the number of a launch"
    kept = [x.number for x in steps.launches if x.mode == mode]
    near = [max((n for n in kept if n < int(number)), default=0), min((n for n in kept if n > int(number)), default=0)]
    told = " and ".join(str(n) for n in near if n)
    return f"no {of} {number} of this kernel is kept" + (f"; the nearest: {told}" if told else "")


def _launch(view: KernelView, steps: StepsView, prefix: str) -> str:
    launch = steps.shown
    which = _by_number(steps, prefix, launch.id)
    if len(launch.tasks) > 1:
        items = [(title, f"{prefix}/{launch.id}/{n}") for n, title in enumerate(launch.tasks)]
        which += f'<div class="bar">{choices("Which task", items, "task", launch.task)}</div>'
    return which + slot("task", _task(view, steps, prefix))


def _task(view: KernelView, steps: StepsView, prefix: str) -> str:
    request = f"{prefix}/{steps.shown.id}/{steps.shown.task}/"
    field = (
        '<label class="tg">iteration <input class="lane" type="text" size="8" '
        f'value="{esc(steps.lane)}" placeholder="first" '
        f'data-ask="{esc(request)}" data-into="steps" aria-label="Iteration to follow"></label>'
    )
    return f'<div class="bar">{field}</div>{slot("steps", _stepper(view, steps, prefix))}'


def _stepper(view: KernelView, steps: StepsView, prefix: str) -> str:
    launch = steps.shown
    try:
        trace = steps.trace()
    except QuadrantsError as e:
        return empty(str(e))
    title = f"{launch.mode} of {view.name}, iteration {trace.lane or 'of its own'}"
    if trace.box:
        title += f' <span class="muted">of {esc(trace.box)}</span>'
    source = short_listing(view.source, "python", f"Source of {view.name}")
    columns = "".join(
        f'<div class="stk" data-stack="{n}"><div class="slots"></div><div class="nm">{esc(name)} '
        f'<span class="muted">{esc(dtype)}</span></div></div>'
        for n, (name, _, dtype) in enumerate(trace.stacks)
    )
    stacks = f'<h4>Stacks</h4><div class="stks">{columns}</div>' if trace.stacks else ""
    data = {**_data(trace), "ask": f"{prefix}/{launch.id}/{launch.task}/{steps.lane}/"}
    return (
        f'<div class="stepper" role="group" tabindex="0" aria-label="Stepper" '
        f'data-stepper="{esc(json.dumps(data, separators=(",", ":")))}">'
        f'<h4>{title}</h4><div class="drive" role="group" aria-label="Move"></div>'
        '<div class="drive more" role="group" aria-label="Play, go to, predict"></div>'
        '<p class="now" role="status" aria-live="polite"></p><div class="quiz" hidden></div>'
        f'<div class="two"><div>{source}</div><div>'
        f'<h4>Values</h4><div class="vals"></div>{stacks}<h4>Written to memory</h4><div class="mem code"></div>'
        '</div></div><div class="plot"></div></div>'
    )


def _data(trace: StepTrace) -> dict[str, object]:
    """The data for the script."""
    same = ("cut", "first", "past", "below", "found", "turn", "hidden")
    return {
        "s": [[x.text, x.line, x.kind, x.name, x.stack, x.carried, int(x.back)] for x in trace.statements],
        "e": trace.events,
        "n": len(trace.stacks),
        **{name: getattr(trace, name) for name in same},
        "names": [name for name, _, _ in trace.stacks],
    }


def rows(trace: StepTrace) -> list[tuple[str, str, str, str]]:
    """(number, line, statement, value) of each step. Of a long iteration only the steps around the wanted one, or the
    first and last ones with a row in between that says how many are left out."""
    out = []
    for n, (at, value, _) in enumerate(trace.events, trace.first + 1):
        s = trace.statements[at]
        text = re.sub(r" '([^']+)'", lambda m: "" if m[1] in trace.hidden else m[0], s.text)
        out.append((str(n), str(s.line or ""), text if s.kind != "end" else f"end of: {text}", _value_text(value)))
    if len(out) <= MOST_ROWS:
        return out
    half, at = MOST_ROWS // 2, trace.found - trace.first
    if trace.found > 0:
        return out[max(at - half, 0) : max(at - half, 0) + MOST_ROWS]
    return [*out[:half], ("…", "", f"{len(out) - 2 * half} more steps", ""), *out[-half:]]


def _value_text(value: str | list[str]) -> str:
    if isinstance(value, str):
        return value
    index, *carried = value
    return "; ".join(x for x in (index, ", ".join(carried)) if x)
