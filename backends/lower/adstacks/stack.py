"""What the lowering knows of a task and of each of its stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import DType, u1, u32


@dataclass(frozen=True, slots=True)
class Layout:
    """What a backend wants. ``counter``: the unsigned dtype of counts and slots. ``lanes``: slots lie as [slot][lane],
    for many iterations run at a time; else as [slot]."""

    counter: DType = u32
    lanes: bool = True


@dataclass(slots=True)
class Stack:
    """``number``: its place among the AdStackAllocas of the kernel. ``slots`` is None where pushes are only counted,
    ``adjoints`` where nothing adds to its adjoints; ``last`` is the value with the number of the last slot."""

    number: int
    dtype: DType
    count: N.Buffer
    slots: N.Buffer | None = None
    adjoints: N.Buffer | None = None
    capacity: int = N.NO_ID
    last: int = N.NO_ID

    @classmethod
    def of(cls, s: N.AdStackAlloca, number: int, layout: Layout, has_adjoints: bool) -> Stack:
        name = f"{N.buffer_name(s.name) or 'stack'}${s.id}"
        self = cls(number, s.type, N.Buffer(f"{name}.count", "local", layout.counter, 0, ()))
        if not s.count_only:
            axes, adjoints = 1 + layout.lanes, f"{name}.adjoints" if has_adjoints else ""
            self.slots = N.Buffer(name, "heap", u32 if s.type is u1 else s.type, axes, None, adjoints)
            self.adjoints = N.Buffer(adjoints, "heap", s.type, axes, None) if has_adjoints else None
        return self

    def buffers(self) -> Iterator[N.Buffer]:
        return (b for b in (self.slots, self.adjoints, self.count) if b is not None)

    def args(self) -> list[N.Arg]:
        """The scalars that a launch hands over."""
        if self.slots is None:
            return []
        return [N.Arg(f"{self.slots.name}.{what}", self.count.dtype) for what in ("capacity", "last")]


class Task:
    """``b`` builds its body. ``guarded``: in the reverse, where all stacks are known to fit. ``one`` and ``lane`` are
    values that all stacks share. ``counts``, ``tops``: what is known, by a stack's number, where statements are being
    added: how many slots it holds, and one less."""

    def __init__(self, layout: Layout, next_id: int, stacks: dict[int, Stack]) -> None:
        self.layout = layout
        self.stacks = stacks
        self.b = Builder(next_id)
        self.guarded = False
        self.one = self.lane = N.NO_ID
        self.counts: dict[int, int] = {}
        self.tops: dict[int, int] = {}
