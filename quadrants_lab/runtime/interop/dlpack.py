"""Passes arrays of other libraries on the session's own GPU to kernels, without a copy and in the order of the
other library's stream.

Each launch waits, on the device, for the work in the current stream of the library that owns the array, and that stream
waits for the launch. The host does not wait.
"""

from __future__ import annotations

import ctypes as C
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants_lab.ir.types import from_numpy
from quadrants_lab.runtime.memory.memory import HostMirrored, Memory
from quadrants_lab.runtime.memory.refusals import COPY, no_dtype, refusal
from quadrants_lab.runtime.session import Session

_CUDA = 2  # DLPack's kDLCUDA
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}  # DLPack's type code -> numpy's kind


class Imported(HostMirrored):
    """Memory of another library on the session's device. The library may write to it at any time, so the host's copy is
    never known to be up to date, and `flush` uploads what the host has written to the copy."""

    __slots__ = ()
    imported = True

    @classmethod
    def at(cls, session: Session, on_device: Any, foreign: Any) -> Imported:
        """Makes a memory object over device memory of another library."""
        dtype = from_numpy(on_device.dtype)
        assert dtype is not None
        made = cls(session, dtype)
        made.on_device = made.operand = on_device
        made.address, made.foreign = on_device.address, foreign
        session.holders.add(made)
        return made

    def _is_current(self) -> bool:
        return self._host_newer

    def flush(self) -> None:
        self.upload()
        super().flush()


def device_of(session: Session) -> Any:
    """The device of the session. If `can_import` is true, the device has ``lend``, ``wait_stream``, ``signal_stream``
    and ``stream_number``."""
    return session.device


def can_import(session: Session) -> bool:
    """Whether the session's device can use the memory of other libraries on it."""
    return session.backend.CAPABILITIES.dlpack == _CUDA


def is_on_device(value: Any) -> bool:
    """Whether ``value`` exports memory of an NVIDIA GPU."""
    # looked up in the instance: JAX's class has the attribute for arrays on the host, too
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(type(value), "__dlpack_device__") and value.__dlpack_device__()[0] == _CUDA


def of_tensor(tensor: Any, session: Session, foreign: Any, what: str) -> Memory:
    """A memory object over a contiguous torch tensor on the GPU; raises ArgumentError if it is on another GPU."""
    try:
        dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
    except TypeError:
        raise no_dtype(what, tensor.dtype, "a tensor") from None
    keep = tensor.untyped_storage()
    return _imported(
        session, tensor.data_ptr(), tuple(tensor.shape), dtype, keep, stream_of(tensor), foreign, what
    )


def stream_of(tensor: Any) -> int:
    """Torch's current stream on the device of a tensor."""
    torch: Any = sys.modules["torch"]
    return int(torch.cuda.current_stream(tensor.device).cuda_stream)


def of_array(value: Any, session: Session, what: str) -> Memory:
    """A memory object over an array for which `is_on_device` is true; raises ArgumentError if kernels cannot use it as
    it is."""
    what = f"{what}, of type {type(value).__name__},"
    if not can_import(session):
        flaw = f"is in memory of a GPU, which kernels of this session on {session.settings.arch} do not see"
        raise refusal("QL2052", what, "pass a copy on the CPU, or call qd.init(arch=qd.cuda)", flaw=flaw)
    if not hasattr(value, "__cuda_array_interface__"):
        return _of_capsule(value, session, what)
    about = value.__cuda_array_interface__
    dtype, shape = np.dtype(about["typestr"]), tuple(about["shape"])
    if about.get("mask") is not None:
        raise refusal("QL2043", what, "the data without it", flaw="an array with a mask")
    address, read_only = about["data"]
    _must_be_contiguous(shape, about.get("strides"), dtype.itemsize, what)
    memory = _imported(session, address, shape, dtype, value, about.get("stream") or 0, True, what)
    memory.on_device.read_only = read_only
    return memory


def of_buffer(value: Any, session: Session, stream: int, foreign: Any) -> Memory:
    """Memory over a C-contiguous buffer of JAX on the session's GPU, which JAX uses in ``stream``. No stream waits for
    another one here."""
    about = value.__cuda_array_interface__
    address, read_only = about["data"]
    there = device_of(session).lend(address, tuple(about["shape"]), np.dtype(about["typestr"]), value)
    there.read_only, there.stream = read_only, stream
    return Imported.at(session, there, foreign)


def wait_stream(memory: Memory, stream: int | None) -> None:
    """Makes all later launches wait for the work in a stream."""
    memory.on_device.stream = stream
    if stream is not None:
        with memory.session.lock:
            device_of(memory.session).wait_stream(stream)


def signal_stream(memory: Memory) -> None:
    """Makes the stream of the memory's owner wait for the launches so far; if the stream is unknown, the host waits."""
    if memory.imported:
        stream = memory.on_device.stream
        with memory.session.lock:
            device = device_of(memory.session)
            device.finish() if stream is None else device.signal_stream(stream)


def must_be_writable(memory: Memory | None, name: str, kernel: str) -> None:
    """Raises ArgumentError if the owner exports the memory as read-only."""
    if memory is not None and memory.imported and memory.on_device.read_only:
        raise refusal("QL2048", f"argument {name!r}", kernel=kernel, kind="array")


def _imported(
    session: Session, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], keep: Any, stream: int | None,
    foreign: Any, what: str,
) -> Memory:  # fmt: skip
    if from_numpy(dtype) is None:
        raise no_dtype(what, dtype)
    try:
        there = device_of(session).lend(address, shape, dtype, keep)
    except ValueError as e:
        cure = "copy it to the device of the session"
        raise refusal("QL2052", what, cure, flaw=f"cannot be used: {e}") from None
    memory = Imported.at(session, there, foreign)
    wait_stream(memory, stream)
    return memory


def _must_be_contiguous(shape: Sequence[int], strides: Sequence[int] | None, unit: int, what: str) -> None:
    """Raises an error unless the strides are those of row-major memory without gaps. ``unit`` is the stride of adjacent
    elements, in the unit of ``strides``."""
    if strides is None or math.prod(shape) == 0:
        return
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != unit:
            flaw = f"an array that is not C-contiguous: shape {tuple(shape)}, strides {tuple(strides)}"
            raise refusal("QL2043", what, "a contiguous copy" + COPY, flaw=flaw)
        unit *= n


# --- DLPack -----------------------------------------------------------------------------------------------------


class _Tensor(C.Structure):
    """DLPack's DLTensor, the first member of a DLManagedTensor."""

    _fields_ = (
        ("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32), ("ndim", C.c_int32),
        ("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)), ("byte_offset", C.c_uint64),
    )  # fmt: skip


def _of_capsule(value: Any, session: Session, what: str) -> Memory:
    """Memory over what an object exports by DLPack. The export makes our stream wait for the exporter's work on it."""
    try:
        capsule = value.__dlpack__(stream=device_of(session).stream_number)
    except Exception as e:  # other libraries may raise anything
        raise refusal("QL2052", what, flaw=f"does not share its memory: {e}") from None
    pointer = C.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = C.c_void_p, (C.py_object, C.c_char_p)
    t = _Tensor.from_address(pointer(capsule, b"dltensor"))
    if t.code not in _KINDS or t.lanes != 1:
        raise no_dtype(what, f"DLPack's dtype {t.code, t.bits, t.lanes}")
    kind = _KINDS[t.code]
    dtype = np.dtype(np.bool_) if kind == "b" else np.dtype(f"{kind}{t.bits // 8}")
    shape = tuple(t.shape[n] for n in range(t.ndim))
    _must_be_contiguous(shape, [t.strides[n] for n in range(t.ndim)] if t.strides else None, 1, what)
    return _imported(session, (t.data or 0) + t.byte_offset, shape, dtype, (value, capsule), None, True, what)
