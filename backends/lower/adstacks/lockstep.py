"""Finds adstacks that are pushed and popped in lockstep: they always hold equally many values, so they can share one
counter. Such stacks are a group.

Blocks are cut into segments: a statement whose inner blocks access the group ends a segment. In a segment each stack of
a group is pushed once, or read and then popped once, or only read.
"""

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import of_kind, walk

_KINDS: dict[type, str] = {N.AdStackPush: "p", N.AdStackPop: "o", N.AdStackLoadTop: "l"}
_SHAPES = re.compile(r"p|l*o|l*")
Item = TypeVar("Item")
WIDEST = 16  # the most bytes that one access moves


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """What a segment does to each stack of a group. ``kind``: "p" if it pushes the stack, "o" if it pops the stack,
    "l" if it only reads the stack."""

    kind: str


@dataclass(frozen=True, slots=True)
class Lockstep:
    """The stacks of a task that move in lockstep. ``groups``: each group's stacks, two or more, sorted by dtype;
    ``segments``: id of a statement that pushes, pops or reads a stack of a group -> its segment."""

    groups: tuple[tuple[N.AdStackAlloca, ...], ...]
    segments: dict[int, Segment]


Place = tuple[int, int]  # the index of a block, and the index of a segment in the block


def in_lockstep(block: N.Block) -> Lockstep:
    """Finds the groups in a task's body."""
    statements = list(walk(block))
    excluded = {s.stack for s in of_kind(statements, N.AdStackDepth)}
    allocas = {
        s.id: s
        for s in of_kind(statements, N.AdStackAlloca) if not s.count_only and s.type is not u1 and s.id not in excluded
    }
    rough = _alike(_touches(block, set(allocas), False))
    groups: list[tuple[N.AdStackAlloca, ...]] = []
    segments: dict[int, Segment] = {}
    for candidates in rough:
        found = _touches(block, set(candidates), True)
        shaped = {i: t for i, t in found.items() if all(_SHAPES.fullmatch(s) for s in _sequences(t).values())}
        for members in _alike(shaped):
            kinds: dict[Place, Segment] = {}
            for i in members:
                for place, sequence in _sequences(shaped[i]).items():
                    if place not in kinds or kinds[place].kind == "l":
                        kinds[place] = Segment(sequence[-1])
            groups.append(tuple(sorted((allocas[i] for i in members), key=lambda a: (a.type.name, a.id))))
            segments.update({id: kinds[place] for i in members for place, _, id in shaped[i]})
    return Lockstep(tuple(groups), segments)


Touches = list[tuple[Place, str, int]]  # (place, kind as in `Segment`, id) of each statement


def _touches(block: N.Block, stacks: set[int], segmented: bool) -> dict[int, Touches]:
    """Maps a stack to the statements that push, pop or read it, in program order. ``segmented``: their places have the
    indices of segments; otherwise these are 0."""
    out: dict[int, Touches] = {i: [] for i in stacks}
    blocks = 0

    def visit(block: N.Block) -> bool:
        nonlocal blocks
        number, segment, touched = blocks, 0, False
        blocks += 1
        for s in block:
            if isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop)) and s.stack in stacks:
                out[s.stack].append(((number, segment), _KINDS[type(s)], s.id))
                touched = True
            inside = [visit(b) for b in s.blocks()]
            touched = touched or any(inside)
            if segmented and (any(inside) or isinstance(s, N.AdStackGuard)):
                segment += 1
        return touched

    visit(block)
    return out


def _alike(found: dict[int, Touches]) -> list[list[int]]:
    """Groups of two or more stacks that are pushed and popped at the same places."""
    by_places: dict[tuple[tuple[Place, str], ...], list[int]] = {}
    for i, touches in found.items():
        by_places.setdefault(tuple((place, kind) for place, kind, _ in touches if kind != "l"), []).append(i)
    return [sorted(ids) for places, ids in by_places.items() if places and len(ids) > 1]


def _sequences(touches: Touches) -> dict[Place, str]:
    out: dict[Place, str] = {}
    for place, kind, _ in touches:
        out[place] = out.get(place, "") + kind
    return out


def widest(count: int, t: DType) -> int:
    """How many of ``count`` values of dtype ``t`` that lie side by side one access can move."""
    return max(w for w in (1, 2, 4) if w <= count and (w == 1 or w * t.nbytes <= WIDEST))


def chunks(group: Iterable[Item], dtype: Callable[[Item], DType] = attrgetter("type")) -> list[tuple[Item, ...]]:
    """Splits a group into chunks: stacks, or buffers of slots, that one access moves together; up to four, of one
    dtype."""
    out: list[tuple[Item, ...]] = []
    for t, alike in groupby(group, dtype):
        left = tuple(alike)
        while left:
            width = widest(len(left), t)
            out.append(left[:width])
            left = left[width:]
    return out
