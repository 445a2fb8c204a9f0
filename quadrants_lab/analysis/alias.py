"""Which buffers may be the same memory."""

from __future__ import annotations

from collections.abc import Set

from quadrants_lab.ir import nodes as N


def shared_arrays(kernel: N.Kernel) -> frozenset[str]:
    """The ndarrays that may be the same memory as another one, since an array may be passed for several arguments.

    The adjoints in a gradient are none: the derivative refuses such arguments where the kernel writes to one of them,
    and each other adjoint is only added to: a launch gives it memory of its own (`GradientPlan.bind_gradient`).
    """
    arrays = frozenset(name for name, b in kernel.buffers.items() if b.kind == "ndarray")
    return arrays - {b.grad for b in kernel.buffers.values()} if kernel.mode in ("reverse", "both") else arrays


def met_by_atomics(kernel: N.Kernel, atomics: Set[str]) -> Set[str]:
    """Of the buffers that atomics of one task go to, those that may be the same memory as another of them.

    A launch sees to it that several array arguments with atomics are not, unless the kernel is ``aliased``
    (`Plan.without_aliases`). Their tangents are apart as they are.
    """
    arrays, buffers = atomics & shared_arrays(kernel), kernel.buffers
    adjoints = {b.grad for b in buffers.values()}
    return arrays if len(arrays) > 1 and (kernel.aliased or arrays & adjoints) else frozenset()


def memory_classes(kernel: N.Kernel) -> dict[str, str]:
    """The class of each buffer: two of different classes never share memory.

    Fields, temps and slots of results are memory of their own. Of `shared_arrays` all of one dtype are one class; their
    adjoints are another one, their tangents a third.
    """
    buffers, shared = kernel.buffers, shared_arrays(kernel)
    derivative = {b.grad: " grad" for b in buffers.values()} | {b.dual: " dual" for b in buffers.values()}
    return {
        name: f"ndarray {b.dtype}{derivative.get(name, '')}" if name in shared else name
        for name, b in buffers.items()
    }
