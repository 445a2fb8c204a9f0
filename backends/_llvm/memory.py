"""Emits accesses to memory: by one iteration, or by all lanes to one element, to neighbouring elements or to arbitrary
elements."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from quadrants_lab.backends._llvm.body import Body
from quadrants_lab.backends._llvm.text import memory_type, ty
from quadrants_lab.backends.lower.adstacks import clamped
from quadrants_lab.backends.lower.cells import places as places_of
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.cell_order import is_row_major
from quadrants_lab.ir.sizeexpr import SizeConst
from quadrants_lab.ir.types import DType, i32, i64
from quadrants_lab.ir.walk import find, of_kind

_AHEAD = 1024  # how many bytes after the present access the prefetch goes
_SHARED = 16  # the alignment of an array that the threads of a block share, in bytes

# --- addresses --------------------------------------------------------------------------------------------------


def address(b: Body, buffer: N.Buffer, index: tuple[int, ...], base: str = "") -> str:
    """The address of the buffer's element at ``index``, which is uniform. ``base``: the address of element 0, if it is
    not the buffer's usual address. The index is assumed to be in range; only code that `passes.check_bounds` inserts
    tests it."""
    base = base or b.pointer(buffer.name)
    if buffer.name in b.own:
        buffer, index = b.own[buffer.name], index[1:]
    if not index:
        return base
    if buffer.kind == "heap":
        return _slot(b, buffer, base, index)
    offset = b.once((_layout(buffer), index), lambda: _offset(b, buffer, index, i64, 1))
    return b.fn.let(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, i64 {offset}")


def addresses(b: Body, buffer: N.Buffer, index: tuple[int, ...], base: str = "") -> tuple[str, bool]:
    """The addresses of the elements that the lanes access: (the first lane's address, True) if the elements are
    neighbours, else (a vector of addresses, False). They are valid only in lanes that take part. ``base``: see
    `address`."""
    base = base or b.pointer(buffer.name)
    if buffer.kind in ("heap", "private"):
        return _of_lanes(b, buffer, index, base)
    if index and _in_a_row(b, buffer, index):
        at = b.once(("row", _layout(buffer), index), lambda: _row(b, buffer, index))
        return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, i64 {at}"), True
    if b.uniform(*index):
        return b.spread(address(b, buffer, index, base), "ptr"), False
    return each_address(b, buffer, index, base), False


def _of_lanes(b: Body, buffer: N.Buffer, index: tuple[int, ...], base: str) -> tuple[str, bool]:
    """Does what `addresses` does, for adstacks and local arrays, which have separate slots or elements for each
    lane. If the index is the same in all lanes, the lanes' slots are neighbours."""
    if b.uniform(index[0]):
        return _slot(b, buffer, base, index), True
    t, at = places(b, buffer, index[:1])
    v = ty(t, b.width).text
    at = b.fn.let(f"mul {v} {at}, {b.splat(_stride(b, buffer), t)}")
    at = b.fn.let(f"add {v} {at}, {b.numbers(t)}")
    return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, {v} {at}"), False


def _stride(b: Body, buffer: N.Buffer) -> str:
    """How many elements lie between one slot of a lane and its next slot; for a local array, between its elements."""
    return b.stride if buffer.kind == "heap" else str(b.width)


def each_address(b: Body, buffer: N.Buffer, index: tuple[int, ...], base: str) -> str:
    """A vector with the address of each lane's element."""
    t, at = places(b, buffer, index)
    return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, {ty(t, b.width).text} {at}")


def places(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> tuple[DType, str]:
    """A vector with the row-major index of each lane's element in the buffer, and the dtype of this vector's elements.
    """
    narrow = buffer.shape is not None and prod(buffer.shape) < 1 << 31
    t = i32 if narrow and all(b.types[i].bits <= 32 for i in index) else i64
    return t, b.once(("each", _layout(buffer), index), lambda: _offset(b, buffer, index, t, b.width))


def _slot(b: Body, buffer: N.Buffer, base: str, index: tuple[int, ...]) -> str:
    """The address of a slot of an adstack, or of an element of a local array; ``base`` is the address of this thread's
    first slot. If slot indices have 32 bits, the device keeps each element's offset below 2**31."""
    place, t = b.values[index[0]], b.types[index[0]]
    if len(index) > 1 or buffer.kind == "private":
        place = b.fn.let(f"mul nuw nsw {ty(t).text} {place}, {_stride(b, buffer)}")
    if t.bits < 64:
        place = b.fn.let(f"zext nneg {ty(t).text} {place} to i64")
    return b.fn.let(f"getelementptr inbounds {memory_type(buffer.dtype)}, ptr {base}, i64 {place}")


def _in_a_row(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> bool:
    """Whether the lanes access neighbouring elements, in the order of the lanes."""
    *outer, (_, last, by, modulo) = _digits(b, buffer, index)
    return last in b.linear and (by, modulo) == (1, 0) and b.uniform(*(i for _, i, _, _ in outer))


def _layout(buffer: N.Buffer) -> Any:
    """A key for the buffer's layout: two buffers with the same key have the same offset for the same index."""
    return (buffer.shape or buffer.name, buffer.order) if buffer.order else buffer.shape or buffer.name


def _offset(b: Body, buffer: N.Buffer, index: tuple[int, ...], t: DType, lanes: int) -> str:
    """The offset of an element, in elements, of dtype ``t``. In lanes that do not take part, it may wrap around. In a
    buffer stored in cells, the offset is composed of the digits of the indices, outermost first."""
    v, ordered = ty(t, lanes).text, not is_row_major(buffer.order)
    wraps = "" if lanes > 1 else "nuw nsw " if ordered else "nsw "

    def made(op: str, x: str, y: str) -> str:
        return b.fn.let(f"{op} {wraps if op in ('mul', 'shl') else ''}{v} {x}, {y if lanes == 1 else b.splat(y, t)}")

    def scaled(op: str, x: str, by: int) -> str:
        """Emits ``x`` times a constant, divided by the constant, or modulo the constant, as ``op`` says."""
        if by & (by - 1):
            return made(op, x, str(by))
        if op == "urem":
            return made("and", x, str(by - 1))
        return x if by == 1 else made("shl" if op == "mul" else "lshr", x, str(by.bit_length() - 1))

    offset = ""
    for axis, (n, i, by, modulo) in enumerate(_digits(b, buffer, index)):
        digit = scaled("udiv", widen(b, i) if lanes == 1 else _resized(b, i, t), by)
        digit = scaled("urem", digit, modulo) if modulo else digit
        if offset:
            row = scaled("mul", offset, n) if ordered else made("mul", offset, extent(b, buffer, axis))
            digit = b.fn.let(f"add {wraps}{v} {row}, {digit}")
        offset = digit
    return offset


def _digits(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> Iterable[tuple[int, int, int, int]]:
    """The digits of which the offset is composed, in the form of `lower.cells.places`. In a row-major buffer the
    digits are the indices themselves, and the extents are given as 0, since they may not be known."""
    return [(0, i, 1, 0) for i in index] if is_row_major(buffer.order) else places_of(buffer.order, index, b.splits)


def _row(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> str:
    """The offset of the first lane's element, an i64. If the first lane does not take part, the offset may lie outside
    of the buffer, and its last index may be negative even if its dtype is unsigned."""
    if not is_row_major(buffer.order):
        return _offset(b, buffer, index, i64, 1)
    *row, last = index
    value, t = b.values[last], b.types[last]
    value = value if t.bits == 64 else b.fn.let(f"sext {ty(t).text} {value} to i64")
    if not row:
        return value
    begin = b.fn.let(f"mul nsw i64 {_offset(b, buffer, tuple(row), i64, 1)}, {extent(b, buffer, len(row))}")
    return b.fn.let(f"add i64 {begin}, {value}")


def extent(b: Body, buffer: N.Buffer, axis: int) -> str:
    """The number of elements of the buffer along an axis, an i64; a constant if it is known at compile time."""
    known = buffer.known_extent(axis)
    return b.extent(buffer.name, axis) if known is None else str(known)


def widen(b: Body, id: int) -> str:
    """The uniform integer with this id as an i64."""
    value, t = b.values[id], b.types[id]
    return value if t.bits == 64 else b.once(("wide", id), lambda: b.fn.widened(value, t))


def _resized(b: Body, id: int, t: DType) -> str:
    """An index as a vector of ``t``; ``t`` is wide enough for any index in range."""
    source = b.types[id]
    if source.bits == t.bits:
        return b.vector(id)
    if t is i64 and b.uniform(id):
        return b.splat(widen(b, id), t)
    op = "trunc" if source.bits > t.bits else "sext" if source.kind == "i" else "zext"
    return b.fn.let(f"{op} {ty(source, b.width).text} {b.vector(id)} to {ty(t, b.width).text}")


# --- loads and stores -------------------------------------------------------------------------------------------


def read_lanes(b: Body, t: DType, at: str, row: bool, tag: str = "") -> str:
    """Reads a vector, only in lanes that take part, from the addresses ``at`` (``row``: they are neighbours; see
    `addresses`). It must not use llvm.masked.load: LLVM 22 may move that past a store, to a select by the same mask.
    llvm.vp.load stays in place and becomes the same instruction."""
    v, where, suffix = _in_memory(b, t, row)
    args = (f"{where} align {t.nbytes}", at), (b.truth, b.mask), ("i32", str(b.width))
    value = b.fn.call(v, f"llvm.vp.{'load' if row else 'gather'}.{suffix}", *args, tag=tag)
    return b.fn.let(f"icmp ne {v} {value}, zeroinitializer") if t.kind == "b" else value


def write_lanes(b: Body, t: DType, at: str, row: bool, value: str, tag: str = "") -> None:
    """Writes a vector, only in lanes that take part, to the addresses ``at``; see `read_lanes`."""
    v, where, suffix = _in_memory(b, t, row)
    if t.kind == "b":
        value = b.fn.let(f"zext {b.truth} {value} to {v}")
    args = (v, value), (where, at), ("i32", str(t.nbytes)), (b.truth, b.mask)
    b.fn.call("void", f"llvm.masked.{'store' if row else 'scatter'}.{suffix}", *args, tag=tag)


def _in_memory(b: Body, t: DType, row: bool) -> tuple[str, str, str]:
    """Three texts for an intrinsic that accesses memory: the type of the elements, the type of their addresses, and the
    suffix of the intrinsic's name."""
    w, element = b.width, "i8" if t.kind == "b" else ty(t).suffix
    where = ("ptr", "p0") if row else (f"<{w} x ptr>", f"v{w}p0")
    return f"<{w} x {memory_type(t)}>", where[0], f"v{w}{element}.{where[1]}"


def load(b: Body, s: N.Load) -> None:
    buffer = b.kernel.buffers[s.buffer]
    if buffer.role == "far":
        b.define(s.id, s.type, b.fn.read(s.type, b.pointer(s.buffer), lanes=b.lanes(s.id), volatile=True))
        return
    if b.uniform(s.id) or buffer.kind == "local":
        at, notes = address(b, buffer, s.index), _alignment(b, buffer, s.index) + b.tag(buffer)
        b.define(s.id, s.type, b.fn.read(s.type, at, notes, b.lanes(s.id)))
        return
    at, row = addresses(b, buffer, s.index)
    # slots of adstacks and local arrays are read without a mask, even beyond the last slot: see `Device.read_beyond`
    if row and buffer.kind in ("heap", "private"):
        b.define(s.id, s.type, b.fn.read(s.type, at, _slots_tag(b, buffer), b.width))
        return
    if row:
        prefetch(b, buffer, at, written=False)
    b.define(s.id, s.type, read_lanes(b, s.type, at, row, b.tag(buffer)))


def _alignment(b: Body, buffer: N.Buffer, index: tuple[int, ...]) -> str:
    """The alignment of an element at a constant index, in memory that the threads of a block share; "" if it is no
    better than the dtype's alignment. With a better alignment LLVM reads several elements at once."""
    of = b.own.get(buffer.name)
    places = [b.values[i] for i in index[1:]] if of is not None else []
    if of is None or not all(p.isdecimal() for p in places):
        return ""
    number = 0
    for p, n in zip(places, of.shape or (), strict=True):
        number = number * n + int(p)
    at = number * of.dtype.nbytes
    best = next(n for n in (_SHARED, 8, 4, 2, 1) if at % n == 0)
    return f", align {best}" if best > of.dtype.nbytes else ""


def store(b: Body, s: N.Store) -> None:
    buffer = b.kernel.buffers[s.buffer]
    t, tag = buffer.dtype, b.tag(buffer)
    array = buffer.kind == "private" and b.width > 1
    if buffer.role == "far":  # volatile, or LLVM would make it a value again
        lanes = b.width if s.buffer in b.per_lane else 1
        b.fn.write(t, b.pointer(s.buffer), b.value(s.value, lanes), lanes=lanes, volatile=True)
    elif s.buffer in b.per_lane and not array:
        ptr = b.pointer(s.buffer)
        value = b.select(b.mask, b.vector(s.value), b.fn.read(t, ptr, lanes=b.width), t)
        b.fn.write(t, ptr, value, lanes=b.width)
    elif b.uniform(*s.operands()) and not array:
        b.fn.write(t, address(b, buffer, s.index), b.values[s.value], tag)
    else:
        at, row = addresses(b, buffer, s.index)
        if row and buffer.kind == "heap" and buffer.role != "flags" and not clamped(b.kernel, buffer):
            _fill_slots(b, buffer, at, b.vector(s.value))
            return
        if row:
            prefetch(b, buffer, at, written=True)
        write_lanes(b, t, at, row, b.vector(s.value), tag)


def _fill_slots(b: Body, buffer: N.Buffer, at: str, value: str) -> None:
    """Writes neighbouring slots of an adstack, one a lane, without a mask: on AMD's processors without AVX-512 a masked
    store takes a dozen cycles. A lane that does not take part loses nothing, because its slot here holds no value that
    is still needed."""
    t = buffer.dtype
    whole = partial(b.fn.write, t, at, value, _slots_tag(b, buffer), b.width)
    few = partial(write_lanes, b, t, at, True, value, b.tag(buffer))
    b.either(b.whole, ("whole", whole), ("few", few))


def _slots_tag(b: Body, buffer: N.Buffer) -> str:
    return f", align {buffer.dtype.nbytes}{b.tag(buffer)}"


def prefetch(b: Body, buffer: N.Buffer, at: str, written: bool) -> None:
    """Emits a prefetch of what later groups of iterations read or write, one cache line at a time. On some processors
    accesses under a mask do not start the hardware's own prefetcher: Zen 5 reads four times as slowly without this.
    Prefetching an invalid address does no harm."""
    if buffer.kind in ("heap", "private"):
        return
    for line in range(_AHEAD, _AHEAD + b.width * buffer.dtype.nbytes, 64):
        place = b.fn.let(f"getelementptr i8, ptr {at}, i64 {line}")
        b.fn.call("void", "llvm.prefetch.p0", ("ptr", place), ("i32", str(int(written))), ("i32", "3"), ("i32", "1"))


def own_memory(kernel: N.Kernel, task: N.Offload, most: int) -> dict[str, N.Buffer]:
    """The buffers of role "block" that only this task uses, as buffers of kind "shared" that hold one block's part;
    none if these would take more than ``most`` bytes. Adjoints stay in global memory, because they must be 0 before a
    block begins."""
    found = {name: x for name, x in kernel.buffers.items() if x.role == "block"}
    if not found:
        return {}
    others = {x.grad for x in found.values()}
    others |= {s.buffer for t in kernel.tasks if t is not task for s in find((t,), N.Access)}
    used = {s.buffer for s in find((task,), N.Access)}
    own = {}
    for name, x in found.items():
        if name in others or name not in used:
            continue
        shape = tuple(n.value for n in of_kind(x.extents[1:], SizeConst))
        own[name] = replace(x, kind="shared", shape=shape, extents=(), ndim=len(shape), role="")
    size = sum(prod(x.shape or ()) * x.dtype.nbytes for x in own.values())
    return own if size <= most else {}
