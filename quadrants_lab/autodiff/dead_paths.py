"""Finds paths of values along which the derivative ends, and warns about them."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field

from quadrants_lab.analysis.accesses import Access, accesses_of, for_recent, overwritten
from quadrants_lab.autodiff.derivative_expressions import flows
from quadrants_lab.autodiff.diagnostics import GradientWarning, refusal, warning
from quadrants_lab.autodiff.reverse import has_gradients
from quadrants_lab.errors import Label
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.prims import RENAMED  # whose first operand is meant to have no derivative
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.walk import reached, types_of, walk

_DECISIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf"})
_WORDS = {"grad": ("gradient", "needs_grad"), "dual": ("tangent", "needs_dual")}


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer during the time between two tasks that overwrite all of it. ``first``: the time begins before all such
    tasks, so the buffer holds values of earlier launches. ``last``: the time ends after all such tasks, so later
    launches read what is written."""

    buffer: str
    number: int
    last: bool

    @property
    def first(self) -> bool:
        return self.number == 0


Flows = dict[tuple[Place, Place], tuple[Span | None, Span | None]]
Cuts = dict[tuple[Place, Place], tuple[N.Load, N.Op | None]]


@dataclass(slots=True)
class _Graph:
    """The dataflow of a kernel. ``next[v]`` lists pairs: a value that depends on v, and the statement that ends the
    derivative there, or None. Values also flow through launch temporaries and integer buffers. ``loads`` has the loads
    of each place, and ``stored`` the writes of each value with their places. ``clear[v]`` lists the values of
    ``next[v]`` to which the derivative gets, ``cut`` has each v for which a statement in ``next[v]`` ends the
    derivative, and ``known`` caches what `reachable` found along the edges in ``clear``."""

    next: dict[int, list[tuple[int, N.Op | None]]] = field(default_factory=dict)
    loads: dict[Place, list[N.Load]] = field(default_factory=dict)
    stored: dict[int, list[tuple[Place, N.Write]]] = field(default_factory=dict)
    clear: dict[int, list[int]] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    known: dict[tuple[int, ...], dict[int, None]] = field(default_factory=dict)

    def read_after(self, written: Place) -> list[N.Load]:
        """The loads that may read a value that was written at the place, also loads in the kernel's next launch."""
        again = [Place(written.buffer, 0, False)] if written.last and not written.first else []
        return [r for place in (written, *again) for r in self.loads.get(place, ())]

    def reachable(self, loads: list[N.Load], cuts: bool) -> Mapping[int, N.Op | None]:
        """The values that depend on the results of the loads. Without ``cuts``: the values to which the derivative gets
        along some path. With ``cuts``: the values with a path along which a statement ends the derivative, each with
        that statement."""
        values = tuple(r.id for r in loads)
        clear: Mapping[int, N.Op | None] = self.known.get(values) or self.reachable_from(values)
        return clear if not cuts else {} if self.cut.isdisjoint(clear) else self._reachable_by_cuts(values)

    def reachable_from(self, values: tuple[int, ...]) -> dict[int, None]:
        """The values to which the derivative gets from one of ``values`` along some path."""
        found = self.known[values] = reached(values, lambda v: self.clear.get(v, ()))
        return found

    def _reachable_by_cuts(self, values: Iterable[int]) -> dict[int, N.Op | None]:
        found: dict[tuple[int, bool], N.Op | None] = {}
        todo: deque[tuple[int, N.Op | None]] = deque((v, None) for v in values)
        while todo:
            v, cut = todo.popleft()
            if (v, cut is not None) not in found:
                found[v, cut is not None] = cut
                todo.extend((w, cut or c) for w, c in self.next.get(v, ()))
        return {v: cut for (v, is_cut), cut in found.items() if is_cut}


@for_recent
def _graph(kernel: N.Kernel) -> _Graph:
    g = _Graph()
    types, info = types_of(kernel.body), accesses_of(kernel)
    whole = overwritten(info)
    for s in walk(kernel.body):
        if isinstance(s, N.Op) and s.prim not in _DECISIONS:
            open_ = flows(s)
            for a in open_ if s.prim in RENAMED else s.args:
                cut = None if a in open_ and s.type.is_float and types[a].is_float else s
                g.next.setdefault(a, []).append((s.id, cut))
        elif isinstance(s, N.Load):
            for place in _places(info.of[s.id], whole):
                g.loads.setdefault(place, []).append(s)
        elif isinstance(s, N.Write):
            g.stored.setdefault(s.value, []).extend((place, s) for place in _places(info.of[s.id], whole))
        for a, b in merges(s):
            g.next.setdefault(a, []).append((b, None))
    for v, writes in g.stored.items():
        for place, _ in writes:
            buffer = kernel.buffers[place.buffer]
            if buffer.transient or not buffer.dtype.is_float:
                g.next.setdefault(v, []).extend((r.id, None) for r in g.read_after(place))
    _shorten(g)
    return g


def _shorten(g: _Graph) -> None:
    """Replaces each chain of edges by one edge. A chain ends at a value with several uses, at one whose use ends the
    derivative, and at one that is written to memory. Without this, the additions of a long sum would be walked once for
    each of its terms."""
    only = {v: out[0][0] for v, out in g.next.items() if len(out) == 1 and out[0][1] is None and v not in g.stored}
    ends: dict[int, int] = {}
    for start in only:
        v, path = start, dict[int, None]()
        while v in only and v not in ends and v not in path:
            path[v] = None
            v = only[v]
        ends |= dict.fromkeys(path, ends.get(v, v))
    for v, out in g.next.items():
        g.next[v] = out = [(ends.get(w, w), cut) for w, cut in out]
        g.clear[v] = [w for w, cut in out if cut is None]
        if len(g.clear[v]) < len(out):
            g.cut.add(v)


def _places(access: Access, whole: Mapping[str, list[int]]) -> list[Place]:
    """The places where an access may happen. In a task that overwrites the buffer, the access may come before or
    after the overwriting."""
    tasks = whole.get(access.stmt.buffer, [])
    before = sum(t < access.number for t in tasks)
    numbers = range(before, before + 1 + (access.number in tasks))
    return [Place(access.stmt.buffer, n, n == len(tasks)) for n in numbers]


def dead_paths(forward: N.Kernel, which: str = "grad") -> list[GradientWarning]:
    """Warnings of two kinds, where ``which`` is "grad" or "dual". One is about two buffers with a derivative, if
    values of one reach the other only through operations without a derivative (a cast to integer, floor, ...). The
    other is about a buffer without a derivative through which values flow, within the kernel, from one buffer with a
    derivative to another.

    Raises QL0422 if a value goes from a buffer with a derivative to another one as the bits of an integer: the computed
    derivative would be wrong, since it leaves this path out, and no warning about a zero would show it."""
    g = _graph(forward)
    carriers = {n for n, b in forward.buffers.items() if getattr(b, which) and not b.transient}
    _check_bits(g, carriers)
    found: list[GradientWarning] = []
    loads_of: dict[str, list[N.Load]] = {}
    for place, some in g.loads.items():
        loads_of.setdefault(place.buffer, []).extend(some)
    for name in carriers & loads_of.keys():
        loads = loads_of[name]
        clear = _targets(g, carriers, g.reachable(loads, cuts=False))
        for target, cut in _targets(g, carriers, g.reachable(loads, cuts=True)).items():
            if target not in clear and cut is not None:
                found.append(gets_nothing(name, target, loads[0], cut, which))
    for (source, middle), (_, write) in _pairs(g, forward, carriers).items():
        if middle.buffer in carriers or source.buffer == middle.buffer:
            continue
        loads = g.read_after(middle)
        if _targets(g, carriers, g.reachable(loads, cuts=False)):
            found.append(missing(forward.buffers[middle.buffer], loads[0].span, write, which))
    return list(dict.fromkeys(found))


def _check_bits(g: _Graph, carriers: set[str]) -> None:
    """Raises QL0422 if the bits of a value with a derivative become an integer, these bits become a float again, and
    this float reaches a buffer with a derivative."""
    loads = [r for place, some in g.loads.items() if place.buffer in carriers for r in some]
    for v in g.reachable(loads, cuts=False):
        for bits, cut in g.next.get(v, ()):
            if cut is None or cut.prim != "bitcast":
                continue
            for w in g.reachable_from((bits,)):
                for number, back in g.next.get(w, ()):
                    if not isinstance(back, N.Value) or back.prim != "bitcast" or not back.type.is_float:
                        continue
                    for target in _targets(g, carriers, g.reachable_from((number,))):
                        raise refusal("QL0422", cut.span, back.span, name=target)


def value_flows(forward: N.Kernel) -> Flows:
    """(place read, place written) -> (first read, a write), for every pair of floating-point fields or ndarrays where
    a derivative could flow from the value read to the value written, whether or not the two buffers have
    derivatives."""
    return _pairs(_graph(forward), forward, set(forward.buffers))


def integer_flows(forward: N.Kernel) -> Cuts:
    """(place read, place written) -> (first read, the statement that ends a derivative on the way), for every pair of
    fields or ndarrays where values flow from one to the other and just one of the two holds integers."""
    g, found = _graph(forward), Cuts()
    for source, loads in g.loads.items():
        for v, cut in {**g.reachable(loads, cuts=False), **g.reachable(loads, cuts=True)}.items():
            for target, _ in g.stored.get(v, ()):
                a, b = forward.buffers[source.buffer], forward.buffers[target.buffer]
                if {a.kind, b.kind} <= {"field", "ndarray"} and a.dtype.is_float != b.dtype.is_float:
                    found.setdefault((source, target), (loads[0], cut))
    return found


def _pairs(g: _Graph, kernel: N.Kernel, sources: set[str]) -> Flows:
    """The flows of values from ``sources`` to floating-point fields and ndarrays that are not themselves gradients
    or duals."""
    derivatives = {d for b in kernel.buffers.values() for d in (b.grad, b.dual) if d}
    mine = {
        n for n, b in kernel.buffers.items()
        if b.kind in ("field", "ndarray") and b.dtype.is_float and n not in derivatives
    }
    found: Flows = {}
    for source, loads in g.loads.items():
        for v in g.reachable(loads, cuts=False) if source.buffer in sources & mine else ():
            for target, w in g.stored.get(v, ()):
                if target.buffer in mine:
                    found.setdefault((source, target), (loads[0].span, w.span))
    return found


def _targets(g: _Graph, carriers: set[str], found: Mapping[int, N.Op | None]) -> dict[str, N.Op | None]:
    """The buffers with a derivative to which one of the values is written, each with the statement that ends the
    derivative on the way."""
    return {p.buffer: cut for v, cut in found.items() for p, _ in g.stored.get(v, ()) if p.buffer in carriers}


def gets_nothing(name: str, target: str, read: N.Load, cut: N.Op, which: str = "grad") -> GradientWarning:
    """The warning that no derivative flows between the buffers ``name`` and ``target``, if every path between them goes
    through an operation without derivative; ``cut`` is one."""
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
    """The warning that the derivative stops at the buffer ``middle``, which has none, although it is written from a
    buffer with a derivative and read for another one."""
    noun, option = _WORDS[which]
    name, cure = middle.name, f"make {middle.name} with {option}=True"
    if middle.kind == "ndarray":
        cure = "use a field: arrays have none" if which == "dual" else f"pass a qd.ndarray made with {option}=True"
    labels = (Label(write, f"{name} takes a value that has a {noun}"), Label(read, "and is read here"))
    return warning("QL0407", f"the {noun} stops at {name}, which has none", labels, cure, write)


def goes_nowhere(forward: N.Kernel, call: str) -> list[GradientWarning]:
    """The warning that the gradient of the kernel adds nothing, because no values go from one array or field with a
    gradient to another one. No warning if a buffer in the middle lacks the gradient, or if no buffer has one: `missing`
    and the pass `reverse` warn of these. ``call``: the torch function whose backward launched the gradient, or ""."""
    if not has_gradients(forward):
        return []
    buffers, found = forward.buffers, value_flows(forward).items()
    flows = [(a.buffer, b.buffer, *spans) for (a, b), spans in found if a.buffer != b.buffer]
    begins = {b for a, b, *_ in flows if buffers[a].grad}
    into = {a: read for a, b, read, _ in flows if buffers[b].grad}
    if not flows or begins & into.keys() or any(buffers[b].grad for b in begins):
        return []
    verb, spans = ("read", into) if into else ("written", {b: written for _, b, _, written in flows})
    names = sorted(spans)
    have, it = ("has", "it") if len(names) == 1 else ("have", "each of them")
    cure = f"make {it} with needs_grad=True"
    if call:
        cure = f"a tensor that {call}.forward makes, as x.contiguous() may, requires none: make it before {call}.apply"
    elif any(buffers[name].kind == "ndarray" for name in names):
        cure += ", or with requires_grad=True if it is a tensor"
    says = f"the gradient of kernel {forward.name} adds nothing: {', '.join(names)} {have} no gradient"
    labels = tuple(Label(spans[name], f"{name} is {verb} here") for name in names)
    return [warning("QL0425", says, labels, cure, spans[names[0]])]
