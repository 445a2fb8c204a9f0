"""Finds adstacks that need no counter because the trips of loops number their slots. One loop pushes once on each trip;
another loop, which runs backwards over the same range, pops once on each trip. Then the slot's index is the trip's
index. Both loops may be nested in other loops if all except the outermost have a constant number of trips; slots are
then numbered across all trips.

The second loop may compute its range again from memory: autodiff guarantees that what the reverse reads again has not
changed (`autodiff.access`).
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find, of_kind

# class of a statement -> what must be equal in two such statements, besides their operands, if they compute the same
# value
_WHAT: dict[type, Callable[[Any], object]] = {
    N.Const: lambda s: s.value,
    N.Op: lambda s: s.prim,
    N.ArgLoad: lambda s: s.arg,
    N.ShapeOf: lambda s: (s.buffer, s.axis),
    N.Load: lambda s: s.buffer,
}
Loop = N.For | N.While


@dataclass(frozen=True, slots=True)
class Level:
    """One loop of a nest. ``index`` and ``begin`` are ids of values; index minus begin is the index of the current
    trip. ``trips`` is how many trips the loop makes; it is 0 for the outermost loop, which may make any number of
    trips."""

    loop: Loop
    index: int
    begin: int
    trips: int = 0


@dataclass(frozen=True, slots=True)
class Trips:
    """A stack whose slots are numbered by trips. ``there``: the loops around ``push``, outermost first; ``back``: the
    loops around ``pop``. ``result``: if the outermost loop is a While, the id of the value that its index has after the
    loop; NO_ID if it is a For."""

    push: N.AdStackPush
    pop: N.AdStackPop
    there: tuple[Level, ...]
    back: tuple[Level, ...]
    result: int

    def inner(self) -> int:
        """How many trips the inner loops make together in one trip of the outermost loop."""
        return prod(level.trips for level in self.there[1:])


def by_trips(block: N.Block) -> dict[int, Trips]:
    """Maps the id of a stack to its `Trips`, for the stacks of a task that are accessed only by one push, by one pop,
    and by loads of the top before the pop in the same trip."""
    touches: dict[int, int] = {}
    for use in find(block, N.StackUse):
        touches[use.stack] = touches.get(use.stack, 0) + 1
    pushing: dict[int, tuple[Nest, N.AdStackPush]] = {}
    popping: dict[int, tuple[Nest, N.AdStackPop, int]] = {}
    for nest in _nests(block):
        read: dict[int, int] = {}
        for s in nest[-1].body:
            if isinstance(s, N.AdStackPush):
                pushing[s.stack] = nest, s
            elif isinstance(s, N.AdStackPop):
                popping[s.stack] = nest, s, read.get(s.stack, 0)
            else:
                for x in find((s,), N.AdStackLoadTop):
                    read[x.stack] = read.get(x.stack, 0) + 1
    same = _Equality(block)
    out: dict[int, Trips] = {}
    for stack in pushing.keys() & popping.keys():
        there, push = pushing[stack]
        back, pop, reads = popping[stack]
        levels = _levels(there, back, same) if touches[stack] == 2 + reads else None
        if levels is not None:
            out[stack] = Trips(push, pop, *levels)
    return out


@dataclass(frozen=True, slots=True)
class EarlyCheck:
    """The capacities can be checked before ``loop``, the first loop of the task's body that pushes, instead of at
    ``guard``, the task's adstack_guard."""

    loop: N.For
    guard: N.AdStackGuard


def early_check(block: N.Block, trips: Mapping[int, Trips]) -> EarlyCheck | None:
    """Returns the early check if it is possible, else None. It is possible if all of the task's stacks are numbered
    by trips, and the outermost loops stand in the task's body itself, begin at 0, and have ends that are known
    before the first of them: then it is known there how much will be pushed."""
    own = [trips.get(s.id) for s in find(block, N.AdStackAlloca)]
    places = {s.id: n for n, s in enumerate(block)}
    loops: list[N.For] = []
    for t in own:
        loop = t.there[0].loop if t and t.inner() else None
        if not isinstance(loop, N.For) or loop.id not in places:
            return None
        loops.append(loop)
    guards = [*find(block, N.AdStackGuard)]
    if not loops or len(guards) != 1:
        return None
    first = min(loops, key=lambda loop: places[loop.id])
    at = places[first.id]
    later = {i for s in block[at:] for i, _ in s.defs()}
    zeros = {s.id for s in find(block, N.Const) if s.value == 0}
    known = all(loop.begin in zeros and loop.end not in later for loop in loops)
    return EarlyCheck(first, guards[0]) if known and places.get(guards[0].id, -1) > at else None


Nest = tuple[Loop, ...]  # nested loops, outermost first; each is directly in the body of the one before


def _nests(block: N.Block) -> Iterator[Nest]:
    for s in block:
        if isinstance(s, (N.For, N.While)):
            yield from _within((s,))
        else:
            for inner in s.blocks():
                yield from _nests(inner)


def _within(nest: Nest) -> Iterator[Nest]:
    yield nest
    for s in of_kind(nest[-1].body, N.For):
        yield from _within((*nest, s))


class _Equality:
    """Tells whether two ids certainly have equal values."""

    def __init__(self, block: N.Block) -> None:
        self.defined = {s.id: s for s in find(block, N.Value)}
        self._known: dict[tuple[int, int], bool] = {}

    def __call__(self, a: int, b: int) -> bool:
        if a == b:
            return True
        if (a, b) not in self._known:
            self._known[a, b] = self._alike(self.defined.get(a), self.defined.get(b))
        return self._known[a, b]

    def constant(self, id: int) -> Any:
        """The value of a constant, else None."""
        made = self.defined.get(id)
        return None if made is None else made.constant

    def _alike(self, a: N.Value | None, b: N.Value | None) -> bool:
        if a is None or b is None or type(a) is not type(b) or a.type is not b.type:
            return False
        what = _WHAT.get(type(a))
        return (
            what is not None
            and what(a) == what(b)
            and all(self(i, j) for i, j in zip(a.operands(), b.operands(), strict=True))
        )


Levels = tuple[tuple[Level, ...], tuple[Level, ...], int]  # `there`, `back` and `result` of `Trips`


def _levels(there: Nest, back: Nest, same: _Equality) -> Levels | None:
    first = _outermost(there[0], back[0], same)
    if first is None or len(there) != len(back):
        return None
    sides, result = ([first[0]], [first[1]]), first[2]
    for a, b in zip(there[1:], back[1:], strict=True):
        assert isinstance(a, N.For)
        begin, end = (same.constant(i) for i in (a.begin, a.end))
        if begin is None or end is None or not _opposite(a, b, same):
            return None
        for side, loop in zip(sides, (a, b), strict=True):
            assert isinstance(loop, N.For)
            side.append(Level(loop, loop.index.id, loop.begin, max(end - begin, 0)))
    return tuple(sides[0]), tuple(sides[1]), result


def _outermost(loop: Loop, back: Loop, same: _Equality) -> tuple[Level, Level, int] | None:
    if not isinstance(back, N.For):
        return None
    behind = Level(back, back.index.id, back.begin)
    if isinstance(loop, N.For):
        return (Level(loop, loop.index.id, loop.begin), behind, N.NO_ID) if _opposite(loop, back, same) else None
    t, nexts = back.index.type, loop.body[-1].operands()
    for p, init, after, result in zip(loop.carried, loop.inits, nexts, loop.results, strict=True):
        counts = p.type is t and same(init, back.begin) and _one_more(same, after, p.id)
        if counts and result.id == back.end and back.reverse and t.bits == 32:
            return Level(loop, p.id, init), behind, result.id
    return None


def _opposite(a: Loop, b: Loop, same: _Equality) -> bool:
    """Whether loop ``b`` runs backwards over the range of loop ``a``."""
    if not isinstance(a, N.For) or not isinstance(b, N.For) or a.reverse or not b.reverse:
        return False
    alike = a.index.type is b.index.type and a.index.type.bits == 32
    return alike and same(a.begin, b.begin) and same(a.end, b.end)


def _one_more(same: _Equality, id: int, than: int) -> bool:
    s = same.defined.get(id)
    if s is None or s.prim != "add" or than not in s.operands():
        return False
    a, b = s.operands()
    return bool(same.constant(b if a == than else a) == 1)
