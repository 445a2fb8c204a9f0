"""Emits reads of the launch frame, which holds a launch's arguments. A function loads what it needs once, at its
start."""

from collections.abc import Callable

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import UNSIGNED, Function, once
from quadrants_lab.backends.layout import WORD
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u32, u64


class FrameReader:
    """Values and pointers from the frame, whose address is the push constant; each is computed once in a function."""

    def __init__(self, fn: Function, kernel: N.Kernel, layout: L.GpuLayout) -> None:
        self.fn = fn
        self.m = fn.module
        self.kernel = kernel
        self.layout = layout
        self._made: dict[object, int] = {}

    def kept(self, key: object, make: Callable[[], int]) -> int:
        """The result of ``make`` in the first call with this key; its code goes to the start of the function."""
        known = self._made.get(key)
        if known is None:
            with self.fn.at_start():
                known = self._made[key] = make()
        return known

    @once
    def address(self) -> int:
        """The address of the frame, a u64."""
        m = self.m
        block, pointer = m.push_block(), m.pointer("PushConstant", m.type(u64))
        return self.fn.let("Load", m.type(u64), self.fn.let("AccessChain", pointer, block, m.const(u32, 0)))

    def pointer_to(self, t: DType, address: int, width: int = 1) -> int:
        return self.fn.let("ConvertUToPtr", self.m.memory_pointer(t, width), address)

    @once
    def _base(self, t: DType) -> int:
        return self.pointer_to(t, self.address())

    def at(self, offset: int, t: DType) -> int:
        """A pointer to the word at ``offset``, as dtype ``t``."""
        return self._at(offset, _without_sign(t))

    @once
    def _at(self, offset: int, t: DType) -> int:
        base, place = self._base(t), self.m.const(u32, offset // t.nbytes)
        return self.fn.let("PtrAccessChain", self.m.memory_pointer(t), base, place)

    def word(self, offset: int, t: DType = u64) -> int:
        """The value at ``offset``."""
        return self._word(offset, _without_sign(t))

    @once
    def _word(self, offset: int, t: DType) -> int:
        pointer = self._at(offset, t)
        return self.fn.let("Load", self.m.type(t), pointer, C.ALIGNED, t.nbytes)

    @once
    def builtin(self, name: str) -> int:
        """The x component of a built-in input, a u32."""
        vector = self.fn.let("Load", self.m.vector(self.m.type(u32), 3), self.m.builtin(name))
        return self.fn.let("CompositeExtract", self.m.type(u32), vector, 0)

    def arg(self, name: str, t: DType) -> int:
        """The scalar argument; a u1 is stored as 32 bits."""
        at = self.layout.frame.args[name]
        return self.word(at, t) if t is not u1 else self._truth(at)

    @once
    def _truth(self, at: int) -> int:
        return self.fn.let("INotEqual", self.m.bool, self.word(at, u32), self.m.const(u32, 0))

    def extent(self, buffer: str, axis: int) -> int:
        """The number of elements of an ndarray along an axis, a u64."""
        return self.word(self.layout.frame.extents[buffer] + axis * WORD)

    def buffer(self, name: str) -> int:
        """A pointer to the buffer's first element, whose type in memory is `stored`."""
        b = self.kernel.buffers[name]
        of = self.kernel.buffers[b.of or name]
        at = self.layout.frame.buffers[of.name]
        return self.at(at, L.stored(b)) if of.in_frame else self._pointer(name, at)

    @once
    def _pointer(self, name: str, at: int) -> int:
        address = self.word(at)
        return self.pointer_to(L.stored(self.kernel.buffers[name]), address)


def _without_sign(t: DType) -> DType:
    return t if t.is_float or t is u1 else UNSIGNED[t.bits]
