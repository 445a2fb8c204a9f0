"""Checkpointed loops: T trips in segments of about sqrt(T).

The forward slice runs the loop without a push inside; it keeps what the loop carries at the start of each segment. The
reverse takes the segments from the last to the first: it runs the segment's forward slice again, with its pushes, from
the carried values that were kept, and then backwards. So a stack in the loop holds one segment, and one that keeps its
starts a slot a segment. Source: the two-level scheme of Griewank and Walther, Evaluating Derivatives, chapter 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from quadrants_lab.analysis.needs import Needs, only
from quadrants_lab.autodiff.refusals import check_again
from quadrants_lab.autodiff.scopes import Scope, Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import end_of, reached, rewrite, walk


@dataclass(slots=True)
class Segment:
    """``starts``: the carried values (by their id in the loop) that running a segment again starts from; ``live``: the
    values in the loop that it computes, and the statements around them; ``outside``: values from outside that it
    reads."""

    loop: N.For
    starts: list[int]
    live: set[int]
    outside: list[int]


def segment_of(loop: N.For, scopes: Scopes, wanted: Iterable[int], inner: Sequence[Segment]) -> Segment:
    """The part of the loop that must run again so that the reverse gets the ``wanted`` values. ``inner``: the segments
    of checkpointed loops in this one. Raises QuadrantsCompilationError where a loop draws random numbers, or needs what
    an atomic in it returned."""
    needs = Needs()
    needs.of |= {loop.id: (), loop.index.id: ()}
    needs.of |= {p.id: (v,) for p, v in zip(loop.carried, end_of(loop.body).values, strict=True)}
    needs.collect(loop.body, loop.id, loop.id)
    todo = [v for v in wanted if v in needs.of]
    for s in inner:
        if any(x is s.loop for x in walk(loop.body)):
            todo += [v for v in (*s.starts, *s.outside) if v in needs.of]
    found = reached(todo, lambda v: needs.of.get(v, ()))
    live, outside = needs.of.keys() & found.keys(), found.keys() - needs.of.keys()
    for v in found:
        if v in live and v in scopes.defs:
            check_again(scopes.defs[v], loop, used=True)
    order = {v: n for n, v in enumerate(scopes.of)}
    starts = [p.id for p in loop.carried if p.id in live]
    return Segment(loop, starts, live, sorted(outside, key=order.__getitem__))


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
    return rewrite(only(block, live), lambda s: replace(s, adjoint_of=s.id) if isinstance(s, N.Load) else s)


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
