"""`narrow_stacks`: a stack of integers whose value range is known gets the smallest dtype that holds its values."""

from dataclasses import replace

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import DType, i8, i16, i32, u8, u16, u32
from quadrants_lab.ir.walk import find, rewritten

_BY_SIZE = (u8, i8, u16, i16, u32, i32)


def narrow_stacks(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a stack of integers has the first dtype of `_BY_SIZE` that holds every value pushed on it, if
    `analysis.ranges` knows the range of each of these values. A value is cast when it is pushed, and back when it is
    read."""
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

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if isinstance(s, N.AdStackAlloca) and s.id in narrow:
            return replace(s, type=narrow[s.id])
        if isinstance(s, N.AdStackPush) and s.stack in narrow:
            cast = N.Op(b.fresh(), narrow[s.stack], "cast", (s.value,), span=s.span, adjoint_of=s.adjoint_of)
            return [cast, replace(s, value=cast.id)]
        if isinstance(s, N.AdStackLoadTop) and s.stack in narrow:
            top = replace(s, id=b.fresh(), type=narrow[s.stack])
            return [top, N.Op(s.id, s.type, "cast", (top.id,), span=s.span, adjoint_of=s.adjoint_of)]
        return s

    return rewritten(kernel, one, b)


def _fitting(ranges: Ranges, values: list[int]) -> DType | None:
    """The smallest dtype that holds all the values, or None where the range of some value is not known."""
    low, high = 0, 0
    for v in values:
        r = ranges.range(v)
        if r is None:
            return None
        low, high = min(low, r[0]), max(high, r[1])
    return next((t for t in _BY_SIZE if t.holds(low) and t.holds(high)), None)
