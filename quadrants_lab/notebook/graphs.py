"""`Kernel.graph`: the graphs of the panes as DOT text and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from quadrants_lab.errors import QuadrantsKeyError, QuadrantsRuntimeError
from quadrants_lab.ir.dot import Drawing, Edge, Frame, Node, digraph, drawing
from quadrants_lab.notebook import show
from quadrants_lab.widgets.graph import svg
from quadrants_lab.widgets.model import ClusterView, GraphView, KernelView, Part, SizeView
from quadrants_lab.widgets.static import static
from quadrants_lab.widgets.tree import Graph, head

if TYPE_CHECKING:
    from quadrants_lab.lang.kernel import Kernel

GRAPHS = {
    "cfg": "the control flow of the forward slice of each task of the gradient",
    "scc": "its strongly connected components, with what they push",
    "sizes": "the expression of each stack's depth, with its values",
    "program": "fields and launches of the last program under a Tape that launched the kernel",
}


def graph(kernel: Kernel, name: str) -> Drawing:
    """`Kernel.graph`."""
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
    """Our own drawing: one graph as SVG, several below each other."""
    if len(views) == 1:
        return {"image/svg+xml": svg(views[0])}
    return {"text/html": static([[head(view.title), Graph(view)] for view in views])}


def dot(graphs: Sequence[GraphView], title: str) -> str:
    """Graphs of boxes as one DOT text; each is in a frame if there are several."""
    nodes, edges, frames = list[Node](), list[Edge](), list[Frame]()
    for k, g in enumerate(graphs):
        nodes += [Node(f"{k}.{n.id}", n.title, tuple(x.text for x in n.lines), n.kind, n.note) for n in g.nodes]
        edges += [Edge(f"{k}.{e.src}", f"{k}.{e.dst}", e.label, e.kind) for e in g.edges]
        body = tuple(_parts(g.body, f"{k}."))
        frames += [Frame(g.title, body)] if len(graphs) > 1 else [part for part in body if isinstance(part, Frame)]
    return digraph(title, nodes, edges, frames)


def _parts(parts: Sequence[Part], prefix: str) -> Iterator[str | Frame]:
    for part in parts:
        if isinstance(part, str):
            yield prefix + part
        elif isinstance(part, ClusterView):
            yield Frame(part.label, tuple(_parts(part.body, prefix)))
        else:
            for arm in part:
                yield from _parts(arm, prefix)


def _sizes(view: KernelView) -> str:
    """The trees of all stacks as one DOT text."""
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


def _program(view: Any) -> Drawing:
    reports = [report for report in view.tapes if report.steps]
    if not reports:
        raise QuadrantsRuntimeError(
            f"no program of {view.name} under a Tape was recorded, so there is no graph of it",
            code="QL0719",
            help="launch it under a Tape in a %%qdkernel cell; or, anywhere, tape.graph() after the with",
        )
    found: Drawing = reports[-1].graph()
    return found
