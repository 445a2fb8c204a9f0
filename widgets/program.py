"""Draws the program under a Tape as a graph: launches in a column, in the order in which they ran, and the fields
beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.runtime.tape.timeline import FORWARD, pairs
from quadrants_lab.widgets.model import ClusterView, EdgeView, GraphView, Line, NodeView, Part
from quadrants_lab.widgets.tree import count, seconds, size

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.report import Report


def seconds_of(report: Report) -> dict[int, list[float]]:
    """Index of each step that was timed -> its seconds forward, in its gradient, and run again."""
    forward = [n for n, x in enumerate(report.ran) if x.track == FORWARD]
    launched = iter(report.ran[n].kernel for n in forward)
    step_of: dict[int, int] = {}
    found: dict[int, list[float]] = {}
    now, at = next(launched, None), iter(forward)
    for n, step in enumerate(report.steps):  # those that are no launches have no time
        if step.what == now:
            place = next(at)
            step_of[place] = n
            found[n] = [report.ran[place].end - report.ran[place].begin, 0.0, 0.0]
            now = next(launched, None)
    for n, of in pairs(report.ran).items():
        if of in step_of:
            x = report.ran[n]
            found[step_of[of]][x.track] += x.end - x.begin
    return found


def program(report: Report, file: str = "") -> GraphView:
    """Draws the graph of a program. ``file``: the source file whose lines are tied to the launches of its kernels."""
    graph, took = report.program(), seconds_of(report)
    line_of = {x.kernel: int(x.place.rpartition(" ")[2]) for x in report.ran if x.place.startswith(f"{file},")}
    nodes, edges = list[NodeView](), list[EdgeView]()
    for n, x in enumerate(graph.launches):
        times = [sum(took[k][track] for k in x.steps if k in took) for track in (0, 1)]
        lines = [f"{what} {seconds(t)}" for what, t in zip(("forward", "gradient"), times, strict=True) if t]
        title = x.what if len(x.steps) == 1 else f"{x.what} × {len(x.steps):,}"
        note = f"run again {count(x.again, 'time')}" if x.again else ""
        line = line_of.get(x.what, 0)
        nodes.append(NodeView(f"l{n}", title, [Line(text, line) for text in lines], "", line, note, ""))
    nodes += [NodeView(f"f {name}", name, kind="field" if has else "") for name, has in graph.fields.items()]
    edges += [EdgeView(f"l{n}", f"l{n + 1}") for n in range(len(graph.launches) - 1)]
    for use in graph.uses:
        ends = (f"l{use.launch}", f"f {use.field}")
        kind = "kept" if use.kept else "both" if use.differentiable else "use"
        label = f"kept {size(use.kept)}" if use.kept else ""
        edges.append(EdgeView(*(ends if use.writes else ends[::-1]), kind, label))
    column: list[Part] = []
    folds = {fold.first: fold for fold in graph.folds if fold.length > 1}
    n = 0
    while n < len(graph.launches):
        length = folds[n].length if n in folds else 1
        parts: list[Part] = [f"l{k}" for k in range(n, n + length)]
        column += [ClusterView(f"{folds[n].times:,} times", parts)] if n in folds else parts
        n += length
    return GraphView(report.title(), nodes, edges, column, [f"f {name}" for name in graph.fields])
