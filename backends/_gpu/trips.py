"""Adstacks whose slots go by the trips of loops: one loop pushes once a trip, another one, which runs backwards over
the same range, pops once a trip. The number of a trip is that of its slot, and nothing has to count.

The range may be computed anew for the way back: what it was read from is there unchanged, as the reverse demands of
all that it reads again (`autodiff.access`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

_TOUCHES = (
    N.AdStackPush, N.AdStackPop, N.AdStackLoadTop, N.AdStackLoadTopAdj, N.AdStackAccAdjoint, N.AdStackDepth
)  # fmt: skip
# what two statements have in common that compute the same of equal operands
_WHAT: dict[type, Callable[[Any], object]] = {
    N.Const: lambda s: s.value,
    N.Op: lambda s: s.prim,
    N.ArgLoad: lambda s: s.arg,
    N.ShapeOf: lambda s: (s.buffer, s.axis),
    N.Load: lambda s: s.buffer,
}
Less = tuple[int, int]  # the one value less the other, by id


@dataclass(frozen=True, slots=True)
class Trips:
    """``loop`` pushes, with the statement ``push``. ``pushed`` and ``popped`` number the slots of a trip there and of
    one on the way back. ``result``: id of the value that ``pushed[0]`` has become behind the loop; NO_ID where that is
    a For's index, which is no value there."""

    loop: N.For | N.While
    push: N.AdStackPush
    pushed: Less
    popped: Less
    result: int


def by_trips(block: N.Block) -> dict[int, Trips]:
    """Those of a task's stacks, by id, that nothing else touches but reads ahead of the pop in its trip. No other loop
    is around the two."""
    touches: dict[int, int] = {}
    for s in walk(block):
        if isinstance(s, _TOUCHES):
            touches[s.stack] = touches.get(s.stack, 0) + 1
    pushing: dict[int, tuple[N.For | N.While, N.AdStackPush]] = {}
    popping: dict[int, tuple[N.For, int]] = {}
    for loop in _outermost(block):
        for k, s in enumerate(loop.body):
            if isinstance(s, N.AdStackPush):
                pushing[s.stack] = loop, s
            elif isinstance(s, N.AdStackPop) and isinstance(loop, N.For):
                ahead = [x for x in walk(loop.body[:k]) if isinstance(x, N.AdStackLoadTop) and x.stack == s.stack]
                popping[s.stack] = loop, len(ahead)
    same = _Equality(block)
    out: dict[int, Trips] = {}
    for stack in pushing.keys() & popping.keys():
        loop, push = pushing[stack]
        back, reads = popping[stack]
        if touches[stack] == 2 + reads:
            trips = _trips(loop, push, back, same)
            if trips is not None:
                out[stack] = trips
    return out


Loops = Iterator["N.For | N.While"]


def _outermost(block: N.Block) -> Loops:
    for s in block:
        if isinstance(s, (N.For, N.While)):
            yield s
        else:
            for inner in s.blocks():
                yield from _outermost(inner)


class _Equality:
    """Whether two values, by id, are surely equal."""

    def __init__(self, block: N.Block) -> None:
        self.defined = {s.id: s for s in walk(block) if isinstance(s, N.Value)}
        self._known: dict[tuple[int, int], bool] = {}

    def __call__(self, a: int, b: int) -> bool:
        if a == b:
            return True
        if (a, b) not in self._known:
            self._known[a, b] = self._alike(self.defined.get(a), self.defined.get(b))
        return self._known[a, b]

    def _alike(self, a: N.Value | None, b: N.Value | None) -> bool:
        if a is None or b is None or type(a) is not type(b) or a.type is not b.type:
            return False
        what = _WHAT.get(type(a))
        return (
            what is not None
            and what(a) == what(b)
            and all(self(i, j) for i, j in zip(a.operands(), b.operands(), strict=True))
        )


def _trips(loop: N.For | N.While, push: N.AdStackPush, back: N.For, same: _Equality) -> Trips | None:
    t = back.index.type
    if not back.reverse or t.bits != 32:
        return None
    popped = back.index.id, back.begin
    if isinstance(loop, N.For):
        alike = not loop.reverse and loop.index.type is t and same(loop.begin, back.begin) and same(loop.end, back.end)
        return Trips(loop, push, (loop.index.id, loop.begin), popped, N.NO_ID) if alike else None
    nexts = loop.body[-1].operands()
    for p, init, after, result in zip(loop.carried, loop.inits, nexts, loop.results, strict=True):
        if result.id == back.end and p.type is t and same(init, back.begin) and _one_more(same.defined, after, p.id):
            return Trips(loop, push, (p.id, init), popped, result.id)
    return None


def _one_more(defined: dict[int, N.Value], id: int, than: int) -> bool:
    s = defined.get(id)
    if not isinstance(s, N.Op) or s.prim != "add" or than not in s.args:
        return False
    other = defined.get(s.args[1 - s.args.index(than)])
    return isinstance(other, N.Const) and other.value == 1
