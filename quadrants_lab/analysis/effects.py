"""What statements do to memory, and which buffers may be the same memory."""

from collections.abc import Iterable, Iterator, Mapping, Set

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


def shared_arrays(kernel: N.Kernel) -> frozenset[str]:
    """The arrays and fields that may be the same memory as another one: in an ``aliased`` kernel all of them.

    A launch takes that kernel where array arguments, their gradients that it names, or fields whose memory other
    libraries have, overlap and it writes to one of them (`runtime.arguments.slots`). A gradient needs none: it
    refuses such arguments, and adjoints, which are only added to, get memory of their own
    (`GradientPlan.keep_apart`).
    """
    if not kernel.aliased:
        return frozenset()
    return frozenset(name for name, b in kernel.buffers.items() if b.kind in ("ndarray", "field"))


def aliased_atomic_buffers(kernel: N.Kernel, atomics: Set[str]) -> Set[str]:
    """Of the buffers that atomics of one task go to, those that may be the same memory as another of them."""
    arrays = atomics & shared_arrays(kernel)
    return arrays if len(arrays) > 1 else frozenset()


def memory_classes(kernel: N.Kernel) -> dict[str, str]:
    """The class of each buffer: two of different classes never share memory. All of `shared_arrays` are one class,
    because arrays of different dtypes overlap, too."""
    shared = shared_arrays(kernel)
    return {name: "shared" if name in shared else name for name in kernel.buffers}
