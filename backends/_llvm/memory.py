"""Memory: addresses, loads, stores and atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.analysis.alias import shared_arrays
from quadrants_lab.backends._llvm.ops import COLUMN
from quadrants_lab.backends._llvm.text import memory_type, ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends._llvm.body import Body


# --- addresses --------------------------------------------------------------------------------------------------


def address(b: Body, buffer: N.Buffer, index: tuple[int, ...], base: str = "") -> str:
    """Address of an element of the buffer. ``base``: the address to use for element 0. Indices are taken to be in
    range: only checks (`passes.check_bounds`) find those that are not."""
    base = base or b.pointer(buffer.name)
    if buffer.name in b.own:
        buffer, index = b.own[buffer.name], index[1:]
    if not index:
        return base
    if buffer.kind == "heap":
        return _slot(b, buffer, base, index)
    shape = buffer.shape
    offset = b.once((shape if shape is not None else buffer.name, index), lambda: _offset(b, buffer, index))
    return b.fn.let(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, i64 {offset}")


def _slot(b: Body, buffer: N.Buffer, base: str, index: tuple[int, ...]) -> str:
    """Address of a slot of an adstack; ``base`` is that of this thread's first slot. Devices with 32-bit slot numbers
    keep the offset of an element below 2**31."""
    place, t = b.values[index[0]], b.type_of(index[0])
    if len(index) > 1:
        place = b.fn.let(f"mul nuw nsw {t.text} {place}, {b.stride}")
    if t.dtype.bits < 64:
        place = b.fn.let(f"zext nneg {t.text} {place} to i64")
    return b.fn.let(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, i64 {place}")


def _offset(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> str:
    """Row-major element offset, an i64."""
    offset = ""
    for axis, i in enumerate(index):
        wide = widen(b, i)
        if offset:
            offset = b.fn.let(f"mul nsw i64 {offset}, {extent(b, buffer, axis)}")
            offset = b.fn.let(f"add nsw i64 {offset}, {wide}")
        else:
            offset = wide
    return offset


def extent(b: Body, buffer: N.Buffer, axis: int) -> str:
    """The extent of the buffer along an axis, an i64; a constant if it is known."""
    known = buffer.known_extent(axis)
    return b.extent(buffer.name, axis) if known is None else str(known)


def widen(b: Body, id: int) -> str:
    """An integer as an i64."""
    value, t = b.values[id], b.types[id]
    if t.bits == 64 or value[0] != "%":
        return value if value not in ("true", "false") else str(int(value == "true"))
    op = "sext" if t.kind == "i" else "zext"
    return b.once(("wide", id), lambda: b.fn.let(f"{op} {ty(t).text} {value} to i64"))


# --- aliasing ---------------------------------------------------------------------------------------------------


class Scopes:
    """Alias scopes of a module. A field, a launch temporary, a returned value and an adstack are each disjoint from
    everything else. Ndarrays that may be one array (`shared_arrays`) are one memory. A local needs none.

    The numbers of two memories differ in a bit. So there is a domain for each bit, with a scope for each of its values:
    an access is in the scope of its memory's bit and does not alias the other one. Lists of all other memories, one for
    each memory, would grow with the square of their number."""

    def __init__(self, kernel: N.Kernel) -> None:
        shared = shared_arrays(kernel)
        memory = [b.name for b in kernel.buffers.values() if b.kind not in ("local", "private")]
        self.of = {name: "ndarrays" if name in shared else f"@{name}" for name in memory}
        self.numbers = {name: n for n, name in enumerate(dict.fromkeys(self.of.values()))}
        self.bits = max(len(self.numbers) - 1, 0).bit_length()

    def tag(self, buffer: str) -> str:
        """The metadata of a load from the buffer, or of a store to it."""
        n = self.numbers.get(self.of.get(buffer, ""))
        if n is None or not self.bits:
            return ""
        lists = 3 * self.bits + 2 * n
        return f", !alias.scope !{lists}, !noalias !{lists + 1}"

    def lines(self) -> list[str]:
        out, bits = [], range(self.bits)
        for bit in bits:
            out.append(f"!{3 * bit} = distinct !{{!{3 * bit}}}")
            out += [f"!{3 * bit + k} = distinct !{{!{3 * bit + k}, !{3 * bit}}}" for k in (1, 2)]
        for n in self.numbers.values() if bits else ():
            for other in (0, 1):
                scopes = ", ".join(f"!{3 * bit + 1 + ((n >> bit & 1) ^ other)}" for bit in bits)
                out.append(f"!{3 * self.bits + 2 * n + other} = !{{{scopes}}}")
        return out


# --- loads and stores -------------------------------------------------------------------------------------------


def read(b: Body, t: DType, ptr: str, tag: str = "") -> str:
    """The value at an address. A u1 is a byte in memory, and true where that is not 0."""
    value = b.fn.let(f"load {memory_type(t)}, ptr {ptr}{tag}")
    return b.fn.let(f"icmp ne i8 {value}, 0") if t.kind == "b" else value


def write(b: Body, t: DType, ptr: str, value: str, tag: str = "") -> None:
    b.fn.put(f"store {memory_type(t)} {stored(b, t, value)}, ptr {ptr}{tag}")


def stored(b: Body, t: DType, value: str) -> str:
    return b.fn.let(f"zext i1 {value} to i8") if t.kind == "b" else value


def load(b: Body, s: N.Load) -> None:
    buffer = b.kernel.buffers[s.buffer]
    b.define(s.id, s.type, read(b, s.type, address(b, buffer, s.index), b.tag(buffer)))


def store(b: Body, s: N.Store) -> None:
    buffer = b.kernel.buffers[s.buffer]
    write(b, buffer.dtype, address(b, buffer, s.index), b.values[s.value], b.tag(buffer))


# --- atomics ----------------------------------------------------------------------------------------------------

# the operation of atomicrmw for (float, signed, unsigned and u1); "": it takes a loop of compare and exchange
_RMW: dict[str, tuple[str, str, str]] = {
    "add": ("fadd", "add", "add"),
    "sub": ("fadd", "sub", "sub"),  # floats: the negated value is added, since no device subtracts atomically
    "mul": ("", "", ""),
    "min": ("fmin", "min", "umin"),
    "max": ("fmax", "max", "umax"),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
    "exchange": ("xchg", "xchg", "xchg"),
}


def combine(b: Body, op: str, t: DType, old: str, value: str, flags: str | None = None) -> str:
    """The new element of ``buffer op= value``."""
    if op == "exchange":
        return value
    return b.operate(op, t, old, value, flags)


def atomic(b: Body, s: N.Atomic) -> None:
    t, value = s.type, b.values[s.value]
    partial = b.partials.get(s.buffer)
    if partial is not None:
        old = read(b, t, partial.ptr)
        write(b, t, partial.ptr, combine(b, s.op, t, old, value, b.fast or "reassoc "))
        b.define(s.id, t, old)
        return
    buffer = b.kernel.buffers[s.buffer]
    alone, base = ("", "") if s.private else b.sums(s.buffer)
    ptr, tag = address(b, buffer, s.index, base), b.tag(buffer)
    if s.op == "cas":
        types = f"{memory_type(t)} {b.values[s.expected]}, {memory_type(t)} {value}"
        order = "acq_rel acquire" if buffer.kind != "frame" else "monotonic monotonic"  # only the host reads a frame
        pair = b.fn.atomic(f"cmpxchg ptr {ptr}, {types}", order, tag)
        old = b.fn.let(f"extractvalue {{ {memory_type(t)}, i1 }} {pair}, 0")
    elif s.private or not b.parallel:
        old = read(b, t, ptr, tag)
        flags = (b.fast or "reassoc ") if buffer.role == "share" else None
        write(b, t, ptr, combine(b, s.op, t, old, value, flags), tag)
    else:
        old = modify_unless_alone(b, s.op, t, ptr, value, tag, alone)
    b.define(s.id, t, old)


def modify_unless_alone(b: Body, op: str, t: DType, ptr: str, value: str, tag: str, alone: str) -> str:
    """As `modify`, by a plain read and write where the i1 ``alone`` says that no other thread changes the element."""

    def plainly() -> str:
        old = read(b, t, ptr, tag)
        write(b, t, ptr, combine(b, op, t, old, value), tag)
        return old

    if alone in ("", "true"):
        return plainly() if alone else modify(b, op, t, ptr, value, tag)
    fn = b.fn
    plain, atomically, done = fn.label("plain"), fn.label("atomic"), fn.label("done")
    fn.branch(alone, plain, atomically)
    fn.start(plain)
    here = plainly()
    fn.jump(done)
    fn.start(atomically)
    old = modify(b, op, t, ptr, value, tag)
    last = fn.block
    fn.jump(done)
    fn.start(done)
    return fn.phi(ty(t).text, (here, plain), (old, last))


def modify(b: Body, op: str, t: DType, ptr: str, value: str, tag: str = "") -> str:
    """``*ptr op= value`` as one atomic step; returns the old value."""
    rmw = _RMW[op][COLUMN[t.kind]]
    if not rmw:
        return _exchange_loop(b, op, t, ptr, value)
    if op == "sub" and t.is_float:
        value = b.fn.let(f"fneg {ty(t).text} {value}")
    old = b.fn.atomic(f"atomicrmw {rmw} ptr {ptr}, {memory_type(t)} {stored(b, t, value)}", tag=tag)
    return b.fn.let(f"icmp ne i8 {old}, 0") if t.kind == "b" else old


def _exchange_loop(b: Body, op: str, t: DType, ptr: str, value: str) -> str:
    """As `modify`, by compare and exchange until no other thread has changed the element in between."""
    fn = b.fn
    word, element = f"i{t.bits}", ty(t).text
    first = fn.let(f"load {word}, ptr {ptr}")
    before, loop, done = fn.block, fn.label("try"), fn.label("done")
    fn.jump(loop)
    fn.start(loop)
    seen, at = fn.hole()
    old = fn.let(f"bitcast {word} {seen} to {element}") if t.is_float else seen
    new = combine(b, op, t, old, value)
    if t.is_float:
        new = fn.let(f"bitcast {element} {new} to {word}")
    pair = fn.atomic(f"cmpxchg ptr {ptr}, {word} {seen}, {word} {new}", "monotonic monotonic")
    now = fn.let(f"extractvalue {{ {word}, i1 }} {pair}, 0")
    same = fn.let(f"extractvalue {{ {word}, i1 }} {pair}, 1")
    fn.patch(at, f"{seen} = phi {word} [{first}, %{before}], [{now}, %{fn.block}]")
    fn.branch(same, done, loop)
    fn.start(done)
    return old


# --- reductions -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Partial:
    """A function's partial result of a reduction into a 0-d buffer, at ``ptr``. It starts at the operation's identity
    and goes into the buffer once, when the function ends."""

    op: str
    dtype: DType
    ptr: str
