"""The Stacks pane shows a gradient's stacks and their sizes, the values that need no stack, and the graph from
which the depths follow (SCC)."""

from collections.abc import Sequence

from quadrants_lab.widgets.graph import as_file
from quadrants_lab.widgets.model import KernelView, Line
from quadrants_lab.widgets.run import STACK_BYTES
from quadrants_lab.widgets.tree import Block, Graph, Table, Tree, bold, count, empty, foot, head, size

NO_STACK = (
    "This gradient keeps nothing on a stack: every value that the reverse reads is still in memory or can be computed "
    "again."
)
DEPTHS = (
    "A frame is a loop. Its edge back to the start is left out, so every path through it ends. The depth of a stack is "
    "the most pushes along any path, times the trips of the loop."
)


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> Tree:
    if not answer(view):
        return empty(view.no_gradient)
    graphs = [t.scc for t in view.graphs if t.scc is not None]
    if rest[1:] == ["dot"]:
        return as_file(graphs[int(rest[0])])
    drawn: Tree = [Graph(g, f"{prefix}/{n}/dot") for n, g in enumerate(graphs)]
    why: Tree = [head("Where the depths come from"), Block(DEPTHS, "hint"), drawn] if drawn else ()
    return [tables(view), why]


def answer(view: KernelView) -> str:
    """The pane in a sentence: how many values are kept, and what that takes."""
    if not view.graphs and not view.stacks and not view.free and not view.kept:
        return ""
    if not view.stacks:
        return NO_STACK
    total = sum(s.bytes or 0 for s in view.stacks)
    said = f"{count(len(view.stacks), 'value')} kept on a stack, {size(total)} per thread"
    held, lanes = view.heap
    if held:
        rounded = f", each rounded up to {size(held // lanes)}" if held != total * lanes else ""
        said += f"; {size(held)} in all for {count(lanes, 'thread')} at a time{rounded}"
    more = view.bytes_before is not None and view.bytes_before > total
    return said + (f". Without recomputation: {size(view.bytes_before)} per thread." if more else ".")


def tables(view: KernelView) -> Tree:
    """The tables of the pane, without its graphs."""
    keeps: Tree = [head("Values that the launch keeps, because it overwrites them"), kept(view)] if view.kept else ()
    none: Tree = [head("Values without a stack"), free(view)] if view.free else ()
    return [head("Stacks of the last gradient launch"), report(view), keeps, backends(view), none]


def report(view: KernelView) -> Tree:
    """The table of the launch report, or a sentence if there is no stack."""
    if not view.stacks:
        return empty(NO_STACK)
    titles = ("stack", "line", "dtype", "depth", "bytes per thread", "how found", "why it is kept")
    rows: list[list[Tree]] = [
        [bold(s.name), str(s.line or "–"), s.dtype, "–" if s.depth is None else f"{s.depth:,}", size(s.bytes), s.how,
         [s.reason, Block(f"To save it: {s.cure}", "cure") if s.cure else ""]]
        for s in view.stacks
    ]  # fmt: skip
    links = [Line("", s.line, s.primal if s.primal >= 0 else s.stack) for s in view.stacks]
    return Table(titles, rows, right=(1, 3, 4), links=links)


def kept(view: KernelView) -> Table:
    """The table of buffers whose overwritten values the launch saves."""
    titles = ("buffer", "line", "dtype", "values", "bytes per launch", "how many", "why it is kept")
    rows = [
        (bold(k.name), str(k.line or "–"), k.dtype, f"{k.elements:,}", size(k.bytes), k.size, k.reason)
        for k in view.kept
    ]
    return Table(titles, rows, right=(1, 3, 4), links=[Line("", k.line) for k in view.kept])


def backends(view: KernelView) -> Tree:
    """A table of the stacks' bytes on each compared backend; nothing without a comparison."""
    runs = [r for launch in view.launches for r in launch.compared if r.lane_bytes]
    if not runs:
        return ()
    rows = [(bold(r.name), size(r.lane_bytes), size(r.heap_bytes)) for r in runs]
    note = "Devices round the size of each stack up. The heap has room for all threads that run at the same time."
    notes = [note, *(f"{r.name}: {r.note}" for r in runs if r.note)]
    table = Table(("backend", *STACK_BYTES), rows, right=(1, 2))
    return [head("The same stacks on each backend"), table, [foot(text) for text in notes]]


def free(view: KernelView) -> Table:
    rows = [(bold(f.name), str(f.line or "–"), f.why) for f in view.free]
    links = [Line("", f.line) for f in view.free]
    return Table(("value", "line", "why it needs none"), rows, right=(1,), links=links)
