"""What statements do to memory."""

from collections.abc import Iterable, Iterator, Mapping

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def pure(blocks: Iterable[N.Block]) -> bool:
    """Whether nothing in the blocks has an effect."""
    return not any(isinstance(s, N.Effect) for b in blocks for s in walk(b))


def written(blocks: Iterable[N.Block], classes: Mapping[str, str]) -> set[str]:
    """Memory classes that something in the blocks writes."""
    return {classes[s.buffer] for b in blocks for s in walk(b) if isinstance(s, N.Write)}


def touched(block: N.Block, by: type[N.Access] = N.Access) -> set[str]:
    """Names of the buffers that accesses of this kind touch."""
    return {s.buffer for s in walk(block) if isinstance(s, by)}


def value_reads(kernel: N.Kernel) -> Iterator[N.Access]:
    """What reads a value, and not only to add to it: loads, and the exchanges that take an adjoint that other
    iterations may have."""
    return (s for s in walk(kernel.body) if isinstance(s, N.Load) or (isinstance(s, N.Atomic) and s.op == "exchange"))


def places(block: N.Block, by: type[N.Access] = N.Access) -> dict[str, set[tuple[int, ...]]]:
    """For each buffer, the different indices of the accesses of this kind to it."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for s in walk(block):
        if isinstance(s, by):
            found.setdefault(s.buffer, set()).add(s.index)
    return found


def accesses(kernel: N.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the buffers that the kernel reads, and of those that it writes."""
    return frozenset(touched(kernel.body, N.Read)), frozenset(touched(kernel.body, N.Write))
