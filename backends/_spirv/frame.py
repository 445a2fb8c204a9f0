"""Reading the launch frame: everything that a program needs from it is read once, when the function starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends.layout import WORD
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u8, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function


class FrameReader:
    """Values and pointers from the frame whose address is the push constant; each is made once a function."""

    def __init__(self, fn: Function, kernel: N.Kernel, layout: L.GpuLayout) -> None:
        self.fn = fn
        self.m = fn.module
        self.kernel = kernel
        self.layout = layout
        self._made: dict[object, int] = {}

    def once(self, key: object, make: Callable[[], int]) -> int:
        """What ``make`` emits at the start of the function, once."""
        known = self._made.get(key)
        if known is None:
            with self.fn.at_start():
                known = self._made[key] = make()
        return known

    def address(self) -> int:
        """Address of the frame."""

        def make() -> int:
            m = self.m
            block = m.push_block()
            pointer = m.pointer("PushConstant", m.type(u64))
            return self.fn.let(
                "Load", m.type(u64), self.fn.let("AccessChain", pointer, block, m.const(u32, 0))
            )

        return self.once("frame", make)

    def pointer_to(self, t: DType, address: int, width: int = 1) -> int:
        return self.fn.let("ConvertUToPtr", self.m.memory_pointer(t, width), address)

    def at(self, offset: int, t: DType) -> int:
        """Pointer to the word at ``offset``, as dtype ``t``."""
        base = self.once(("as", t.bits, t.is_float), lambda: self.pointer_to(t, self.address()))
        place = self.m.const(u32, offset // t.nbytes)
        return self.once(
            ("at", offset, t.bits, t.is_float),
            lambda: self.fn.let("PtrAccessChain", self.m.memory_pointer(t), base, place),
        )

    def word(self, offset: int, t: DType = u64) -> int:
        """The value at ``offset``."""
        pointer = self.at(offset, t)
        return self.once(
            ("word", offset, t.bits, t.is_float),
            lambda: self.fn.let("Load", self.m.type(t), pointer, C.ALIGNED, t.nbytes),
        )

    def builtin(self, name: str) -> int:
        """The first of three u32 that the device tells."""

        def make() -> int:
            vector = self.fn.let("Load", self.m.vector(self.m.type(u32), 3), self.m.builtin(name))
            return self.fn.let("CompositeExtract", self.m.type(u32), vector, 0)

        return self.once(name, make)

    def arg(self, name: str, t: DType) -> int:
        at = self.layout.frame.args[name]
        if t is not u1:
            return self.word(at, t)
        raw = self.word(at, u32)
        return self.once(
            ("truth", name), lambda: self.fn.let("INotEqual", self.m.bool, raw, self.m.const(u32, 0))
        )

    def extent(self, buffer: str, axis: int) -> int:
        """Extent of an ndarray along an axis, a u64."""
        return self.word(self.layout.frame.extents[buffer] + axis * WORD)

    def buffer(self, name: str) -> int:
        """Pointer to a buffer's first element, as `stored` has it."""
        b = self.kernel.buffers[name]
        at = self.layout.frame.buffers[b.of or name]
        if self.kernel.buffers[b.of or name].in_frame:
            return self.at(at, stored(b))
        address = self.word(at)
        return self.once(("pointer", name), lambda: self.pointer_to(stored(b), address))


def stored(b: N.Buffer) -> DType:
    """The dtype of an element in memory: a u1 takes a byte, in the frame 32 bits."""
    if b.dtype is not u1:
        return b.dtype
    return u32 if b.kind in ("temp", "ret") else u8
