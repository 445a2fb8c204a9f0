"""Sorts by CuPy of memory on an NVIDIA GPU, where CuPy is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from quadrants_lab.runtime.interop.dlpack import can_import, device_of
from quadrants_lab.runtime.memory.memory import HostMirrored, Memory
from quadrants_lab.runtime.observe.observers import OBSERVERS


def sort(keys: Memory, values: Memory | None) -> bool:
    """Sorts the keys along their one axis, and the values with them, stably. Floats get the total order of IEEE 754: as
    signed integers, their bits have this order once the lower bits of negative numbers are inverted. Returns False,
    without having written, if CuPy is missing or somebody watches what is written."""
    both = [keys] if values is None else [keys, values]
    watched = not keys.session.unobserved or OBSERVERS.get()
    if watched or not can_import(keys.session) or find_spec("cupy") is None:
        return False
    if not all(isinstance(m, HostMirrored) and not (m.foreign or m.watchers or m.recorded) for m in both):
        return False
    import cupy

    device = device_of(keys.session)
    with keys.session.lock, cupy.cuda.Device(device.driver.ordinal), cupy.cuda.ExternalStream(device.stream_number):
        arrays = [_array(m, cupy) for m in both]
        bits = arrays[0]
        if keys.dtype.is_float:
            bits = bits.view(np.int64 if keys.dtype.bits == 64 else np.int32)
            _invert(bits)
        if values is None:
            bits.sort()
        else:
            order = cupy.argsort(bits)
            for array in (bits, arrays[1]):
                array[...] = array[order]
        if keys.dtype.is_float:
            _invert(bits)
        device.running = True
        for m in both:
            m.filled_on_device()  # type: ignore[attr-defined]  # they are HostMirrored
    return True


def _array(memory: Any, cupy: Any) -> Any:
    """CuPy's array over memory of the session, after the host's writes."""
    memory.upload()
    there = memory.on_device
    owned = cupy.cuda.UnownedMemory(there.address, there.nbytes, there)
    return cupy.ndarray(there.shape, there.dtype, cupy.cuda.MemoryPointer(owned, 0))


def _invert(bits: Any) -> None:
    """Inverts the bits of negative numbers but for the sign. Twice is nothing."""
    import cupy

    invert = cupy.ElementwiseKernel("int32 shift, T most", "T x", "x ^= (x >> shift) & most", "quadrants_lab_invert")
    invert(8 * bits.itemsize - 1, bits.dtype.type(np.iinfo(bits.dtype).max), bits)
