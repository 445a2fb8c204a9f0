"""What statements do to memory: effects, and which buffers may be the same memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def pure(blocks: Iterable[N.Block]) -> bool:
    """Whether nothing in the blocks has an effect."""
    return not any(isinstance(s, N.Effect) for b in blocks for s in walk(b))


def memory_classes(buffers: Mapping[str, N.Buffer]) -> dict[str, str]:
    """The class of each buffer: two of different classes never share memory.

    Fields, temps and slots of results are memory of their own. An ndarray may be passed for several arguments, so all
    of one dtype are one class; their adjoints are another one, their tangents a third.
    """
    derivative = {b.grad: " grad" for b in buffers.values()} | {b.dual: " dual" for b in buffers.values()}
    return {
        name: f"ndarray {b.dtype}{derivative.get(name, '')}" if b.kind == "ndarray" else name
        for name, b in buffers.items()
    }


def written(blocks: Iterable[N.Block], classes: Mapping[str, str]) -> set[str]:
    """Memory classes that something in the blocks writes."""
    return {classes[s.buffer] for b in blocks for s in walk(b) if isinstance(s, N.Write)}


def accesses(kernel: N.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the buffers that the kernel reads, and of those that it writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for s in walk(kernel.body):
        if isinstance(s, N.Read):
            reads.add(s.buffer)
        if isinstance(s, N.Write):
            writes.add(s.buffer)
    return frozenset(reads), frozenset(writes)
