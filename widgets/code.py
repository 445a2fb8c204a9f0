"""The code of the kernel on each backend, stage by stage, with its size."""

from collections.abc import Sequence

from quadrants_lab.widgets.html import empty, esc, listing, offer, table
from quadrants_lab.widgets.model import KernelView, StageView

MEASURES = ("lines", "instructions", "phis", "bytes of text", "bytes of code")


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    """``mode/n``: the code of stage n; ``mode/sizes``: a table of the sizes of stages that were made; ``mode/all``:
    the same table, after making all stages."""
    match rest:
        case [mode, n] if mode in view.code and n.isdigit():
            stages = view.code[mode]
            return stage_html(stages[int(n)]) if int(n) < len(stages) else empty("there is no such stage")
        case [mode, which] if mode in view.code and which in ("sizes", "all"):
            stages = view.code[mode]
            for stage in stages if which == "all" else ():
                stage.make()
            if all(s.known is not None for s in stages):
                return sizes(stages)
            return f'{sizes(stages)}<p class="bar">{offer("make all of them", f"{prefix}/{mode}/all", "code")}</p>'
    return "".join(map(sizes, view.code.values())) or empty("no code was made yet: launch the kernel")


def titles(stages: Sequence[StageView]) -> list[str]:
    """The names of the stages, with the backend if an earlier stage has the same name."""
    names = [s.name for s in stages]
    return [s.name if s.name not in names[:n] else f"{s.name} ({s.backend})" for n, s in enumerate(stages)]


def stage_html(stage: StageView) -> str:
    code = stage.make()
    if code.problem:
        return measures(stage) + problem(code.problem)
    return measures(stage) + listing(code.lines, stage.language, stage.name, numbers="count")


def measures(stage: StageView) -> str:
    """The backend and the measures of its code."""
    parts = [f"<b>{n:,}</b> {esc(name)}" for name, n in stage.make().measures]
    return f'<p class="ms">{" · ".join([esc(stage.backend), *parts])}</p>'


def problem(text: str) -> str:
    """A message of several lines."""
    return f'<pre class="pre">{esc(text)}</pre>'


def sizes(stages: Sequence[StageView]) -> str:
    """A table with the measures of all stages, and the problems of stages without measures."""
    rows = [(f"<b>{esc(s.name)}</b>", esc(s.backend), *cells(s)) for s in stages]
    notes = "".join(f'<p class="foot">{esc(text)}</p>' for text in problems(stages))
    return table(("stage", "backend", *MEASURES), rows, right=range(2, 2 + len(MEASURES))) + notes


def bytes_of(view: KernelView, backend: str, what: str = "bytes of code") -> int:
    """The measure ``what`` of the backend's code, forward and gradient together. Each of the two counts at its last
    stage that has the measure; 0 if no stage that was made has it."""
    found = 0
    for stages in view.code.values():
        made = (s.known for s in stages if s.backend == backend and s.known is not None)
        measured = [n for code in made for name, n in code.measures if name == what]
        found += measured[-1] if measured else 0
    return found


def problems(stages: Sequence[StageView]) -> list[str]:
    """A line for each stage that cannot be made, and one for the number of stages that were not made yet."""
    found = [f"{s.name}: {s.known.problem.splitlines()[0]}" for s in stages if s.known and s.known.problem]
    if waiting := sum(s.known is None for s in stages):
        found.append(f"{waiting} not made yet: code is made when somebody looks at it")
    return found


def cells(stage: StageView) -> list[str]:
    """The stage's known measures in the order of `MEASURES`, with a dash for each other one."""
    known = dict(stage.known.measures) if stage.known is not None else {}
    return [f"{known[m]:,}" if m in known else "–" for m in MEASURES]
