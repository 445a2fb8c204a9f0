"""The way back over recorded steps: gradients, last first, each over the memory that its launch left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, cast

from quadrants_lab.runtime.launch.observe import PUT_BACK
from quadrants_lab.runtime.launch.regions import Region, add
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.tape.parts import Part, part_of
from quadrants_lab.runtime.tape.python_writes import write_again
from quadrants_lab.runtime.tape.segments import cannot_be_made_again, item_bytes, lengths
from quadrants_lab.runtime.tape.stand_ins import StandIns
from quadrants_lab.runtime.tape.step import Segment, Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.recorder import Launches


@contextmanager
def kept_as_it_is(launches: Launches) -> Iterator[None]:
    """What a sweep in the with changes, but for gradients, is afterwards as it was before."""
    final = as_it_is(launches.steps, {id(f.grad) for f in launches.followed.values()})
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
        launches.up_to_date()


def as_it_is(items: list[Step | Segment], gradients: AbstractSet[int] = frozenset()) -> list[Part]:
    """Copies of all that a sweep over the items puts back, or writes when it makes steps again; without ``gradients``,
    the ids of memory that is to change."""
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
    """Runs the gradients; memory ends up as it was before the first step, as far as it will be read. ``forget``: the
    steps on the way. ``after`` is told of each step's gradient."""
    now = StandIns()
    for item in reversed(launches.steps):
        if isinstance(item, Segment):
            now.settle()
            _make_again(launches, item, after)
        else:
            now.differentiate(item)
            if after is not None:
                after(item)
            for part in reversed(item.changes):
                now.put(part)
        if forget:
            launches.steps.pop()
            launches.used -= item_bytes(item)


def _make_again(launches: Launches, segment: Segment, after: Callable[[Step], None] | None) -> None:
    """Makes the steps again, from memory as it was before them, and runs their gradients."""
    for part in reversed(segment.start + segment.changes):
        part.put()
    room = None if launches.memory is None else max(0, launches.memory - launches.used)
    inner = type(launches)(memory=room, joins=False)
    inner.times = launches.times
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
    """Makes a segment's steps again; `inner` keeps what its budget allows. Its first segment begins where ``segment``
    does, and needs nothing that is not kept already."""
    division = _division(segment, inner.memory)
    items, known = iter(segment.steps), cast("Segment | None", segment)
    for length in division:
        with inner.segment(known, by_hand=False) if length > 1 else nullcontext():
            for item in islice(items, length):
                _do_again(inner, item)
        known = None


def _division(segment: Segment, room: int | None) -> list[int]:
    """Into how many steps each to divide a segment: one where what they keep has room."""
    costs = [max((step.cost for step in Segment([item]).leaves()), default=0) for item in segment.steps]
    if room is None or sum(costs) <= room:
        return [1] * len(costs)
    state = max(sum(part.nbytes for part in segment.start + segment.changes), max(costs))
    together = state // max(costs) if room > state else 1  # steps that take the room of a state
    units = -(-len(costs) // together)
    found: list[int] = []
    for length in lengths(units, max(0, room // state - 1)):  # the last unit has the room of one
        found += [length * together] if length > 1 else [1] * together
    return found


def _do_again(inner: Launches, item: Step | Segment) -> None:
    if isinstance(item, Segment):
        with inner.segment():
            for step in item.steps:
                _do_again(inner, step)
        return
    if item.route is not None:
        assert item.launch is not None
        _, args, number = item.launch
        inner.launch(item.route, args, number)
    elif item.write is not None:
        write_again(inner, item)
    else:
        raise cannot_be_made_again("of them failed")
    made = inner.under_way[-1]
    assert isinstance(made, Step)
    made.number = item.number
    inner.times[item.number] += 1
