"""Says what statements do to memory, and which buffers may be the same memory."""

from collections.abc import Iterable, Iterator, Mapping, Set

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find


def pure(blocks: Iterable[N.Block]) -> bool:
    """Whether nothing in the blocks has a side effect."""
    return not any(any(find(b, N.Effect)) for b in blocks)


def written(blocks: Iterable[N.Block], classes: Mapping[str, str]) -> set[str]:
    """The memory classes (`memory_classes`) that something in the blocks writes."""
    return {classes[s.buffer] for b in blocks for s in find(b, N.Write)}


def touched(block: N.Block, by: type[N.Access] = N.Access) -> set[str]:
    """Names of the buffers that accesses of this kind touch."""
    return {s.buffer for s in find(block, by)}


def value_reads(kernel: N.Kernel) -> Iterator[N.Access]:
    """The statements that read a value and use it for more than a sum: loads, and the exchanges by which one of several
    iterations takes an adjoint (the winner of an atomic min or max)."""
    return (s for s in find(kernel.body, N.Access) if s.loads or s.atomic == "exchange")


def places(block: N.Block, by: type[N.Access] = N.Access) -> dict[str, set[tuple[int, ...]]]:
    """Maps the name of each buffer to the different indices with which accesses of this class access it."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for s in find(block, by):
        found.setdefault(s.buffer, set()).add(s.index)
    return found


def accesses(kernel: N.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the buffers that the kernel reads, and names of the buffers that it writes."""
    return frozenset(touched(kernel.body, N.Read)), frozenset(touched(kernel.body, N.Write))


def shared_arrays(kernel: N.Kernel) -> frozenset[str]:
    """The arrays and fields that may share memory with another one: in an ``aliased`` kernel all of them, else none.

    A launch uses an aliased kernel if memory overlaps and the kernel writes to it: memory of array arguments, of those
    of their gradients that the kernel accesses, or of fields that other libraries also access
    (`runtime.arguments.slots`). No gradient kernel is aliased: a gradient refuses such arguments, and adjoints, which
    are only added to, get memory of their own (`GradientPlan.keep_apart`).
    """
    if not kernel.aliased:
        return frozenset()
    return frozenset(name for name, b in kernel.buffers.items() if b.kind in ("ndarray", "field"))


def aliased_atomic_buffers(kernel: N.Kernel, atomics: Set[str]) -> Set[str]:
    """The buffers among those that a task's ``atomics`` change which may share memory with another of them."""
    arrays = atomics & shared_arrays(kernel)
    return arrays if len(arrays) > 1 else frozenset()


def memory_classes(kernel: N.Kernel) -> dict[str, str]:
    """Maps each buffer to its memory class: buffers of different classes never share memory. All buffers of
    `shared_arrays` are in one class, because even arrays of different dtypes may overlap."""
    shared = shared_arrays(kernel)
    return {name: "shared" if name in shared else name for name in kernel.buffers}
