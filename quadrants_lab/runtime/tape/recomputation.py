"""Which launches of a program the backward pass recomputes, so that what is saved stays within a budget.

While a program is recorded its length is unknown. When the budget is full, neighbouring steps are joined to segments;
when there are no more single steps, segments are joined to longer ones (checkpoints at distances that double). In the
backward pass the length of a segment is known. It is divided as Griewank and Walther's revolve does, "Algorithm 799",
ACM TOMS 26 (2000): with room for c states and each step recomputed at most r times, binomial(c + r, c) steps can be
reversed.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime.tape.step import Item, Segment, Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.recorder import Launches


def not_recomputable(what: str) -> QuadrantsRuntimeError:
    return QuadrantsRuntimeError(
        f"qd.ad.checkpoint repeats launches for their gradients, and one {what}",
        code="QL2098",
        help="leave it out of the function, or use qd.ndarray instead of arrays that other code may write to",
    )


def lengths(steps: int, states: int) -> list[int]:
    """The lengths into which to divide ``steps`` recomputed steps if there is room for ``states`` states besides the
    one before the first step: segments, then single steps, each of which needs the room of a state."""
    found: list[int] = []
    while steps > states and (states or not found):
        slots, again = states + (not found), 1
        while comb(slots + again, slots) < steps:
            again += 1
        found.append(max(1, min(steps - comb(slots - 1 + again, slots - 1), steps - 1)))
        states -= len(found) > 1
        steps -= found[-1]
    return found + [1] * steps


def segment_budget(launches: Launches) -> int:
    """Bytes of the budget for steps. One state is reserved for a copy of the final memory, and 1/32 as slack."""
    assert launches.memory is not None
    return launches.memory * 31 // 32 - launches.largest_segment


def join(launches: Launches) -> None:
    """Joins steps to segments until what is saved fits into `segment_budget`."""
    assert launches.memory is not None
    while launches.used > segment_budget(launches):
        # First join single steps, but those at the end only if they make a whole segment: the last steps are
        # differentiated first and then need no recomputation. Then join segments in pairs, which doubles their length.
        tail, length = launches.tail, max(2, launches.segment_length)
        if tail >= length:
            launches.tail -= length
            _join_some(launches, len(launches.steps) - tail, length)
        elif run := _run(launches.steps[: len(launches.steps) - tail], length):
            _join_some(launches, *run)
        elif any(_joinable(a, b) for a, b in zip(launches.steps, launches.steps[1:], strict=False)):
            launches.segment_length = length * 2
            launches.steps = _in_pairs(launches.steps)
            sizes = [(isinstance(item, Segment), item_bytes(item)) for item in launches.steps]
            launches.largest_segment = max((size for is_segment, size in sizes if is_segment), default=0)
            launches.used = sum(size for _, size in sizes)
        elif tail >= 2:
            launches.tail = 0
            _join_some(launches, len(launches.steps) - tail, tail)
        elif launches.used <= launches.memory:
            return
        else:
            raise QuadrantsRuntimeError(
                f"a Tape with memory={launches.memory} needs at least {launches.used} bytes here",
                code="QL2091",
                help="give it more; it always keeps the memory from before the first launch, and values that functions "
                "with a custom gradient and launches over numpy arrays or memory of other libraries overwrite",
            )


def _run(items: list[Item], most: int) -> tuple[int, int] | None:
    """Start and length (2 to ``most``) of the first run of single recomputable steps; None if there is none."""
    start = count = 0
    for n, item in enumerate(items):
        if isinstance(item, Step) and item.recomputable and count < most:
            start, count = (n, 1) if not count else (start, count + 1)
        elif count >= 2:
            break
        else:
            count = 0
    return (start, count) if count >= 2 else None


def _join_some(launches: Launches, at: int, count: int) -> None:
    """Joins ``count`` single steps to a segment."""
    items = launches.steps[at : at + count]
    segment = _joined(items)
    size = item_bytes(segment)
    launches.steps[at : at + count] = [segment]
    launches.largest_segment = max(launches.largest_segment, size)
    launches.used += size - sum(map(item_bytes, items))


def item_bytes(item: Item) -> int:
    """Bytes that are saved for it."""
    own = item.own if isinstance(item, Step) else 0
    return own + sum(part.nbytes for part in item.changes)


def _joinable(a: Item, b: Item) -> bool:
    """Whether both are segments that the budget made."""
    return all(isinstance(item, Segment) and not item.by_hand for item in (a, b))


def _in_pairs(items: list[Item]) -> list[Item]:
    found: list[Item] = []
    free = False  # whether the last item of ``found`` is not a pair yet
    for item in items:
        if free and _joinable(found[-1], item):
            found[-1] = _joined([found[-1], item])
            free = False
        else:
            found.append(item)
            free = True
    return found


def _joined(items: list[Item]) -> Segment:
    """One segment of neighbouring items."""
    joined = Segment()
    for item in items:
        if isinstance(item, Segment) and not item.by_hand:
            joined.steps += item.steps
        else:
            joined.steps.append(Segment(item.steps, by_hand=True) if isinstance(item, Segment) else item.bare())
        for part in item.changes:
            joined.keep(part)
    return joined
