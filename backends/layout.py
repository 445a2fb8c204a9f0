"""Lays out a launch frame: a block of 64-bit words from which compiled code reads everything that a launch needs.
Offsets are in bytes.

A frame begins with a head whose words differ between devices. The words after the head depend on the kernel; this file
lays them out.
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
VALUES = 8  # how many 64-bit values a failed assert reports

# offsets of the three words of an adstack: its capacity in slots; max(capacity, 1) - 1; where its slots begin in the
# heap
STACK_CAPACITY, STACK_LAST, STACK_AT = 0, 8, 16
STACK_WORDS = 3
# the words that become arguments of a kernel when `lower.adstacks` lowers it
STACK_ARGS = {"capacity": STACK_CAPACITY, "last": STACK_LAST}


@dataclass(slots=True)
class FrameLayout:
    """Where everything is in the launch frame of a kernel. Each dict maps a name or an id to a byte offset from the
    start of the frame, unless its comment says otherwise. ``stacks`` lists the kernel's AdStackAllocas in order;
    ``stack_at`` has the offsets of their words. In a kernel whose adstacks are lowered (`lower.adstacks`), an adstack's
    words are in ``buffers`` and ``args`` instead."""

    # name of a buffer -> the word with its address (or offset in the heap); for a temp or ret buffer the word with its
    # value
    buffers: dict[str, int] = field(default_factory=dict)
    extents: dict[str, int] = field(default_factory=dict)  # name of an ndarray -> its first extent; the others follow
    args: dict[str, int] = field(default_factory=dict)
    stacks: list[N.AdStackAlloca] = field(default_factory=list)
    stack_at: dict[int, int] = field(default_factory=dict)
    # for each task with adstacks: these adstacks
    stacks_of_tasks: list[list[N.AdStackAlloca]] = field(default_factory=list)
    task_of: dict[int, int] = field(default_factory=dict)  # id of an adstack -> index of its task
    asserts: list[N.Assert] = field(default_factory=list)
    prints: list[N.Print] = field(default_factory=list)
    # id of an assert or print -> its index in ``asserts`` or ``prints``
    numbers: dict[int, int] = field(default_factory=dict)
    bounds: list[int] = field(default_factory=list)  # by task: begin and extent of each axis
    zero_at: int = 0  # what a launch sets to 0 first begins here
    zero_bytes: int = 0
    size: int = 0

    def slab(self, caps: Sequence[int], unit: int = 1) -> tuple[dict[int, int], int]:
        """Places the adstacks of one iteration in memory, see the function `slab`. ``caps``: for each of ``stacks``,
        its capacity in slots."""
        return slab(self.stacks_of_tasks, {s.id: cap for s, cap in zip(self.stacks, caps, strict=True)}, unit)


def box_words(kernel: N.Kernel, number: int) -> int:
    """How many words of the frame the box of task ``number`` takes: a begin and an extent for each axis."""
    # `lower.tasks` makes the buffer $begins if it makes the task
    task, kept = kernel.tasks[number], kernel.buffers.get(f"$begins{number}")
    return len(task.indices) * (1 if task.kind == "threads" else 2) if kept is None else 2 * prod(kept.shape or ())


def frame_layout(kernel: N.Kernel, head: int) -> FrameLayout:
    """Lays out the frame of a kernel; the result depends on nothing else. ``head``: how many bytes at the start belong
    to the device."""
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
    """How many elements of memory a stack with ``slots`` slots takes for each thread: one a value, or for flags (u1)
    one for each 32 slots; at least one."""
    return (max(slots, 1) + 31) // 32 if t.kind == "b" else max(slots, 1)


def element_bytes(t: DType) -> int:
    return 4 if t.kind == "b" else t.nbytes


def slab(
    tasks: Iterable[Sequence[N.AdStackAlloca]], caps: Mapping[int, int], unit: int = 1
) -> tuple[dict[int, int], int]:
    """Places the adstacks of one iteration in memory. Returns where the slots of each stack begin (id of a stack ->
    offset, a multiple of ``unit`` bytes), and how many bytes all of them take. Tasks run one after the other, so they
    use the same memory. ``tasks``: for each task its stacks; ``caps``: id of a stack -> its capacity in slots."""
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
