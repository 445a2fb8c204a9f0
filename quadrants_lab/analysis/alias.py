"""Which buffers may be the same memory."""

from __future__ import annotations

from collections.abc import Set

from quadrants_lab.ir import nodes as N


def shared_arrays(kernel: N.Kernel) -> frozenset[str]:
    """The ndarrays that may be the same memory as another one.

    A launch whose array arguments overlap, one of which the kernel writes, takes the ``aliased`` kernel. Otherwise only
    adjoints that a kernel names itself may be the same. Those of a gradient may not: the derivative refuses overlapping
    arguments that the kernel writes, and other adjoints, which are only added to, get memory of their own
    (`GradientPlan.bind_gradient`).
    """
    arrays = frozenset(name for name, b in kernel.buffers.items() if b.kind == "ndarray")
    adjoints = {b.grad for b in kernel.buffers.values()}
    if kernel.mode in ("reverse", "both"):
        arrays -= adjoints
    return arrays if kernel.aliased else arrays & adjoints


def aliased_atomic_buffers(kernel: N.Kernel, atomics: Set[str]) -> Set[str]:
    """Of the buffers that atomics of one task go to, those that may be the same memory as another of them."""
    arrays = atomics & shared_arrays(kernel)
    return arrays if len(arrays) > 1 else frozenset()


def memory_classes(kernel: N.Kernel) -> dict[str, str]:
    """The class of each buffer: two of different classes never share memory.

    Each field, temp and slot of a result is a class of its own. All `shared_arrays` are one class, also those of
    different dtypes, since numpy views may share memory; their adjoints are another one, their tangents a third.
    """
    buffers, shared = kernel.buffers, shared_arrays(kernel)
    derivative = {b.grad: " grad" for b in buffers.values()} | {b.dual: " dual" for b in buffers.values()}
    return {name: f"ndarray{derivative.get(name, '')}" if name in shared else name for name in buffers}
