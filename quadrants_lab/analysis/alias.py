"""Which buffers may be the same memory."""

from collections.abc import Set

from quadrants_lab.ir import nodes as N


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
