"""Which tasks run in lanes, and in how many."""

from __future__ import annotations

from quadrants_lab.backends.boxes import fixed_total
from quadrants_lab.backends.cost import constants
from quadrants_lab.backends.cpu.lanes.divergence import Divergence, counts_up, divergence
from quadrants_lab.backends.reductions import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import f16, f64
from quadrants_lab.ir.walk import types_of, uses, walk

_TRIPS = 16  # of a loop whose trips are not known
_STATEMENTS = {4: 160, 2: 320}  # vectors in flight, and in how many statements at most
_GROUPS = 16  # of iterations side by side that a task is to have at least
_GAIN = 1.5  # by how much lanes must be cheaper, by this file's rough prices


def lanes_of(kernel: N.Kernel, task: N.Offload, vector_bytes: int) -> int:
    """Lanes that the task's iterations run in on a processor whose vectors have so many bytes; 0 where each runs by
    itself. Straight code without elementary functions is left to LLVM's own vectoriser, but for what sums into
    neighbours' elements, which stop that; so are the rows of cells of a sparse layout, and the threads of blocks."""
    if not vector_bytes or not can(task):
        return 0
    inner = {name for name, x in kernel.buffers.items() if x.role in ("activity", "block")}
    in_rows = inner and any(isinstance(s, N.Load) and s.buffer in inner for s in walk(task.body))
    if not any((isinstance(s, N.Loop) and not in_rows) or _is_math(s) or _reaches(s) for s in walk(task.body)):
        return 0
    lanes = width(task, vector_bytes)
    if _shortest_row(task) < lanes // 2:
        return 0
    found = divergence(task.body, [task.indices[-1].id])
    one, all_ = _Prices(kernel, task, found, lanes).of(task.body, constants(task.bounds))
    if all_ * _GAIN >= one * lanes:
        return 0
    return lanes if _gathers(task, found.varying) else lanes * _vectors(task, lanes, vector_bytes)


def _vectors(task: N.Offload, lanes: int, vector_bytes: int) -> int:
    """How many vectors of so many lanes make one value: while one's result is waited for, the next one's is computed.
    With few iterations, or a lot of code, which takes its time to compile, that does not pay. Vectors of 64 bytes have
    32 registers, shorter ones 16."""
    size = sum(1 for _ in walk(task.body)) * (64 // vector_bytes)
    found = next((n for n, most in _STATEMENTS.items() if size <= most), 1)
    total = fixed_total(task)
    iterations = min(total // _GROUPS if total is not None else 1 << 30, _shortest_row(task))
    while found > 1 and iterations < lanes * found:
        found //= 2
    return found


def _gathers(task: N.Offload, varying: set[int]) -> bool:
    """Whether lanes have elements that do not lie in a row. With several vectors they would then have too many cache
    lines at once."""
    counting = {task.indices[-1].id}
    for s in walk(task.body):
        if isinstance(s, N.Op) and counts_up(s, counting, varying):
            counting.add(s.id)
        elif isinstance(s, N.Access) and s.index:
            *rows, last = s.index
            if not varying.isdisjoint(rows) or (last in varying and last not in counting):
                return True
    return False


def width(task: N.Offload, vector_bytes: int) -> int:
    """How many values of the widest float in the task make a vector."""
    return vector_bytes // (8 if any(t is f64 for t in types_of(task.body).values()) else 4)


def _shortest_row(task: N.Offload) -> int:
    """Iterations of the box's last axis where they are known, else many. The lanes of a group are of one row."""
    known = constants(task.bounds)
    *outer, (_, begin, end) = task.box()
    return known[end] - known[begin] if outer and begin in known and end in known else 1 << 30


def _is_math(s: N.Stmt) -> bool:
    return isinstance(s, N.Op) and "@math" in PRIMS[s.prim].llvm and s.type.is_float


def _reaches(s: N.Stmt) -> bool:
    return isinstance(s, N.Atomic) and s.reach >= 0


def _stores(s: N.Stmt) -> bool:
    return isinstance(s, N.AdStackAlloca) and not s.count_only


def can(task: N.Offload) -> bool:
    """Whether the task can run in lanes at all."""
    if task.kind == "serial":
        return False
    block = task.body
    if any(_reaches(s) for s in walk(block)) and any(_stores(s) for s in walk(block)):
        return False  # how many lanes its stacks have room for depends on the number of threads: so would its sums
    used = uses(block)
    for s in walk(block):
        if not s.lane_safe:
            return False
        if isinstance(s, N.Atomic) and (s.id in used or s.op in ("cas", "exchange") or s.type.kind == "b"):
            return False
        if isinstance(s, N.Op) and s.prim == "pow" and not s.type.is_float:
            return False
    return all(t is not f16 for t in types_of(block).values())


class _Prices:
    """Cycles of a block for one iteration by itself and for one in each lane, together."""

    def __init__(self, kernel: N.Kernel, task: N.Offload, found: Divergence, lanes: int) -> None:
        self.lanes = lanes
        self.index = task.indices[-1].id
        self.found = found
        self.reduced = reductions(kernel, task.body)

    def of(self, block: N.Block, known: dict[int, int]) -> tuple[float, float]:
        known = {**known, **constants(block)}
        one = together = 0.0
        for s in block:
            a, b = self._statement(s)
            trips = 1.0
            if isinstance(s, N.For):
                both = s.begin in known and s.end in known
                trips = max(0, known[s.end] - known[s.begin]) if both else _TRIPS
            elif isinstance(s, N.While):
                trips = _TRIPS
            for inner in s.blocks():
                x, y = self.of(inner, known)
                a, b = a + trips * x, b + trips * y
            one, together = one + a, together + b
        return one, together

    def _statement(self, s: N.Stmt) -> tuple[float, float]:
        varying, w = self.found.varying, self.lanes
        if isinstance(s, N.Op):
            cost = PRIMS[s.prim].cost
            if s.id not in varying:
                return cost, cost
            if not s.type.is_float and s.prim in ("floordiv", "mod", "raw_div", "raw_mod"):
                return cost, cost * w
            return cost, cost * (2.0 if _is_math(s) else 1.0)
        if isinstance(s, (N.Load, N.Store)):
            if varying.isdisjoint(s.index):
                return 2, 2
            return 3, 3 if self._in_a_row(s.index) else 1.5 * w
        if isinstance(s, N.Atomic):
            if s.buffer in self.reduced:
                return 3, 3
            if varying.isdisjoint(s.index):
                return 15, 20
            if s.private:
                return 6, 6 if self._in_a_row(s.index) else 3 * w
            return 12, 15 * w
        if isinstance(s, (N.AdStackPush, N.AdStackLoadTop)):
            return 3, 2.5 * w if s.stack in self.found.split else 3
        if isinstance(s, N.Random):
            return 20, 3 * w
        if isinstance(s, N.Control):
            return 2, 4
        return 0, 0

    def _in_a_row(self, index: tuple[int, ...]) -> bool:
        """Where the index is the task's own; a sum with it may be, too, but is not looked for."""
        return index[-1] == self.index and self.found.varying.isdisjoint(index[:-1])
