"""Memory over lanes: accesses to one element for all lanes, to neighbouring elements, or to any elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm import memory as scalar
from quadrants_lab.backends._llvm.body import HANDLERS
from quadrants_lab.backends._llvm.text import constant, memory_type, ty
from quadrants_lab.backends.reductions import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, i32, i64

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.lanes.body import LaneBody


_AHEAD = 1024  # bytes between what is accessed and what is prefetched


# --- addresses --------------------------------------------------------------------------------------------------


def _row_address(b: LaneBody, buffer: N.Buffer, index: tuple[int, ...], base: str) -> str:
    """Address of the first lane's element. It may lie outside of the buffer where that lane takes no part."""

    def offset() -> str:
        last = index[-1]
        first, t = b.linear[last], b.types[last]
        total = first if t.bits == 64 else b.fn.let(f"sext {ty(t).text} {first} to i64")
        scale = ""
        for axis in reversed(range(len(index) - 1)):
            n = scalar.extent(b, buffer, axis + 1)
            scale = b.fn.let(f"mul i64 {scale}, {n}") if scale else str(n)
            part = b.fn.let(f"mul i64 {scalar.widen(b, index[axis])}, {scale}")
            total = b.fn.let(f"add i64 {total}, {part}")
        return total

    at = b.once(("row", buffer.shape or buffer.name, index), offset)
    return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, i64 {at}")


def _places(b: LaneBody, buffer: N.Buffer, index: tuple[int, ...]) -> tuple[DType, str]:
    """A vector of the elements' numbers in the buffer, valid in the lanes that take part, and its dtype."""
    narrow = buffer.shape is not None and prod(buffer.shape) < 1 << 31
    t = i32 if narrow and all(b.types[i].bits <= 32 for i in index) else i64
    v = ty(t, b.width).text

    def offset() -> str:
        total = ""
        for axis, i in enumerate(index):
            place = _as(b, i, t)
            if total:
                n = scalar.extent(b, buffer, axis)
                total = b.fn.let(f"mul {v} {total}, {b.splat(n, t)}")
                total = b.fn.let(f"add {v} {total}, {place}")
            else:
                total = place
        return total

    return t, b.once(("each", buffer.shape or buffer.name, index), offset)


def _addresses(b: LaneBody, buffer: N.Buffer, index: tuple[int, ...], base: str) -> str:
    """A vector of the elements' addresses, valid in the lanes that take part."""
    t, at = _places(b, buffer, index)
    return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, {ty(t, b.width).text} {at}")


def _as(b: LaneBody, id: int, t: DType) -> str:
    """An index as a vector of ``t``, which is wide enough for an index that is in range."""
    source = b.types[id]
    if source.bits == t.bits:
        return b.vector(id)
    if t is i64 and b.uniform(id):
        return b.splat(scalar.widen(b, id), t)
    op = "trunc" if source.bits > t.bits else "sext" if source.kind == "i" else "zext"
    return b.fn.let(f"{op} {ty(source, b.width).text} {b.vector(id)} to {ty(t, b.width).text}")


def address(b: LaneBody, buffer: N.Buffer, index: tuple[int, ...], base: str = "") -> tuple[str, bool]:
    """Where the elements of a divergent access are: (the address of the first, True) if they lie in a row, else (a
    vector of addresses, False). ``base``: see `scalar.address`."""
    if buffer.kind == "heap":
        return _slot(b, buffer, index[0])
    base = base or b.pointer(buffer.name)
    if index and index[-1] in b.linear and b.uniform(*index[:-1]):  # neighbouring elements
        return _row_address(b, buffer, index, base), True
    if b.uniform(*index):
        return b.spread_pointer(scalar.address(b, buffer, index, base)), False
    return _addresses(b, buffer, index, base), False


def _slot(b: LaneBody, buffer: N.Buffer, slot: int) -> tuple[str, bool]:
    """As `address`, for adstacks: all lanes are at one slot, or each is at its own."""
    base = b.pointer(buffer.name)
    if b.uniform(slot):
        at = b.fn.let(f"mul i64 {b.values[slot]}, {b.stride}")
        return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, i64 {at}"), True
    v = ty(i64, b.width).text
    at = b.fn.let(f"mul {v} {b.vector(slot)}, {b.splat(b.stride, i64)}")
    at = b.fn.let(f"add {v} {at}, {b.numbers(i64)}")
    return b.fn.let(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, {v} {at}"), False


# --- loads and stores under the mask ----------------------------------------------------------------------------


def read(b: LaneBody, t: DType, at: str, row: bool, tag: str = "") -> str:
    """Reads a vector in the lanes that take part: from an address for each lane, or in a row from one address on. It
    must not use llvm.masked.load, which LLVM 22 may move past a store, to a select by the same mask. llvm.vp.load stays
    in place and becomes the same instruction."""
    w, element = b.width, memory_type(t)
    v = f"<{w} x {element}>"
    suffix = f"v{w}{ty(t).suffix if t.kind != 'b' else 'i8'}"
    name = f"llvm.vp.load.{suffix}.p0" if row else f"llvm.vp.gather.{suffix}.v{w}p0"
    where = "ptr" if row else f"<{w} x ptr>"
    b.fn.module.declare(name, v, (where, b.truth, "i32"))
    value = b.fn.let(f"call {v} @{name}({where} align {t.nbytes} {at}, {b.truth} {b.mask}, i32 {w}){tag}")
    return b.fn.let(f"icmp ne {v} {value}, zeroinitializer") if t.kind == "b" else value


def write(b: LaneBody, t: DType, at: str, row: bool, value: str, tag: str = "") -> None:
    """Writes a vector in the lanes that take part."""
    w, element = b.width, memory_type(t)
    v = f"<{w} x {element}>"
    if t.kind == "b":
        value = b.fn.let(f"zext {b.truth} {value} to {v}")
    suffix = f"v{w}{ty(t).suffix if t.kind != 'b' else 'i8'}"
    name = f"llvm.masked.store.{suffix}.p0" if row else f"llvm.masked.scatter.{suffix}.v{w}p0"
    where = "ptr" if row else f"<{w} x ptr>"
    b.fn.module.declare(name, "void", (v, where, "i32", b.truth))
    b.fn.put(f"call void @{name}({v} {value}, {where} {at}, i32 {t.nbytes}, {b.truth} {b.mask}){tag}")


def load(b: LaneBody, s: N.Load) -> None:
    if b.uniform(s.id):
        HANDLERS[N.Load](b, s)
        return
    buffer = b.kernel.buffers[s.buffer]
    if buffer.kind == "local":
        b.define(s.id, s.type, b.fn.let(f"load {ty(s.type, b.width).text}, ptr {b.pointer(s.buffer)}"))
        return
    at, row = address(b, buffer, s.index)
    if row and buffer.kind != "heap":
        _prefetch(b, s.type, at, written=False)
    b.define(s.id, s.type, read(b, s.type, at, row, b.tag(buffer)))


def _prefetch(b: LaneBody, t: DType, at: str, written: bool) -> None:
    """Prefetches what later groups read or write, a line of the cache at a time: accesses under a mask do not start the
    prefetcher of every processor (Zen 5 reads four times as slowly without). An invalid address does no harm."""
    for line in range(_AHEAD, _AHEAD + b.width * t.nbytes, 64):
        place = b.fn.let(f"getelementptr i8, ptr {at}, i64 {line}")
        b.fn.call("void", "llvm.prefetch.p0", ("ptr", place), ("i32", str(int(written))), ("i32", "3"), ("i32", "1"))


def store(b: LaneBody, s: N.Store) -> None:
    buffer = b.kernel.buffers[s.buffer]
    if s.buffer in b.per_lane:
        v, place = ty(buffer.dtype, b.width).text, b.pointer(s.buffer)
        value = b.select(b.mask, b.vector(s.value), b.fn.let(f"load {v}, ptr {place}"), buffer.dtype)
        b.fn.put(f"store {v} {value}, ptr {place}")
        return
    if b.uniform(*s.operands()):
        HANDLERS[N.Store](b, s)
        return
    at, row = address(b, buffer, s.index)
    if row and buffer.kind != "heap":
        _prefetch(b, buffer.dtype, at, written=True)
    write(b, buffer.dtype, at, row, b.vector(s.value), b.tag(buffer))


# --- atomics ----------------------------------------------------------------------------------------------------

# llvm.vector.reduce's name for (float, signed, unsigned)
_REDUCE: dict[str, tuple[str, str, str]] = {
    "add": ("fadd", "add", "add"), "sub": ("fadd", "add", "add"), "mul": ("fmul", "mul", "mul"),
    "min": ("fmin", "smin", "umin"), "max": ("fmax", "smax", "umax"), "and": ("", "and", "and"),
    "or": ("", "or", "or"), "xor": ("", "xor", "xor"),
}  # fmt: skip


def reduced(b: LaneBody, op: str, t: DType, value: str) -> str:
    return b.reduce(_REDUCE[op]["fiu".index(t.kind)], t, value)


def _taking_part(b: LaneBody, op: str, t: DType, value: str) -> str:
    """The value in the lanes that take part, the operation's identity in the others."""
    rest = identity("add" if op == "sub" else op, t)
    return b.select(b.mask, value, constant(ty(t, b.width), rest), t)


def _combine(b: LaneBody, op: str, t: DType, old: str, value: str, flags: str | None = None) -> str:
    outer, b.lanes = b.lanes, b.width
    new = scalar.combine(b, op, t, old, value, flags)
    b.lanes = outer
    return new


def atomic(b: LaneBody, s: N.Atomic) -> None:
    """The old value gets no definition: a task that uses one does not run in lanes."""
    t, value = s.type, b.vector(s.value)
    partial = b.partials.get(s.buffer)
    if partial is not None:
        v = ty(t, b.width).text
        old = b.fn.let(f"load {v}, ptr {partial.ptr}")
        new = _combine(b, s.op, t, old, _taking_part(b, s.op, t, value), b.fast or "reassoc ")
        b.fn.put(f"store {v} {new}, ptr {partial.ptr}")
        return
    buffer = b.kernel.buffers[s.buffer]
    alone, base = ("", "") if s.private else b.sums(s.buffer)
    if b.uniform(*s.index):
        share = reduced(b, s.op, t, _taking_part(b, s.op, t, value))
        place = scalar.address(b, buffer, s.index, base)
        scalar.modify_unless_alone(b, s.op, t, place, share, b.tag(buffer), alone)
        return
    at, row = address(b, buffer, s.index, base)
    tag = b.tag(buffer)

    def together() -> None:
        old = read(b, t, at, row, tag)
        write(b, t, at, row, _combine(b, s.op, t, old, value), tag)

    def change(alone: str, place: str, one: str) -> str:
        return scalar.modify_unless_alone(b, s.op, t, place, one, tag, alone)

    def each(alone: str) -> None:
        places = _addresses(b, buffer, s.index, base or b.pointer(s.buffer)) if row else at
        _one_by_one(b, t, places, value, lambda at, one: change(alone, at, one))

    def one_place(first: str) -> None:
        start = base or b.pointer(s.buffer)
        place = b.fn.let(f"getelementptr {memory_type(t)}, ptr {start}, {ty(t_place).text} {first}")
        change(alone, place, reduced(b, s.op, t, _taking_part(b, s.op, t, value)))

    if s.private:
        if row:
            _prefetch(b, t, at, written=True)
        together()
    elif row and alone:  # the elements of a row differ
        _either(b, alone, together, lambda: each(""))
    elif row:
        each(alone)
    else:
        t_place, places = _places(b, buffer, s.index)
        first = _first_place(b, t_place, places)
        if b.apart is None:
            _either(b, _same_place(b, t_place, places, first), lambda: one_place(first), lambda: each(alone))
            return
        if b.apart:
            on = b.fn.label("together")
            b.fn.branch(_same_place(b, t_place, places, first), on, b.apart)
            b.fn.start(on)
            b.apart = ""
        one_place(first)


def _first_place(b: LaneBody, t: DType, places: str) -> str:
    """The place of the first lane, any place if that lane takes no part."""
    return b.fn.let(f"freeze {ty(t).text} {b.fn.let(f'extractelement {ty(t, b.width).text} {places}, i64 0')}")


def _same_place(b: LaneBody, t: DType, places: str, first: str) -> str:
    """Whether all lanes that take part are at the place ``first``, as an i1."""
    differs = b.fn.let(f"icmp ne {ty(t, b.width).text} {places}, {b.splat(first, t)}")
    return b.fn.let(f"xor i1 {b.any(b.masked(b.mask, differs))}, true")


def _either(b: LaneBody, condition: str, together: Callable[[], None], each: Callable[[], None]) -> None:
    """Makes the change of all lanes ``together`` where the i1 holds, else for ``each``."""
    fn, outer = b.fn, b.offsets
    at_once, apart, done = fn.label("together"), fn.label("each"), fn.label("done")
    fn.branch(condition, at_once, apart)
    for label, change in ((at_once, together), (apart, each)):
        fn.start(label)
        b.offsets = dict(outer)
        change()
        fn.jump(done)
    b.offsets = outer
    fn.start(done)


def _one_by_one(b: LaneBody, t: DType, at: str, value: str, change: Callable[[str, str], str]) -> None:
    """Makes the change for one lane after the other, because lanes may change the same element."""
    fn, w = b.fn, b.width
    fn.put(f"store <{w} x ptr> {at}, ptr {b.scratch_at}")
    fn.put(f"store {ty(t, w).text} {value}, ptr {b.scratch_values}")
    todo = fn.let(f"bitcast {b.truth} {b.mask} to i{w}")
    before, loop, done = fn.block, fn.label("lane"), fn.label("done")
    fn.jump(loop)
    fn.start(loop)
    left, hole = fn.hole()
    n = b.lowest(left)
    place = fn.let(f"getelementptr inbounds ptr, ptr {b.scratch_at}, i64 {n}")
    one = fn.let(f"getelementptr inbounds {ty(t).text}, ptr {b.scratch_values}, i64 {n}")
    change(fn.let(f"load ptr, ptr {place}"), fn.let(f"load {ty(t).text}, ptr {one}"))
    after = fn.label("next")
    fn.jump(after)
    fn.start(after)
    rest = fn.let(f"and i{w} {left}, {fn.let(f'sub i{w} {left}, 1')}")
    fn.patch(hole, f"{left} = phi i{w} [{todo}, %{before}], [{rest}, %{after}]")
    fn.branch(fn.let(f"icmp ne i{w} {rest}, 0"), loop, done)
    fn.start(done)
