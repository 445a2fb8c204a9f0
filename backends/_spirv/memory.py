"""Memory: pointers, loads, stores, atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._spirv import control, heap
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.backends._spirv.assembler import UNSIGNED
from quadrants_lab.backends._spirv.frame import stored
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, i32, i64, u1, u32, u64

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.body import Body

# --- pointers --------------------------------------------------------------------------------------------------


def element(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> int:
    """Pointer to an element. Indices are taken to be in range: what is not is an error that only checks can see."""
    base = b.frame.buffer(buffer.name)
    if not index:
        return base
    key = (buffer.shape if buffer.shape is not None else buffer.name, index)
    offset = b.offsets.get(key)
    if offset is None:
        offset = b.offsets[key] = _offset(b, buffer, index)
    return b.fn.let("PtrAccessChain", b.m.memory_pointer(stored(buffer)), base, offset)


def _offset(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> int:
    """Row-major element offset: in 32 bits where the buffer is known to need no more."""
    shape, count = buffer.shape, 1
    for n in shape or ():
        count *= n
    t = i32 if shape is not None and count < 1 << 31 else i64
    if len(index) == 1 and b.types[index[0]] in (i32, i64):
        return b.values[index[0]]  # the instruction extends it
    offset = 0
    for axis, i in enumerate(index):
        value = resize(b, i, t)
        if offset:
            n = b.m.const(t, shape[axis]) if shape is not None else b.frame.extent(buffer.name, axis)
            offset = b.fn.let("IAdd", b.m.type(t), b.fn.let("IMul", b.m.type(t), offset, n), value)
        else:
            offset = value
    return offset


def resize(b: Body, id: int, t: DType) -> int:
    """An integer or truth value as i32 or i64."""
    value, source = b.values[id], b.types[id]
    if source is u1:
        return b.fn.let("Select", b.m.type(t), value, b.m.const(t, 1), b.m.const(t, 0))
    if source.bits == t.bits:
        return value
    key = ("as", id, t)
    known = b.offsets.get(key)
    if known is None:
        op = "SConvert" if source.kind == "i" and source.bits < t.bits else "UConvert"
        known = b.offsets[key] = b.fn.let(op, b.m.type(t), value)
    return known


# --- loads and stores -----------------------------------------------------------------------------------------


def read(b: Body, t: DType, in_memory: DType, pointer: int) -> int:
    value = b.fn.let("Load", b.m.type(in_memory), pointer, C.ALIGNED, in_memory.nbytes)
    return _as_truth(b, value, in_memory) if t is u1 else value


def write(b: Body, t: DType, in_memory: DType, pointer: int, value: int) -> None:
    b.fn.put("Store", pointer, _as_stored(b, t, in_memory, value), C.ALIGNED, in_memory.nbytes)


def _as_truth(b: Body, value: int, t: DType) -> int:
    return b.fn.let("INotEqual", b.m.bool, value, b.m.const(t, 0))


def _as_stored(b: Body, t: DType, in_memory: DType, value: int) -> int:
    if t is not u1:
        return value
    return b.fn.let("Select", b.m.type(in_memory), value, b.m.const(in_memory, 1), b.m.const(in_memory, 0))


def load(b: Body, s: N.Load) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "heap":
        heap.load(b, s, buffer)
    elif buffer.kind == "local":
        if s.buffer not in b.counts:
            b.counts[s.buffer] = b.fn.let("Load", b.m.type(s.type), b.local(buffer))
        b.define(s.id, s.type, b.counts[s.buffer])
    else:
        b.define(s.id, s.type, read(b, s.type, stored(buffer), element(b, buffer, s.index)))


def store(b: Body, s: N.Store) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "heap":
        heap.store(b, s, buffer)
    elif buffer.kind == "local":
        b.counts[s.buffer] = b.values[s.value]
        b.fn.put("Store", b.local(buffer), b.values[s.value])
    else:
        write(b, buffer.dtype, stored(buffer), element(b, buffer, s.index), b.values[s.value])


# --- atomics --------------------------------------------------------------------------------------------------

# instructions for (signed, unsigned) of 32 and 64 bits; what is not here is done by compare and exchange
_NATIVE: dict[str, tuple[str, str]] = {
    "add": ("AtomicIAdd", "AtomicIAdd"),
    "sub": ("AtomicISub", "AtomicISub"),
    "min": ("AtomicSMin", "AtomicUMin"),
    "max": ("AtomicSMax", "AtomicUMax"),
    "and": ("AtomicAnd", "AtomicAnd"),
    "or": ("AtomicOr", "AtomicOr"),
    "xor": ("AtomicXor", "AtomicXor"),
    "exchange": ("AtomicExchange", "AtomicExchange"),
}
_ON_TRUTH = {"mul": "and", "min": "and", "max": "or"}


def combine(b: Body, op: str, t: DType, old: int, value: int, expected: int = 0) -> int:
    """The new element of ``buffer op= value``."""
    if op == "exchange":
        return value
    if op == "cas":
        return b.fn.let("Select", b.m.type(t), b.operate("eq", u1, t, old, expected), value, old)
    return b.operate(_ON_TRUTH.get(op, op) if t is u1 else op, t, t, old, value)


def atomic(b: Body, s: N.Atomic) -> None:
    t, value = s.type, b.values[s.value]
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "local":
        old = b.fn.let("Load", b.m.type(t), b.local(buffer))
        b.fn.put("Store", b.local(buffer), combine(b, s.op, t, old, value))
        b.define(s.id, t, old)
        return
    pointer, kept = element(b, buffer, s.index), stored(buffer)
    expected = b.values[s.expected] if s.op == "cas" else 0
    if s.private or not b.parallel:
        old = read(b, t, kept, pointer)
        write(b, t, kept, pointer, combine(b, s.op, t, old, value, expected))
    else:
        old = modify(b, s.op, t, kept, pointer, value, expected)
    b.define(s.id, t, old)


def modify(
    b: Body, op: str, t: DType, in_memory: DType, pointer: int, value: int, expected: int = 0
) -> int:
    """``*pointer op= value`` as one indivisible step; returns the old value."""
    fn, m = b.fn, b.m
    if t.is_int and t.bits >= 32 and op in _NATIVE:
        return at_once(b, _NATIVE[op][t.kind == "u"], t, pointer, value)
    if t.is_int and t.bits >= 32 and op == "cas":
        if t.bits == 64:
            b.m.need("Int64Atomics")
        return compare_exchange(b, t, pointer, value, expected)
    if t.is_float and t.bits >= 32:
        if op == "exchange":
            bits = UNSIGNED[t.bits]
            raw = at_once(b, "AtomicExchange", bits, _reinterpret(b, pointer, bits), _bits(b, t, value))
            return fn.let("Bitcast", m.type(t), raw)
        if op in ("add", "sub") and m.float_add(t.bits):
            value = fn.let("FNegate", m.type(t), value) if op == "sub" else value
            return at_once(b, "AtomicFAddEXT", t, pointer, value)
    return _exchange_loop(b, op, t, in_memory, pointer, value, expected)


def at_once(b: Body, op: str, t: DType, pointer: int, value: int) -> int:
    if t.is_int and t.bits == 64:
        b.m.need("Int64Atomics")
    scope, relaxed = b.m.const(u32, C.DEVICE_SCOPE), b.m.const(u32, C.RELAXED)
    return b.fn.let(op, b.m.type(t), pointer, scope, relaxed, value)


def compare_exchange(b: Body, t: DType, pointer: int, new: int, expected: int) -> int:
    """Returns what was there."""
    scope, relaxed = b.m.const(u32, C.DEVICE_SCOPE), b.m.const(u32, C.RELAXED)
    return b.fn.let("AtomicCompareExchange", b.m.type(t), pointer, scope, relaxed, relaxed, new, expected)


def _bits(b: Body, t: DType, value: int) -> int:
    return b.fn.let("Bitcast", b.m.type(UNSIGNED[t.bits]), value) if t.is_float else value


def _reinterpret(b: Body, pointer: int, t: DType) -> int:
    address = b.fn.let("ConvertPtrToU", b.m.type(u64), pointer)
    return b.fn.let("ConvertUToPtr", b.m.memory_pointer(t), address)


def _exchange_loop(
    b: Body, op: str, t: DType, in_memory: DType, pointer: int, value: int, expected: int
) -> int:
    """By compare and exchange on the 32- or 64-bit word that holds the element."""
    fn, m = b.fn, b.m
    word = u64 if in_memory.bits == 64 else u32
    wide = m.type(word)
    if word is u64:
        m.need("Int64Atomics")
    shift = mask = 0
    if in_memory.bits < 32:
        address = fn.let("ConvertPtrToU", m.type(u64), pointer)
        low = fn.let("UConvert", m.type(u32), fn.let("BitwiseAnd", m.type(u64), address, m.const(u64, 3)))
        shift = fn.let("ShiftLeftLogical", wide, low, m.const(u32, 3))
        mask = fn.let("ShiftLeftLogical", wide, m.const(u32, (1 << in_memory.bits) - 1), shift)
        mask = fn.let("Not", wide, mask)
        aligned = fn.let("BitwiseAnd", m.type(u64), address, m.const(u64, -4))
        pointer = fn.let("ConvertUToPtr", m.memory_pointer(u32), aligned)
    elif in_memory.is_float:
        pointer = _reinterpret(b, pointer, word)

    def decode(bits: int) -> int:
        if shift:
            bits = fn.let(
                "UConvert", m.type(UNSIGNED[in_memory.bits]), fn.let("ShiftRightLogical", wide, bits, shift)
            )
        if t is u1:
            return _as_truth(b, bits, in_memory)
        return fn.let("Bitcast", m.type(t), bits) if t.is_float else bits

    def encode(element: int, around: int) -> int:
        bits = _bits(b, t, _as_stored(b, t, in_memory, element))
        if not shift:
            return bits
        bits = fn.let("ShiftLeftLogical", wide, fn.let("UConvert", wide, bits), shift)
        return fn.let("BitwiseOr", wide, fn.let("BitwiseAnd", wide, around, mask), bits)

    first = fn.let("Load", wide, pointer, C.ALIGNED, word.nbytes)

    def body(values: tuple[int, ...]) -> tuple[int, ...]:
        seen = values[0]
        new = encode(combine(b, op, t, decode(seen), value, expected), seen)
        now = compare_exchange(b, word, pointer, new, seen)
        return now, fn.let("INotEqual", m.bool, now, seen)

    carried = [(word, first), (u1, m.const(u1, True))]
    seen, _ = control.loop(fn, carried, lambda values: values[1], body, lambda values: values[1])
    return decode(seen)
