"""The inspector in a plain terminal: rich tables and trees of the same view."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from quadrants_lab.widgets import code
from quadrants_lab.widgets.html import seconds, size
from quadrants_lab.widgets.model import BackendRun, CellView, KernelView, PassView, SizeView, StageView
from quadrants_lab.widgets.passes import changed
from quadrants_lab.widgets.run import STACK_BYTES, TIMES, outcome, rows_of
from quadrants_lab.widgets.steps import rows


def cell(view: CellView) -> RenderableType:
    """All kernels of a cell; of a view that opens at the steps these alone."""
    if view.open == "steps":
        return Group(*map(steps, view.kernels))
    return Group(*map(kernel, view.kernels))


def kernel(view: KernelView) -> RenderableType:
    """Source, passes, stacks, sizes and runs of one kernel, under its name."""
    parts: list[RenderableType] = []
    if view.source:
        text = "\n".join(line.text for line in view.source)
        parts.append(
            Syntax(text, "python", line_numbers=True, start_line=view.source[0].span_line, theme="ansi_dark")
        )
    parts += [passes(name, steps, view) for name, steps in view.traces.items()]
    if view.stacks:
        parts.append(stacks(view))
    for k in view.kept:
        what = f" (line {k.line}): the launch keeps {k.elements:,} values, {size(k.bytes)}: {k.reason}"
        parts.append(Text.assemble((k.name, "bold"), what))
    for f in view.free:
        parts.append(Text.assemble((f.name, "bold"), f" (line {f.line}) needs no stack: {f.why}"))
    parts += [tree(s.size, f"depth of {s.name}") for s in view.stacks if s.size is not None]
    parts += [codes(f"code of {name}", stages) for name, stages in view.code.items()]
    parts += [runs(view)] if view.launches else []
    parts += [backends(x.compared, f"{x.mode} on several backends") for x in view.launches if x.compared]
    return Panel(Group(*parts), title=view.name, title_align="left")


def titled(title: str, *heads: str) -> Table:
    return Table(*heads, title=title, title_justify="left", box=None, pad_edge=False)


def passes(name: str, steps: list[PassView], view: KernelView) -> Table:
    """The passes that changed something."""
    table = titled(name, "pass", "statements", "time")
    quiet = 0
    for step in steps:
        change = changed(view, step)
        if change is None:
            quiet += 1
            continue
        delta = Text.assemble((f"+{change[0]}", "green"), " ", (f"−{change[1]}", "red"))
        table.add_row(step.name, delta, seconds(step.seconds))
    if quiet:
        table.add_row(Text(f"{quiet} that changed nothing", style="dim"), "", "")
    return table


def stacks(view: KernelView) -> Table:
    table = titled("stacks", "stack", "line", "dtype", "depth", "bytes", "how found", "why it is kept")
    for s in view.stacks:
        depth = "–" if s.depth is None else f"{s.depth:,}"
        table.add_row(s.name, str(s.line), s.dtype, depth, size(s.bytes), s.how, s.reason)
    total = size(sum(s.bytes or 0 for s in view.stacks))
    before = f"; {size(view.bytes_before)} if everything were kept as it is" if view.bytes_before else ""
    table.caption = f"{total} for each iteration in flight{before}"
    table.caption_justify = "left"
    return table


def steps(view: KernelView) -> RenderableType:
    """The steps of one iteration."""
    if isinstance(view.steps, str):
        return Text(view.steps, style="italic")
    trace = view.steps.trace()
    title = f"{view.steps.shown.mode} of {view.name}, iteration {trace.lane}"
    table = titled(title, "step", "line", "statement", "value")
    for number, line, text, value in rows(trace):
        table.add_row(number, line, Text(text), value)
    return table


def tree(node: SizeView, title: str) -> Tree:
    def label(n: SizeView) -> Text:
        value = "" if n.value is None else f" = {n.value:,}"
        role = f"{n.role} " if n.role else ""
        return Text.assemble((role, "dim"), n.text, (value, "bold cyan"), (f"  {n.note}" if n.note else "", "dim"))

    def grow(branch: Tree, n: SizeView) -> None:
        below = branch.add(label(n))
        for child in n.children:
            grow(below, child)

    root = Tree(Text(title, style="bold"))
    grow(root, node)
    return root


def runs(view: KernelView) -> Table:
    table = titled("run", "launch", "time", "array", "type", "values", "difference")
    for launch in view.launches:
        table.add_row(launch.mode, seconds(launch.seconds), "", "", launch.place and f"on {launch.place}", "")
        for name, value in launch.times:
            table.add_row(f"  {name}", seconds(value))
        for a in rows_of(launch.arrays, launch.compared[1:]):
            table.add_row("", "", a.name, f"{a.dtype}{list(a.shape) if a.shape else ''}", a.preview, a.difference)
    return table


def codes(title: str, stages: Sequence[StageView]) -> RenderableType:
    """The sizes of all stages."""
    table = titled(title, "stage", "backend")
    for name in code.MEASURES:
        table.add_column(name, justify="right")
    for s in stages:
        table.add_row(s.name, s.backend, *code.cells(s))
    return Group(table, *(Text(text, style="italic") for text in code.problems(stages)))


def backends(runs: Sequence[BackendRun], title: str) -> RenderableType:
    """A launch on several backends."""
    table = titled(title, "backend", *TIMES, *STACK_BYTES, "greatest difference")
    after: list[Text] = []
    for r in runs:
        stacks = (size(r.lane_bytes), size(r.heap_bytes)) if r.lane_bytes else ("", "")
        table.add_row(r.name, seconds(r.first), seconds(r.seconds), *stacks, Text(outcome(r)))
        after += [Text(f"{r.name}: {r.note}", style="italic")] if r.note else []
        after += [Text(r.problem)] if "\n" in r.problem else []
    return Group(table, *after)
