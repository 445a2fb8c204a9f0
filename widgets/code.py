"""The Code pane: what each backend makes of the kernel, stage by stage, with its size."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants_lab.widgets.html import choices, empty, esc, listing, slot
from quadrants_lab.widgets.model import KernelView, StageView


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``""``: everything; ``mode``: its stages; ``mode/n``: the code of its stage n."""
    if not view.code:
        return empty("no code was made yet: launch the kernel")
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
    items = [(s.name, f"{prefix}/{n}") for n, s in enumerate(stages)]
    return f'<div class="bar">{choices("Which stage", items, "stage")}</div>{slot("stage", stage_html(stages[0]))}'


def stage_html(stage: StageView) -> str:
    code = stage.make()
    return measures(code.measures) + listing(code.lines, stage.language, stage.name, numbers="count")


def measures(items: Sequence[tuple[str, int]]) -> str:
    return '<p class="ms">' + " · ".join(f"<b>{n:,}</b> {esc(name)}" for name, n in items) + "</p>"
