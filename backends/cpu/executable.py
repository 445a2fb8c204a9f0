"""A loaded kernel and its launch frames: the face that the CPU backend shows to the runtime.

    device = Device(threads=0)                  # one a session; 0: as many as the process may use
    exe = load(kernel, options, cached, keep)   # Executable; what keep gets is a later process's cached
    frame = exe.frame(device)                   # a launch frame, reusable; not to be launched by two threads at once
    frame.set_buffer("x", address)              # each field and ndarray buffer, before the first launch
    frame.set_extents("a", (1024, 8))           # each ndarray buffer
    frame.set_arg("scale", 2.0)                 # each scalar argument
    frame.set_stacks([256, 17])                 # capacities in slots, AdStackAllocas in kernel order
    status = frame.launch()                     # 0, or bits of Status
    frame.ret("ret0")                           # a Python scalar of a "ret" buffer
    fast = frame.entry(params, returns="ret0")  # a builtin that takes the kernel's positional arguments

What holds:

- Everything that was set stays set until it is set again, so a launch sets only what changed. The frame keeps
  addresses, not objects: whoever sets an address keeps its memory alive. Field memory should be 64-byte aligned
  (`memory.zeros`).
- "temp" and "ret" buffers live in the frame and are zero at the start of each launch.
- `launch` runs all tasks in order and returns when they are done. The GIL is released meanwhile, unless the kernel is
  known to take a few microseconds at most. Ctrl-C during a launch on the main thread stops it: `launch` (or the fast
  entry) raises what the signal handler raised, KeyboardInterrupt by default, and the next launch works. Memory that
  the interrupted kernel writes is left as it was at that moment.
- `device.cancel()` from another thread stops the launch in flight, which then returns Status.CANCELLED.
- Denormals are flushed during a launch, in workers too; the caller's floating-point environment is restored.
- Launches on one device must be serialised by the caller (they share the device's adstack heap); launches on several
  devices may overlap: one of them gets the worker threads, the others run on their own thread.
- status has Status.PRINTED when the kernel printed: `take_prints()` returns the printed texts, in order.
- status has Status.ASSERT or Status.OVERFLOW: `failure()` says what failed. After a failed assert the tasks that
  follow do not run; after an overflow they do.

The fast entry. ``params`` has one `Param` for each positional argument: ScalarParam(arg name) takes a Python int or
float for a float dtype, an int in range for an integer dtype, a bool for u1; ArrayParam(buffer name) a numpy array of
exactly the buffer's dtype and ndim, C-contiguous, aligned, and writable where the kernel writes it; ConstParam()
anything. Called with matching arguments it fills the frame (address, extents, scalars), launches and returns None, or
the value of ``returns``; it returns NotImplemented, having set nothing that a slow path would not overwrite and
without launching, where an argument does not match; and Ellipsis where the launch ended with a status other than 0,
which `frame.status` then holds. A call costs about 0.1 us and what the kernel takes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quadrants_lab.backends._gpu.stacks import element_bytes, elements
from quadrants_lab.backends.boxes import fixed_total
from quadrants_lab.backends.cpu import fast, jit, tasks
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.device import Device
from quadrants_lab.backends.disk_cache import Keep, Kept, forget
from quadrants_lab.backends.host import Block
from quadrants_lab.backends.launch import AssertFailed, Overflow, Param, Status
from quadrants_lab.backends.prints import format_prints, value_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import types_of, walk

__all__ = ["AssertFailed", "Executable", "Frame", "Overflow", "Status", "load"]
_WORD = struct.Struct("=q")
LINE = 64  # bytes of a cache line, at which stacks begin
_MOST_IN_LANES = 1 << 26  # bytes of adstacks up to which workers run as many iterations side by side as they have lanes


class Executable:
    """A kernel's machine code. ``object`` is what it was linked from; ``layout`` says where a frame keeps what."""

    def __init__(
        self, kernel: N.Kernel, layout: L.FrameLayout, widths: list[int], obj: bytes, code: jit.Code
    ) -> None:
        self.kernel = kernel
        self.layout = layout
        self.lanes = max([1, *(_lanes(kernel, task, widths[task]) for task in set(layout.task_of.values()))])
        self.object = obj
        self._code = code
        self.entry = code.address[tasks.ENTRY_NAME]
        self.releases_gil = not tasks.brief(kernel)
        self.written = frozenset(s.buffer for s in walk(kernel.body) if isinstance(s, N.Write))
        self._types: dict[int, DType] | None = None

    def frame(self, device: Device) -> Frame:
        return Frame(self, device)

    def types(self) -> dict[int, DType]:
        if self._types is None:
            self._types = types_of(self.kernel.body)
        return self._types


def _lanes(kernel: N.Kernel, number: int, width: int) -> int:
    """How many iterations of a task a worker may have side by side: no more than there are, rounded up to a power of
    two."""
    task = kernel.body[number]
    assert isinstance(task, N.Offload)
    total = 1 if task.kind == "serial" else fixed_total(kernel, task)
    return width if total is None else min(width, 1 << (max(total, 1) - 1).bit_length())


def load(
    kernel: N.Kernel, options: CompileOptions, cached: Kept | None = None, keep: Keep = forget,
    compiled: Callable[[], bytes] | None = None,
) -> Executable:  # fmt: skip
    """``compiled``: makes the object instead of LLVM; it runs one iteration at a time."""
    layout = L.frame_layout(kernel)
    code = None
    if cached is not None and cached.sealed:
        obj, code = cached.content, jit.relink(cached.content, tasks.ENTRY_NAME, jit.kernel_imports())
    widths = tasks.widths_of(kernel) if not compiled and (code is None or layout.stacks) else [0] * len(kernel.body)
    if code is None:
        obj = compiled() if compiled else _object(kernel, options, widths)
        code = jit.link(obj, (tasks.ENTRY_NAME,), jit.kernel_imports())
        keep(obj)
    return Executable(kernel, layout, widths, obj, code)


def _object(kernel: N.Kernel, options: CompileOptions, widths: list[int]) -> bytes:
    lines, _ = tasks.module(kernel, options, widths, *jit.triple_and_layout()).lines()
    return jit.compiled("\n".join(lines), tasks.vectorisable(kernel, widths))


class Frame:
    """See the module's docstring. ``status`` is the last launch's."""

    def __init__(self, exe: Executable, device: Device) -> None:
        self.exe = exe
        self.device = device
        layout = exe.layout
        self._block = Block(layout.size)
        self.address = self._block.address
        b = self._block
        b.set_word(L.DEVICE, device.address)
        b.set_word(L.ENTRY, exe.entry)
        b.set_word(L.RELEASE_GIL, int(exe.releases_gil))
        b.set_word(L.LANES, exe.lanes)
        b.set_word(L.ZERO_AT, layout.zero_at)
        b.set_word(L.ZERO_BYTES, layout.zero_bytes)
        self._view = b.view
        self._launch = device.runtime.launch
        self._caps: tuple[int, ...] | None = None
        self._args = {a.name: (a.type, layout.args[a.name]) for a in exe.kernel.args}

    @property
    def status(self) -> int:
        return self._block.word(L.STATUS)

    def set_buffer(self, name: str, address: int) -> None:
        """Address of the first element of a field or ndarray buffer."""
        _WORD.pack_into(self._view, self.exe.layout.buffers[name], address)

    def set_extents(self, name: str, shape: tuple[int, ...]) -> None:
        """Shape of an ndarray buffer."""
        at = self.exe.layout.extents[name]
        for axis, n in enumerate(shape):
            _WORD.pack_into(self._view, at + axis * L.WORD, n)

    def bind_temp(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Binds an array to an ndarray buffer for the next launch: here it is used where it lies."""
        self.set_buffer(name, array.ctypes.data)
        self.set_extents(name, array.shape)

    def set_arg(self, name: str, value: Any) -> None:
        """A scalar argument; ``value`` must fit its dtype (`struct.error` where an integer does not)."""
        t, at = self._args[name]
        struct.pack_into(_FORMATS[t.name], self._view, at, value)

    def arg(self, name: str) -> Any:
        """The scalar argument of the last launch."""
        t, at = self._args[name]
        return struct.unpack_from(_FORMATS[t.name], self._view, at)[0]

    def set_stacks(self, caps: list[int], budget: int = 0, passing: Mapping[int, int] | None = None) -> None:
        """Capacities in slots; grows the device's heap as needed (MemoryError where it cannot). A worker has as many
        iterations in flight as the code has lanes, or a half, a quarter, ... of them where the heap would pass
        ``budget`` or `_MOST_IN_LANES`, but one at least; ``passing`` changes nothing."""
        key = (budget, *caps)
        if key != self._caps:
            slab, places = self._slab(caps)
            if slab >> 62:  # no word holds it, let alone a heap
                raise MemoryError(f"{slab} bytes a thread are more than can be addressed")
            for stack, cap, (at, adjoints_at) in zip(self.exe.layout.stacks, caps, places, strict=True):
                if stack.count_only:
                    continue
                where = self.exe.layout.stack_at[stack.id]
                self._block.set_word(where + L.STACK_CAPACITY, cap)
                self._block.set_word(where + L.STACK_LAST, max(cap, 1) - 1)
                self._block.set_word(where + L.STACK_AT, at)
                self._block.set_word(where + L.STACK_ADJOINTS_AT, adjoints_at)
            lanes = self._lanes(slab, budget)
            self._block.set_word(L.LANES, lanes)
            self._block.set_word(L.SLAB_BYTES, slab * lanes)
            self._caps = key
        self.device.need_heap(self._block.word(L.SLAB_BYTES) * self.device.threads, budget)

    def _lanes(self, lane: int, budget: int) -> int:
        """Iterations that a worker has room for, a lane taking so many bytes."""
        most = min(budget or _MOST_IN_LANES, _MOST_IN_LANES)
        lanes = self.exe.lanes
        while lanes > 1 and lane * lanes * self.device.threads > most:
            lanes //= 2
        return lanes

    def _slab(self, caps: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
        """Bytes of a worker's slab, which its tasks use one after the other; where in it the slots and the adjoint
        slots of each stack begin."""
        layout, size, at = self.exe.layout, 0, 0
        places: list[tuple[int, int]] = []
        task = -1
        for stack, cap in zip(layout.stacks, caps, strict=True):
            if layout.task_of[stack.id] != task:
                task, at = layout.task_of[stack.id], 0
            slots = 0 if stack.count_only else elements(stack.type, cap) * element_bytes(stack.type)
            nbytes = -(-slots // LINE) * LINE
            places.append((at, at + nbytes))
            at += nbytes * (2 if stack.id in layout.adjoint_stacks else 1)
            size = max(size, at)
        return size, places

    def heap_bytes(self, caps: list[int]) -> int:
        """What a launch with these capacities takes of the heap."""
        slab = self._slab(caps)[0]
        return slab * self._lanes(slab, 0) * self.device.threads

    def least_heap(self, caps: list[int]) -> tuple[int, int]:
        """The fewest iterations in flight that such a launch gets by with, and the bytes that they take."""
        return self.device.threads, self._slab(caps)[0] * self.device.threads

    def stack_bytes(self) -> int:
        return self._block.word(L.SLAB_BYTES) // self._block.word(L.LANES)

    @property
    def stack_threads(self) -> int:
        return self.device.threads * self._block.word(L.LANES)

    @property
    def launch_number(self) -> int:
        """Number of the last launch on its device: what its random draws depend on, besides the device's seed."""
        return self._block.word(L.LAUNCH)

    def replay(self, launch_number: int) -> None:
        """Launches from now on repeat the draws of that launch; 0 ends it."""
        self._block.set_word(L.REPLAY, launch_number)

    def as_graph(self) -> None:
        """Here a launch is one call."""

    def defer_overflow_check(self, report: Callable[[], BaseException]) -> None:
        """Here every launch is waited for."""

    def launch(self) -> int:
        """Runs the kernel; see the module's docstring."""
        return int(self._launch(self.address))

    def ret(self, name: str) -> Any:
        """The value of a "ret" or "temp" buffer after a launch."""
        t = self.exe.kernel.buffers[name].dtype
        return struct.unpack_from(_FORMATS[t.name], self._view, self.exe.layout.buffers[name])[0]

    def failure(self) -> Overflow | AssertFailed | None:
        """What failed first in the last launch."""
        b, layout = self._block, self.exe.layout
        kind, what, count = b.word(L.FAILED), b.word(L.FAIL_WHAT), b.word(L.FAIL_COUNT)
        if not kind:
            return None
        if kind == Status.ASSERT:
            stmt = layout.asserts[what]
            types = self.exe.types()
            raw = [b.word(L.FAIL_VALUES + n * L.WORD) for n in range(count)]
            return AssertFailed(
                stmt, tuple(value_of(types[i], w) for i, w in zip(stmt.args, raw, strict=False))
            )
        stack = layout.stacks[what]
        return Overflow(stack, b.word(layout.stack_at[stack.id] + L.STACK_CAPACITY), count)

    def take_prints(self) -> list[str]:
        """What the last launch printed, a text a print statement that ran, in the order in which they ran."""
        data, lost = self.device.take_prints()
        return format_prints(self.exe.layout.prints, self.exe.types(), data, lost, value_of)

    def entry(self, params: list[Param], returns: str = "") -> Any:
        """The fast entry; see the module's docstring. It keeps the frame alive."""
        return fast.make_entry(self, params, returns)


_FORMATS = {
    "u1": "=?", "i8": "=b", "i16": "=h", "i32": "=i", "i64": "=q", "u8": "=B", "u16": "=H", "u32": "=I", "u64": "=Q",
    "f16": "=e", "f32": "=f", "f64": "=d",
}  # fmt: skip
