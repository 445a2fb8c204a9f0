"""The state of the lowering for a task and for each of its stacks."""

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
    """``number``: its place among the AdStackAllocas of the kernel. ``slots`` is None if pushes are only counted.
    ``count`` is None if another stack has the count or none is needed. ``capacity`` and ``last``, the number of the
    last slot, are ids of values."""

    number: int
    dtype: DType
    name: str
    count: N.Buffer | None = None
    slots: N.Buffer | None = None
    trips: Trips | None = None
    capacity: int = N.NO_ID
    last: int = N.NO_ID
    lead: Stack = field(init=False)  # the stack whose count this one shares

    def __post_init__(self) -> None:
        self.lead = self

    def buffers(self) -> Iterator[N.Buffer]:
        return (b for b in (self.slots, self.count) if b is not None)


class Task:
    """``b`` builds the body. ``guarded``: the code is in the reverse, where all stacks are known to fit. ``ahead``:
    this is known before anything is pushed. ``one`` and ``lane`` are values that all stacks share, ``zeros`` the
    constants 0. ``slot``: the current slot of each segment of a group. ``numbers``: by the id of a loop that numbers
    slots, values that are visible here: the loop's current "slot", or its "trips" once it has ended. ``waiting``:
    values of a chunk that are not pushed yet."""

    def __init__(self, layout: LowerAdstacks, next_id: int, task: N.Offload, first: int) -> None:
        """``first``: the number of the task's first stack."""
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
        for group in self.lockstep.groups:  # trips number either all stacks of a group or none
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
        """The scalar arguments that a launch passes for a stack."""
        if st.slots is None or st.lead is not st:
            return []
        needed = ("capacity",) if self.early_check else ("capacity", "last")
        return [N.Arg(f"{st.name}.{what}", self.layout.counter) for what in needed]
