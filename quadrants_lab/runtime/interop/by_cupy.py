"""Lets CuPy, if it is installed and `can_compute` allows it, compute in memory of an NVIDIA GPU: sorts, products
with sparse matrices and conjugate gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np

from quadrants_lab.runtime.interop.dlpack import can_import, device_of
from quadrants_lab.runtime.memory.memory import HostMirrored, Memory
from quadrants_lab.runtime.observe.observers import OBSERVERS
from quadrants_lab.runtime.session import Session


def can_compute(*memories: Memory) -> bool:
    """Whether CuPy can compute in these memories: CuPy is installed, the memories are the session's own on its GPU, and
    nobody watches writes to them."""
    session = memories[0].session
    if not session.unobserved or OBSERVERS.get() or not can_import(session) or find_spec("cupy") is None:
        return False
    return all(isinstance(m, HostMirrored) and not (m.foreign or m.watchers or m.recorded) for m in memories)


@contextmanager
def _arrays(*memories: Any, written: int) -> Iterator[list[Any]]:
    """Makes a context with CuPy's arrays over the memories, used in the session's stream. The block writes to the
    last ``written`` of these arrays."""
    import cupy

    with _in_stream(memories[0].session) as device:
        yield [_array(m, cupy) for m in memories]
        device.running = True
        for m in memories[len(memories) - written :]:
            m.filled_on_device()


@contextmanager
def _in_stream(session: Session) -> Iterator[Any]:
    """Makes a context in which CuPy works in the stream of the session's device. Its value is the device."""
    import cupy

    device = device_of(session)
    with session.lock, cupy.cuda.Device(device.driver.ordinal), cupy.cuda.ExternalStream(device.stream_number):
        yield device


def _array(memory: Any, cupy: Any) -> Any:
    """A CuPy array over memory of the session. Writes of the host are uploaded first."""
    memory.upload()
    there = memory.on_device
    owned = cupy.cuda.UnownedMemory(there.address, there.nbytes, there)
    return cupy.ndarray(there.shape, there.dtype, cupy.cuda.MemoryPointer(owned, 0))


def sort(keys: Memory, values: Memory | None = None) -> None:
    """Sorts the keys by their bits, read as signed integers; the values are moved with their keys. The sort is stable.
    """
    import cupy

    both = [keys] if values is None else [keys, values]
    with _arrays(*both, written=len(both)) as arrays:
        signed = arrays[0].view(f"i{arrays[0].itemsize}") if keys.dtype.is_float else arrays[0]
        if values is None:
            signed.sort()
        else:
            order = cupy.argsort(signed)
            for array in (signed, arrays[1]):
                array[...] = array[order]


class OnGpu:
    """A copy of a scipy matrix as a cupyx matrix (CSR) on the GPU of a session. The copy outlives the session."""

    def __init__(self, matrix: Any, session: Session) -> None:
        import cupy
        from cupyx.scipy.sparse import csr_matrix

        self.matrix, self.ordinal = matrix, device_of(session).driver.ordinal
        with _in_stream(session):
            self.copy = csr_matrix(matrix.tocsr())
            cupy.cuda.get_current_stream().synchronize()

    def holds(self, matrix: Any, session: Session) -> bool:
        """Whether this is a copy of ``matrix`` on the session's GPU."""
        return self.matrix is matrix and self.ordinal == device_of(session).driver.ordinal

    def multiply(self, x: Memory, out: Memory) -> None:
        """Computes out = matrix @ x by cuSPARSE; all three have the same dtype."""
        from cupyx import cusparse

        with _arrays(x, out, written=1) as (x_, out_):
            cusparse.spmv(self.copy, x_, out_)

    def conjugate_gradients(self, b: Memory, out: Memory, start: Any, atol: float, steps: int) -> bool:
        """Solves matrix @ out = b in f64. ``start`` is a numpy array to begin with, or None for zeros. Stops when |b -
        matrix @ out| <= atol, or after ``steps`` steps; returns whether the former happened."""
        import cupy
        from cupyx.scipy.sparse.linalg import cg

        # the parameter's name depends on CuPy's version
        relative = "rtol" if "rtol" in signature(cg).parameters else "tol"
        with _arrays(b, out, written=1) as (b_, out_):
            x0, A = None if start is None else cupy.asarray(start), self.copy.astype(np.float64)
            x, left = cg(A, b_.astype(np.float64), x0=x0, **{relative: 0.0}, atol=atol, maxiter=steps)
            out_[...] = x
        return bool(left == 0)
