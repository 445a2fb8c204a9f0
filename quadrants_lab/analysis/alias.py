"""Which buffers may be the same memory."""

from __future__ import annotations

from collections.abc import Mapping

from quadrants_lab.ir import nodes as N


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
