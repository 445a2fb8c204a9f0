"""Buffers of a launch that share memory (`backends.overlap`)."""

from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Any

import numpy as np

from quadrants_lab.backends import overlap
from quadrants_lab.runtime.arguments.signature import Place, array_at, memory_of
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.session import Session


class Distinct:
    """The buffers, by name, that a kernel takes for different memory where it writes to one of two. ``fields``: whether
    an array must be apart from a field, which it can overlap only if other libraries have its memory; ``gradients``:
    whether an argument's gradient or tangent must be apart from another array."""

    def __init__(self, places: Mapping[str, Place], written: AbstractSet[str], session: Session) -> None:
        self.session = session
        fields = [name for name, place in places.items() if isinstance(place, Memory)]
        arrays = [name for name in places if name not in fields]
        self._parts = [(name, places[name], int(name in written)) for name in arrays]
        self._and_fields = [*self._parts, *((name, places[name], 2 + (name in written)) for name in fields)]
        several = len(arrays) > 1 and not written.isdisjoint(arrays)
        self.gradients = several and any(not isinstance(places[name], int) for name in arrays)
        self.fields = bool(arrays and fields) and not written.isdisjoint(places)
        self._any = several or self.fields

    def __bool__(self) -> bool:
        return self._any

    def met(self, args: Sequence[Any]) -> tuple[str, str] | None:
        """Two of the buffers that overlap in a launch with ``args``."""
        parts = self._and_fields if self.session.exported else self._parts
        arrays = [p if isinstance(p, Memory) else array_at(p, args) for _, p, _ in parts]
        for pair in overlapping(arrays, [kind for _, _, kind in parts]):
            a, b = sorted(pair)
            return parts[a][0], parts[b][0]
        return None


def overlapping(arrays: Sequence[Any], kinds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """`overlap.overlapping` for array arguments and memories."""
    memories = [x if isinstance(x, Memory) else memory_of(x) for x in arrays]
    ours = [m.serial for m in memories if m is not None and not m.foreign]
    if len(ours) == len(arrays):  # such memory overlaps only itself
        if len({*ours}) == len(ours):
            return iter(())
        return overlap.overlapping(((serial, 0, 1, n) for n, serial in enumerate(ours)), kinds)
    operands = [x if m is None else m.operand for x, m in zip(arrays, memories, strict=True)]
    return overlap.overlapping(overlap.spans(operands), kinds)


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments or memories overlap."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)  # which may have strides of their own
    return a is b or any(True for _ in overlapping((a, b), (overlap.WRITTEN,) * 2))
