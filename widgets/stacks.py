"""The Stacks pane: the launch report, the values that need no stack, and the SCC graph behind the depths."""

from collections.abc import Sequence

from quadrants_lab.widgets.graph import figure
from quadrants_lab.widgets.html import empty, esc, size, table
from quadrants_lab.widgets.model import KernelView, Line
from quadrants_lab.widgets.run import STACK_BYTES

NO_STACK = (
    "This gradient keeps nothing on a stack: every value that the way back reads is still in memory or can be computed "
    "again."
)


def pane(view: KernelView, prefix: str, rest: Sequence[str]) -> str:
    tasks = view.graphs
    if not tasks and not view.stacks and not view.free and not view.kept:
        return empty("there is no gradient yet: call .grad() or give --grad LOSS")
    parts = [tables(view)]
    drawn = [t for t in tasks if t.scc is not None]
    if drawn:
        parts.append("<h4>Where the depths come from</h4>")
        parts.append(
            '<p class="hint">A frame is a loop. Its edge back to the start is left out, so every path through it ends. '
            "The depth of a stack is the most pushes along any path, times the trips of the loop.</p>"
        )
        parts += [figure(t.scc) for t in drawn if t.scc is not None]
    return "".join(parts)


def tables(view: KernelView) -> str:
    """The pane without its graphs."""
    parts = [f"<h4>Stacks of the last gradient launch</h4>{report(view)}"]
    if view.kept:
        parts.append(f"<h4>Values that the launch keeps, because it overwrites them</h4>{kept(view)}")
    parts.append(backends(view))
    if view.free:
        parts.append(f"<h4>Values without a stack</h4>{free(view)}")
    return "".join(parts)


def report(view: KernelView) -> str:
    """The table of the launch report, or a sentence if there is no stack."""
    if not view.stacks:
        return empty(NO_STACK)
    head = ("stack", "line", "dtype", "depth", "bytes an iteration", "how found", "why it is kept")
    rows = [
        (f"<b>{esc(s.name)}</b>", str(s.line or "–"), esc(s.dtype), "–" if s.depth is None else f"{s.depth:,}",
         size(s.bytes), esc(s.how), esc(s.reason) + (f'<div class="muted">{esc(s.cure)}</div>' if s.cure else ""))
        for s in view.stacks
    ]  # fmt: skip
    total = sum(s.bytes or 0 for s in view.stacks)
    links = [Line("", s.line, s.primal if s.primal >= 0 else s.stack) for s in view.stacks]
    count = f"{len(view.stacks)} stack{'s' * (len(view.stacks) != 1)}, {size(total)} for each iteration that runs"
    before = f"; without recomputation: {size(view.bytes_before)}" if view.bytes_before else ""
    return table(head, rows, right=(1, 3, 4), links=links) + f'<p class="foot">{count}{before}</p>'


def kept(view: KernelView) -> str:
    """The table of buffers whose overwritten values the launch saves."""
    head = ("buffer", "line", "dtype", "values", "bytes a launch", "how many", "why it is kept")
    rows = [
        (f"<b>{esc(k.name)}</b>", str(k.line or "–"), esc(k.dtype), f"{k.elements:,}", size(k.bytes),
         esc(k.size), esc(k.reason))
        for k in view.kept
    ]  # fmt: skip
    return table(head, rows, right=(1, 3, 4), links=[Line("", k.line) for k in view.kept])


def backends(view: KernelView) -> str:
    """A table of the stacks' bytes on each compared backend; "" without a comparison."""
    runs = [r for launch in view.launches for r in launch.compared if r.lane_bytes]
    if not runs:
        return ""
    rows = [(f"<b>{esc(r.name)}</b>", size(r.lane_bytes), size(r.heap_bytes)) for r in runs]
    note = "Devices round the size of each stack up. The heap has room for all iterations that run at the same time."
    more = "".join(f'<p class="foot">{esc(r.name)}: {esc(r.note)}</p>' for r in runs if r.note)
    return table(("backend", *STACK_BYTES), rows, right=(1, 2)) + f'<p class="foot">{note}</p>{more}'


def free(view: KernelView) -> str:
    rows = [(f"<b>{esc(f.name)}</b>", str(f.line or "–"), esc(f.why)) for f in view.free]
    links = [Line("", f.line) for f in view.free]
    return table(("value", "line", "why it needs none"), rows, right=(1,), links=links)
