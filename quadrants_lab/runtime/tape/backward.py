"""The backward pass over recorded steps: gradients, last first, each on the memory that its launch left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set as AbstractSet
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, cast

from quadrants_lab.runtime.launch.observe import PUT_BACK
from quadrants_lab.runtime.launch.regions import Region, add
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.parts import Part, part_of
from quadrants_lab.runtime.tape.python_writes import write_again
from quadrants_lab.runtime.tape.recomputation import item_bytes, lengths, not_recomputable
from quadrants_lab.runtime.tape.stand_ins import StandIns
from quadrants_lab.runtime.tape.step import Segment, Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.recorder import Launches


@contextmanager
def restored_afterwards(launches: Launches) -> Iterator[None]:
    """Restores, when the with block ends, all memory that a sweep in it changes, except for gradients."""
    final = snapshot(launches.steps, {id(f.grad) for f in launches.tracked.values()})
    extra = sum(part.nbytes for part in final)
    launches.used += extra
    launches.most, launches.made_again = max(launches.most, launches.used), 0
    token = PUT_BACK.set(True)
    try:
        yield
    finally:
        PUT_BACK.reset(token)
        for part in final:
            part.put()
        launches.used -= extra
        launches.mark_seen()


def snapshot(items: list[Step | Segment], gradients: AbstractSet[int] = frozenset()) -> list[Part]:
    """Copies of all memory that a sweep over the items restores, or writes when it recomputes steps. ``gradients``: ids
    of memory that is left out."""
    boxes: dict[int, tuple[Memory, list[Region]]] = {}
    others: list[Part] = []
    for item in items:
        for part in item.changes:
            if part.region is None:
                others.append(part.again())
            else:
                add(boxes.setdefault(id(part.memory), (part.memory, []))[1], part.region)
        for step in item.leaves() if isinstance(item, Segment) else ():
            for memory, region in step.overwrites():
                if id(memory) not in gradients:
                    add(boxes.setdefault(id(memory), (memory, []))[1], region)
    return others + [part_of(memory, region) for memory, regions in boxes.values() for region in regions]


def sweep(launches: Launches, forget: bool, after: Callable[[Step], None] | None = None) -> None:
    """Runs the gradients. Memory that gradients read ends up as it was before the first step. ``forget``: drop each
    step after its gradient. ``after`` is called after each step's gradient."""
    now = StandIns()
    for item in reversed(launches.steps):
        if isinstance(item, Segment):
            now.flush()
            _recompute_segment(launches, item, after)
        else:
            now.differentiate(item)
            if after is not None:
                after(item)
            for part in reversed(item.changes):
                now.put(part)
        if forget:
            launches.steps.pop()
            launches.used -= item_bytes(item)


def _recompute_segment(launches: Launches, segment: Segment, after: Callable[[Step], None] | None) -> None:
    """Recomputes the steps of a segment, from memory as it was before them, and runs their gradients."""
    for part in reversed(segment.start + segment.changes):
        part.put()
    room = None if launches.memory is None else max(0, launches.memory - launches.used)
    inner = type(launches)(memory=room, joins=False)
    inner.recomputed_times = launches.recomputed_times
    try:
        _record(inner, segment)
        sweep(inner, forget=True, after=after)
        launches.made_again += inner.made_again + sum(1 for _ in segment.leaves())
        launches.most = max(launches.most, launches.used + inner.most)
    finally:
        inner.clear()
    for part in reversed(segment.start + segment.changes):
        part.put()


def _record(inner: Launches, segment: Segment) -> None:
    """Recomputes a segment's steps; ``inner`` saves what its budget allows. Its first segment begins where ``segment``
    does, so all that it needs is saved already."""
    items, known = iter(segment.steps), cast("Segment | None", segment)
    for length in _division(segment, inner.memory):
        with inner.segment(known, by_hand=False) if length > 1 else nullcontext():
            for item in islice(items, length):
                _recompute(inner, item)
        known = None


def _division(segment: Segment, room: int | None) -> list[int]:
    """The lengths in steps into which to divide a segment: all 1 if there is room for all that the steps save."""
    costs = [max((step.cost for step in Segment([item]).leaves()), default=0) for item in segment.steps]
    if room is None or sum(costs) <= room:
        return [1] * len(costs)
    state = max(sum(part.nbytes for part in segment.start + segment.changes), max(costs))
    together = state // max(costs) if room > state else 1  # so many steps save as much as one state takes
    units = -(-len(costs) // together)
    found: list[int] = []
    for length in lengths(units, max(0, room // state - 1)):  # one state is reserved for the last unit
        found += [length * together] if length > 1 else [1] * together
    return found


def _recompute(inner: Launches, item: Step | Segment) -> None:
    if isinstance(item, Segment):
        with inner.segment():
            for step in item.steps:
                _recompute(inner, step)
        return
    if item.summary is not None:
        assert item.launch is not None
        _, args, number = item.launch
        inner.launch(item.summary, args, number)
    elif item.write is not None:
        write_again(inner, item)
    else:
        raise not_recomputable("of them failed")
    repeated = inner.under_way[-1]
    assert isinstance(repeated, Step)
    repeated.number = item.number
    inner.recomputed_times[item.number] += 1
