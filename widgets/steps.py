"""The Steps pane shows the trace of one iteration, forward and reverse, with its stacks as columns and linked to
the source."""

import json
import re
from collections.abc import Sequence

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.widgets.model import KernelView, StepsView, StepTrace
from quadrants_lab.widgets.source import listing
from quadrants_lab.widgets.tree import (
    Block,
    Control,
    Slot,
    Tree,
    choices,
    count,
    empty,
    entry,
    head,
    menu,
    muted,
)

NONE = "none of its launches was recorded"
MOST_ROWS = 24  # of the table in the static copy
MOST_SLOTS = 12  # shown slots of a stack
MOST_LAUNCHES = 12  # in a menu; of more launches one gives the number, and an exported page has the shown one


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    """The part of the pane that a request asks for. ``""``: everything. ``launch``, ``launch/task``,
    ``launch/task/lane``: the launch with this `LaunchSteps.id`, its task with this number, and this iteration (lane
    "" is the iteration that adds most to a gradient, or the first). ``launch/task/lane/where``: the steps around a
    place, for the script. ``launch/task/lane/where/open``: everything, opened at that place."""
    steps = view.steps
    if isinstance(steps, str):
        return empty(steps or NONE)
    asked = _asked(steps, rest)
    if asked is not None and len(rest) == 4:
        try:
            return Control("div", {"data-window": _json(step_data(asked.trace()))})
        except QuadrantsError as e:
            return empty(str(e))
    if asked is None and rest:
        return [_bar(_by_number(steps, prefix, rest[0])), empty(_not_kept(steps, rest[0]))]
    shown = _shown(view, asked or steps, prefix)
    return shown if 0 < len(rest) < 4 else Slot("steps", shown)


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


def _bar(*parts: Tree) -> Control:
    return Control("div", {"class": "bar"}, parts)


def _shown(view: KernelView, steps: StepsView, prefix: str) -> Tree:
    """The controls for launch, task and iteration, each of which loads the whole pane again; and the stepper."""
    launch, tasks = steps.shown, list[Tree]()
    which = _by_number(steps, prefix, launch.id)
    if 1 < len(steps.launches) <= MOST_LAUNCHES:
        items = [(f"launch {x.number}, {x.mode}", f"{prefix}/{x.id}") for x in steps.launches]
        picked = menu("Launch", [("", items)], "steps", items[steps.at][1])
        which = Control("label", {"class": "tg"}, [picked, " of the program"])
    if len(launch.tasks) > 1:
        items = [(title, f"{prefix}/{launch.id}/{n}") for n, title in enumerate(launch.tasks)]
        tasks.append(choices("Which task", items, "steps", launch.task))
    first, request = "greatest" if launch.mode == "gradient" else "first", f"{prefix}/{launch.id}/{launch.task}/"
    field = entry("Iteration to follow", "iteration", str(steps.lane), request, "steps", placeholder=first)
    return [_bar(which, tasks, field), _stepper(view, steps, request)]


def _by_number(steps: StepsView, prefix: str, shown: str) -> Tree:
    """The field for the number of a launch, and the choice between it and its gradient, if there are too many for a
    menu. ``shown``: a launch's id, which may be unknown."""
    if len(steps.launches) <= MOST_LAUNCHES:
        return ()
    number, forward = shown.removesuffix("f"), shown.endswith("f")
    kept = [x.number for x in steps.launches if forward == (x.mode == "forward")] or [steps.shown.number]
    some = "" if kept[-1] - kept[0] == len(kept) - 1 else "some from "
    told = f"{some}{kept[0]} to {kept[-1]}" if len(kept) > 1 else str(kept[0])
    field = entry("Launch of the program", "launch", number, f"{prefix}/", "steps", f"of the program; kept: {told}",
                  inputmode="numeric", data_then="f" if forward else "")  # fmt: skip
    if len({x.mode for x in steps.launches}) == 1:
        return field
    launches = [("forward", f"{prefix}/{number}f"), ("gradient", f"{prefix}/{number}")]
    return [field, choices("Which of the two", launches, "steps", int(not forward))]


def _not_kept(steps: StepsView, asked: str) -> str:
    """Says why a launch cannot be followed, and which launches near it can."""
    mode, of = ("forward", "launch") if asked.endswith("f") else ("gradient", "gradient of launch")
    number = asked.removesuffix("f")
    if not number.isdecimal():
        return f"{number!r} is not the number of a launch"
    kept = [x.number for x in steps.launches if x.mode == mode]
    below, above = ([n for n in kept if n < int(number)], [n for n in kept if n > int(number)])
    told = " and ".join(map(str, (*sorted(below)[-1:], *sorted(above)[:1])))
    return f"no {of} {number} of this kernel is kept" + (f"; the nearest: {told}" if told else "")


def _stepper(view: KernelView, steps: StepsView, request: str) -> Tree:
    launch = steps.shown
    try:
        trace = steps.trace()
    except QuadrantsError as e:
        return empty(str(e))
    title = f"{launch.mode} of {view.name}, iteration {trace.lane or 'of its own'}"
    steps_known = f"{trace.first + len(trace.events):,}{' and more' if trace.cut else ''} steps"
    told = [f"it {trace.why}" if trace.why else "", f"the iterations are {trace.box}" if trace.box else ""]
    box = muted("".join(f"; {text}" for text in told if text))
    turn = f", the reverse begins at step {trace.turn + 1:,}" if trace.turn > 0 else ""
    data = _json({**step_data(trace), "ask": f"{request}{steps.lane}/"})
    return stepper([f"{title}: {steps_known}{turn}", box], listing(view), trace.stacks, data)


def stepper(title: Tree, source: Tree, stacks: Sequence[tuple[str, int, str]], data: str) -> Tree:
    """The elements that the script fills. ``stacks``: name, line and dtype of each."""

    def div(kind: str, *body: Tree, **more: str) -> Control:
        return Control("div", {"class": kind} | {name.replace("_", "-"): text for name, text in more.items()}, body)

    columns = [
        div("stk", div("slots"), div("nm", f"{name} ", muted(dtype)), data_stack=str(n))
        for n, (name, _, dtype) in enumerate(stacks)
    ]
    below: Tree = [head("Stacks"), div("stks", *columns)] if stacks else ()
    right = div("", head("Values"), div("vals"), below, head("Written to memory"), div("mem code"))
    about = {"role": "group", "tabindex": "0", "aria_label": "Stepper", "data_stepper": data}
    return div(
        "stepper",
        Block(title, "answer"),
        div("drive", role="group", aria_label="Move"),
        div("drive more", role="group", aria_label="Play, go to, predict"),
        Control("p", {"class": "now", "role": "status", "aria-live": "polite"}),
        div("quiz", hidden=""),
        div("two", div("", source), right),
        div("plot"),
        **about,
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def step_data(trace: StepTrace) -> dict[str, object]:
    """The data for the script."""
    same = ("cut", "first", "past", "below", "found", "turn", "back", "hidden")
    return {
        "s": [[x.text, x.line, x.kind, x.name, x.stack, x.carried, int(x.back)] for x in trace.statements],
        "e": trace.events,
        "n": len(trace.stacks),
        **{name: getattr(trace, name) for name in same},
        "names": [name for name, _, _ in trace.stacks],
    }


def rows(trace: StepTrace) -> list[tuple[str, str, str, str]]:
    """A row (number, line, statement, value) for each step. A long iteration shows only its first steps, the steps
    around the wanted one, and its last steps; rows in between say how many are left out."""
    out = []
    for n, (at, value, _) in enumerate(trace.events, trace.first + 1):
        s = trace.statements[at]
        text = re.sub(r" '([^']+)'", lambda m: "" if m[1] in trace.hidden else m[0], s.text)
        out.append((str(n), str(s.line or ""), text if s.kind != "end" else f"end of: {text}", _value_text(value)))
    if len(out) <= MOST_ROWS:
        return out
    part, end, at = MOST_ROWS // 3, len(out), max(trace.found - trace.first, 0)
    shown = sorted({*range(part), *range(max(at - part // 2, 0), min(at + part // 2, end)), *range(end - part, end)})
    found = []
    for n, before in zip(shown, [-1, *shown], strict=False):
        found += [("…", "", f"{count(n - before - 1, 'more step')}", "")] if n > before + 1 else []
        found.append(out[n])
    return found


def _value_text(value: str | list[str]) -> str:
    if isinstance(value, str):
        return value
    index, *carried = value
    return "; ".join(x for x in (index, ", ".join(carried)) if x)
