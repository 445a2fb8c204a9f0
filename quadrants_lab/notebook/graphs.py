"""Implements `Kernel.graph`, which returns the graphs of the panes as DOT text and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsKeyError, QuadrantsRuntimeError
from quadrants_lab.ir.dot import Drawing, Edge, Node, digraph, drawing
from quadrants_lab.notebook import show
from quadrants_lab.widgets.graph import dot, svg
from quadrants_lab.widgets.model import GraphView, KernelView, SizeView
from quadrants_lab.widgets.program import program as program_view
from quadrants_lab.widgets.static import static
from quadrants_lab.widgets.tree import Graph, head

if TYPE_CHECKING:
    from quadrants_lab.lang.kernel import Kernel
    from quadrants_lab.runtime.tape.report import Report

GRAPHS = {
    "cfg": "the control flow of the forward slice of each task of the gradient",
    "scc": "its strongly connected components, with the stacks to which they push",
    "sizes": "the expression of each stack's depth, with its values",
    "program": "fields and launches of the last program under a Tape that launched the kernel",
}


def graph(kernel: Kernel, name: str) -> Drawing:
    """Implements `Kernel.graph`."""
    if name not in GRAPHS:
        known = ", ".join(GRAPHS)
        raise QuadrantsKeyError(f"a kernel has no graph {name!r}: there are {known}", code="QL0719")
    view = show(kernel).view.kernels[0]
    if name == "program":
        return _program(view)
    if name == "sizes":
        return drawing(_sizes(view))
    views = [g for task in view.graphs if (g := task.cfg if name == "cfg" else task.scc) is not None]
    if not views:
        what = "launched gradient" if not view.graphs else "stack"
        raise QuadrantsRuntimeError(
            f"kernel {kernel.name} has no {what}, so there is no graph {name!r}",
            code="QL0719",
            help=f"launch {kernel.name}.grad first" if not view.graphs else 'graph("cfg") has the control flow',
        )
    title = f"{kernel.name}: {views[0].title if len(views) == 1 else name}"
    return drawing(dot(views, title), lambda: _drawn(views))


def _drawn(views: Sequence[GraphView]) -> dict[str, str]:
    """The drawing that notebooks show without Graphviz: the graphs as SVG, one below the other."""
    if len(views) == 1:
        return {"image/svg+xml": svg(views[0])}
    return {"text/html": static([[head(view.title), Graph(view)] for view in views])}


def _sizes(view: KernelView) -> str:
    """The size expressions of all stacks, each drawn as a tree, as one DOT text."""
    nodes, edges, numbers = list[Node](), list[Edge](), count()

    def add(e: SizeView) -> str:
        own = f"{next(numbers)}"
        value = "" if e.value is None else f"= {e.value:,}"
        nodes.append(Node(own, e.text, (), "", ", ".join(filter(None, (value, e.note)))))
        edges.extend(Edge(own, add(child), child.role) for child in e.children)
        return own

    for stack in view.stacks:
        if stack.size is not None:
            depth = "" if stack.depth is None else f"{stack.depth:,} slots, {stack.bytes:,} bytes an iteration"
            note = ", ".join(filter(None, (f"line {stack.line}", depth)))
            nodes.append(Node(f"s{stack.stack}", f"stack {stack.name}", (), "push", note))
            edges.append(Edge(f"s{stack.stack}", add(stack.size)))
    if not nodes:
        raise QuadrantsRuntimeError(
            f"kernel {view.name} keeps nothing on a stack, or its gradient was not launched, so there are no sizes",
            code="QL0719",
            help=f"launch {view.name}.grad first",
        )
    return digraph(f"{view.name}: depth of each stack", nodes, edges)


def program(report: Report) -> Drawing:
    """The graph of a program under a Tape."""
    view = program_view(report)
    return drawing(dot([view], view.title), lambda: _drawn([view]))


def _program(view: KernelView) -> Drawing:
    reports = [report for report in view.tapes if report.steps]
    if not reports:
        raise QuadrantsRuntimeError(
            f"no program of {view.name} under a Tape was recorded, so there is no graph of it",
            code="QL0719",
            help="launch it under a Tape in a %%qdkernel cell or within qd.recording(); or, anywhere, call "
            "tape.graph() after the with",
        )
    return program(reports[-1])
