"""Checkpointed loops: T trips in segments of about sqrt(T).

The forward slice runs the loop without a push inside; it keeps what the loop carries at the start of each segment. The
reverse takes the segments from the last to the first: it runs the segment's forward slice again, with its pushes, from
the carried values that were kept, and then backwards. So a stack in the loop holds one segment, and one that keeps its
starts a slot a segment. Source: the two-level scheme of Griewank and Walther, Evaluating Derivatives, chapter 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from quadrants_lab.autodiff.activity import links
from quadrants_lab.autodiff.refusals import check_again
from quadrants_lab.autodiff.scopes import Scope, Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.loop_carried import keep_carried, keep_results
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import end_of, map_blocks, walk


@dataclass(slots=True)
class Segment:
    """``starts``: the carried values (by their id in the loop) that running a segment again starts from; ``live``: the
    values in the loop that it computes; ``outside``: those from outside of the loop that it reads."""

    loop: N.For
    starts: list[int]
    live: set[int]
    outside: list[int]


def segment_of(loop: N.For, scopes: Scopes, wanted: Iterable[int], inner: Sequence[Segment]) -> Segment:
    """The part of the loop that must run again so that the reverse gets the ``wanted`` values. ``inner``: the segments
    of checkpointed loops in this one. Raises QuadrantsCompilationError where a loop draws random numbers, or needs what
    an atomic in it returned."""
    sources, inside = _sources(loop)
    todo = [v for v in wanted if v in inside]
    for s in inner:
        if any(x is s.loop for x in walk(loop.body)):
            todo += [v for v in (*s.starts, *s.outside) if v in inside]
    live: set[int] = set()
    outside: set[int] = set()
    while todo:
        v = todo.pop()
        if v in live or v in outside:
            continue
        if v not in inside:
            outside.add(v)
            continue
        live.add(v)
        stmt = scopes.defs[v]
        check_again(stmt, loop, used=True)
        todo += sources.get(v, ())
    order = {v: n for n, v in enumerate(scopes.of)}
    starts = [p.id for p in loop.carried if p.id in live]
    return Segment(loop, starts, live, sorted(outside, key=order.__getitem__))


def _sources(loop: N.For) -> tuple[dict[int, list[int]], set[int]]:
    """For each value in the loop, what it is computed from, directly or by way of control; and all those values."""
    sources: dict[int, list[int]] = {p.id: [] for p in loop.params()}

    def block(stmts: N.Block, control: Sequence[int]) -> None:
        for s in stmts:
            defined = [i for i, _ in s.defs()] + [p.id for p in s.params()]
            around = list(control)
            if isinstance(s, N.For):
                around += [s.begin, s.end]
            for v in defined:
                sources.setdefault(v, []).extend(around)
            if isinstance(s, N.Value):
                sources.setdefault(s.id, []).extend(s.operands())
            for a, b in links(s):
                sources.setdefault(b, []).append(a)
            if isinstance(s, N.Loop):  # a result needs its carried value, so that neither goes alone
                for c, r in zip(s.carried, s.results, strict=True):
                    sources.setdefault(r.id, []).append(c.id)
            inner = list(around)
            if isinstance(s, N.If):
                inner.append(s.cond)
                for r in s.results:
                    sources[r.id].append(s.cond)
            elif isinstance(s, N.While):
                end = s.cond[-1]
                inner += end.operands()
                for v in defined:
                    sources[v].extend(end.operands())
            for b_ in s.blocks():
                block(b_, inner)

    end = end_of(loop.body)
    for p, v in zip(loop.carried, end.values, strict=True):
        sources[p.id].append(v)
    block(loop.body, ())
    return sources, set(sources)


def segments_of(
    block: N.Block, scopes: Scopes, reversed_: set[int], wanted: Iterable[int]
) -> dict[int, Segment]:
    """Those of the block's checkpointed loops that have an adjoint, inner ones first. What an inner one reads from
    outside is wanted there."""
    found: dict[int, Segment] = {}
    needed = list(wanted)
    for loop in reversed([s for s in walk(block) if isinstance(s, N.For) and s.checkpoint and s.id in reversed_]):
        found[loop.id] = segment = segment_of(loop, scopes, needed, list(found.values()))
        needed += segment.outside
    return found


def home(scope: Scope, segments: Mapping[int, Segment]) -> int:
    """The innermost segmented loop around the scope; NO_ID where there is none."""
    return next((owner for owner in scope.owners() if owner in segments), N.NO_ID)


def pruned(block: N.Block, live: set[int]) -> N.Block:
    """The block with only the live values, and what controls them; effects are gone."""

    def inside(inner: N.Block) -> N.Block:
        return pruned(inner, live)

    out: list[N.Stmt] = []
    for s in block:
        if isinstance(s, N.Value):
            if s.id in live:
                out.append(replace(s, adjoint_of=s.id) if isinstance(s, N.Load) else s)
            continue
        if isinstance(s, N.If):
            s = map_blocks(s, inside)
            s = keep_results(s, [n for n, r in enumerate(s.results) if r.id in live])
            if s.results or any(len(b) > 1 for b in s.blocks()):
                out.append(s)
        elif isinstance(s, (N.For, N.While)):
            s = map_blocks(s, inside)
            s = keep_carried(s, [n for n, p in enumerate(s.carried) if p.id in live])
            if s.carried or len(s.body) > 1:
                out.append(s)
        elif isinstance(s, N.Yield):
            out.append(s)
    return tuple(out)


@dataclass(slots=True)
class Lengths:
    """Values in the code that is being built: iterations of the loop, of a segment, and segments."""

    trips: int
    size: int
    segments: int


def lengths(b: Builder, loop: N.For, begin: int, end: int) -> Lengths:
    t = loop.index.type
    zero, one = b.const(0, t), b.const(1, t)
    trips = b.op("max", b.op("sub", end, begin), zero)
    size = b.op("isqrt", trips)
    last = b.op("sub", b.op("add", trips, size), one)
    return Lengths(trips, size, b.op("floordiv", last, size))  # without trips: 0 by 0, which is 0


def first_and_length(b: Builder, n: Lengths, segment: int) -> tuple[int, int]:
    """Of a segment by its number: the number of its first iteration, and how many it has."""
    first = b.op("mul", segment, n.size)
    return first, b.op("min", n.size, b.op("sub", n.trips, first))


def index_at(b: Builder, loop: N.For, begin: int, end: int, first: int, at: int, id: int) -> None:
    """Defines ``id``: the loop's index in iteration ``first + at``."""
    t = loop.index.type
    number = b.op("add", first, at)
    if loop.reverse:
        last = b.op("sub", end, b.const(1, t))
        b.add(N.Op(id, t, "sub", (last, number), name=loop.index.name))
    else:
        b.add(N.Op(id, t, "add", (begin, number), name=loop.index.name))
