"""The Code pane: what each backend makes of the kernel, stage by stage, with its size."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.html import choices, empty, esc, listing, slot, table
from quadrants_lab.widgets.model import KernelView, StageView

MEASURES = ("lines", "instructions", "phis", "bytes of text", "bytes of code")


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``mode``: its stages; ``mode/n``: the code of its stage n; ``mode/sizes``: of those that are
    made; ``mode/all``: of all."""
    if not view.code:
        return empty("no code was made yet: launch the kernel")
    if len(rest) == 2 and rest[0] in view.code and rest[1] in ("sizes", "all"):
        stages = view.code[rest[0]]
        if rest[1] == "sizes" and any(s.known is None for s in stages):
            offer = choices("Sizes", [("make all of them", f"{prefix}/{rest[0]}/all")], "stage", chosen=-1)
            return f'{sizes(stages)}<p class="bar">{offer}</p>'
        for stage in stages if rest[1] == "all" else ():
            stage.make()
        return sizes(stages)
    if len(rest) == 2 and rest[0] in view.code and rest[1].isdigit():
        stages = view.code[rest[0]]
        return (
            stage_html(stages[int(rest[1])])
            if int(rest[1]) < len(stages)
            else empty("there is no such stage")
        )
    if rest and rest[0] in view.code:
        return _mode(f"{prefix}/{rest[0]}", view.code[rest[0]])
    names = list(view.code)
    which = choices("Which kernel", [(n, f"{prefix}/{n}") for n in names], "mode")
    return f'<div class="bar">{which}</div>{slot("mode", _mode(f"{prefix}/{names[0]}", view.code[names[0]]))}'


def _mode(prefix: str, stages: Sequence[StageView]) -> str:
    items = [*((title, f"{prefix}/{n}") for n, title in enumerate(titles(stages))), ("all sizes", f"{prefix}/sizes")]
    return f'<div class="bar">{choices("Which stage", items, "stage")}</div>{slot("stage", stage_html(stages[0]))}'


def titles(stages: Sequence[StageView]) -> list[str]:
    """The names of the stages; one that an earlier backend has too says its own."""
    names = [s.name for s in stages]
    return [s.name if s.name not in names[:n] else f"{s.name} ({s.backend})" for n, s in enumerate(stages)]


def stage_html(stage: StageView) -> str:
    code = stage.make()
    if code.problem:
        return measures(stage) + problem(code.problem)
    return measures(stage) + listing(code.lines, stage.language, stage.name, numbers="count")


def measures(stage: StageView) -> str:
    """The backend and what was counted of its code."""
    parts = [f"<b>{n:,}</b> {esc(name)}" for name, n in stage.make().measures]
    return f'<p class="ms">{" · ".join([esc(stage.backend), *parts])}</p>'


def problem(text: str) -> str:
    """A message of several lines."""
    return f'<pre class="pre">{esc(text)}</pre>'


def sizes(stages: Sequence[StageView]) -> str:
    """The measures of all stages beside each other, and why there are none of one."""
    rows = [(f"<b>{esc(s.name)}</b>", esc(s.backend), *cells(s)) for s in stages]
    notes = "".join(f'<p class="foot">{esc(text)}</p>' for text in problems(stages))
    return table(("stage", "backend", *MEASURES), rows, right=range(2, 2 + len(MEASURES))) + notes


def problems(stages: Sequence[StageView]) -> list[str]:
    """For each stage that cannot be made the reason, in one line, and how many were not made yet."""
    found = [f"{s.name}: {s.known.problem.splitlines()[0]}" for s in stages if s.known and s.known.problem]
    if waiting := sum(s.known is None for s in stages):
        found.append(f"{waiting} not made yet: code is made when somebody looks at it")
    return found


def cells(stage: StageView) -> list[str]:
    """The stage's measures in the order of `MEASURES`, as far as they are known."""
    known = dict(stage.known.measures) if stage.known is not None else {}
    return [f"{known[m]:,}" if m in known else "–" for m in MEASURES]
