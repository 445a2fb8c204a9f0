"""`trust_bounds`: builds without checks refuse an index that is out of bounds in every launch, and trust all other
indices."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from quadrants_lab.analysis.ranges import Range, Ranges
from quadrants_lab.analysis.trials import Ended, Trial
from quadrants_lab.errors import Label, QuadrantsIndexError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.show import fill
from quadrants_lab.ir.walk import rewrite, walk
from quadrants_lab.passes.check_bounds import BOUNDS_CURE, NO_ELEMENT, begin, iterations, no_element
from quadrants_lab.passes.dce import dce


def trust_bounds(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no Assert of kind "bounds". Raises QuadrantsIndexError for an index that is out of
    bounds in every launch: only constants decide the value of the index and whether the access runs."""
    suspects = _Suspects(kernel)
    if suspects.found:
        _Sure(suspects).look()
    if not suspects.asserts:
        return kernel
    return dce(replace(kernel, body=rewrite(kernel.body, lambda s: [] if _is_check(s) else s)))


def _is_check(s: N.Stmt) -> bool:
    return isinstance(s, N.Assert) and s.kind == "bounds"


class _Suspects:
    """Collects in ``found`` the accesses and the asserts of kind "bounds" that may fail and do not depend on data."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.ranges = Ranges(kernel)
        self.unknown: set[int] = set()  # values that depend on more than constants
        self.found: set[int] = set()
        self.asserts = False
        self.visit(kernel.body)

    def visit(self, block: N.Block) -> None:
        for s in block:
            if isinstance(s, N.Offload):
                self.visit(s.bounds)
                if self.knows(s.bounds[-1].operands()):
                    self.visit(s.body)
                else:
                    self.asserts = self.asserts or any(_is_check(i) for i in walk(s.body))
                continue
            if _is_check(s):
                self.asserts = True
            if isinstance(s, N.Access):
                if any(self.may_fail(s.buffer, axis, index) for axis, index in enumerate(s.index)):
                    self.found.add(s.id)
            elif _is_check(s) and self.knows(s.operands()[:1]) and not self.holds(s.operands()[0]):
                self.found.add(s.id)
            if not self.computed(s):
                self.unknown.update(i for i, _ in s.defs())
                if isinstance(s, N.Loop):
                    self.unknown.update(p.id for p in s.params())
            elif isinstance(s, N.Loop):  # values that it carries may be known in some iterations
                carried = zip(s.carried, s.results, s.inits, strict=True)
                self.unknown.update(v.id for *both, i in carried for v in both if not self.knows((i,)))
            for inner in s.blocks():
                self.visit(inner)

    def computed(self, s: N.Stmt) -> bool:
        """Whether a trial can compute what the statement defines, from the values that it knows."""
        match s:
            case N.ShapeOf(buffer=buffer, axis=axis):
                return self.kernel.buffers[buffer].known_extent(axis) is not None
            case N.For(begin=begin, end=end):
                return self.knows((begin, end))
            case N.Const() | N.Op() | N.If():
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
        return self.knows((index,)) or _beside(lies, extent)


def _beside(lies: Range | None, extent: int) -> bool:
    """Whether all values of the range are out of bounds."""
    return lies is not None and (lies[1] < 0 or lies[0] >= extent)


class _Sure(Trial):
    """Runs the first and the last iterations of loops, and raises the error for the first suspect that fails."""

    def __init__(self, suspects: _Suspects) -> None:
        super().__init__(suspects.kernel, suspects.found, suspects.kernel.body)
        self.suspects = suspects

    def look(self) -> None:
        with suppress(Ended):
            for s in self.kernel.body:
                if not isinstance(s, N.Offload):
                    self.run((s,))
                elif any(i.id in self.suspects.found for i in walk(s.body)):
                    self.run_task(s)

    def chosen(self, axes: Sequence[Sequence[int]]) -> Iterable[tuple[int, ...]]:
        """The iterations to try; iterations near the corners of the box come first."""
        inwards = [[(min(n, len(axis) - 1 - n), i) for n, i in enumerate(axis)] for axis in axes]
        return [tuple(i for _, i in at) for at in sorted(product(*inwards), key=lambda at: sum(n for n, _ in at))]

    def sees(self, s: N.Stmt) -> None:
        if isinstance(s, N.Assert) and not _is_check(s) and not self.env.get(s.cond):
            raise Ended  # it may fail
        if s.id not in self.suspects.found:
            return
        if isinstance(s, N.Assert) and self.env.get(s.cond) == 0:
            raise self.error(s, s.message, *(self.env.get(i) for i in s.args))
        if not isinstance(s, N.Access):
            return
        for axis, index in enumerate(s.index):
            buffer, value = self.kernel.buffers[s.buffer], self.env.get(index)
            lies = self.suspects.ranges.range(index) if value is None else (value, value)
            extent = buffer.known_extent(axis)
            if lies is not None and extent is not None and _beside(lies, extent):
                low, high = (end + begin(buffer, axis) for end in lies)
                what = low if low == high else f"{low}..{high}"
                raise self.error(s, no_element(buffer, axis), what, extent)

    def error(self, s: N.Stmt, message: str, *values: object) -> QuadrantsIndexError:
        where, indices = iterations(self.kernel)[s.id]
        values = (*values, *(self.env.get(i) for i in indices))
        return QuadrantsIndexError(
            f"{fill(message + where, values)} (kernel {self.kernel.name})",
            code="QL1510",
            labels=(Label(s.span, NO_ELEMENT),),
            help=BOUNDS_CURE,
        )
