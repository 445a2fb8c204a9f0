"""The fast entry of a frame: a builtin function whose code is the runtime's `qd_call`, with a plan of its arguments.

The plan is a block of words (runtime/entry.c): frame, number of parameters, number of arrays that must not overlap,
kind and offset of the returned value, seven words for each parameter, and the numbers of these arrays. Arrays are read
through the fixed head of numpy's PyArrayObject, on which every extension module that is compiled against numpy relies;
`_numpy_head_is_known` checks it once against a real array.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends.host import Block
from quadrants_lab.backends.launch import ArrayParam, ConstParam, Param, ScalarParam
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.executable import CpuFrame


_PARAM_WORDS = 7
_CONST, _FLOAT, _INT, _TRUTH, _ARRAY, _NEVER = 0, 1, 2, 3, 4, 5
_RETURNS = {
    "f32": 1, "f64": 2, "i8": 3, "i16": 4, "i32": 5, "i64": 6, "u8": 7, "u16": 7, "u32": 7, "u64": 7, "u1": 8,
}  # fmt: skip
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


_METH_FASTCALL = 0x80


@cache
def _method(function: int) -> _MethodDef:
    """The definition, which the cache keeps alive because CPython keeps its address."""
    return _MethodDef(b"launch", function, _METH_FASTCALL, None)


@cache
def _numpy_head_is_known() -> bool:
    if sys.implementation.name != "cpython":
        return False
    a = np.zeros((3, 5), np.float32)
    at = id(a) + object.__basicsize__
    data, ndim, dims = (ctypes.c_void_p.from_address(at).value, ctypes.c_int.from_address(at + 8).value,
                        ctypes.c_void_p.from_address(at + 16).value)  # fmt: skip
    if data != a.ctypes.data or ndim != 2 or not dims:
        return False
    extents = (ctypes.c_int64 * 2).from_address(dims)
    descr = ctypes.c_void_p.from_address(at + 40).value
    flags = ctypes.c_int.from_address(at + 48).value
    return tuple(extents) == (3, 5) and descr == id(a.dtype) and flags & a.flags.num == a.flags.num


def make_entry(frame: CpuFrame, params: list[Param], returns: str) -> Any:
    """The builtin; it takes as many positional arguments as there are params."""
    if any(b.wide for b in frame.exe.kernel.buffers.values()):
        return lambda *args: NotImplemented
    arrays = [n for n, p in enumerate(params) if isinstance(p, ArrayParam) and not frame.exe.kernel.aliased]
    if {p.buffer for p in params if isinstance(p, ArrayParam)}.isdisjoint(frame.exe.written):
        arrays = []
    words = [frame.address, len(params), len(arrays), 0, 0]
    if returns:
        words[3:] = _RETURNS[frame.exe.kernel.buffers[returns].dtype.name], frame.exe.layout.buffers[returns]
    for p in params:
        words += [*_words(frame, p), *[0] * _PARAM_WORDS][:_PARAM_WORDS]
    words += arrays
    plan = Block(8 * len(words))
    for k, word in enumerate(words):
        plan.set_word(8 * k, word)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    method = _method(frame.device.runtime.call)
    return new(ctypes.addressof(method), (plan.address, plan, frame), None)


def _words(frame: CpuFrame, p: Param) -> tuple[int, ...]:
    """The words of a parameter: kind, offset of its value in the frame, then for a float its bytes, for an integer the
    least and greatest value, for an array ndim (and in the high half the bytes of an element), the flags that it must
    have, the addresses of its dtype and of its type, and the offset of its extents."""
    layout = frame.exe.layout
    if isinstance(p, ConstParam):
        return (_CONST,)
    if isinstance(p, ScalarParam):
        t = next(a.type for a in frame.exe.kernel.args if a.name == p.arg)
        return _scalar_words(t, layout.args[p.arg])
    b = frame.exe.kernel.buffers[p.buffer]
    if not _numpy_head_is_known():
        return (_NEVER,)
    dtype = np.dtype(b.dtype.numpy)
    flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if b.name in frame.exe.written else 0)
    extents = layout.extents[b.name]
    shape = b.ndim | dtype.itemsize << 32
    return (_ARRAY, layout.buffers[b.name], shape, flags, id(dtype), id(np.ndarray), extents)


def _scalar_words(t: DType, at: int) -> tuple[int, ...]:
    if t.kind == "b":
        return (_TRUTH, at)
    if t.is_float:
        return (_FLOAT, at, t.nbytes) if t.bits > 16 else (_NEVER,)
    low, high = t.limits
    return (_INT, at, low, min(high, 2**63 - 1))
