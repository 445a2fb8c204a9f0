"""The accesses to local vectors and matrices at an index known only at run time."""

from collections.abc import Mapping
from dataclasses import field
from itertools import product
from operator import mul

from quadrants_lab.backends.lower.local_arrays import FEWEST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import find

Place = tuple[int, ...]  # an element's constant index along each axis


@dataclass(eq=False)
class Access:
    """One access. ``elements``: place -> value before. ``made``: place -> value after, empty for a read. The elements
    have the dtype ``dtype``."""

    stmt: N.Choice
    elements: dict[Place, int]
    made: dict[Place, int]
    dtype: DType
    # where the elements lie in the array: the index of the first element, the step along each axis, and the index of
    # each place's element
    first: int = 0
    steps: tuple[int, ...] = ()
    numbers: dict[Place, int] = field(default_factory=dict)

    shape = property(lambda self: self.stmt.shape)

    def lie(self, first: int, steps: tuple[int, ...]) -> None:
        """Sets the positions in the array of the elements that are accessed."""
        self.first, self.steps = first, steps
        self.numbers = {at: first + sum(map(mul, steps, at)) for at in self.elements}


def accesses(body: N.Block, types: Mapping[int, DType]) -> list[Access]:
    """The accesses of a task; none if all of them are to arrays that do not go to memory."""
    found = []
    for s in find(body, N.Choice):
        places = [*product(*map(range, s.shape))]
        results = (r.id for r in s.results) if isinstance(s, N.WithElement) else ()
        elements = dict(zip(places, s.values, strict=True))
        found.append(Access(s, elements, dict(zip(places, results, strict=False)), types[s.values[0]]))
    return found if any(len(a.elements) >= FEWEST for a in found) else []
