"""Derivative paths that end on the way: never silent."""

from __future__ import annotations

from collections import deque
from dataclasses import field

from quadrants_lab.autodiff.activity import flows
from quadrants_lab.autodiff.warned import GradientWarning, warning
from quadrants_lab.errors import Label
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import types_of, walk

_DECISIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf"})
_ON_PURPOSE = frozenset({"custom_jvp"})  # ends a derivative because it is asked to
_WORDS = {"grad": ("gradient", "needs_grad"), "dual": ("tangent", "needs_dual")}
Flows = dict[tuple[str, str], tuple[Span | None, Span | None]]
Cuts = dict[tuple[str, str], tuple[N.Load, N.Stmt | None]]


@dataclass(slots=True)
class _Graph:
    """How values reach values: ``next[v]`` lists (value, the statement that ends the derivative or None); memory of
    the kernel's own (launch temporaries, and integers) is a step on the way. ``stored``: value -> its writes."""

    next: dict[int, list[tuple[int, N.Stmt | None]]] = field(default_factory=dict)
    loads: dict[str, list[N.Load]] = field(default_factory=dict)
    stored: dict[int, list[N.Write]] = field(default_factory=dict)

    def reach(self, buffer: str, cuts: bool) -> dict[int, N.Stmt | None]:
        """Values that depend on the buffer, each with the statement that ended the derivative on the way there:
        where ``cuts``, some path with one; else only what is reached without."""
        found: dict[tuple[int, bool], N.Stmt | None] = {}
        todo: deque[tuple[int, N.Stmt | None]] = deque((r.id, None) for r in self.loads.get(buffer, ()))
        while todo:
            v, cut = todo.popleft()
            if (v, cut is not None) in found or (cut is not None and not cuts):
                continue
            found[v, cut is not None] = cut
            todo.extend((w, cut or c) for w, c in self.next.get(v, ()))
        return {v: cut for (v, is_cut), cut in found.items() if is_cut == cuts}


def _graph(kernel: N.Kernel) -> _Graph:
    g = _Graph()
    types = types_of(kernel.body)
    for s in walk(kernel.body):
        if isinstance(s, N.Op) and s.prim not in _DECISIONS:
            open_ = flows(s)
            for a in open_ if s.prim in _ON_PURPOSE else s.args:
                cut = None if a in open_ and s.type.is_float and types[a].is_float else s
                g.next.setdefault(a, []).append((s.id, cut))
        elif isinstance(s, N.Load):
            g.loads.setdefault(s.buffer, []).append(s)
        elif isinstance(s, N.Write):
            g.stored.setdefault(s.value, []).append(s)
        for a, b in merges(s):
            g.next.setdefault(a, []).append((b, None))
    for v, writes in g.stored.items():
        for w in writes:
            buffer = kernel.buffers[w.buffer]
            if buffer.passing or not buffer.dtype.is_float:
                g.next.setdefault(v, []).extend((r.id, None) for r in g.loads.get(w.buffer, ()))
    return g


def dead_paths(forward: N.Kernel, which: str = "grad") -> list[GradientWarning]:
    """A warning for each pair of buffers with a derivative (``which``: "grad" or "dual") where the values of one reach
    the other only through operations without a derivative (a cast to integer, floor, ...), and for each buffer without
    one that passes values of one with it on to a later read in the same kernel."""
    g = _graph(forward)
    carriers = {n for n, b in forward.buffers.items() if getattr(b, which) and not b.passing}
    found: list[GradientWarning] = []
    for name in carriers & g.loads.keys():
        clear = _targets(g, carriers, g.reach(name, cuts=False))
        for target, cut in _targets(g, carriers, g.reach(name, cuts=True)).items():
            if target not in clear and isinstance(cut, N.Op):
                found.append(gets_nothing(name, target, g.loads[name][0], cut, which))
    for (source, middle), (_, write) in _pairs(g, forward, carriers).items():
        if middle in carriers or source == middle:
            continue
        onward = _targets(g, carriers, g.reach(middle, cuts=False))
        if onward:
            found.append(missing(forward.buffers[middle], g.loads[middle][0].span, write, which))
    return list(dict.fromkeys(found))


def value_flows(forward: N.Kernel) -> Flows:
    """(buffer read, buffer written) -> (first read, a write), for every pair of floating-point fields or ndarrays
    where a derivative could flow from what is read to what is written, whether they have one or not."""
    return _pairs(_graph(forward), forward, set(forward.buffers))


def integer_flows(forward: N.Kernel) -> Cuts:
    """(buffer read, buffer written) -> (first read, what ends a derivative on the way), for every pair of fields or
    ndarrays of which one holds integers and the other does not, where values of what is read reach what is written."""
    g, found = _graph(forward), Cuts()
    for source, loads in g.loads.items():
        for v, cut in (g.reach(source, cuts=False) | g.reach(source, cuts=True)).items():
            for w in g.stored.get(v, ()):
                a, b = forward.buffers[source], forward.buffers[w.buffer]
                if {a.kind, b.kind} <= {"field", "ndarray"} and a.dtype.is_float != b.dtype.is_float:
                    found.setdefault((source, w.buffer), (loads[0], cut))
    return found


def _pairs(g: _Graph, kernel: N.Kernel, sources: set[str]) -> Flows:
    """The flows from the sources to float buffers of the user's."""
    derivatives = {d for b in kernel.buffers.values() for d in (b.grad, b.dual) if d}
    mine = {
        n for n, b in kernel.buffers.items()
        if b.kind in ("field", "ndarray") and b.dtype.is_float and n not in derivatives
    }
    found: Flows = {}
    for source in sources & g.loads.keys() & mine:
        for v in g.reach(source, cuts=False):
            for w in g.stored.get(v, ()):
                if w.buffer in mine:
                    found.setdefault((source, w.buffer), (g.loads[source][0].span, w.span))
    return found


def _targets(g: _Graph, carriers: set[str], reached: dict[int, N.Stmt | None]) -> dict[str, N.Stmt | None]:
    """Buffers with a derivative that take one of the values, each with how its derivative ended."""
    return {w.buffer: cut for v, cut in reached.items() for w in g.stored.get(v, ()) if w.buffer in carriers}


def gets_nothing(name: str, target: str, read: N.Load, cut: N.Op, which: str = "grad") -> GradientWarning:
    """The warning about a derivative that ends at ``cut`` on its only ways."""
    what = f"{cut.prim} to {cut.type}" if cut.prim == "cast" else cut.prim
    labels = (Label(cut.span, f"{what} has no derivative"), Label(read.span, f"{name} is read here"))
    if which == "grad":
        says = f"the gradient of {name} gets nothing from {target}"
    else:
        says = f"the tangent of {target} gets nothing from {name}"
    return warning(
        "QL0406", f"{says}: every path between them goes through an operation without derivative", labels,
        "keep the value in floating point on its way to the result, or say qd.stop_grad(...)", cut.span,
    )


def missing(middle: N.Buffer, read: Span | None, write: Span | None, which: str = "grad") -> GradientWarning:
    """The warning about a buffer in the middle of a chain that has no derivative."""
    noun, option = _WORDS[which]
    name, cure = middle.name, f"make {middle.name} with {option}=True"
    if middle.kind == "ndarray":
        cure = "use a field: arrays have none" if which == "dual" else f"pass a qd.ndarray made with {option}=True"
    labels = (Label(write, f"{name} takes a value that has a {noun}"), Label(read, "and is read here"))
    return warning("QL0407", f"the {noun} stops at {name}, which has none", labels, cure, write)
