"""Buffers of a launch that share memory."""

from collections.abc import Mapping, Sequence, Set as AbstractSet
from itertools import combinations, product
from typing import Any

import numpy as np

from quadrants_lab.runtime.arguments.signature import Place, array_at, memory_of
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import Session


class Distinct:
    """Pairs of buffers, by name, that a kernel takes for different memory and of which it writes to at least one:
    ``arrays``, two arguments; ``gradients``, where at least one is an argument's gradient or tangent; ``fields``, where
    one is a field, which an array can overlap only if other libraries have its memory."""

    def __init__(self, places: Mapping[str, Place], written: AbstractSet[str], session: Session) -> None:
        self.places = places
        self.session = session
        arrays = [name for name, place in places.items() if not isinstance(place, Memory)]
        fields = [name for name, place in places.items() if isinstance(place, Memory)]
        pairs = [pair for pair in combinations(arrays, 2) if not written.isdisjoint(pair)]
        self.arrays = [pair for pair in pairs if all(isinstance(places[name], int) for name in pair)]
        self.gradients = [pair for pair in pairs if pair not in self.arrays]
        self.fields = [pair for pair in product(arrays, fields) if not written.isdisjoint(pair)]

    def __bool__(self) -> bool:
        return bool(self.arrays or self.gradients or self.fields)

    def met(self, args: Sequence[Any]) -> tuple[str, str] | None:
        """The first pair that overlaps in a launch with ``args``."""
        pairs = [*self.arrays, *self.gradients, *(self.fields if self.session.exported else ())]
        for a, b in pairs:
            of_a, of_b = (p if isinstance(p, Memory) else array_at(p, args) for p in (self.places[a], self.places[b]))
            if same_memory(of_a, of_b):
                return a, b
        return None


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments or memories overlap."""
    if a is b:
        return True
    of_a, of_b = (x if isinstance(x, Memory) else memory_of(x) for x in (a, b))
    if of_a is not None and of_b is not None and not (of_a.foreign or of_b.foreign):
        return of_a is of_b
    a, b = a if of_a is None else of_a.operand, b if of_b is None else of_b.operand
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    begins = [getattr(x, "address", None) for x in (a, b)]
    if None in begins:
        return False  # one is memory of the host, the other of a device
    return bool(begins[0] < begins[1] + b.nbytes and begins[1] < begins[0] + a.nbytes)
