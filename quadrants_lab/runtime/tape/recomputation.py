"""Decides which launches of a program the backward pass recomputes, so that what is saved stays within a budget.

Griewank and Walther's revolve, "Algorithm 799", ACM TOMS 26 (2000), divides a known number of steps. It saves states
(checkpoints): all memory that steps need, from before a step. Here, unlike there, a step whose overwritten values are
saved is not run again for its own gradient; `reversible_steps` counts how many steps that allows.

While a program is recorded its length is unknown. At first each step saves what it overwrites. When the budget is full,
either neighbouring steps are joined to segments, which save the memory from before their first step, as in Wang, Moin
and Iaccarino, "Minimal repetition dynamic checkpointing algorithm for unsteady adjoint calculation", SIAM J. Sci.
Comput. 31 (2009); those neighbours come first whose steps can then still be reversed with the fewest repetitions. Or
the next launch joins the last segment.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.tape.parts import Account, Part, bytes_of, part_of
from quadrants_lab.runtime.tape.step import Boxes, Item, Segment, Step, restored, state

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.keeper import Keeper

SLACK = 16  # a join of steps looks at all of them, so it frees one sixteenth of the budget more than needed


def not_recomputable(what: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"qd.ad.checkpoint repeats launches for their gradients, and one {what}",
        code="QL2098",
        help="leave it out of the function, or use qd.ndarray instead of arrays that other code may write to",
    )


def reversible_steps(slots: int, often: int, own: float) -> int:
    """The greatest number of steps that can be reversed if no step is run more than ``often`` times and there is room
    for ``slots`` states, the one before the first step included. ``own``: which fraction of the bytes that a step saves
    for its gradient is not part of a state."""
    saved = comb(slots + often, slots) - comb(slots + often - 2, slots - 1)
    return round(saved + own * (comb(slots + often - 1, slots) - saved))


def repetitions(steps: int, slots: int, own: float = 0.0) -> int:
    """How often the most repeated step has to run."""
    if slots == 1:
        return steps
    found = 1
    while reversible_steps(slots, found, own) < steps:
        found += 1
    return found


def first(steps: int, slots: int, own: float = 0.0) -> int:
    """How many steps to run before the next state (all memory that steps need) is saved; for at least 2 steps and 2
    slots."""
    often = max(2, repetitions(steps, slots, own))
    most = min(steps - 1, reversible_steps(slots, often - 1, own), steps - reversible_steps(slots - 1, often - 1, own))
    return max(most, steps - reversible_steps(slots - 1, often, own), 1)


def repeats(steps: int, slots: int) -> int:
    """The number of steps that the algorithm revolve runs in all, which is the least possible."""
    often = 0
    while comb(slots + often, slots) < steps:
        often += 1
    return often * steps - comb(slots + often, slots + 1)


def too_little(launches: Keeper) -> QuadrantsRuntimeError:
    """The error for a budget that is too small for what was recorded; it names the least sufficient budget."""
    account, items = launches.account, launches.steps
    own = max((item.own for item in of_kind(items, Segment)), default=0)
    changed = restored(items, launches.derivatives())
    final = 0 if all(item.recomputable for item in items) else bytes_restored(changed, account)
    least = max(account.most, account.used + own + final)
    return QuadrantsRuntimeError(
        f"a Tape with memory={launches.memory} needs at least {least} bytes here",
        code="QL2091",
        help="give it more; it always keeps the memory from before the first launch, what Python writes, and values "
        "that functions with a custom gradient and launches over numpy arrays or memory of other libraries overwrite",
    )


def bytes_restored(changed: tuple[list[Part], Boxes], account: Account) -> int:
    """How many bytes copies of everything that a backward pass changes take."""
    return sum(part.nbytes for part in changed[0]) + sum(bytes_of(*place, account) for place in changed[1])


def worth_a_state(launches: Keeper) -> bool:
    """Whether it saves repeated steps to keep a copy of the final state throughout the backward pass, compared with
    running all steps once more at its end."""
    assert launches.account.limit is not None
    slots = max(1, (launches.account.limit - launches.own) // launches.state)
    steps = _units(launches, sum(item.cost for item in launches.steps))
    return slots > 1 and repeats(steps, slots - 1) <= repeats(steps, slots) + steps


def place(launches: Keeper, cost: int, own: int, missing: Callable[[Segment], int]) -> Segment | None:
    """Makes room for a launch that saves ``cost + own`` bytes as a step of its own; then returns None. Otherwise
    returns the segment that the launch joins, or that is open; ``missing(segment)``: how many bytes the launch has to
    save there."""
    items, account = launches.steps, launches.account
    into = launches.open[0] if launches.open else None
    while into is None:
        if account.short or _grows(items):
            into = _last_segment(items)
        elif account.fits(cost + own):
            return None
        elif (best := _best(launches, joins=cost)) is None or best[1] == len(items) - 1:
            into = _last_segment(items)
            into.until = 0 if best is None else reversible_steps(best[2], best[0], _share(launches)) * launches.state
        else:
            _join(launches, best[0], cost + own)
    while not account.fits(missing(into)):
        joined = make_room(launches, missing(into))
        if launches.open or into.steps:  # the segment may have been joined with others
            into = launches.open[0] if launches.open else _last_segment(items)
        if not joined and not account.fits(missing(into)):
            account.give_up()
    return into


def join_last(launches: Keeper) -> None:
    """Joins the last two recorded steps to one segment if possible, even if the budget has room for both."""
    items = launches.steps
    if len(items) > 1 and items[-1].recomputable and items[-2].recomputable:
        last = items.pop()
        _last_segment(items).join(last, launches.account)


def _grows(items: list[Item]) -> bool:
    last = items[-1] if items else None
    return isinstance(last, Segment) and last.cost < last.until


def _last_segment(items: list[Item]) -> Segment:
    """The last item as a segment; a new segment if the last item cannot be run again."""
    last = items[-1] if items else None
    if isinstance(last, Step) and last.recomputable:
        last = items[-1] = _segment(last)
    return last if isinstance(last, Segment) else Segment()


def _segment(step: Step) -> Segment:
    made = Segment()
    made.join(step, Account())
    return made


def make_room(launches: Keeper, nbytes: int) -> bool:
    """Joins steps until there is room for so many bytes; False if there never is."""
    items = launches.steps
    while not launches.account.fits(nbytes):
        best = _best(launches)
        if best is not None:
            _join(launches, best[0], nbytes)
            continue
        for n, item in enumerate(items):
            if isinstance(item, Step) and item.kept and item.recomputable:
                items[n] = _segment(item)
                break
        else:
            if not _start_over(launches):
                return False
    return True


def _share(launches: Keeper) -> float:
    return launches.own / (launches.own + launches.state)


def _slots(launches: Keeper, nbytes: int) -> int:
    """For how many states (saved memory, including that before the first step) the budget has room besides so many
    bytes."""
    assert launches.account.limit is not None
    return 1 + max(0, launches.account.limit - launches.own - nbytes) // launches.state


def _units(launches: Keeper, cost: int) -> int:
    """How many states take as much room as steps that save ``cost`` bytes."""
    return max(1, -(-cost // launches.state))


def _best(launches: Keeper, joins: int | None = None) -> tuple[int, int, int] | None:
    """The neighbours to join first: how often one of their steps is run then, the index of the first of them, and the
    number of slots from there on. None if no neighbours can be joined. ``joins``: the bytes of a launch that may join
    the last step."""
    items, share = launches.steps, _share(launches)
    found: tuple[int, int, int] | None = None
    before = 0
    for n, item in enumerate(items):
        before += item.nbytes
        then = items[n + 1] if n + 1 < len(items) else None
        if item.recomputable and (joins is not None if then is None else then.recomputable):
            slots = _slots(launches, before)
            often = repetitions(_units(launches, item.cost + (joins or 0 if then is None else then.cost)), slots, share)
            if found is None or often < found[0]:
                found = often, n, slots
            if often == 1:
                break
    return found


def _join(launches: Keeper, often: int, nbytes: int) -> None:
    """Joins neighbours whose steps are then run no more than ``often`` times, until there is room for so many bytes."""
    items, account = launches.steps, launches.account
    assert account.limit is not None
    enough, share = account.limit - max(nbytes, account.limit // SLACK), _share(launches)
    queue = items[::-1]
    items.clear()
    before = 0
    while queue:
        if account.used <= enough:
            items += queue[::-1]
            break
        item = queue.pop()  # with no other reference to it, what the segment does not take over is freed
        last = items[-1] if items else None
        if last is not None and last.recomputable and item.recomputable:
            slots = _slots(launches, before + last.nbytes)
            if _units(launches, last.cost + item.cost) <= reversible_steps(slots, often, share):
                last = _last_segment(items)
                last.join(item, account)
                launches.state = max(launches.state, last.nbytes)
                if launches.open and launches.open[0] is item:
                    launches.open[0] = last
                continue
        before += last.nbytes if last is not None else 0
        items.append(item)


def _start_over(launches: Keeper) -> bool:
    """Saves the state at the begin of the last segment again, if some of it was saved twice."""
    last = launches.steps[-1] if launches.steps else None
    if launches.open or not isinstance(last, Segment) or any(f.written for f in launches.tracked.values()):
        return False
    boxes = state(last.steps)
    saved, account = sum(bytes_of(*place, launches.account) for place in boxes), launches.account
    if saved >= last.nbytes:
        return False
    # a launch that is run again needs room for what it saves for its own gradient
    own = max((step.own for step in last.leaves()), default=0)
    if account.limit is not None and account.used - last.nbytes + saved + own > account.limit:
        return False
    for part in reversed(last.changes):
        part.put()
    del part
    last.changes.clear()
    last.saved.clear()
    for memory, region in boxes:
        last.keep(part_of(memory, region, launches.account))
    launches.number()
    for step in last.leaves():
        launches.make_again(step)
    launches.mark_seen()
    return True
