"""Estimates what tasks cost (cycles of their statements, numbers of iterations), so that devices can schedule them.

`PRICES` has a row for each kind of statement. Where a row has a sentence with figures, these were measured on one
thread of an AMD EPYC of 2022 (Zen 4, AVX-512), in loops of 32 trips. A price above its figure is an older estimate, for
slower processors. Rows without figures are estimates that no benchmark has measured separately.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import all_are, constants, walk

_LARGE = 1000  # a block with more statements is `large`


class Price(NamedTuple):
    """The cycles of one statement. ``scalar``: for one iteration outside of lanes. In lanes, the iterations of a whole
    vector take ``vector`` cycles, or ``lane`` cycles for each lane, whichever is more. For an operation, these are
    multiplied by its `Primitive.cost`. ``measured``: where the figures come from."""

    scalar: float
    vector: float
    lane: float
    measured: str


PRICES: dict[str, Price] = {
    "shared operation": Price(1, 1, 0, "An estimate: its operands are the same in all lanes, so it stays scalar."),
    "operation": Price(1, 1, 0, "16 products and sums took 1.16 times as long as one."),
    "function": Price(1, 2, 0, "16 sines of f32 took 2.1 times as long as one, 8 of f64 2.7 times."),
    "quotient": Price(1, 1, 0.16, "16 took 1.3 times as long as one."),
    "quotient of f64": Price(1, 1, 0.5, "8 took 1.5 times as long as one."),
    "division of integers": Price(1, 0, 1, "Lane by lane: 16 took 9 times as long as one."),
    "division by a constant": Price(0.5, 0.75, 0, "Products and shifts, up to 32 bits: 16 took 2.1 times as long."),
    "access of all": Price(2, 2, 0, "An estimate: all lanes read or write one element."),
    "access in a row": Price(3, 3, 0, "An estimate: neighbouring elements are one access."),
    "gather": Price(3, 0, 4.5, "16 took 11.8 times as long as one, and 8 took 8.5 times."),
    "share": Price(3, 3, 0, "An estimate: a sum into a variable of the thread."),
    "atomic of all": Price(15, 20, 0, "An estimate: the lanes are added up first."),
    "sum in a row": Price(6, 6, 0, "An estimate: a read, a sum and a write of a vector, where no other thread adds."),
    "plain scatter": Price(6, 0, 3, "An estimate: a read, a sum and a write for each lane."),
    "scatter": Price(12, 0, 15, "An estimate: an atomic addition for each lane."),
    "stack in step": Price(3, 3, 0, "An estimate: lanes that push at the same time have their slots in a row."),
    "stack of a lane": Price(3, 0, 2.5, "An estimate: lanes that push at different times scatter."),
    "draw": Price(14, 16, 0, "Three products of 64 bits: 2.3 ns by itself, 0.3 ns each in 64 lanes."),
    "control": Price(2, 4, 0, "An estimate: a branch; in lanes a mask, and a branch past what no lane runs."),
    "print": Price(500, 0, 500, "An estimate: a call of the runtime."),
}
TRIPS = 16  # trips that are assumed for a loop whose trip count is not known
# In lanes, a group of iterations waits for the longest one. Each row has: what determines the trips of an iteration
# -> the trips of the longest iteration divided by the mean, and a sentence about the measurement in groups of 64.
LONGEST: dict[str, tuple[float, str]] = {
    "known": (1.0, "All iterations make as many trips, or one more than the iteration before."),
    "data": (2.0, "The bounds are data: 0 to 64 trips, evenly, have 2.0; a geometric distribution has 4.7."),
    "break": (2.5, "A value of the iteration ends it: Mandelbrot's set has 2.0, Collatz' problem 2.1, primes 7.2."),
}

_KINDS: dict[type, str] = {
    N.Load: "access in a row", N.Store: "access in a row", N.Atomic: "scatter", N.Random: "draw", N.Print: "print",
}  # fmt: skip


def estimate(block: N.Block, known: dict[int, int] | None = None) -> tuple[int, bool]:
    """Estimates the cycles of a block; returns (cycles, exact). A loop with an unknown trip count counts as one
    trip, and makes ``exact`` false. ``known``: constants by id; the block's constants are added to it."""
    known = {} if known is None else known
    known |= constants(block)
    total, exact = 0, True
    for s in block:
        if s.prim:
            total += PRIMS[s.prim].cost
        elif isinstance(s, N.Choice):
            total += s.weight
        elif type(s) in _KINDS:
            total += int(PRICES[_KINDS[type(s)]].scalar)
        trips = 1
        if isinstance(s, N.For) and s.begin in known and s.end in known:
            trips = max(0, known[s.end] - known[s.begin])
        elif isinstance(s, N.Loop):
            exact = False
        for inner in s.blocks():
            cycles, sure = estimate(inner, known)
            total += trips * (cycles + 1)
            exact = exact and sure
    return total, exact


def large(block: N.Block) -> bool:
    """Whether LLVM would take too long to compile a loop over the block. The time of its vectoriser grows with the
    square of the number of statements; so does the time to allocate registers for all constants that LLVM hoists out of
    the loop."""
    return sum(1 for _ in walk(block)) > _LARGE


# --- how many iterations a parallel task has, as far as the host can compute it ---------------------------------

# the number of threads on a GPU is a multiple of this; so many successive threads access neighbouring elements
GROUP = 64
MOST = (1 << 63) - 1  # the most iterations of a task: their number plus a few strides still fits in 64 bits
_INLINE = (N.Const, N.Op, N.Call, N.ArgLoad, N.ShapeOf, N.Yield)


def inline(task: N.Offload) -> bool:
    """Whether the task's bounds can be computed without reading memory, so that every thread may compute them for
    itself.
    """
    return all_are(task.bounds, _INLINE)


def inline_total(task: N.Offload, arg: Callable[[str], Any], shape: Callable[[str, int], int]) -> int:
    """The number of iterations of a task with `inline` bounds. ``arg`` returns the value of a scalar argument,
    ``shape`` the extent of a buffer along an axis.

    Raises:
        QuadrantsRuntimeError: there are more than `MOST`, which no device could count or would finish.
    """
    values: dict[int, Any] = {}
    for s in task.bounds:
        if isinstance(s, N.Const):
            values[s.id] = s.type.numpy(s.value)
        elif isinstance(s, N.ArgLoad):
            values[s.id] = s.type.numpy(arg(s.arg))
        elif isinstance(s, N.ShapeOf):
            values[s.id] = s.type.numpy(shape(s.buffer, s.axis))
        elif isinstance(s, N.Op):
            values[s.id] = PRIMS[s.prim].evaluate(s.type, *(values[i] for i in s.args))
    total = 1
    for _, begin, end in task.box():
        total *= max(0, int(values[end]) - int(values[begin]))
    if total > MOST:
        raise QuadrantsRuntimeError(
            f"a loop of {total:,} iterations never ends",
            code="QL2077",
            labels=(Label(task.span, "more than 2**63 - 1 iterations"),),
            help="make its range smaller",
        )
    return total


def fixed_total(task: N.Offload) -> int | None:
    """The task's number of iterations if it is the same in all launches, else None; 1 for a serial task."""
    fixed = all_are(task.bounds, (N.Const, N.Op, N.Yield))
    return inline_total(task, lambda name: 0, lambda name, axis: 0) if fixed else None
