"""Differentiates checkpointed loops: T trips run in segments of about sqrt(T) trips.

The forward slice runs the loop without pushes inside, and pushes the carried values at the start of each segment. The
reverse goes through the segments from the last to the first. For each segment it pops the carried values at its start,
runs the forward slice of the segment again, now with pushes, and then runs its adjoint. So a stack of a value in the
loop needs slots for only one segment, and a stack of carried values at the starts needs one slot for each segment.
Source: the two-level scheme of Griewank and Walther, Evaluating Derivatives, chapter 12.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from quadrants_lab.analysis.needs import Needs, only
from quadrants_lab.autodiff.diagnostics import check_again
from quadrants_lab.autodiff.scopes import Scopes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import end_of, find, reached, rewrite, walk


@dataclass(slots=True)
class Segment:
    """What a segment of ``loop`` needs to run again. ``starts`` has the carried values at the start of the segment,
    ``live`` the ids of the values that the segment computes and of the statements around them, and ``outside`` the
    values that the segment reads from outside the loop."""

    loop: N.For
    starts: list[int]
    live: set[int]
    outside: list[int]


def segment_of(loop: N.For, scopes: Scopes, wanted: Iterable[int], inner: Sequence[Segment]) -> Segment:
    """The part of the loop that must run again to give the reverse the ``wanted`` values. ``inner`` has the segments of
    checkpointed loops in this one. Raises QuadrantsCompilationError if the loop draws random numbers or uses the value
    that an atomic in it returned."""
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
    """The segments of the block's checkpointed loops that have an adjoint, inner loops first. An outer loop must also
    provide the values that an inner loop reads from outside."""
    found: dict[int, Segment] = {}
    needed = list(wanted)
    for loop in reversed([s for s in find(block, N.For) if s.checkpoint and s.id in reversed_]):
        found[loop.id] = segment = segment_of(loop, scopes, needed, list(found.values()))
        needed += segment.outside
    return found


def pruned(block: N.Block, live: set[int]) -> N.Block:
    """The block reduced to the live values and statements, without effects. Loads name the loads that they repeat."""
    return rewrite(only(block, live), lambda s: replace(s, adjoint_of=s.id) if s.loads else s)


@dataclass(slots=True)
class Lengths:
    """Ids of emitted values: the number of iterations of the loop, the number of iterations of a segment, and the
    number of segments."""

    trips: int
    size: int
    segments: int


def lengths(b: Builder, loop: N.For, begin: int, end: int) -> Lengths:
    t = loop.index.type
    zero, one = b.const(0, t), b.const(1, t)
    trips = b.op("max", b.op("sub", end, begin), zero)
    size = b.op("isqrt", trips)
    last = b.op("sub", b.op("add", trips, size), one)
    return Lengths(trips, size, b.op("floordiv", last, size))  # without trips it is 0 // 0, which is 0


def first_and_length(b: Builder, n: Lengths, segment: int) -> tuple[int, int]:
    """Emits, for the segment with the number ``n``, at which iteration it begins and how many iterations it has."""
    first = b.op("mul", segment, n.size)
    return first, b.op("min", n.size, b.op("sub", n.trips, first))


def index_at(b: Builder, loop: N.For, begin: int, end: int, first: int, at: int, id: int) -> None:
    """Emits, with the id ``id``, the loop's index in iteration ``first + at``."""
    t = loop.index.type
    number = b.op("add", first, at)
    if loop.reverse:
        b.add(N.Op(id, t, "sub", (b.op("sub", end, b.const(1, t)), number), name=loop.index.name))
    else:
        b.add(N.Op(id, t, "add", (begin, number), name=loop.index.name))
