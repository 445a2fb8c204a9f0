"""The launch frame: a block of 64-bit words from which compiled code reads everything. Offsets are in bytes.

A frame begins with a head that differs between devices. The part after the head depends on the kernel; this file lays
it out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from math import prod
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import walk

WORD = 8
VALUES = 8  # raw 64-bit values that a failed assert reports

# the words of one adstack: slots; max(slots, 1) - 1; where its slots begin in the heap
STACK_CAPACITY, STACK_LAST, STACK_AT = 0, 8, 16
STACK_WORDS = 3
STACK_ARGS = {"capacity": STACK_CAPACITY, "last": STACK_LAST}  # words that are arguments of a lowered kernel


@dataclass(slots=True)
class FrameLayout:
    """Offsets in a kernel's frame, by name. ``stacks`` are the kernel's AdStackAllocas in order. In a kernel whose
    adstacks are lowered (`lower.adstacks`) the words of a stack are in ``buffers`` and ``args`` instead."""

    # address, or place in the heap; for temp and ret buffers the value
    buffers: dict[str, int] = field(default_factory=dict)
    extents: dict[str, int] = field(default_factory=dict)  # ndim words
    args: dict[str, int] = field(default_factory=dict)
    stacks: list[N.AdStackAlloca] = field(default_factory=list)
    stack_at: dict[int, int] = field(default_factory=dict)
    stacks_of_tasks: list[list[N.AdStackAlloca]] = field(default_factory=list)  # of the tasks that have any
    task_of: dict[int, int] = field(default_factory=dict)  # id of a stack -> number of its task
    asserts: list[N.Assert] = field(default_factory=list)
    prints: list[N.Print] = field(default_factory=list)
    # id of an assert or print -> its number among the asserts or prints
    numbers: dict[int, int] = field(default_factory=dict)
    bounds: list[int] = field(default_factory=list)  # by task: begin and extent of each axis
    zero_at: int = 0  # what a launch sets to 0 first begins here
    zero_bytes: int = 0
    size: int = 0

    def slab(self, caps: Sequence[int], unit: int = 1) -> tuple[dict[int, int], int]:
        """See `slab`; ``caps``: the slots of each of ``stacks``."""
        return slab(self.stacks_of_tasks, {s.id: cap for s, cap in zip(self.stacks, caps, strict=True)}, unit)


def box_words(kernel: N.Kernel, number: int) -> int:
    """How many words the box of a task takes: begin and extent of each axis."""
    task, kept = kernel.tasks[number], kernel.buffers.get(f"$begins{number}")  # `lower.tasks` makes this buffer
    return len(task.indices) * (1 if task.kind == "threads" else 2) if kept is None else 2 * prod(kept.shape or ())


def frame_layout(kernel: N.Kernel, head: int) -> FrameLayout:
    """The layout; it depends on nothing but the kernel. ``head``: how many bytes at the start belong to the device."""
    out = FrameLayout()
    at = head

    def take(words: int) -> int:
        nonlocal at
        at += words * WORD
        return at - words * WORD

    for b in kernel.buffers.values():
        if b.kind not in ("temp", "ret", "heap", "local", "private", "frame", "words"):
            out.buffers[b.name] = take(1)
        if b.shape is None and b.kind not in ("heap", "words"):
            out.extents[b.name] = take(b.ndim)
    slots = [b for b in kernel.buffers.values() if b.kind == "heap"]
    words = {f"{b.name}.{what}" for b in slots for what in STACK_ARGS}
    for a in kernel.args:
        if a.name not in words:
            out.args[a.name] = take(1)
    for number, task in enumerate(kernel.tasks):
        out.bounds.append(take(box_words(kernel, number)))
        for s in walk((task,)):
            if isinstance(s, N.AdStackAlloca):
                out.stacks.append(s)
                out.task_of[s.id] = number
            elif isinstance(s, (N.Assert, N.Print)):
                reports: list[Any] = out.asserts if isinstance(s, N.Assert) else out.prints
                out.numbers[s.id] = len(reports)
                reports.append(s)
    out.stacks_of_tasks = [list(found) for _, found in groupby(out.stacks, lambda s: out.task_of[s.id])]
    for s in out.stacks:
        if not s.count_only:
            out.stack_at[s.id] = take(STACK_WORDS)
    for b in slots:
        first = take(STACK_WORDS)
        out.args |= {f"{b.name}.{what}": first + at for what, at in STACK_ARGS.items()}
        out.buffers[b.name] = first + STACK_AT
    out.zero_at = at
    for b in kernel.buffers.values():
        if b.kind in ("temp", "ret"):
            out.buffers[b.name] = take(1)
    out.zero_bytes = at - out.zero_at
    out.size = at
    return out


def elements(t: DType, slots: int) -> int:
    """How many elements a stack with so many slots takes for each thread: values, or words of 32 flags; at least
    one."""
    return (max(slots, 1) + 31) // 32 if t.kind == "b" else max(slots, 1)


def element_bytes(t: DType) -> int:
    return 4 if t.kind == "b" else t.nbytes


def slab(
    tasks: Iterable[Sequence[N.AdStackAlloca]], caps: Mapping[int, int], unit: int = 1
) -> tuple[dict[int, int], int]:
    """Where the slots of each stack begin in the adstacks of one iteration, by the stack's id, in multiples of ``unit``
    bytes, and how many bytes these adstacks take. Tasks use the same memory one after the other. ``tasks``: the stacks
    of each task, in order; ``caps``: the slots of each stack, by its id."""
    places: dict[int, int] = {}
    size = 0
    for stacks in tasks:
        at = 0
        for s in stacks:
            places[s.id] = at
            nbytes = 0 if s.count_only else elements(s.type, caps[s.id]) * element_bytes(s.type)
            at += -(-nbytes // unit) * unit
        size = max(size, at)
    return places, size
