"""Holds the state of the lowering of adstacks, for a task and for each of its stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise

from quadrants_lab.backends.lower.adstacks import LowerAdstacks
from quadrants_lab.backends.lower.adstacks.lockstep import Lockstep, Segment, chunks, in_lockstep
from quadrants_lab.backends.lower.adstacks.loops import EarlyCheck, Trips, by_trips, early_check
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u1, u32
from quadrants_lab.ir.walk import find, of_kind, types_of


@dataclass(slots=True, eq=False)
class Stack:
    """A stack of the task. ``number``: its index among the AdStackAllocas of the kernel. ``slots``: the buffer of its
    slots, None if pushes are only counted. ``count``: the buffer of its counter, None if it shares the counter of
    ``lead`` or needs none. ``capacity`` and ``last``: the ids of values, the capacity and the index of the last slot.
    """

    number: int
    dtype: DType
    name: str
    count: N.Buffer | None = None
    slots: N.Buffer | None = None
    trips: Trips | None = None
    capacity: int = N.NO_ID
    last: int = N.NO_ID
    lead: Stack = field(init=False)  # the stack whose counter this one uses, often this stack itself

    def __post_init__(self) -> None:
        self.lead = self

    def buffers(self) -> Iterator[N.Buffer]:
        return (b for b in (self.slots, self.count) if b is not None)


class Task:
    """The state of lowering a task. ``b``: the builder of the task's body. ``guarded``: the code that is lowered
    now belongs to the reverse, which runs only if no stack has overflowed. ``ahead``: whether a stack will overflow
    is known before the first push. ``one`` and ``lane``: values that all stacks use; ``zeros``: ids of constants
    that are 0. ``slot``: segment -> the slot index of its group. ``numbers``: (id of a loop, "slot") -> the index
    of its current slot, while the loop runs; (id, "trips") -> how many slots it has filled, after it has ended.
    ``waiting``: values of a chunk that are not stored yet."""

    def __init__(self, layout: LowerAdstacks, next_id: int, task: N.Offload, first: int) -> None:
        """``first``: the index, in the kernel, of the task's first stack."""
        body = task.body
        allocas = list(of_kind(body, N.AdStackAlloca))
        self.layout = layout
        self.b = Builder(next_id, types_of((task,)))
        self.guarded = False
        self.one = self.lane = N.NO_ID
        self.zeros = {s.id for s in find(body, N.Const) if s.value == 0}
        self.lockstep = in_lockstep(body) if layout.lockstep else Lockstep((), {})
        self.slot: dict[Segment, int] = {}
        self.numbers: dict[tuple[int, str], int] = {}
        self.waiting: dict[int, int] = {}
        self.chunk: dict[int, tuple[N.AdStackAlloca, ...]] = {}
        trips = by_trips(body) if layout.numbered else {}
        for group in self.lockstep.groups:  # either all stacks of a group are numbered by trips, or none
            if any(a.id not in trips for a in group):
                trips = {i: t for i, t in trips.items() if all(a.id != i for a in group)}
        self.early_check: EarlyCheck | None = early_check(body, trips) if layout.numbered else None
        self.stacks = {s.id: self._stack(s, first + n, trips.get(s.id)) for n, s in enumerate(allocas)}
        for group in self.lockstep.groups:
            for a in group:
                self.stacks[a.id].lead = self.stacks[group[0].id]
            for chunk in chunks(group):
                self.chunk.update(dict.fromkeys((a.id for a in chunk), chunk))
            for before, a in pairwise(group):
                slots = self.stacks[a.id].slots
                if slots is not None:
                    slots.beside = self.stacks[before.id].name
        for st in self.stacks.values():
            top_level = st.trips is not None and any(s is st.trips.there[0].loop for s in body)
            if st.lead is st and not top_level:
                st.count = N.Buffer(f"{st.name}.count", "local", layout.counter, 0, ())

    def _stack(self, s: N.AdStackAlloca, number: int, trips: Trips | None) -> Stack:
        st = Stack(number, s.type, f"{N.buffer_name(s.name) or 'stack'}${s.id}", trips=trips)
        if not s.count_only:
            t, role = (u32, "flags") if s.type is u1 else (s.type, "")
            st.slots = N.Buffer(st.name, "heap", t, 1 + self.layout.lanes, None, role=role)
        return st

    def args(self, st: Stack) -> list[N.Arg]:
        """The scalar arguments with which a launch passes the capacity of a stack."""
        if st.slots is None or st.lead is not st:
            return []
        needed = ("capacity",) if self.early_check else ("capacity", "last")
        return [N.Arg(f"{st.name}.{what}", self.layout.counter) for what in needed]
