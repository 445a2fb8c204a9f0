"""Emits loads, stores and atomic operations, and the pointers to elements."""


from quadrants_lab.backends._gpu.layout import stored
from quadrants_lab.backends._spirv import heap, opcodes as C
from quadrants_lab.backends._spirv.body import Body
from quadrants_lab.backends.layout import WORD
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u32

# --- pointers --------------------------------------------------------------------------------------------------


def element(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> int:
    """A pointer to an element. The index is assumed to be in range; debug mode checks it."""
    if buffer.in_frame and index:  # the index is a constant
        return b.frame.at(b.frame.layout.frame.buffers[buffer.name] + WORD * b.known[index[0]], buffer.dtype)
    base = b.frame.buffer(buffer.name)
    if not index:
        return base
    place = buffer.name, index
    if place not in b.offsets:
        pointer, number = b.m.memory_pointer(stored(buffer)), b.values[index[0]]
        b.offsets[place] = b.fn.let("PtrAccessChain", pointer, base, number)
    return b.offsets[place]


# --- loads and stores -----------------------------------------------------------------------------------------


def read(b: Body, t: DType, in_memory: DType, pointer: int) -> int:
    """Loads a value of dtype ``t``."""
    value = b.fn.let("Load", b.m.type(in_memory), pointer, C.ALIGNED, in_memory.nbytes)
    return b.fn.let("INotEqual", b.m.bool, value, b.m.const(in_memory, 0)) if t is u1 else value


def write(b: Body, t: DType, in_memory: DType, pointer: int, value: int) -> None:
    """Stores a value of dtype ``t``."""
    if t is u1:
        value = b.fn.let("Select", b.m.type(in_memory), value, b.m.const(in_memory, 1), b.m.const(in_memory, 0))
    b.fn.put("Store", pointer, value, C.ALIGNED, in_memory.nbytes)


def load(b: Body, s: N.Load) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "heap":
        heap.load(b, s, buffer)
    elif buffer.kind == "local":
        if s.buffer not in b.counts:
            b.counts[s.buffer] = b.fn.let("Load", b.m.type(s.type), b.local(buffer))
        b.define(s.id, s.type, b.counts[s.buffer])
    elif buffer.kind == "private":
        b.define(s.id, s.type, b.fn.let("Load", b.m.type(s.type), _own(b, buffer, s.index[0])))
    else:
        b.define(s.id, s.type, read(b, s.type, stored(buffer), element(b, buffer, s.index)))


def _own(b: Body, buffer: N.Buffer, index: int) -> int:
    """A pointer to an element of an array that is private to the iteration."""
    pointer = b.m.pointer("Function", b.m.type(buffer.dtype))
    return b.fn.let("AccessChain", pointer, b.local(buffer), b.values[index])


def store(b: Body, s: N.Store) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.kind == "heap":
        heap.store(b, s, buffer)
    elif buffer.kind == "local":
        b.counts[s.buffer] = b.values[s.value]
        b.fn.put("Store", b.local(buffer), b.values[s.value])
    elif buffer.kind == "private":
        b.fn.put("Store", _own(b, buffer, s.index[0]), b.values[s.value])
    else:
        write(b, buffer.dtype, stored(buffer), element(b, buffer, s.index), b.values[s.value])


# --- atomics --------------------------------------------------------------------------------------------------

# operation -> its instructions for (signed, unsigned); `lower.atomics` replaces every other operation by a loop
_NATIVE: dict[str, tuple[str, str]] = {
    "add": ("AtomicIAdd", "AtomicIAdd"), "sub": ("AtomicISub", "AtomicISub"),
    "min": ("AtomicSMin", "AtomicUMin"), "max": ("AtomicSMax", "AtomicUMax"),
    "and": ("AtomicAnd", "AtomicAnd"), "or": ("AtomicOr", "AtomicOr"), "xor": ("AtomicXor", "AtomicXor"),
    "exchange": ("AtomicExchange", "AtomicExchange"),
}  # fmt: skip


def atomic(b: Body, s: N.Atomic) -> None:
    t, value = s.type, b.values[s.value]
    pointer = element(b, b.frame.kernel.buffers[s.buffer], s.index)
    if s.op == "cas":
        old = at_once(b, "AtomicCompareExchange", t, pointer, b.m.const(u32, C.RELAXED), value, b.values[s.expected])
    else:
        old = at_once(b, "AtomicFAddEXT" if t.is_float else _NATIVE[s.op][t.kind == "u"], t, pointer, value)
    b.define(s.id, t, old)


def group_same(b: Body, s: N.GroupSame) -> None:
    b.m.need("GroupNonUniform")
    b.m.need("GroupNonUniformVote")
    scope = b.m.const(u32, C.SUBGROUP_SCOPE)
    b.define(s.id, s.type, b.fn.let("GroupNonUniformAllEqual", b.m.bool, scope, b.values[s.value]))


def subgroup_sum(b: Body, t: DType, value: int) -> int:
    """The sum over the active threads of the subgroup."""
    b.m.need("GroupNonUniform")
    b.m.need("GroupNonUniformArithmetic")
    op = "GroupNonUniformFAdd" if t.is_float else "GroupNonUniformIAdd"
    return b.fn.let(op, b.m.type(t), b.m.const(u32, C.SUBGROUP_SCOPE), C.REDUCE, value)


def at_once(b: Body, op: str, t: DType, pointer: int, *operands: int) -> int:
    """Emits an atomic instruction; returns the old value of the element."""
    if t.is_float:
        b.m.need(f"AtomicFloat{t.bits}AddEXT")
        b.m.extensions["SPV_EXT_shader_atomic_float_add"] = None
    elif t.bits == 64:
        b.m.need("Int64Atomics")
    scope, relaxed = b.m.const(u32, C.DEVICE_SCOPE), b.m.const(u32, C.RELAXED)
    return b.fn.let(op, b.m.type(t), pointer, scope, relaxed, *operands)
