"""Decides for `backends.cpu.schedule` which tasks run in lanes, and in how many; and lowers elementary functions for
lanes."""

from collections.abc import Callable, Collection
from functools import cache
from math import prod
from typing import Any

from quadrants_lab.analysis.divergence import Divergence, counting, divergence
from quadrants_lab.backends._llvm.ops import is_library
from quadrants_lab.backends.cost import LONGEST, PRICES, TRIPS, fixed_total
from quadrants_lab.backends.cpu import vector_loops
from quadrants_lab.backends.lower.expression import Scope, X
from quadrants_lab.backends.lower.math import CIRCULAR
from quadrants_lab.backends.lower.rewrite import Site, rewrite
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f64
from quadrants_lab.ir.walk import constants, find, types_of, uses, walk

_by_trips = lazily("backends.lower.adstacks.loops", "by_trips")  # a task without adstacks does not load it
_QUOTIENTS = ("div", "sqrt", "rsqrt")
_DIVISIONS = ("floordiv", "mod", "raw_div", "raw_mod")
_STATEMENTS = {4: 160, 2: 320}  # how many vectors make one value -> the most statements of a task
_GROUPS = 16  # the fewest groups of iterations that a task should have
_MOST_ARRAYS = 4096  # bytes of local arrays of one iteration: a thread's stack holds the arrays of all lanes
_AGGREGATED = 4  # how many vectors make a group of sums into one element
_GAIN = 1.5  # how many times cheaper lanes must be, by this file's rough prices
# Cycles that lanes must save in a launch, at least and for each statement of the task: LLVM takes about 15 ms more for
# lanes, and by an estimate 0.15 ms for each statement (Zen 3). This pays after 50,000 launches.
_LEAST, _LEAST_OF_STATEMENT = 1000, 10
_HORNER = 4  # vectors that make a value in loops over sines of f32 and f64: they take 4 % less time than with 2


def lanes_of(
    kernel: N.Kernel, task: N.Offload, reduced: Collection[str], copied: Collection[str], vector_bytes: int
) -> tuple[int, str]:
    """In how many lanes the task's iterations run on a processor with vectors of ``vector_bytes`` bytes, and the
    reason; 0 means one iteration at a time. ``reduced``: buffers that the task reduces into; ``copied``: buffers that
    it only adds to, at indices read from data. Tasks without lanes are left to LLVM's own vectoriser: rows of cells of
    a sparse layout, threads of blocks, and straight code without elementary functions and random draws. Sums into
    neighbours' elements do get lanes, since LLVM does not vectorise them."""
    if not vector_bytes or hindrance(task) or with_local_array(kernel, task):
        return 0, ""
    inner = {name for name, x in kernel.buffers.items() if x.role in ("activity", "block")}
    in_rows = inner and any(s.buffer in inner for s in find(task.body, N.Load))
    if not any((isinstance(s, N.Loop) and not in_rows) or _pays(s) for s in walk(task.body)):
        return 0, ""
    lanes = width(task, vector_bytes)
    if lanes < 2 or _shortest_row(task) < lanes // 2:  # one value in a vector makes no lanes
        return 0, ""
    found = divergence(task.body, [task.indices[-1].id], (), local_arrays(kernel))
    one, all_ = _Prices(task, found, reduced, copied, lanes).of(task.body, constants(task.bounds))
    if all_ * _GAIN >= one * lanes:
        return 0, ""
    total = None if any(find(task.body, N.Loop)) else fixed_total(task)
    if total is not None:
        saved = total * one - -(-total // lanes) * all_
        if saved < _LEAST + _LEAST_OF_STATEMENT * sum(1 for _ in walk(task.body)):
            return 0, ""
    why = _reason(task)
    if vector_loops.gathers(task.body, task.indices[-1].id, found.divergent):
        return lanes, why  # several vectors would touch too many cache lines at once
    return lanes * _vectors(task, lanes, vector_bytes), why


def local_arrays(kernel: N.Kernel) -> set[str]:
    """The names of the arrays in memory that each iteration, and so each lane, has a private copy of."""
    return {b.name for b in kernel.buffers.values() if b.kind == "private"}


def with_local_array(kernel: N.Kernel, task: N.Offload, asked: bool = False) -> str:
    """Why the task's local arrays keep it from running in lanes. "" if it has none, or if lanes pay nevertheless:
    the arrays are small, and the task computes elementary functions, which LLVM's own vectoriser does not handle.
    ``asked``: the user asks for lanes."""
    used = local_arrays(kernel) & {s.buffer for s in find(task.body, N.Access)}
    size = sum(prod(b.shape or ()) * b.dtype.nbytes for b in map(kernel.buffers.__getitem__, used))
    scalar = size > _MOST_ARRAYS or not (asked or any(map(is_math, walk(task.body))))
    return "each iteration has a local array in memory" if used and scalar else ""


def wait_threshold(task: N.Offload, lanes: int, vector_bytes: int) -> int:
    """The field ``wait`` of `ir.traits.Scheduled`, for a task in ``lanes`` lanes; 0 if all its groups run in lanes. A
    task with elementary functions always runs in lanes: the functions would be slow without lanes, and would round
    differently."""
    found = loop_of(task)
    if found is None or any(find(task.body, N.AdStackAlloca)) or any(map(is_math, walk(task.body))):
        return 0
    one_vector = width(task, vector_bytes)
    prices = _Prices(task, divergence(task.body, [task.indices[-1].id]), (), (), one_vector)
    one, together = prices.of(found[1].body, constants(task.bounds) | constants(task.body))
    return int(16 * together * max(1, lanes // one_vector) / max(one, 1))


def loop_of(task: N.Offload) -> tuple[N.Block, N.For] | None:
    """The only loop of the task's body, with the statements before it, which compute its bounds. None if the task has
    several loops or none, if its bounds depend on what the task writes, or if they are the same for all iterations."""
    loops = [*find(task.body, N.Loop)]
    if len(loops) != 1 or not isinstance(loops[0], N.For) or len(task.indices) != 1:
        return None
    written = {s.buffer for s in find(task.body, N.Write)}
    needed, block = {loops[0].begin, loops[0].end}, list[N.Stmt]()
    seen = False
    for s in reversed(task.body):
        if seen and any(i in needed for i, _ in s.defs()):
            loads = isinstance(s, N.Load) and s.buffer not in written
            if not (loads or isinstance(s, (N.Const, N.Op, N.Uniform))):
                return None
            block.insert(0, s)
            needed.update(s.operands())
        seen = seen or s is loops[0]
    return ((*block, task.body[-1]), loops[0]) if seen and task.indices[0].id in needed else None


def _reason(task: N.Offload) -> str:
    """Names the parts of the task that LLVM's vectoriser cannot handle: elementary functions, random draws, loops,
    sums into neighbours."""
    names = dict.fromkeys(s.prim for s in find(task.body, N.Op) if is_math(s))
    kinds = {"random draws": N.Random, "a loop": N.Loop}
    held = [name for name, kind in kinds.items() if any(find(task.body, kind))]
    return ", ".join((*names, *held)) or "sums into neighbours"


def _vectors(task: N.Offload, lanes: int, vector_bytes: int) -> int:
    """How many vectors hold one value of all lanes. With several vectors, the processor computes one while the result
    of another is on its way. This does not pay for few iterations or much code. There are 32 registers of 64 bytes, but
    only 16 shorter ones."""
    size = sum(1 for _ in walk(task.body)) * (64 // vector_bytes)
    found = next((n for n, most in _STATEMENTS.items() if size <= most), 1)
    total = fixed_total(task)
    iterations = min(total // _GROUPS if total is not None else 1 << 30, _shortest_row(task))
    while found > 1 and iterations < lanes * found:
        found //= 2
    return found


def width(task: N.Offload, vector_bytes: int) -> int:
    """How many values of the task's widest float dtype fit in a vector."""
    return vector_bytes // (8 if any(t is f64 for t in types_of(task.body).values()) else 4)


def _shortest_row(task: N.Offload) -> int:
    """The number of iterations along the box's last axis if it is known, else a large number. The lanes of a group all
    lie in one row along this axis."""
    known = constants(task.bounds)
    *outer, (_, begin, end) = task.box()
    return known[end] - known[begin] if outer and begin in known and end in known else 1 << 30


def is_math(s: N.Stmt) -> bool:
    """Whether the statement computes an elementary function (sin, exp, ...)."""
    return isinstance(s, N.Op) and "@math" in PRIMS[s.prim].llvm and s.type.is_float


def _has_distance(s: N.Stmt) -> bool:
    return isinstance(s, N.Atomic) and s.distance >= 0


def _pays(s: N.Stmt) -> bool:
    """Whether this statement is a reason for lanes, because LLVM's vectoriser skips every block that contains one."""
    return is_math(s) or _has_distance(s) or isinstance(s, N.Random)


def hindrance(task: N.Offload) -> str:
    """Why the task cannot run in lanes at all, "" if it can."""
    if task.kind == "serial":
        return "a serial task has no lanes"
    block = task.body
    keeps = any(not s.count_only for s in find(block, N.AdStackAlloca))
    if keeps and any(_has_distance(s) for s in walk(block)):
        # With more threads, adstacks have room for fewer lanes. Then the order of the task's sums would depend on the
        # number of threads.
        return "the order of sums into neighbours would depend on the number of threads, since the loop has adstacks"
    used, types = uses(block), types_of(block)
    for s in walk(block):
        if not s.lane_safe:
            return "prints come from one iteration at a time"
        if isinstance(s, N.Atomic) and (s.id in used or s.op in ("cas", "exchange") or s.type.kind == "b"):
            return "the value that an atomic returns depends on the order of iterations"
        if s.prim == "pow" and not types[s.id].is_float:
            return "powers of integers are computed one at a time"
    return "f16 is computed one at a time" if f16 in types.values() else ""


def _divergent_stacks(task: N.Offload, found: Divergence) -> set[int | str]:
    """The stacks whose slots differ between lanes at the same time. If the trips of loops number the slots, these are
    the stacks of loops that begin at different trips in different lanes."""
    if not found.per_lane:
        return set()
    levels = {i: (*t.there, *t.back) for i, t in _by_trips(task.body).items()}
    alike = {i for i, some in levels.items() if found.divergent.isdisjoint(x for v in some for x in (v.index, v.begin))}
    return found.per_lane - alike


def lanes_to_aggregate(task: N.Offload, copied: Collection[str], vector_bytes: int) -> int:
    """How many iterations make a group whose sums into one element are added at once (`rows.aggregated`); 0 unless the
    task does nothing but add at indices read from data. ``copied``: see `lanes_of`."""
    index = task.indices[-1].id
    if not vector_bytes or hindrance(task):
        return 0
    divergent = divergence(task.body, [index]).divergent
    up = counting(task.body, index, divergent)  # values of which any two iterations have different ones
    places = set()
    for s in walk(task.body):
        if isinstance(s, N.Atomic):
            places.add(tuple(i for i in s.index if i in divergent))
            if s.buffer not in copied or not up.isdisjoint(s.index):
                return 0
        elif isinstance(s, N.Load):
            if s.index[-1:] != (index,) and not divergent.isdisjoint(s.index):
                return 0
        elif not isinstance(s, (N.Op, N.Uniform, N.Yield)) or is_math(s):
            return 0
    return _AGGREGATED * width(task, vector_bytes) if len(places) == 1 and places != {()} else 0


class _Prices:
    """Estimates the cycles of a block by `cost.PRICES`, of two kinds: for one iteration, and for one iteration in each
    lane together."""

    def __init__(
        self, task: N.Offload, found: Divergence, reduced: Collection[str], copied: Collection[str], lanes: int
    ) -> None:
        self.lanes = lanes
        self.index = task.indices[-1].id
        self.found = found
        self.reduced = reduced
        self.copied = copied
        self.irregular = found.divergent - counting(task.body, self.index, found.divergent)
        self.divergent_stacks = _divergent_stacks(task, found)

    def of(self, block: N.Block, known: dict[int, int]) -> tuple[float, float]:
        """Estimates a block's cycles. ``known``: constants by id; the block's constants are added to it."""
        known |= constants(block)
        one = together = 0.0
        for s in block:
            kind = self._kind(s, known)
            if kind:
                price, cost = PRICES[kind], PRIMS[s.prim].cost if s.prim else 1
                one += cost * price.scalar
                together += cost * max(price.vector, price.lane * self.lanes)
            scalar, in_lanes = self._repeats(s, known)
            for inner in s.blocks():
                x, y = self.of(inner, known)
                one, together = one + scalar * x, together + in_lanes * y
        return one, together

    def _kind(self, s: N.Stmt, known: Collection[int]) -> str:
        """The row of `PRICES` for the statement, not counting the blocks inside it; "" if the statement costs nothing.
        """
        rule = _KINDS.get(type(s), "")
        return rule if isinstance(rule, str) else rule(self, s, known)

    def _operation(self, s: N.Op, known: Collection[int]) -> str:
        if s.id not in self.found.divergent:
            return "shared operation"
        if s.prim in _QUOTIENTS and s.type.is_float:
            return "quotient of f64" if s.type.nbytes == 8 else "quotient"
        if s.prim in _DIVISIONS and not s.type.is_float:
            by_constant = s.args[1] in known and s.type.nbytes <= 4
            return "division by a constant" if by_constant else "division of integers"
        return "function" if is_math(s) else "operation"

    def _access(self, s: N.Load | N.Store, known: Collection[int]) -> str:
        if self.found.divergent.isdisjoint(s.index):
            return "access of all"
        return "access in a row" if self._in_a_row(s.index) else "gather"

    def _atomic(self, s: N.Atomic, known: Collection[int]) -> str:
        if s.buffer in self.reduced:
            return "share"
        if self.found.divergent.isdisjoint(s.index):
            return "atomic of all"
        if self._in_a_row(s.index) and (s.private or s.buffer in self.copied):
            return "sum in a row"
        return "plain scatter" if s.private else "scatter"

    def _slot(self, s: N.AdStackPush | N.AdStackLoadTop, known: Collection[int]) -> str:
        return "stack of a lane" if s.stack in self.divergent_stacks else "stack in step"

    def _repeats(self, s: N.Stmt, known: dict[int, int]) -> tuple[float, float]:
        """How often the blocks inside a statement run, as two numbers: for one iteration outside of lanes, where LLVM's
        vectoriser may make several trips at once; and for a group in lanes, which waits for its longest iteration."""
        if isinstance(s, N.While):
            parts = s.cond[-1].operands()[0] in self.found.divergent
            return TRIPS, TRIPS * LONGEST["break" if parts else "known"][0]
        if not isinstance(s, N.For):
            return 1, LONGEST["known"][0]
        count = known[s.end] - known[s.begin] if s.begin in known and s.end in known else None
        trips = TRIPS if count is None else max(0, count)
        most = max(2 * self.lanes if count is None else count, 1)
        at_once = min(self.lanes, 1 << most.bit_length() - 1) if vector_loops.in_rows(s) else 1
        alike = self.irregular.isdisjoint((s.begin, s.end))
        return trips / at_once, trips * LONGEST["known" if alike else "data"][0]

    def _in_a_row(self, index: tuple[int, ...]) -> bool:
        """Whether the last index is the task's own index, so that lanes access neighbouring elements. An index that is
        the task's index plus a constant would do so too, but is not recognised."""
        return index[-1:] == (self.index,) and self.found.divergent.isdisjoint(index[:-1])


# class of a statement -> its row of `cost.PRICES`, or a function that finds the row
_KINDS: dict[type, str | Callable[[_Prices, Any, Collection[int]], str]] = {
    N.Op: _Prices._operation, N.Load: _Prices._access, N.Store: _Prices._access, N.Atomic: _Prices._atomic,
    N.AdStackPush: _Prices._slot, N.AdStackLoadTop: _Prices._slot, N.Random: "draw",
    **dict.fromkeys((N.If, N.For, N.While), "control"),
}  # fmt: skip


# --- elementary functions -------------------------------------------------------------------------------------------


def lower_lanes(kernel: N.Kernel) -> N.Kernel:
    """Replaces elementary functions of values that differ between lanes by calls of functions of the kernel, which are
    emitted on vectors. Elementary functions of uniform values remain calls of the C library."""
    divergent: set[int] = set()
    for task in kernel.tasks:
        if task.lanes:
            divergent |= divergence(task.body, [task.indices[-1].id], (), local_arrays(kernel)).divergent
    if not divergent:
        return kernel
    from quadrants_lab.backends.lower.functions import FUNCTIONS

    return rewrite(kernel, {p: _own for p in PRIMS if p in FUNCTIONS}, lambda s: s.id in divergent)


def _own(s: Site, *args: X) -> X | None:
    return s.call(_function(s.prim, s.t), *args) if is_library(s.prim, s.t) else None


@cache
def _function(prim: str, t: DType) -> N.Function:
    """The function of `lower.functions` that computes the primitive. Unlike on other devices, sines and cosines of
    large arguments are left to the C library."""
    from quadrants_lab.backends.lower.functions import FUNCTIONS, NEAR, function

    if prim not in CIRCULAR:
        return function(prim, t)
    s = Scope(t, False, horner=_HORNER)
    x = s.b.param(t, "a")
    with s.b.block() as body:
        a = X(s.b, x.id)
        near = FUNCTIONS[prim][0](s, a)
        (y,) = s.choose(~(a.abs() < NEAR[t]), [t], lambda: [X(s.b, s.b.op(prim, a.id))], lambda: [near])
        s.b.yield_(y.id)
    return N.Function(f"{prim}.{t}.lanes", (x,), t, tuple(body))
