"""Runs the backward pass over recorded steps: their gradients, last first, each on the memory that its launch left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from quadrants_lab.ir.temporary import holding
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.observe.observers import PUT_BACK
from quadrants_lab.runtime.tape.parts import Account, Part, bytes_of, part_of
from quadrants_lab.runtime.tape.recomputation import (
    bytes_restored,
    first,
    make_room,
    too_little,
    worth_a_state,
)
from quadrants_lab.runtime.tape.stand_ins import StandIns, restore
from quadrants_lab.runtime.tape.step import Boxes, Item, Segment, Step, overwritten, restored, state
from quadrants_lab.runtime.tape.timeline import GRADIENT

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.keeper import Keeper

After = Callable[[Step], None] | None


@contextmanager
def restored_afterwards(launches: Keeper, forget: bool) -> Iterator[None]:
    """Makes a ``with`` for a reverse sweep, after which all memory that the sweep changed, except for gradients, is
    restored: from a copy or, if the budget has no room for a copy, by running all steps again. ``forget``: the
    sweep drops what steps have saved."""
    account, limit = launches.account, launches.account.limit
    if launches.memory is None:
        account.limit = None
    changed = _to_restore(launches, forget)
    steps = [step.bare() for step in launches.leaves()] if changed is None else []
    launches.at_end = bool(steps)
    final = [] if changed is None else _copies(*changed, account)
    try:
        with holding(PUT_BACK, True):
            yield
    finally:
        if steps:
            for item in reversed(launches.steps):  # these are left if there was an error
                _put(item.changes)
        for step in steps:
            launches.make_again(step)
        _put(final)
        account.limit = limit
        launches.mark_seen()


def _to_restore(launches: Keeper, forget: bool) -> tuple[list[Part], Boxes] | None:
    """What to copy of the final memory so that it can be restored, as parts and boxes, see `restored`; or None if the
    memory should be restored by running all steps once more, because this repeats fewer steps in all. Makes room in the
    budget for the copy, and for what a repeated launch saves for its gradient."""
    account, items, copy = launches.account, launches.steps, True
    again = all(item.recomputable for item in items)
    while True:
        changed = restored(items, launches.derivatives())
        own = [item.own for item in of_kind(items, Segment)]
        size = bytes_restored(changed, account) + max(own, default=0)
        if account.limit is None:
            return changed
        copy = copy and (not again or (not own and account.fits(size)) or worth_a_state(launches))
        if not copy:  # then all launches run again at the end, and save values for their gradients while they do
            size = max(own if forget else [item.own for item in items], default=0)
        if account.fits(size):
            return changed if copy else None
        if not make_room(launches, size):
            if not (copy and again):
                raise too_little(launches)
            copy = False


def snapshot(items: Sequence[Item]) -> list[Part]:
    """Copies of all memory that a reverse sweep over the items changes."""
    return _copies(*restored(items), Account())


def _copies(others: Sequence[Part], boxes: Boxes, account: Account) -> list[Part]:
    return [part.again(account) for part in others] + [part_of(*place, account) for place in boxes]


def _put(parts: Sequence[Part]) -> None:
    for part in reversed(parts):  # for an element that was saved twice, the value saved first is restored last
        part.put()


def reverse_sweep(launches: Keeper, items: list[Item], forget: bool, after: After = None) -> None:
    """Runs the gradients of the items (steps and segments), last first. Memory that gradients read ends up as it was
    before the first item. ``forget``: drop each item after its gradient. ``after`` is called after each step's
    gradient."""
    now = StandIns()
    for item in _backwards(items, forget):
        if isinstance(item, Segment):
            now.flush()
            _reverse(launches, item, after)
        else:
            began = perf_counter()
            now.differentiate(item)
            if launches.tracing is not None and item.launch is not None and item.differentiates:
                plan, _, number = item.launch
                reverse = plan if item.known is None else item.known.reverse or plan
                launches.tracing.note(reverse, GRADIENT, began, (id(plan.owner), number))
            if item.kept and launches.memory is not None and item.summary is not None and item.summary.reverse:
                item.summary.reverse.scratch.release(item.kept)
            if after is not None:
                after(item)
            restore(now.after(item.changes))
    if launches.memory is not None:
        now.flush()


def _backwards(items: list[Item], forget: bool) -> Iterator[Item]:
    if not forget:
        yield from reversed(items)
    while forget and items:
        yield items[-1]
        del items[-1]


def _reverse(launches: Keeper, segment: Segment, after: After) -> None:
    """Runs the steps of a segment again, from the memory before them, and runs their gradients."""
    account = launches.account
    run: list[Item] = segment.steps if account.limit is None else list(segment.leaves())
    runs, there = [(run, segment.changes)], False  # ``there``: whether memory is as it was before the last run
    while runs:
        run, start = runs.pop()
        if not there:
            _put(start)
        length = _fitting(launches, run)
        ahead, boxes = (0, []) if length == len(run) else _next_state(launches, run, start)
        for item in run[: ahead or len(run) - length]:
            _make_again(launches, item)
        there = bool(ahead)
        if ahead:
            runs += [(run[:ahead], start), (run[ahead:], [part_of(*place, account) for place in boxes])]
            continue
        if length < len(run):
            runs.append((run[:-length], start))
        start = []  # frees the values, unless something else needs them
        reverse_sweep(launches, _made_again(launches, run[-length:]), True, after)
    _put(segment.changes)


def _fitting(launches: Keeper, run: Sequence[Item]) -> int:
    """How many of the last items can be run again as separate steps within the budget."""
    account = launches.account
    if account.limit is None:
        return len(run)
    room, found = account.limit - account.used, 0
    for item in reversed(run):
        if found and room < item.own:  # the first of these items saves nothing for earlier ones
            break
        room -= item.cost + item.own
        found += 1
    return found


def _next_state(launches: Keeper, run: Sequence[Item], start: Sequence[Part]) -> tuple[int, Boxes]:
    """How many steps to run before memory is saved next, and which boxes are saved then; 0 if there is no room."""
    account = launches.account
    assert account.limit is not None
    room = account.limit - account.used - max(item.own for item in run)
    size, own = max(1, sum(part.nbytes for part in start)), sum(item.own for item in run) / len(run)
    slots = 1 + max(0, room) // size
    if slots < 2:
        return 0, []
    units = max(2, 1 + -(-sum(item.cost for item in run[1:]) // size))
    ahead = min(max(1, first(units, slots, own / (own + size)) * len(run) // units), len(run) - 1)
    boxes = state(run[ahead:])
    return (ahead, boxes) if sum(bytes_of(*place, account) for place in boxes) <= room else (0, [])


def _make_again(launches: Keeper, item: Item) -> None:
    for step in item.leaves():
        launches.make_again(step)


def _made_again(launches: Keeper, run: Sequence[Item]) -> list[Item]:
    """Runs items again, as steps and segments that save what their gradients need; returns these."""
    account, made = launches.account, list[Item]()
    for item, boxes in zip(run, overwritten(run, own=False), strict=True):
        parts = [part_of(*place, account) for place in boxes]
        if isinstance(item, Segment):
            _make_again(launches, item)
            made.append(Segment(item.steps, parts))
        else:
            made.append(launches.make_again(item.bare(), keep=True))
            made[-1].changes += parts
    return made
