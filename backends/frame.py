"""Launch frames and loaded kernels, as far as all devices have them alike: the words that are set by name, and what a
launch left in them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from quadrants_lab.backends import forks
from quadrants_lab.backends import layout as L
from quadrants_lab.backends.launch import AssertFailed, Overflow, Status
from quadrants_lab.backends.prints import format_prints, value_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import types_of, walk

_WORD = struct.Struct("=Q")


class LoadedKernel:
    """See `launch.Executable`. ``types``: of all values of the kernel, by id."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.written = frozenset(s.buffer for s in walk(kernel.body) if isinstance(s, N.Write))

    @forks.lazy
    def types(self) -> dict[int, DType]:
        return types_of(self.kernel.body)


class FrameWords:
    """See `launch.Frame`. ``view``: what programs see of the frame, or what is copied to them and back around a launch;
    ``words``: what lies where in it. ``forms``: a scalar of each dtype, as `struct` has it; ``failed_at``: where the
    words of a failure begin."""

    forms: ClassVar[Mapping[str, str]] = {
        "u1": "=?", "i8": "=b", "i16": "=h", "i32": "=i", "i64": "=q", "u8": "=B", "u16": "=H", "u32": "=I",
        "u64": "=Q", "f16": "=e", "f32": "=f", "f64": "=d",
    }  # fmt: skip
    failed_at: ClassVar[int]

    def __init__(self, exe: Any, device: Any, words: L.FrameLayout, view: memoryview) -> None:
        self.exe = exe
        self.device = device
        self.words = words
        self.view = view
        self._args = {a.name: (struct.Struct(self.forms[a.type.name]), words.args[a.name]) for a in exe.kernel.args}

    def set_buffer(self, name: str, address: int) -> None:
        _WORD.pack_into(self.view, self.words.buffers[name], address)

    def set_arg(self, name: str, value: Any) -> None:
        """``value`` must fit the argument's dtype (`struct.error` where an integer does not)."""
        form, at = self._args[name]
        form.pack_into(self.view, at, value)

    def arg(self, name: str) -> Any:
        form, at = self._args[name]
        return form.unpack_from(self.view, at)[0]

    def place_stack(self, stack: N.AdStackAlloca, capacity: int, at: int) -> None:
        """Where the stack's slots begin in the heap; nothing, where pushes are only counted."""
        if not stack.count_only:
            first = self.words.stack_at[stack.id]
            _WORD.pack_into(self.view, first + L.STACK_CAPACITY, capacity)
            _WORD.pack_into(self.view, first + L.STACK_LAST, max(capacity, 1) - 1)
            _WORD.pack_into(self.view, first + L.STACK_AT, at)

    def ret(self, name: str) -> Any:
        t = self.exe.kernel.buffers[name].dtype
        value = struct.unpack_from(self.forms[t.name], self.view, self.words.buffers[name])[0]
        return bool(value) if t.kind == "b" else value

    def failure(self) -> Overflow | AssertFailed | None:
        """What failed first in the last launch."""
        at = self.failed_at
        kind, what, count = struct.unpack_from("=QQQ", self.view, at)
        if not kind:
            return None
        if kind == Status.ASSERT:
            stmt = self.words.asserts[what]
            raw = struct.unpack_from(f"={count}q", self.view, at + 3 * L.WORD)
            values = (value_of(self.exe.types[i], w) for i, w in zip(stmt.args, raw, strict=False))
            return AssertFailed(stmt, tuple(values))
        stack = self.words.stacks[what]
        capacity = _WORD.unpack_from(self.view, self.words.stack_at[stack.id] + L.STACK_CAPACITY)[0]
        return Overflow(stack, capacity, count)

    def take_prints(self) -> list[str]:
        """What kernels printed since the last call, a text a print statement that ran; threads mix as they ran."""
        data, lost = self.device.take_prints()
        return format_prints(self.words.prints, self.exe.types, data, lost)
