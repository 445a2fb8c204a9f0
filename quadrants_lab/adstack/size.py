"""Finds how large the stacks of a gradient are: `determine_ad_stack_size` finds the greatest depth of each stack as
a formula (SizeExpr), and `narrow_stacks` the smallest dtype for its elements.

The depth is found by recursion over the task's blocks. Depths of statements in sequence add up. The depth of a branch
is the maximum of its arms' depths. The depth of a For is the body's depth times the trip count, or the sum over the
range if the body's depth varies with the index. A stack that is pushed in a While is left to the counting slice. If a
loop of the reverse slice pushes and pops a stack, each of its iterations runs a segment of a checkpointed loop, and the
depth is the maximum over the segments.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quadrants_lab.analysis import algebra
from quadrants_lab.analysis.effects import touched
from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import DType, i8, i16, i32, u8, u16, u32
from quadrants_lab.ir.walk import find, map_offloads, of_kind, rewrite_in, rewritten, rules


def determine_ad_stack_size(kernel: N.Kernel) -> N.Kernel:
    """Gives every AdStackAlloca its ``size``. No iteration of the task needs more slots, and some iteration needs as
    many if no push is under a condition that depends on data."""
    written = touched(kernel.body, N.Write)
    return map_offloads(kernel, lambda task: _size_task(kernel, task, written))


def _size_task(kernel: N.Kernel, task: N.Offload, written: set[str]) -> N.Offload:
    if not any(of_kind(task.body, N.AdStackAlloca)):
        return task
    symbols, inside = Symbols(task, kernel.buffers, written), pushed_in_reverse(task)

    def sized(s: N.AdStackAlloca) -> N.Stmt:
        return replace(s, size=_size(task, symbols, s.id, s.id in inside))

    return rewrite_in(task, rules({N.AdStackAlloca: sized}))


def pushed_in_reverse(task: N.Stmt) -> set[int]:
    """Stacks of checkpointed loops: the reverse slice pushes them when it runs a segment again."""
    guards = tuple(s for s in find((task,), N.AdStackGuard))
    return {s.stack for s in find(guards, N.AdStackPush)}


def _size(task: N.Offload, symbols: Symbols, stack: int, inside: bool) -> S.SizeExpr:
    """The size of one stack. ``inside``: the reverse slice also pushes to the stack."""
    depth = _Depth(symbols, stack, inside).block(task.body)
    for p, first, last in reversed(task.box()):
        if depth is None or not algebra.reads_variable(depth, symbols.vars[p.id]):
            continue
        begin, end = symbols.size(first), symbols.size(last)
        known = None if begin is None or end is None else (begin, end)
        depth = known and algebra.over_range("max", symbols.vars[p.id], *known, depth)
    # the value of an index after its loop has no known range
    if depth is None or algebra.is_open(depth):
        return S.SizeCounted(stack)
    return depth


class _Depth:
    """Finds the greatest depth of a stack along any path through a block, or None if pushes can only be counted by
    running the code. ``inside``: the reverse slice also pushes to the stack."""

    def __init__(self, symbols: Symbols, stack: int, inside: bool) -> None:
        self.symbols = symbols
        self.stack = stack
        self.inside = inside

    def block(self, block: N.Block) -> S.SizeExpr | None:
        total: S.SizeExpr = algebra.ZERO
        for s in block:
            rule = _RULES.get(type(s))
            own = algebra.ZERO if rule is None else rule(self, s)
            if own is None:
                return None
            total = algebra.binary("add", total, own)
        return total

    def push(self, s: N.AdStackPush) -> S.SizeExpr:
        return algebra.ONE if s.stack == self.stack else algebra.ZERO

    def branch(self, s: N.If) -> S.SizeExpr | None:
        then, orelse = map(self.block, s.blocks())
        return None if then is None or orelse is None else algebra.binary("max", then, orelse)

    def counted_loop(self, s: N.For) -> S.SizeExpr | None:
        body = self.block(s.body)
        if body is None or body == algebra.ZERO:
            return body
        var, begin, end = self.symbols.vars[s.index.id], self.symbols.size(s.begin), self.symbols.size(s.end)
        if any(pop.stack == self.stack for pop in find(s.body, N.AdStackPop)):  # each trip pops what it pushed
            return algebra.greatest_over(var, begin, end, body)
        return None if begin is None or end is None else algebra.over_range("sum", var, begin, end, body)

    def conditional_loop(self, s: N.While) -> S.SizeExpr | None:
        return algebra.ZERO if self.block(s.body) == algebra.ZERO else None

    def guard(self, s: N.AdStackGuard) -> S.SizeExpr | None:
        return self.block(s.body) if self.inside else algebra.ZERO


_RULES: dict[type[N.Stmt], Callable[[_Depth, Any], S.SizeExpr | None]] = {
    N.AdStackPush: _Depth.push, N.If: _Depth.branch, N.For: _Depth.counted_loop, N.While: _Depth.conditional_loop,
    N.AdStackGuard: _Depth.guard,
}  # fmt: skip


def counted_stacks(kernel: N.Kernel) -> set[int]:
    """Stacks whose size only the counting slice can tell."""
    found: set[int] = set()
    for task in kernel.tasks:
        for s in of_kind(task.body, N.AdStackAlloca):
            if s.size is not None:
                found |= {e.stack for e in of_kind(algebra.subexpressions(s.size), S.SizeCounted)}
    return found


# --- dtypes -----------------------------------------------------------------------------------------------------

_BY_SIZE = (u8, i8, u16, i16, u32, i32)


def narrow_stacks(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a stack of integers has the smallest dtype (the first one of `_BY_SIZE`) that holds every value
    pushed on it, if `analysis.ranges` knows the range of each of these values. A value is cast when it is pushed, and
    back when it is read."""
    stacks = [s for s in find(kernel.body, N.AdStackAlloca) if s.type.is_int]
    if not stacks:
        return kernel
    ranges = Ranges(kernel)
    pushed: dict[int, list[int]] = {}
    for s in find(kernel.body, N.AdStackPush):
        pushed.setdefault(s.stack, []).append(s.value)
    narrow: dict[int, DType] = {}
    for stack in stacks:
        t = _fitting(ranges, pushed.get(stack.id, []))
        if t is not None and t.bits < stack.type.bits:
            narrow[stack.id] = t
    if not narrow:
        return kernel
    b = Builder(kernel.next_id)

    def alloca(s: N.AdStackAlloca) -> N.Stmt:
        return replace(s, type=narrow[s.id]) if s.id in narrow else s

    def push(s: N.AdStackPush) -> N.Stmt | list[N.Stmt]:
        if s.stack not in narrow:
            return s
        cast = N.Op(b.fresh(), narrow[s.stack], "cast", (s.value,), span=s.span, adjoint_of=s.adjoint_of)
        return [cast, replace(s, value=cast.id)]

    def load_top(s: N.AdStackLoadTop) -> N.Stmt | list[N.Stmt]:
        if s.stack not in narrow:
            return s
        top = replace(s, id=b.fresh(), type=narrow[s.stack])
        return [top, N.Op(s.id, s.type, "cast", (top.id,), span=s.span, adjoint_of=s.adjoint_of)]

    return rewritten(kernel, rules({N.AdStackAlloca: alloca, N.AdStackPush: push, N.AdStackLoadTop: load_top}), b)


def _fitting(ranges: Ranges, values: list[int]) -> DType | None:
    """The smallest dtype that holds all the values, or None where the range of some value is not known."""
    low, high = 0, 0
    for v in values:
        r = ranges.range(v)
        if r is None:
            return None
        low, high = min(low, r[0]), max(high, r[1])
    return next((t for t in _BY_SIZE if t.holds(low) and t.holds(high)), None)
