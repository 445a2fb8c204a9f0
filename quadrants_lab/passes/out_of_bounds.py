"""Finds indices that are out of bounds in every launch, by running a few iterations (`analysis.trials`), and raises the
error."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import product

from quadrants_lab.analysis.trials import Ended, Trial
from quadrants_lab.errors import Label, QuadrantsIndexError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.show import fill
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.check_bounds import BOUNDS_CURE, NO_ELEMENT, begin, iterations, no_element
from quadrants_lab.passes.trust_bounds import Suspects, beside, is_check


def refuse_sure(suspects: Suspects) -> None:
    """Raises QuadrantsIndexError for the first of the ``suspects`` that fails in a trial."""
    _Sure(suspects).look()


class _Sure(Trial):
    """A trial of the first and the last iterations of loops; it raises the error for the first suspect that fails."""

    def __init__(self, suspects: Suspects) -> None:
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
        """The iterations to try; those near the corners of the box come first."""
        inwards = [[(min(n, len(axis) - 1 - n), i) for n, i in enumerate(axis)] for axis in axes]
        return [tuple(i for _, i in at) for at in sorted(product(*inwards), key=lambda at: sum(n for n, _ in at))]

    def sees_assert(self, s: N.Assert) -> None:
        if not is_check(s) and not self.env.get(s.cond):
            raise Ended  # the assert may fail, so what follows need not run in every launch
        if s.id in self.suspects.found and self.env.get(s.cond) == 0:
            raise self.error(s, s.message, *(self.env.get(i) for i in s.args))

    def sees_access(self, s: N.Access) -> None:
        if s.id not in self.suspects.found:
            return
        for axis, index in enumerate(s.index):
            buffer, value = self.kernel.buffers[s.buffer], self.env.get(index)
            lies = self.suspects.ranges.range(index) if value is None else (value, value)
            extent = buffer.known_extent(axis)
            if lies is not None and extent is not None and beside(lies, extent):
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
