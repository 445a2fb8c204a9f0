"""Slots of adstacks: where a thread's lie in the heap, and the accesses that move what lies beside each other.

They lie as [block of threads][slot][element][thread of the block], so that what neighbours touch at once is side by
side, and what one thread touches in a row is near. An element is what one access moves: up to four values of a slot. A
store of them is made when the last value is there, and a load reads all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.stacks import Chunk
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends.layout import STACK_AT, STACK_LAST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body


def load(b: Body, s: N.Load, buffer: N.Buffer) -> None:
    fn, m, t, chunk = b.fn, b.m, buffer.dtype, b.chunks[s.buffer]
    width, key = len(chunk.buffers), (chunk.buffers[0], s.index[0])
    if key not in b.whole:
        kept = _kept(b, chunk, t)
        whole = fn.let("Load", m.wide(*kept), _element(b, s, chunk, t), C.ALIGNED, t.nbytes * width)
        b.whole[key] = whole if kept[0] is t else fn.let("Bitcast", m.wide(t, width), whole)
    whole = b.whole[key]
    if width > 1:
        whole = fn.let("CompositeExtract", m.type(t), whole, chunk.buffers.index(s.buffer))
    b.define(s.id, s.type, whole)


def store(b: Body, s: N.Store, buffer: N.Buffer) -> None:
    fn, m, t, chunk = b.fn, b.m, buffer.dtype, b.chunks[s.buffer]
    b.row.append(b.values[s.value])
    if s.buffer != chunk.buffers[-1]:
        return
    width, kept = len(chunk.buffers), _kept(b, chunk, t)
    whole = fn.let("CompositeConstruct", m.wide(t, width), *b.row) if width > 1 else b.row[0]
    if kept[0] is not t:
        whole = fn.let("Bitcast", m.wide(*kept), whole)
    fn.put("Store", _element(b, s, chunk, t), whole, C.ALIGNED, t.nbytes * width)
    b.row, b.whole = [], {}


def _kept(b: Body, chunk: Chunk, t: DType) -> tuple[DType, int]:
    """What an element is in memory: so many values of a dtype."""
    width = len(chunk.buffers)
    whole = t.nbytes * width
    return (u64, whole // 8) if b.m.target.pairs and t.bits < 64 and whole % 8 == 0 else (t, width)


def _element(b: Body, s: N.Access, chunk: Chunk, t: DType) -> int:
    """Pointer to this thread's element of the slot."""
    key = (chunk.buffers, s.index[0])
    if key not in b.offsets:
        b.offsets[key] = b.fn.let("PtrAccessChain", pointer(b, chunk, t), first(b, chunk, t), b.values[s.index[0]])
    return b.offsets[key]


def pointer(b: Body, chunk: Chunk, t: DType) -> int:
    """Type of a pointer to an element, which steps by slots."""
    return b.m.memory_pointer(*_kept(b, chunk, t), b.m.target.block * chunk.count)


def first(b: Body, chunk: Chunk, t: DType) -> int:
    """Pointer to the element of this thread's first slot, made once, at the function's start."""
    fn, m, kept = b.fn, b.m, _kept(b, chunk, t)
    if chunk.buffers in b.slots:
        return b.slots[chunk.buffers]

    def make() -> int:
        at = b.frame.word(b.frame.layout.frame.buffers[chunk.first])
        start = b.frame.pointer_to(kept[0], fn.let("IAdd", m.type(u64), b.frame.word(L.HEAP), at), kept[1])
        to = pointer(b, chunk, t) if chunk.count == 1 else m.memory_pointer(*kept)
        return fn.let("PtrAccessChain", to, start, _before(b, chunk))

    mine = b.frame.once((chunk.first, "slots"), make)
    if chunk.count == 1:
        return mine
    place = m.const(u32, chunk.number * m.target.block)
    return b.frame.once(chunk.buffers, lambda: fn.let("PtrAccessChain", pointer(b, chunk, t), mine, place))


def _before(b: Body, chunk: Chunk) -> int:
    """How many elements there are before this thread's first."""
    fn, frame, word, block = b.fn, b.frame, b.m.type(u32), b.m.target.block
    last = frame.word(frame.layout.frame.buffers[chunk.lead] - STACK_AT + STACK_LAST, u32)
    if frame.kernel.buffers[chunk.first].role == "flags":
        before = last
        last = frame.once(("words", before), lambda: fn.let("ShiftRightLogical", word, before, b.m.const(u32, 5)))
    slots = frame.once(("slots", last), lambda: fn.let("IAdd", word, last, b.m.const(u32, 1)))
    within = frame.once("in block", lambda: fn.let("BitwiseAnd", word, b.lane, b.m.const(u32, block - 1)))
    blocks = frame.once("blocks", lambda: fn.let("BitwiseAnd", word, b.lane, b.m.const(u32, -block)))

    def make() -> int:
        before = fn.let("IMul", word, blocks, slots)
        if chunk.count > 1:
            before = fn.let("IMul", word, before, b.m.const(u32, chunk.count))
        return fn.let("IAdd", word, before, within)

    return frame.once(("before", slots, chunk.count), make)
