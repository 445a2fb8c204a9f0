"""Adstacks over lanes: [slot][lane]. The lanes share a counter as long as every push and pop happens to all of them;
else each has its own, so that a depth never depends on what other lanes do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm.text import constant, ty
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.lanes import memory
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, i32, i64, u1
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends.cpu.lanes.body import LaneBody


@dataclass(slots=True)
class LaneStack:
    """``counter``: address of an i64, or where ``split`` of a vector of them. ``base``: the first lane's first slot
    ("": the pushes are only counted)."""

    number: int
    dtype: DType
    split: bool
    counter: str
    base: str
    capacity: str
    last: str
    tag: str

    @property
    def element(self) -> DType:
        """What memory holds: flags are packed 32 to a word."""
        return i32 if self.dtype.kind == "b" else self.dtype


def open_stack(b: LaneBody, s: N.AdStackAlloca) -> None:
    at = b.frame.stack_at[s.id]
    number = next(n for n, a in enumerate(b.frame.stacks) if a.id == s.id)
    split = s.id in b.split
    counter = b.fn.let(f"alloca {_counts(b, split)}")
    base = capacity = last = ""
    if not s.count_only:
        start = b.fn.let(f"mul i64 {b.word(at + L.STACK_AT)}, {b.stride}")
        base = b.fn.let(f"getelementptr inbounds i8, ptr {b.slab()}, i64 {start}")
        capacity, last = b.word(at + L.STACK_CAPACITY), b.word(at + L.STACK_LAST)
    b.kept[s.id] = LaneStack(number, s.type, split, counter, base, capacity, last, b.scopes.tag(f"${s.id}"))


def _counts(b: LaneBody, split: bool) -> str:
    return ty(i64, b.width if split else 1).text


def _count(b: LaneBody, st: LaneStack) -> str:
    return b.fn.let(f"load {_counts(b, st.split)}, ptr {st.counter}")


def _set(b: LaneBody, st: LaneStack, count: str) -> None:
    b.fn.put(f"store {_counts(b, st.split)} {count}, ptr {st.counter}")


def _step(b: LaneBody, st: LaneStack, count: str, op: str) -> None:
    """One more or less, in the lanes that take part."""
    one = "1" if not st.split else b.fn.let(f"zext {b.truth} {b.mask} to {ty(i64, b.width).text}")
    _set(b, st, b.fn.let(f"{op} {_counts(b, st.split)} {count}, {one}"))


def alloca(b: LaneBody, s: N.AdStackAlloca) -> None:
    st = b.kept[s.id]
    _set(b, st, "zeroinitializer" if st.split else "0")


def _clamp(b: LaneBody, st: LaneStack, index: str) -> str:
    t = _counts(b, st.split)
    last = b.splat(st.last, i64) if st.split else st.last
    return b.fn.call(t, f"llvm.umin.{ty(i64, b.width if st.split else 1).suffix}", (t, index), (t, last))


def _place(b: LaneBody, st: LaneStack, element: str) -> tuple[str, bool]:
    """Address of an element of the first lane, where neighbours follow, or of each lane."""
    fn, t = b.fn, _counts(b, st.split)
    stride = b.splat(b.stride, i64) if st.split else b.stride
    at = fn.let(f"mul {t} {element}, {stride}")
    if st.split:
        at = fn.let(f"add {t} {at}, {b.numbers(i64)}")
    return fn.let(f"getelementptr {ty(st.element).text}, ptr {st.base}, {t} {at}"), not st.split


def _word(b: LaneBody, st: LaneStack, index: str) -> tuple[str, bool, str]:
    """Where the words are that hold flags, and the bit's place in them, by lane."""
    fn, t = b.fn, _counts(b, st.split)
    each = "splat (i64 {})" if st.split else "{}"
    at, row = _place(b, st, fn.let(f"lshr {t} {index}, {each.format(5)}"))
    bit = fn.let(f"and {t} {index}, {each.format(31)}")
    narrow = fn.let(f"trunc {t} {bit} to {ty(i32, b.width if st.split else 1).text}")
    return at, row, narrow if st.split else b.splat(narrow, i32)


def push(b: LaneBody, s: N.AdStackPush) -> None:
    st, fn = b.kept[s.stack], b.fn
    n = _count(b, st)
    _step(b, st, n, "add")
    if not st.base:
        return
    index, value = _clamp(b, st, n), b.vector(s.value)
    if st.dtype.kind != "b":
        memory.write(b, st.dtype, *_place(b, st, index), value, st.tag)
        return
    v = ty(i32, b.width).text
    at, row, bit = _word(b, st, index)
    old = memory.read(b, i32, at, row, st.tag)
    others = fn.let(f"and {v} {old}, {_not(b, fn.let(f'shl {v} {constant(ty(i32, b.width), 1)}, {bit}'))}")
    new = fn.let(f"shl {v} {fn.let(f'zext {b.truth} {value} to {v}')}, {bit}")
    memory.write(b, i32, at, row, fn.let(f"or {v} {others}, {new}"), st.tag)


def _not(b: LaneBody, value: str) -> str:
    t = ty(i32, b.width)
    return b.fn.let(f"xor {t.text} {value}, {constant(t, -1)}")


def pop(b: LaneBody, s: N.AdStackPop) -> None:
    st = b.kept[s.stack]
    _step(b, st, _count(b, st), "sub")


def load_top(b: LaneBody, s: N.AdStackLoadTop) -> None:
    st, fn = b.kept[s.stack], b.fn
    t = _counts(b, st.split)
    index = fn.let(f"sub {t} {_count(b, st)}, {'splat (i64 1)' if st.split else '1'}")
    if not b.guarded:
        index = _clamp(b, st, index)
    if st.dtype.kind != "b":
        b.define(s.id, s.type, memory.read(b, st.dtype, *_place(b, st, index), st.tag))
        return
    v = ty(i32, b.width).text
    at, row, bit = _word(b, st, index)
    shifted = fn.let(f"lshr {v} {memory.read(b, i32, at, row, st.tag)}, {bit}")
    b.define(s.id, s.type, fn.let(f"trunc {v} {shifted} to {b.truth}"))


def depth(b: LaneBody, s: N.AdStackDepth) -> None:
    st = b.kept[s.stack]
    n, t = _count(b, st), ty(s.type, b.width if st.split else 1).text
    if s.type.bits != 64:
        n = b.fn.let(f"trunc {_counts(b, st.split)} {n} to {t}")
    b.define(s.id, s.type, n)


def guard(b: LaneBody, s: N.AdStackGuard) -> None:
    """A lane over capacity skips the reverse."""
    fn, outer = b.fn, b.mask
    stored = [st for st in b.kept.values() if st.base]
    some, bad, good, join = "", fn.label("over"), fn.label("fits"), fn.label("join")
    which = how_deep = "0"
    for st in stored:
        over, deepest = _over(b, st)
        which = fn.let(f"select i1 {over}, i64 {st.number}, i64 {which}")
        how_deep = fn.let(f"select i1 {over}, i64 {deepest}, i64 {how_deep}")
        some = fn.let(f"or i1 {some}, {over}") if some else over
    if some:
        check = fn.label("check")
        fn.branch(some, bad, check)
        fn.start(bad)
        b.overflow(which, how_deep)
        fn.jump(check)
        fn.start(check)
        for st in stored:
            b.mask = b.both(b.mask, _fits(b, st))
        fn.branch(b.any(b.mask), good, join)
        fn.start(good)
    pushes = any(isinstance(inner, N.AdStackPush) for inner in walk(s.body))
    outer_guarded, b.guarded = b.guarded, not pushes
    b.block(s.body)
    b.guarded, b.mask = outer_guarded, outer
    if some:
        fn.jump(join)
        fn.start(join)


def _over(b: LaneBody, st: LaneStack) -> tuple[str, str]:
    """Whether a lane that takes part is over capacity, and the greatest depth."""
    n = _count(b, st)
    if st.split:
        n = b.reduce("umax", i64, b.either(b.mask, n, "zeroinitializer", i64))
    return b.fn.let(f"icmp ugt i64 {n}, {st.capacity}"), n


def _fits(b: LaneBody, st: LaneStack) -> str:
    """The lanes that are not, as a mask."""
    n = _count(b, st)
    if st.split:
        return b.fn.let(f"icmp ule {_counts(b, True)} {n}, {b.splat(st.capacity, i64)}")
    return b.splat(b.fn.let(f"icmp ule i64 {n}, {st.capacity}"), u1)
