"""Emits atomics for one iteration or for all lanes: as atomic instructions, as plain reads and writes, or into a
variable."""

from collections.abc import Callable
from functools import partial

from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.body import Body
from quadrants_lab.backends._llvm.ops import COLUMN
from quadrants_lab.backends._llvm.text import memory_type, ty
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.cell_order import CLAIMED, FIRST
from quadrants_lab.ir.types import DType


def combine(
    b: Body, op: str, t: DType, old: str, value: str, flags: str | None = None, lanes: int = 1
) -> str:
    """Emits ``buffer op= value`` for the element whose present value is ``old``; returns the element's new value."""
    if op == "exchange":
        return value
    return b.operate(op, t, old, value, flags, lanes)


def atomic(b: Body, s: N.Atomic) -> None:
    """Emits an atomic statement. No task that uses an atomic's old value runs in lanes, so only one lane needs it."""
    if s.op == "slot":
        _slot(b, s)
        return
    t, value, loose = s.type, b.value(s.value, b.width), b.fast or "reassoc "
    partial = b.partials.get(s.buffer)
    if partial is not None:
        old = b.fn.read(t, partial.ptr, lanes=b.width)
        new = combine(b, s.op, t, old, b.taking_part(s.op, t, value), loose, b.width)
        b.fn.write(t, partial.ptr, new, lanes=b.width)
        b.define(s.id, t, old)
        return
    buffer = b.kernel.buffers[s.buffer]
    alone, base = ("", "") if s.private else b.sums(s.buffer)
    if not b.uniform(*s.index):
        _at_each(b, s, buffer, value, alone, base or b.pointer(s.buffer))
        return
    value = b.combined(s.op, t, b.taking_part(s.op, t, value))
    ptr, tag = memory.address(b, buffer, s.index, base), b.tag(buffer)
    if s.op == "cas":
        types = f"{memory_type(t)} {b.values[s.expected]}, {memory_type(t)} {value}"
        order = "acq_rel acquire" if buffer.kind != "frame" else "monotonic monotonic"  # only the host reads a frame
        pair = b.fn.atomic(f"cmpxchg ptr {ptr}, {types}", order, tag)
        old = b.fn.let(f"extractvalue {{ {memory_type(t)}, i1 }} {pair}, 0")
    elif s.private or not b.parallel:
        old = b.fn.read(t, ptr, tag)
        b.fn.write(t, ptr, combine(b, s.op, t, old, value, loose if buffer.role == "share" else None), tag)
    else:
        old = modify_unless_alone(b, s.op, t, ptr, value, tag, alone)
    b.define(s.id, t, old)


# --- one element ------------------------------------------------------------------------------------------------

# operation -> atomicrmw's name for it on (float, signed, unsigned and u1); "": a loop of compare and exchange instead
_RMW: dict[str, tuple[str, str, str]] = {
    "add": ("fadd", "add", "add"),
    "sub": ("fadd", "sub", "sub"),  # floats: the negated value is added, since no device has an atomic subtraction
    "mul": ("", "", ""),
    "min": ("fmin", "min", "umin"),
    "max": ("fmax", "max", "umax"),
    "and": ("", "and", "and"),
    "or": ("", "or", "or"),
    "xor": ("", "xor", "xor"),
    "exchange": ("xchg", "xchg", "xchg"),
}


def modify_unless_alone(b: Body, op: str, t: DType, ptr: str, value: str, tag: str, alone: str) -> str:
    """Emits ``*ptr op= value``; returns the old value. If the i1 ``alone`` is true at run time, no other thread changes
    the element meanwhile, and a plain read and write replace the atomic instruction."""

    def plainly() -> str:
        old = b.fn.read(t, ptr, tag)
        b.fn.write(t, ptr, combine(b, op, t, old, value), tag)
        return old

    def atomically() -> str:
        return modify(b, op, t, ptr, value, tag)

    if alone in ("", "true"):
        return plainly() if alone else atomically()
    return b.either(alone, ("plain", plainly), ("atomic", atomically), ty(t).text)


def modify(b: Body, op: str, t: DType, ptr: str, value: str, tag: str = "") -> str:
    """Emits ``*ptr op= value`` as one atomic instruction, or as a loop if there is none; returns the old value."""
    rmw = _RMW[op][COLUMN[t.kind]]
    if not rmw:
        return _exchange_loop(b, op, t, ptr, value)
    if op == "sub" and t.is_float:
        value = b.fn.let(f"fneg {ty(t).text} {value}")
    old = b.fn.atomic(f"atomicrmw {rmw} ptr {ptr}, {memory_type(t)} {b.fn.stored(t, value)}", tag=tag)
    return b.fn.let(f"icmp ne i8 {old}, 0") if t.kind == "b" else old


def _exchange_loop(b: Body, op: str, t: DType, ptr: str, value: str) -> str:
    """Emits ``*ptr op= value`` as a loop that reads the element, computes its new value, and tries again if another
    thread has changed the element in between; returns the old value."""
    fn = b.fn
    word, element = f"i{t.bits}", ty(t).text
    first = fn.let(f"load {word}, ptr {ptr}")
    loop, done = fn.label("try"), fn.label("done")
    (seen,), again = fn.cycle(loop, (word, first))
    old = fn.let(f"bitcast {word} {seen} to {element}") if t.is_float else seen
    new = combine(b, op, t, old, value)
    if t.is_float:
        new = fn.let(f"bitcast {element} {new} to {word}")
    pair = fn.atomic(f"cmpxchg ptr {ptr}, {word} {seen}, {word} {new}", "monotonic monotonic")
    now = fn.let(f"extractvalue {{ {word}, i1 }} {pair}, 0")
    same = fn.let(f"extractvalue {{ {word}, i1 }} {pair}, 1")
    again(now)
    fn.branch(same, done, loop)
    fn.start(done)
    return old


def _slot(b: Body, s: N.Atomic) -> None:
    """Emits code that claims a slot in the table of a sparse layout for a stretch (a run of elements that share a
    slot), or for the stretch of each lane. See `backends.lower.atomics`."""
    buffer = b.kernel.buffers[s.buffer]
    base, tag = b.pointer(buffer.name), b.tag(buffer)

    def take(ptr: str) -> str:
        fn = b.fn
        again, first, rest, done = (fn.label(name) for name in ("slot", "take", "wait", "done"))
        fn.jump(again)
        fn.start(again)
        before = fn.atomic(f"atomicrmw umax ptr {ptr}, i32 {CLAIMED}", tag=tag)
        fn.branch(fn.let(f"icmp eq i32 {before}, 0"), first, rest)
        fn.start(first)
        number = fn.let(f"add i32 {fn.atomic(f'atomicrmw add ptr {base}, i32 1', tag=tag)}, {FIRST}")
        fn.atomic(f"atomicrmw umax ptr {ptr}, i32 {number}", tag=tag)
        fn.jump(rest)
        fn.start(rest)
        now = fn.atomic(f"atomicrmw umax ptr {ptr}, i32 {CLAIMED}", tag=tag)
        fn.branch(fn.let(f"icmp ult i32 {now}, {FIRST}"), again, done)
        fn.start(done)
        return now

    if b.uniform(*s.index):
        b.define(s.id, s.type, take(memory.address(b, buffer, s.index)))
    else:
        each = memory.each_address(b, buffer, s.index, base)
        _one_by_one(b, s.type, each, b.vector(s.value), lambda place, _: take(place))
        b.define(s.id, s.type, memory.read_lanes(b, s.type, each, False, tag))


# --- an element for each lane -----------------------------------------------------------------------------------


def _at_each(b: Body, s: N.Atomic, buffer: N.Buffer, value: str, alone: str, base: str) -> None:
    """Emits an atomic whose index differs between lanes. ``alone`` and ``base``: the results of `Body.sums`."""
    t, tag = s.type, b.tag(buffer)
    at, row = memory.addresses(b, buffer, s.index, base)

    def together() -> None:
        old = memory.read_lanes(b, t, at, row, tag)
        memory.write_lanes(b, t, at, row, combine(b, s.op, t, old, value, lanes=b.width), tag)

    def change(alone: str, place: str, one: str) -> str:
        return modify_unless_alone(b, s.op, t, place, one, tag, alone)

    def each(alone: str) -> None:
        each_at = memory.each_address(b, buffer, s.index, base) if row else at
        _one_by_one(b, t, each_at, value, lambda place, one: change(alone, place, one))

    def one_place(first: str) -> None:
        place = b.fn.let(f"getelementptr {memory_type(t)}, ptr {base}, {ty(t_place).text} {first}")
        change(alone, place, b.combined(s.op, t, b.taking_part(s.op, t, value)))

    if s.private:
        if row:
            memory.prefetch(b, buffer, at, written=True)
        together()
    elif row and alone:  # the elements of a row differ from each other
        b.either(alone, ("together", together), ("each", partial(each, "")))
    elif row:
        each(alone)
    else:
        t_place, where = memory.places(b, buffer, s.index)
        first = _first_place(b, t_place, where)
        if b.scattered is None:
            one, same = partial(one_place, first), _same_place(b, t_place, where, first)
            b.either(same, ("together", one), ("each", partial(each, alone)))
            return
        if b.scattered:
            on = b.fn.label("together")
            b.fn.branch(_same_place(b, t_place, where, first), on, b.scattered)
            b.fn.start(on)
            b.scattered = ""
        one_place(first)


def _first_place(b: Body, t: DType, places: str) -> str:
    """The index of the first lane's element, one of ``places``. It is arbitrary if that lane does not take part."""
    return b.fn.let(f"freeze {ty(t).text} {b.fn.let(f'extractelement {ty(t, b.width).text} {places}, i64 0')}")


def _same_place(b: Body, t: DType, places: str, first: str) -> str:
    """Emits an i1 that is true if, in all lanes that take part, the entry of ``places`` equals ``first``."""
    differs = b.fn.let(f"icmp ne {ty(t, b.width).text} {places}, {b.splat(first, t)}")
    return b.fn.let(f"xor i1 {b.any(b.masked(b.mask, differs))}, true")


def _one_by_one(b: Body, t: DType, at: str, value: str, change: Callable[[str, str], str]) -> None:
    """Calls ``change(address, value)`` for one lane after the other, because several lanes may change the same element.
    """
    fn, w = b.fn, b.width
    fn.put(f"store <{w} x ptr> {at}, ptr {b.scratch_at}")
    fn.put(f"store {ty(t, w).text} {value}, ptr {b.scratch_values}")

    def one(n: str) -> tuple[()]:
        place = fn.let(f"getelementptr inbounds ptr, ptr {b.scratch_at}, i64 {n}")
        one = fn.let(f"getelementptr inbounds {ty(t).text}, ptr {b.scratch_values}, i64 {n}")
        change(fn.let(f"load ptr, ptr {place}"), fn.let(f"load {ty(t).text}, ptr {one}"))
        return ()

    b.each_lane(one)
