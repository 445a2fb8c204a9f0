"""Adstacks in lockstep (`lower.adstacks`): one counter and one index for all of a group, up to four slots in one
access.

The counter, where there is one, moves where a segment first touches the group. A chunk's slots are written when the
last of its values is there, and read when the first one is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from quadrants_lab.backends._spirv import depths, heap
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.depths import Depth
from quadrants_lab.backends.layout import STACK_AT, STACK_LAST
from quadrants_lab.backends.lower.adstacks.lockstep import Segment, Steps, chunks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body


@dataclass(slots=True, eq=False)
class Chunk:
    """Stacks, by id, whose slots of one index are one element. ``kept``: what an element is in memory, so many values
    of a dtype; ``base`` points to this thread's first, and is of type ``pointer``."""

    stacks: tuple[int, ...]
    dtype: DType
    kept: tuple[DType, int]
    base: int
    pointer: int


@dataclass(slots=True, eq=False)
class Group:
    """``depth``: that of its first stack, and so of all; ``limit``: number of the last slot. ``chunk_of``: a stack's
    chunk and its place there."""

    depth: Depth
    limit: int
    chunk_of: dict[int, tuple[Chunk, int]]


@dataclass(slots=True)
class Open:
    """What of a segment has been emitted: the slot's number; values to be stored, by stack; chunks read."""

    slot: int
    values: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)


class Groups:
    """The groups of one task; ``of`` has them by the id of a stack."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.of: dict[int, Group] = {}
        self._open: dict[Segment, Open] = {}

    def open(self, b: Body, thread: int) -> None:
        """Makes what the groups need; to be called at the function's start."""
        for members in self.steps.groups:
            first = members[0].id
            limit = b.frame.word(b.frame.layout.frame.stack_at[first] + STACK_LAST, u32)
            group = Group(b.depths[first], limit, {})
            for chunk in _chunks(b, members, limit, thread):
                group.chunk_of.update({id: (chunk, place) for place, id in enumerate(chunk.stacks)})
            self.of.update(dict.fromkeys((a.id for a in members), group))

    def push(self, b: Body, s: N.AdStackPush) -> None:
        group = self.of[s.stack]
        here = self._segment(b, group, s)
        chunk, _ = group.chunk_of[s.stack]
        here.values[s.stack] = b.values[s.value]
        if all(i in here.values for i in chunk.stacks):
            _store(b, chunk, here.slot, [here.values[i] for i in chunk.stacks])

    def load(self, b: Body, s: N.AdStackLoadTop) -> None:
        group = self.of[s.stack]
        here = self._segment(b, group, s)
        chunk, place = group.chunk_of[s.stack]
        whole = here.read.get(chunk.stacks[0])
        if whole is None:
            whole = here.read[chunk.stacks[0]] = _load(b, chunk, here.slot)
        if len(chunk.stacks) > 1:
            whole = b.fn.let("CompositeExtract", b.m.type(chunk.dtype), whole, place)
        b.define(s.id, s.type, whole)

    def pop(self, b: Body, s: N.AdStackPop) -> None:
        self._segment(b, self.of[s.stack], s)

    def _segment(self, b: Body, group: Group, s: N.Stmt) -> Open:
        """What is known of the segment; when it begins, the counter moves."""
        segment = self.steps.segments[s.id]
        here = self._open.get(segment)
        if here is None:
            here = self._open[segment] = Open(self._slot(b, group, segment.kind))
        return here

    def _slot(self, b: Body, group: Group, kind: str) -> int:
        fn, d = b.fn, group.depth
        if kind == "p":
            n = depths.slot_pushed(b, d) or depths.increment(fn, d.counter)
        else:
            n = depths.slot_popped(b, d) or (depths.decrement if kind == "o" else depths.below)(fn, d.counter)
        fits = b.ahead or (b.guarded and kind != "p")
        return n if fits else fn.glsl("UMin", b.m.type(u32), n, group.limit)


def _chunks(b: Body, members: tuple[N.AdStackAlloca, ...], limit: int, thread: int) -> list[Chunk]:
    """The chunks of a group: those of one kind after each other are the elements of a slot."""
    out: list[Chunk] = []
    slots = heap.slots_of(b, limit)
    for kept, run in groupby(chunks(members), partial(_kept, b)):
        alike = list(run)
        at = b.frame.layout.frame.stack_at[alike[0][0].id] + STACK_AT
        pointer = heap.slot_pointer(b.m, *kept, len(alike))
        for stacks, base in zip(alike, heap.first_slot(b, *kept, at, slots, thread, len(alike)), strict=True):
            out.append(Chunk(tuple(a.id for a in stacks), stacks[0].type, kept, base, pointer))
    return out


def _kept(b: Body, stacks: tuple[N.AdStackAlloca, ...]) -> tuple[DType, int]:
    """What an element of a chunk is in memory."""
    t, width = stacks[0].type, len(stacks)
    whole = t.nbytes * width
    return (u64, whole // 8) if b.m.target.pairs and t.bits < 64 and whole % 8 == 0 else (t, width)


def _store(b: Body, chunk: Chunk, slot: int, values: list[int]) -> None:
    fn, m = b.fn, b.m
    whole = fn.let("CompositeConstruct", m.wide(chunk.dtype, len(values)), *values) if len(values) > 1 else values[0]
    if chunk.kept[0] is not chunk.dtype:
        whole = fn.let("Bitcast", m.wide(*chunk.kept), whole)
    pointer = fn.let("PtrAccessChain", chunk.pointer, chunk.base, slot)
    fn.put("Store", pointer, whole, C.ALIGNED, chunk.dtype.nbytes * len(chunk.stacks))


def _load(b: Body, chunk: Chunk, slot: int) -> int:
    fn, m = b.fn, b.m
    pointer = fn.let("PtrAccessChain", chunk.pointer, chunk.base, slot)
    aligned = chunk.dtype.nbytes * len(chunk.stacks)
    whole = fn.let("Load", m.wide(*chunk.kept), pointer, C.ALIGNED, aligned)
    return whole if chunk.kept[0] is chunk.dtype else fn.let("Bitcast", m.wide(chunk.dtype, len(chunk.stacks)), whole)
