"""Decides where a GPU's adstacks lie in the heap. Elements have the order [slot][thread], so that neighbouring
threads access neighbouring addresses.

Flags (u1) are packed 32 to a word. Stacks in lockstep are adjacent, so that an emitter may interleave their slots
(`chunks`, `_spirv.heap`). Stacks of different tasks use the same memory, because no stack is needed after its task.
"""

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from quadrants_lab.backends.cost import GROUP
from quadrants_lab.backends.layout import elements, slab
from quadrants_lab.backends.lower.adstacks import lockstep
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import of_kind

# the most elements of one stack over all threads, because programs index them with 32 bits
MOST_ELEMENTS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class HeapPlan:
    """Where the adstacks of a kernel lie in the heap. ``threads``: for how many threads there is room. ``at``: id
    of a stack -> its byte offset in the heap. ``lane_bytes``: the bytes that one thread needs, in the task that
    needs the most."""

    threads: int
    at: dict[int, int]
    lane_bytes: int
    heap_bytes: int


def heap_plan(
    tasks: list[list[N.AdStackAlloca]], caps: dict[int, int], fewest: int, wanted: int, limit: int, budget: int
) -> HeapPlan:
    """Plans a heap for ``wanted`` threads if it fits in ``budget`` bytes, otherwise for fewer; but for at least
    ``fewest`` threads if these fit in ``limit`` bytes, and for at least one group in any case.

    ``tasks``: for each task its stacks in heap order; ``caps``: id of a stack -> its capacity in slots.
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
    """The task's stacks, ordered so that stacks in lockstep are adjacent."""
    grouped = {a.id: a for group in lockstep.in_lockstep(task.body).groups for a in group}
    return [*grouped.values(), *(s for s in of_kind(task.body, N.AdStackAlloca) if s.id not in grouped)]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk: up to four ``buffers`` of slots whose stacks are pushed and popped in lockstep, so that one access
    moves the values that they have in the same slot.

    Chunks of the same width and dtype lie next to each other. There are ``count`` of them; this one has the index
    ``number``; ``first`` is the first buffer of the chunk with index 0. ``lead``: a buffer of slots whose stack has the
    same capacity as all stacks here.
    """

    buffers: tuple[str, ...]
    first: str
    number: int
    count: int
    lead: str


def chunks(kernel: N.Kernel) -> dict[str, Chunk]:
    """Maps the name of each buffer of slots to its chunk."""
    runs: dict[str, list[N.Buffer]] = {}  # name of the first of several adjacent buffers -> all of them
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
