"""The layout of a GPU's adstacks in the heap: [slot][thread], so that neighbouring threads touch adjacent addresses.

Flags are packed 32 to a word. Stacks in lockstep are adjacent, so that an emitter may interleave them in its own order
(`chunks`, `_spirv.heap`). Stacks of different tasks share the heap, because none outlives its task.
"""

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from quadrants_lab.backends.cost import GROUP
from quadrants_lab.backends.layout import elements, slab
from quadrants_lab.backends.lower.adstacks import lockstep
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import of_kind

MOST_ELEMENTS = (1 << 31) - 1  # the elements of one stack of all threads: programs index with 32 bits


@dataclass(frozen=True, slots=True)
class HeapPlan:
    """``threads``: the number of threads with room. ``at``: the offset of each stack in bytes, by its id.
    ``lane_bytes``: the most bytes that one thread needs in one task."""

    threads: int
    at: dict[int, int]
    lane_bytes: int
    heap_bytes: int


def heap_plan(
    tasks: list[list[N.AdStackAlloca]], caps: dict[int, int], fewest: int, wanted: int, limit: int, budget: int
) -> HeapPlan:
    """Plans room for ``wanted`` threads within ``budget`` bytes, or for ``fewest`` threads within ``limit`` bytes if
    that is more; and in any case for one group.

    ``tasks``: the stacks of each task in heap order; ``caps``: the slots of each stack, by its id.
    """
    at, lane_bytes = slab(tasks, caps)
    stored = (s for stacks in tasks for s in stacks if not s.count_only)
    most = max((elements(s.type, caps[s.id]) for s in stored), default=1)
    lane = max(lane_bytes, 1)
    wanted = min(-(-wanted // GROUP) * GROUP, budget // lane)
    room = min(max(wanted, fewest), limit // lane, MOST_ELEMENTS // most)
    threads = max(1, room // GROUP) * GROUP
    if most * threads > MOST_ELEMENTS:
        raise MemoryError(f"an adstack of {most} slots is more than a GPU program can index")
    at = {stack: place * threads for stack, place in at.items()}
    return HeapPlan(threads, at, lane_bytes, lane_bytes * threads)


def in_heap_order(task: N.Offload) -> list[N.AdStackAlloca]:
    """The task's stacks, with those in lockstep side by side."""
    grouped = {a.id: a for group in lockstep.in_lockstep(task.body).groups for a in group}
    return [*grouped.values(), *(s for s in of_kind(task.body, N.AdStackAlloca) if s.id not in grouped)]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The ``buffers`` of slots in lockstep whose values at one index move in one access.

    Chunks of the same width and dtype are adjacent: this one is the ``number``-th of ``count``, and the first of them
    begins with the buffer ``first``. ``lead``: the slots of a stack; all stacks here have its capacity.
    """

    buffers: tuple[str, ...]
    first: str
    number: int
    count: int
    lead: str


def chunks(kernel: N.Kernel) -> dict[str, Chunk]:
    """The chunk of each buffer of slots, by name."""
    runs: dict[str, list[N.Buffer]] = {}  # adjacent buffers, by the name of the first one
    for b in kernel.buffers.values():
        if b.kind == "heap":
            run = [b]
            while run[0].beside:
                run.insert(0, kernel.buffers[run[0].beside])
            runs[run[0].name] = max(run, runs.get(run[0].name, []), key=len)
    out: dict[str, Chunk] = {}
    for run in runs.values():
        made = lockstep.chunks(run, attrgetter("dtype"))
        for _, found in groupby(made, lambda chunk: (chunk[0].dtype, len(chunk))):
            alike = [tuple(b.name for b in chunk) for chunk in found]
            for number, names in enumerate(alike):
                out.update(dict.fromkeys(names, Chunk(names, alike[0][0], number, len(alike), run[0].name)))
    return out
