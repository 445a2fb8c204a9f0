"""Lowers atomics that a device lacks to loops of compare and exchange on the word that holds the element.

    %2 = atomic mul @x[%0], %1    becomes    seen = load @x.words[%0]
                                             while again {
                                               now = atomic cas @x.words[%0], bits(seen * %1) expected seen
                                               again = now != seen; seen = now
                                             }

A word has 32 bits, or 64 if the element has 64. The number of retries is not limited. Every buffer begins at the start
of a word. `LowerOffsets` must run before.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.cell_order import FIRST
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import UNSIGNED, DType, i32, u1, u32, u64
from quadrants_lab.ir.walk import map_offloads, reading, rewrite_in, types_of, uses

INTEGER = ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas")


@dataclass(frozen=True, slots=True)
class LowerAtomics(Parametrised):
    """Guarantees that the device has every atomic that is left. Atomics that are private, or in a serial task, become a
    load, an operation and a store. ``native``: pairs of a dtype and the operations that the device has for it.
    ``one_thread``: the whole kernel runs on one thread."""

    native: tuple[tuple[DType, tuple[str, ...]], ...] = ()
    one_thread: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        native = dict(self.native)
        b, read = Builder(kernel.next_id, types_of(kernel.body)), uses(kernel.body)
        buffers, ids = dict(kernel.buffers), dict[int, int]()

        def lowered(s: N.Stmt, serial: bool) -> N.Stmt | list[N.Stmt]:
            s = reading(s, ids)
            if not isinstance(s, N.Atomic):
                return s
            own = self.one_thread or serial or s.private
            has = native.get(s.type, ())
            if not own and s.op in has:
                return s
            b.span, b.adjoint_of = s.span, s.adjoint_of
            with b.block() as made:
                if s.op == "slot":
                    ids[s.id] = _slot(b, buffers[s.buffer], s.index[0])
                elif own:
                    _plain(b, s, s.id in read)
                elif s.op == "sub" and "add" in has:
                    b.add(replace(s, op="add", value=b.op("neg", s.value)))
                else:
                    ids[s.id] = _loop(b, s, buffers, s.id in read)
            return made

        made = map_offloads(kernel, lambda t: rewrite_in(t, partial(lowered, serial=t.kind == "serial")))
        return kernel if made is kernel else replace(made, buffers=buffers, next_id=b.next_id)


def _slot(b: Builder, table: N.Buffer, word: int) -> int:
    """Emits, for a kernel that one thread runs: if the table's entry ``word`` holds no slot yet, takes the next free
    slot. Returns the slot's index."""
    taken = b.const(0, b.types[word])
    before = X(b, b.load(table, (taken,)))
    b.store(table, (taken,), (before + 1).id)
    b.store(table, (word,), (before + FIRST).id)
    return (before + FIRST).id


def _plain(b: Builder, s: N.Atomic, read: bool) -> None:
    """Emits an atomic as a load, an operation and a store. If the old value is ``read``, the load gets the atomic's id,
    otherwise the store gets it."""
    old = b.add(N.Load(s.id if read else b.fresh(), s.type, s.buffer, s.index, name=s.name))
    b.add(N.Store(b.fresh() if read else s.id, s.buffer, s.index, _new(b, s, old)))


def _loop(b: Builder, s: N.Atomic, buffers: dict[str, N.Buffer], read: bool) -> int:
    """Emits an atomic as a loop of compare and exchange. Returns the id of the element's old value if it is ``read``.
    """
    buffer = buffers[s.buffer]
    word = u64 if s.type.bits == 64 else u32
    name = f"{s.buffer}.words"
    words = buffers[name] = N.Buffer(name, "words", word, 1, None, of=buffer.of or s.buffer)
    at, decode, encode = _place(b, buffer, s.index)
    if s.op == "exchange" and s.type.bits >= 32:
        return decode(X(b, b.atomic("exchange", words, (at.id,), encode(X(b, s.value), at).id))).id
    carried = b.param(word, "seen"), b.param(u1, "again")
    inits = b.load(words, (at.id,)), b.const(True, u1)
    with b.block() as cond:
        b.yield_(carried[1].id)
    with b.block() as body:
        seen = X(b, carried[0].id)
        new = encode(X(b, _new(b, s, decode(seen).id)), seen)
        now = X(b, b.add(N.Atomic(b.fresh(), word, words.name, (at.id,), new.id, "cas", expected=seen.id)))
        b.yield_(now.id, (now != seen).id)
    results = tuple(b.param(p.type) for p in carried)
    b.add(N.While(b.fresh(), carried, inits, tuple(cond), tuple(body), results))
    return decode(X(b, results[0].id)).id if read else N.NO_ID


def _new(b: Builder, s: N.Atomic, old: int) -> int:
    """Emits the element's new value, computed from its old value."""
    if s.op == "exchange":
        return s.value
    if s.op == "cas":
        return b.op("select", b.op("eq", old, s.expected), s.value, old)
    return b.op(s.op, old, s.value)


def _place(b: Builder, buffer: N.Buffer, index: N.Ids) -> tuple[X, Callable[[X], X], Callable[[X, X], X]]:
    """Where an element lies in memory that is seen as words: the index of its word, a function from the word to the
    element, and a function from the new element and the old word to the new word."""
    t, nbytes = buffer.dtype, buffer.dtype.nbytes
    bits, at = UNSIGNED[8 * nbytes], X(b, index[0] if index else b.const(0, i32))
    shift: X | None = None
    if nbytes < 4:
        per = 4 // nbytes
        shift = (at & (per - 1)).cast(u32) * (8 * nbytes)
        at = at.lshr(at.like(per.bit_length() - 1))
        keep = ~X(b, b.const((1 << 8 * nbytes) - 1, u32)).shl(shift)

    def decode(word: X) -> X:
        raw = word if shift is None else word.lshr(shift).cast(bits)
        return (raw != 0) if t is u1 else raw.bitcast(t)

    def encode(element: X, around: X) -> X:
        raw = element.select(X(b, b.const(1, bits)), X(b, b.const(0, bits))) if t is u1 else element.bitcast(bits)
        return raw if shift is None else (around & keep) | raw.cast(u32).shl(shift)

    return at, decode, encode
