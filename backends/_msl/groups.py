"""Adstacks in lockstep (`lower.adstacks`): one counter and one index for all of a group, up to four slots in one
access.

The counter moves where a segment first touches the group. A chunk's slots are written when the last of its values is
there, and read when the first one is wanted: ``q3.x`` is then the value of a load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends.lower.adstacks.lockstep import Segment, Steps, chunks
from quadrants_lab.ir import nodes as N

if TYPE_CHECKING:
    from quadrants_lab.backends._msl.body import Body

_MEMBERS = "xyzw"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Stacks, by id, whose slots of one index are one element, of MSL's ``type``: ``slots[index + after]``."""

    stacks: tuple[int, ...]
    type: str
    slots: str
    after: str

    def element(self, index: str) -> str:
        return f"{self.slots}[{index}{self.after}]"


@dataclass(slots=True, eq=False)
class Group:
    """``counter`` and ``limit`` (number of the last slot) are expressions; ``chunk_of``: a stack's chunk and its place
    there."""

    counter: str
    limit: str
    chunk_of: dict[int, tuple[Chunk, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Open:
    """What of a segment has been emitted: the variable with the elements' index; values to be stored, by stack; the
    variables with chunks that were read, by their first stack."""

    index: str
    values: dict[int, Expr] = field(default_factory=dict)
    read: dict[int, str] = field(default_factory=dict)


class Groups:
    """The groups of one task; ``of`` has them by the id of a stack."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.of: dict[int, Group] = {}
        self._open: dict[Segment, Open] = {}
        self._reads = 0

    def open(
        self, b: Body, members: tuple[N.AdStackAlloca, ...], group: Group, places: dict[int, int], lane: str
    ) -> None:
        """Makes what a group needs. ``places``: by a stack's id, its number among the task's."""
        slots, kind, count = "", "", 0
        for stacks in chunks(members):
            first, width = places[stacks[0].id], len(stacks)
            t = X.name(stacks[0].type) + (str(width) if width > 1 else "")
            count = count + 1 if t == kind else 0
            after = ""
            if not count:
                kind, slots = t, b.once(f"s{first}", "auto", f"{b.helper('qd_slots')}<{t}>(f, s[{first}], {lane})")
            else:
                region = b.once(f"r{places[members[0].id]}", "ulong", f"(s[{places[members[0].id]}].last + 1) * stride")
                after = f" + {count} * {region}" if count > 1 else f" + {region}"
            chunk = Chunk(tuple(a.id for a in stacks), t, slots, after)
            group.chunk_of.update({a.id: (chunk, n) for n, a in enumerate(stacks)})
        self.of.update(dict.fromkeys((a.id for a in members), group))

    def push(self, b: Body, s: N.AdStackPush) -> None:
        group, here = self._segment(b, s)
        chunk, _ = group.chunk_of[s.stack]
        value = b.typed(s.value)
        last = len([i for i in chunk.stacks if i in here.values]) == len(chunk.stacks) - 1
        # what waits for the others must not change on the way
        here.values[s.stack] = value if last or not value.memory else b.fix(value, f"p{s.id}_", value.type)
        if not last:
            return
        values = [here.values[i].text for i in chunk.stacks]
        whole = values[0] if len(values) == 1 else f"{chunk.type}({', '.join(values)})"
        b.out.put(f"{chunk.element(here.index)} = {whole};")

    def load(self, b: Body, s: N.AdStackLoadTop) -> None:
        if not b.read(s.id):
            return
        group, here = self._segment(b, s)
        chunk, place = group.chunk_of[s.stack]
        whole = here.read.get(chunk.stacks[0])
        if whole is None:
            whole = here.read[chunk.stacks[0]] = f"q{self._reads}"
            self._reads += 1
            b.out.put(f"{chunk.type} {whole} = {chunk.element(here.index)};")
        member = f"{whole}.{_MEMBERS[place]}" if len(chunk.stacks) > 1 else whole
        b.set(s.id, s.type, X.variable(member, X.name(s.type)))

    def pop(self, b: Body, s: N.AdStackPop) -> None:
        self._segment(b, s)

    def _segment(self, b: Body, s: N.AdStackPush | N.AdStackLoadTop | N.AdStackPop) -> tuple[Group, Open]:
        """What is known of the segment; when it begins, the counter moves."""
        group, segment = self.of[s.stack], self.steps.segments[s.id]
        here = self._open.get(segment)
        if here is None:
            here = self._open[segment] = Open(f"i{len(self._open)}")
            moved = {"p": f"{group.counter}++", "o": f"--{group.counter}", "l": f"({group.counter} - 1)"}[segment.kind]
            clamped = moved if b.guarded and segment.kind != "p" else f"min({moved}, {group.limit})"
            b.out.put(f"uint {here.index} = {clamped} * stride;")
        return group, here
