"""Array arguments that share memory."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import Any

import numpy as np

from quadrants_lab.analysis.effects import touched
from quadrants_lab.ir import nodes as N
from quadrants_lab.runtime.arguments.signature import ArraySlot, Slot, memory_of


def written_pairs(slots: Sequence[Slot], written: AbstractSet[str]) -> tuple[tuple[int, int], ...]:
    """Positions of all pairs of array arguments of which at least one is among the buffers ``written``."""
    arrays = [n for n, slot in enumerate(slots) if isinstance(slot, ArraySlot)]
    return tuple((n, m) for n, m in combinations(arrays, 2) if {slots[n].name, slots[m].name} & written)


def atomic_pairs(slots: Sequence[Slot], kernel: N.Kernel) -> tuple[tuple[int, int], ...]:
    """Positions of any two array arguments that atomics of the kernel go to."""
    names = touched(kernel.body, N.Atomic)
    return tuple(combinations([n for n, s in enumerate(slots) if isinstance(s, ArraySlot) and s.name in names], 2))


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments overlap."""
    if a is b:
        return True
    of_a, of_b = memory_of(a), memory_of(b)
    if of_a is not None and of_b is not None and not (of_a.foreign and of_b.foreign):
        return of_a is of_b
    a, b = a if of_a is None else of_a.operand, b if of_b is None else of_b.operand
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    begins = [getattr(x, "address", None) for x in (a, b)]
    if None in begins:
        return False  # one is memory of the host, the other of a device
    return bool(begins[0] < begins[1] + b.nbytes and begins[1] < begins[0] + a.nbytes)
