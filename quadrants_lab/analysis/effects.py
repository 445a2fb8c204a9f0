"""What statements do to memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def pure(blocks: Iterable[N.Block]) -> bool:
    """Whether nothing in the blocks has an effect."""
    return not any(isinstance(s, N.Effect) for b in blocks for s in walk(b))


def written(blocks: Iterable[N.Block], classes: Mapping[str, str]) -> set[str]:
    """Memory classes that something in the blocks writes."""
    return {classes[s.buffer] for b in blocks for s in walk(b) if isinstance(s, N.Write)}


def accesses(kernel: N.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the buffers that the kernel reads, and of those that it writes."""
    touched = [s for s in walk(kernel.body) if isinstance(s, N.Access)]
    reads = frozenset(s.buffer for s in touched if isinstance(s, N.Read))
    return reads, frozenset(s.buffer for s in touched if isinstance(s, N.Write))
