"""Emits accesses to adstack slots in the heap, whose order is [block of threads][slot][chunk][thread of the block].

The threads of a block access neighbouring addresses at the same time, and one thread accesses nearby addresses one
after the other. A chunk (`_gpu.stacks.Chunk`) has up to four values of a slot, which one vector access moves. Stores
are collected until the last value is known, and a load reads all values.
"""

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.stacks import Chunk
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.backends.layout import STACK_AT, STACK_LAST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32, u64


def load(b: Body, s: N.Load, buffer: N.Buffer) -> None:
    fn, m, t, chunk = b.fn, b.m, buffer.dtype, b.chunks[s.buffer]
    width, key = len(chunk.buffers), (chunk.buffers[0], s.index[0])
    if key not in b.loaded:
        b.loaded[key] = fn.let("Load", m.wide(t, width), _element(b, s, chunk, t), C.ALIGNED, t.nbytes * width)
    value = b.loaded[key]
    if width > 1:
        value = fn.let("CompositeExtract", m.type(t), value, chunk.buffers.index(s.buffer))
    b.define(s.id, s.type, value)


def store(b: Body, s: N.Store, buffer: N.Buffer) -> None:
    fn, m, t, chunk = b.fn, b.m, buffer.dtype, b.chunks[s.buffer]
    b.pending.append(b.values[s.value])
    if s.buffer != chunk.buffers[-1]:
        return
    width = len(chunk.buffers)
    value = fn.let("CompositeConstruct", m.wide(t, width), *b.pending) if width > 1 else b.pending[0]
    fn.put("Store", _element(b, s, chunk, t), value, C.ALIGNED, t.nbytes * width)
    b.pending, b.loaded = [], {}


def _element(b: Body, s: N.Access, chunk: Chunk, t: DType) -> int:
    """A pointer to this thread's chunk in the slot that ``s`` accesses."""
    key = (chunk.buffers, s.index[0])
    if key not in b.offsets:
        b.offsets[key] = b.fn.let("PtrAccessChain", pointer(b, chunk, t), first(b, chunk, t), b.values[s.index[0]])
    return b.offsets[key]


def pointer(b: Body, chunk: Chunk, t: DType) -> int:
    """The type of a pointer to a chunk; its stride is the distance between slots."""
    return b.m.memory_pointer(t, len(chunk.buffers), b.m.target.block * chunk.count)


def first(b: Body, chunk: Chunk, t: DType) -> int:
    """A pointer to the chunk in this thread's first slot, computed once, at the function's start."""
    fn, m, width = b.fn, b.m, len(chunk.buffers)

    def make() -> int:
        at = b.frame.word(b.frame.layout.frame.buffers[chunk.first])
        start = b.frame.pointer_to(t, fn.let("IAdd", m.type(u64), b.frame.word(L.HEAP), at), width)
        to = pointer(b, chunk, t) if chunk.count == 1 else m.memory_pointer(t, width)
        return fn.let("PtrAccessChain", to, start, _before(b, chunk))

    mine = b.frame.kept((chunk.first, "slots"), make)
    if chunk.count == 1:
        return mine
    place = m.const(u32, chunk.number * m.target.block)
    return b.frame.kept(("chunk", *chunk.buffers), lambda: fn.let("PtrAccessChain", pointer(b, chunk, t), mine, place))


def _before(b: Body, chunk: Chunk) -> int:
    """How many chunks lie in the heap before this thread's first one."""
    fn, frame, word, block = b.fn, b.frame, b.m.type(u32), b.m.target.block
    last = frame.word(frame.layout.frame.buffers[chunk.lead] - STACK_AT + STACK_LAST, u32)
    if frame.kernel.buffers[chunk.first].role == "flags":
        before = last
        last = frame.kept(("words", before), lambda: fn.let("ShiftRightLogical", word, before, b.m.const(u32, 5)))
    slots = frame.kept(("slots", last), lambda: fn.let("IAdd", word, last, b.m.const(u32, 1)))
    within = frame.kept("in block", lambda: fn.let("BitwiseAnd", word, b.lane, b.m.const(u32, block - 1)))
    blocks = frame.kept("blocks", lambda: fn.let("BitwiseAnd", word, b.lane, b.m.const(u32, -block)))

    def make() -> int:
        before = fn.let("IMul", word, blocks, slots)
        if chunk.count > 1:
            before = fn.let("IMul", word, before, b.m.const(u32, chunk.count))
        return fn.let("IAdd", word, before, within)

    return frame.kept(("before", slots, chunk.count), make)
