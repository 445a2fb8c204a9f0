"""The pass `trust_bounds`, for builds without checks, raises an error for an index that is out of bounds in every
launch, and removes all checks of indices."""

from collections.abc import Sequence
from dataclasses import replace

from quadrants_lab.analysis.ranges import Range, Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.walk import rewrite, walk
from quadrants_lab.passes.dce import dce

_refuse_sure = lazily("passes.out_of_bounds", "refuse_sure")  # imported late, since few kernels have suspects


def trust_bounds(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no Assert of kind "bounds". Raises QuadrantsIndexError for an index that is out of
    bounds in every launch: constants alone decide the value of the index and whether the access runs."""
    suspects = Suspects(kernel)
    if suspects.found:
        _refuse_sure(suspects)
    if not suspects.asserts:
        return kernel
    return dce(replace(kernel, body=rewrite(kernel.body, lambda s: [] if is_check(s) else s)))


def is_check(s: N.Stmt) -> bool:
    """Whether the statement is an Assert of kind "bounds"."""
    return isinstance(s, N.Assert) and s.kind == "bounds"


class Suspects:
    """Collects in ``found`` the accesses, and the asserts of kind "bounds", that may fail and do not depend on data."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.ranges = Ranges(kernel)
        self.unknown: set[int] = set()  # ids of values that depend on more than constants
        self.found: set[int] = set()
        self.asserts = False
        self.visit(kernel.body)

    def visit(self, block: N.Block) -> None:
        for s in block:
            if isinstance(s, (N.Const, N.Op, N.Element)):  # most statements
                if not self.knows(s.operands()):
                    self.unknown.add(s.id)
                continue
            if isinstance(s, N.Offload):
                self.visit(s.bounds)
                if self.knows(s.bounds[-1].operands()):
                    self.visit(s.body)
                else:
                    self.asserts = self.asserts or any(is_check(i) for i in walk(s.body))
                continue
            if is_check(s):
                self.asserts = True
            if isinstance(s, N.Access):
                if any(self.may_fail(s.buffer, axis, index) for axis, index in enumerate(s.index)):
                    self.found.add(s.id)
            elif is_check(s) and self.knows(s.operands()[:1]) and not self.holds(s.operands()[0]):
                self.found.add(s.id)
            if not self.computed(s):
                self.unknown.update(i for i, _ in s.defs())
                if isinstance(s, N.Loop):
                    self.unknown.update(p.id for p in s.params())
            elif isinstance(s, N.Loop):  # the values that it carries may be known in some iterations
                carried = zip(s.carried, s.results, s.inits, strict=True)
                self.unknown.update(v.id for *both, i in carried for v in both if not self.knows((i,)))
            for inner in s.blocks():
                self.visit(inner)

    def computed(self, s: N.Stmt) -> bool:
        """Whether a trial can compute what the statement defines, from the values that the trial knows."""
        match s:
            case N.ShapeOf(buffer=buffer, axis=axis):
                return self.kernel.buffers[buffer].known_extent(axis) is not None
            case N.For(begin=begin, end=end):
                return self.knows((begin, end))
            case N.If() | N.WithElement():
                return self.knows(s.operands())
        return False

    def knows(self, values: Sequence[int]) -> bool:
        return self.unknown.isdisjoint(values)

    def holds(self, cond: int) -> bool:
        """Whether ranges show that the condition of a check is always true."""
        match self.ranges.defs.get(cond):
            case N.Op(prim="and", args=(a, b)):
                return self.holds(a) and self.holds(b)
            case N.Op(prim="ge" | "lt" as prim, args=(a, b)):
                x, y = self.ranges.range(a), self.ranges.range(b)
                return x is not None and y is not None and (x[0] >= y[1] if prim == "ge" else x[1] < y[0])
        return False

    def may_fail(self, buffer: str, axis: int, index: int) -> bool:
        extent, lies = self.kernel.buffers[buffer].known_extent(axis), self.ranges.range(index)
        if extent is None or (lies is not None and lies[0] >= 0 and lies[1] < extent):
            return False
        return self.knows((index,)) or beside(lies, extent)


def beside(lies: Range | None, extent: int) -> bool:
    """Whether all indices in the range ``lies`` are out of bounds."""
    return lies is not None and (lies[1] < 0 or lies[0] >= extent)
