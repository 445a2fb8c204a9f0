"""Where a GPU's adstacks lie in the heap: [slot][thread], so that neighbouring threads touch neighbouring addresses.

Flags pack 32 to a word. Stacks in step lie side by side, so that an emitter may use their regions as one, in an order
of its own (`chunks`, `_spirv.heap`). Stacks of different tasks share the heap, for none outlives its task.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from quadrants_lab.backends._gpu.programs import GROUP
from quadrants_lab.backends.layout import element_bytes, elements
from quadrants_lab.backends.lower.adstacks.lockstep import in_lockstep, widest
from quadrants_lab.ir import nodes as N

MOST_ELEMENTS = (1 << 31) - 1  # of one stack, all threads together: programs index with 32 bits


@dataclass(frozen=True, slots=True)
class HeapPlan:
    """``threads``: how many have room. ``at``: by a stack's id, in bytes from the heap's start.
    ``lane_bytes``: the most that one thread needs in one task."""

    threads: int
    at: dict[int, int]
    lane_bytes: int
    heap_bytes: int


def heap_plan(
    tasks: list[list[N.AdStackAlloca]], caps: dict[int, int], fewest: int, wanted: int, limit: int, budget: int
) -> HeapPlan:
    """Room for ``wanted`` threads within ``budget`` bytes, but for ``fewest`` within ``limit``; for one group at least.

    ``tasks``: the stacks of each task in heap order; ``caps``: slots by stack id.
    """
    lane_bytes, most = 0, 1
    for stacks in tasks:
        stored = [s for s in stacks if not s.count_only]
        sizes = [elements(s.type, caps[s.id]) * element_bytes(s.type) for s in stored]
        lane_bytes = max(lane_bytes, sum(sizes))
        most = max([most, *(elements(s.type, caps[s.id]) for s in stored)])
    lane = max(lane_bytes, 1)
    wanted = min(-(-wanted // GROUP) * GROUP, budget // lane)
    room = min(max(wanted, fewest), limit // lane, MOST_ELEMENTS // most)
    threads = max(1, room // GROUP) * GROUP
    if most * threads > MOST_ELEMENTS:
        raise MemoryError(f"an adstack of {most} slots is more than a GPU program can index")
    at: dict[int, int] = {}
    for stacks in tasks:
        here = 0
        for s in stacks:
            at[s.id] = here
            here += 0 if s.count_only else elements(s.type, caps[s.id]) * element_bytes(s.type) * threads
    return HeapPlan(threads, at, lane_bytes, lane_bytes * threads)


def in_heap_order(task: N.Offload) -> list[N.AdStackAlloca]:
    """The task's stacks, those in step side by side."""
    grouped = {a.id: a for group in in_lockstep(task.body).groups for a in group}
    return [*grouped.values(), *(s for s in task.body if isinstance(s, N.AdStackAlloca) and s.id not in grouped)]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Buffers of slots that one access moves together, slots of one index; ``number``: how many others as wide lie in
    front of them, beginning with that of the buffer ``first``; ``count``: how many as wide there are. ``lead``: the
    slots of the stack whose capacity is theirs."""

    buffers: tuple[str, ...]
    first: str
    number: int
    count: int
    lead: str


def chunks(kernel: N.Kernel) -> dict[str, Chunk]:
    """The chunk of each buffer of slots, by name."""
    runs: dict[str, list[N.Buffer]] = {}  # by the first of those that lie beside each other
    for b in kernel.buffers.values():
        if b.kind == "heap":
            run = [b]
            while run[0].beside:
                run.insert(0, kernel.buffers[run[0].beside])
            runs[run[0].name] = max(run, runs.get(run[0].name, []), key=len)
    out: dict[str, Chunk] = {}
    for run in runs.values():
        for t, alike in groupby(run, lambda b: b.dtype):
            left = [b.name for b in alike]
            while left:
                width = widest(len(left), t)
                first, count = left[0], len(left) // width
                for number in range(count):
                    names, left = tuple(left[:width]), left[width:]
                    out.update(dict.fromkeys(names, Chunk(names, first, number, count, run[0].name)))
    return out
