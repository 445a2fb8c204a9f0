"""Launches loaded kernels on the CPU, by launch frames (blocks of words from which a launch reads its arguments).
The CPU adds to the contract of `backends.launch`:

- field memory should be 64-byte aligned (`host.zeros`);
- a launch releases the GIL, unless the kernel is known to take a few microseconds at most;
- Ctrl-C during a launch on the main thread stops it: `launch` (or the fast entry) raises what the signal handler
  raised, KeyboardInterrupt by default, memory stays as the kernel left it at that moment, and the next launch works;
- `device.cancel()` from another thread stops the launch in flight, which then returns Status.CANCELLED;
- denormals are flushed during a launch, in workers too, and the caller's floating-point environment is restored;
- launches on several devices may overlap: one of them gets the worker threads, the others run on their own thread.

The fast entry (`Frame.entry`) is a Python builtin; calling it takes about 0.1 us longer than the kernel itself. It
takes for a float dtype a Python int or float, for an integer dtype an int in range, for u1 a bool, and for a buffer a
numpy array with exactly its dtype and ndim, C-contiguous, aligned, and writable if the kernel writes it. Its code is
the C runtime's `qd_call`, which reads a plan of the arguments: a block of words (runtime/entry.c) with the frame, the
number of parameters, the number of arrays that must not overlap, the kind and offset of the returned value, seven words
for each parameter, and the indices of the arrays that must not overlap. Arrays are read through the fixed head of
numpy's PyArrayObject. Every extension module compiled against numpy relies on that head; `_numpy_head_is_known` checks
it once against a real array.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from quadrants_lab.backends.cpu import jit, layout as L
from quadrants_lab.backends.cpu.device import CpuDevice
from quadrants_lab.backends.disk_cache import Keep, forget
from quadrants_lab.backends.host import Block
from quadrants_lab.backends.launch import ArrayParam, ConstParam, Executable, Frame, Param, ScalarParam
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import importing
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import of_kind

# the fields `lanes` and `releases_gil` of an executable, in front of its object code in the disk cache
_KEPT = struct.Struct("=q?")
LINE = 64  # bytes of a cache line; stacks begin at multiples of it
_LAUNCH = L.LAUNCH >> 3
# the most bytes of adstacks that workers use; with larger stacks they run fewer iterations side by side
_MOST_IN_LANES = 1 << 26
_PARAM_WORDS = 7
_CONST, _FLOAT, _INT, _TRUTH, _ARRAY, _NEVER = 0, 1, 2, 3, 4, 5
_RETURNS = {
    "f32": 1, "f64": 2, "i8": 3, "i16": 4, "i32": 5, "i64": 6, "u8": 7, "u16": 7, "u32": 7, "u64": 7, "u1": 8,
}  # fmt: skip
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400


class CpuExecutable(Executable):
    """A kernel's machine code. ``object``: the object code that it was linked from; ``layout``: the byte offsets of the
    arguments in a launch frame, the block of memory that a launch passes to the code; ``lanes``: how many iterations a
    worker runs side by side, at most, in tasks that have adstacks."""

    def __init__(
        self, kernel: N.Kernel, layout: L.FrameLayout, lanes: int, releases_gil: bool, obj: bytes, code: jit.Code
    ) -> None:
        super().__init__(kernel)
        self.layout = layout
        self.lanes = lanes
        self.object = obj
        self._code = code
        self.entry = code.address[jit.ENTRY_NAME]
        self.releases_gil = releases_gil

    def frame(self, device: CpuDevice) -> CpuFrame:
        return CpuFrame(self, device)


def load(
    kernel: N.Kernel, options: CompileOptions, cached: bytes | None = None, keep: Keep = forget,
    compiled: Callable[[], bytes] | None = None,
) -> CpuExecutable:  # fmt: skip
    """Loads a kernel, from the bytes ``cached`` if there are any. These begin with the executable's ``lanes`` and
    ``releases_gil``, so that loading does not import the emitter. ``compiled``: makes the object code instead of LLVM;
    such code runs one iteration at a time."""
    layout = L.frame_layout(kernel)
    if cached is not None:
        obj = cached[_KEPT.size :]
        code = jit.relink(obj, jit.ENTRY_NAME, jit.kernel_imports())
        if code is not None:
            lanes, releases_gil = _KEPT.unpack_from(cached)
            return CpuExecutable(kernel, layout, lanes, releases_gil, obj, code)
    with importing():
        from quadrants_lab.backends.cpu import schedule, tasks

    if compiled:
        lanes, releases_gil, obj = 1, not schedule.brief(kernel), compiled()
    else:
        lowered = tasks.lowered(kernel, options)
        lanes = max([1, *(tasks.lanes_at_once(lowered.tasks[n]) for n in set(layout.task_of.values()))])
        releases_gil = not all(task.brief for task in lowered.tasks)
        obj = tasks.machine_code(lowered, options)
    code = jit.link(obj, (jit.ENTRY_NAME,), jit.kernel_imports())
    keep(_KEPT.pack(lanes, releases_gil) + obj)
    return CpuExecutable(kernel, layout, lanes, releases_gil, obj, code)


class CpuFrame(Frame):
    """See `launch.Frame` and the docstring of this module."""

    exe: CpuExecutable
    device: CpuDevice
    failed_at = L.FAILED

    def __init__(self, exe: CpuExecutable, device: CpuDevice) -> None:
        layout = exe.layout
        b = self._block = Block(layout.size)
        super().__init__(exe, device, layout, b.view)
        self.address = b.address
        b.set_word(L.DEVICE, device.address)
        b.set_word(L.ENTRY, exe.entry)
        b.set_word(L.RELEASE_GIL, int(exe.releases_gil))
        b.set_word(L.LANES, exe.lanes)
        b.set_word(L.ZERO_AT, layout.zero_at)
        b.set_word(L.ZERO_BYTES, layout.zero_bytes)
        self._launch = device.runtime.launch
        self._caps: tuple[int, ...] | None = None

    @property
    def status(self) -> int:
        return self._block.word(L.STATUS)

    def set_extents(self, name: str, shape: tuple[int, ...]) -> None:
        struct.pack_into(f"={len(shape)}q", self.view, self.words.extents[name], *shape)

    def bind_temp(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Binds the array's memory itself: nothing is copied."""
        self.set_buffer(name, array.ctypes.data)
        self.set_extents(name, array.shape)

    def set_stacks(self, caps: list[int], budget: int = 0, pushing: Mapping[int, int] | None = None) -> None:
        """Sizes the adstacks. A worker has as many iterations in flight as the code has lanes. It has half, a quarter,
        ... as many if the heap would otherwise exceed ``budget`` bytes or `_MOST_IN_LANES`. ``pushing`` is ignored."""
        key = (budget, *caps)
        if key != self._caps:
            places, slab = self.words.slab(caps, LINE)
            if slab >> 62:  # the size in bytes would overflow a word of the frame
                raise MemoryError(f"{slab} bytes a thread are more than can be addressed")
            self.place_stacks(caps, places)
            lanes = self._lanes(slab, budget)
            self._block.set_word(L.LANES, lanes)
            self._block.set_word(L.SLAB_BYTES, slab * lanes)
            self._caps = key
        self.device.need_heap(self._block.word(L.SLAB_BYTES) * self.device.threads, budget)

    def _lanes(self, lane: int, budget: int) -> int:
        """How many iterations a worker runs side by side, if each takes ``lane`` bytes of adstacks and the heap may
        take ``budget`` bytes."""
        most = min(budget or _MOST_IN_LANES, _MOST_IN_LANES)
        lanes = self.exe.lanes
        while lanes > 1 and lane * lanes * self.device.threads > most:
            lanes //= 2
        return lanes

    def heap_bytes(self, caps: list[int]) -> int:
        _, slab = self.words.slab(caps, LINE)
        return slab * self._lanes(slab, 0) * self.device.threads

    def least_heap(self, caps: list[int]) -> tuple[int, int]:
        return self.device.threads, self.words.slab(caps, LINE)[1] * self.device.threads

    def stack_bytes(self) -> int:
        return self._block.word(L.SLAB_BYTES) // self._block.word(L.LANES)

    @property
    def stack_threads(self) -> int:
        return self.device.threads * self._block.word(L.LANES)

    @property
    def launch_number(self) -> int:
        number: int = self._block.words[_LAUNCH]
        return number

    @launch_number.setter
    def launch_number(self, number: int) -> None:
        self._block.set_word(L.LAUNCH, number)

    def replay(self, launch_number: int) -> None:
        self._block.set_word(L.REPLAY, launch_number)

    def launch(self) -> int:
        return int(self._launch(self.address))

    def entry(self, params: list[Param], returns: str = "") -> Any:
        """Makes the fast entry, which keeps this frame alive."""
        return make_entry(self, params, returns)


# --- the fast entry ----------------------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


_METH_FASTCALL = 0x80


@cache
def _method(function: int) -> _MethodDef:
    """The method definition of a builtin that calls the C function at this address. The cache keeps the definition
    alive, because CPython holds its address."""
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
    """Makes the builtin; it takes as many positional arguments as there are ``params``."""
    if any(b.wide for b in frame.exe.kernel.buffers.values()):
        return lambda *args: NotImplemented
    arrays = [n for n, p in enumerate(params) if isinstance(p, ArrayParam) and not frame.exe.kernel.aliased]
    if {p.buffer for p in of_kind(params, ArrayParam)}.isdisjoint(frame.exe.written):
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
    """The seven words of a parameter in the plan of `qd_call`. First kind and offset of its value in the frame. Then
    follow, for a float, its size in bytes; for an integer, the least and greatest value; for an array, ndim (and in the
    high half the size of an element in bytes), the flags that it must have, the addresses of its dtype and of its type,
    and the offset of its extents."""
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
