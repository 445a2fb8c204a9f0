"""Lowers accesses to memory in the order of a sparse layout's cells (`ir.cell_order`) to the numbers of elements.

    load @x[%i, %j]    becomes    slot = load @x.table[1 + stretch]; load @x.cells[begin + slot * size + place]

A load needs no test, because a stretch without a slot has the number of one that holds zeros. A store of a value with a
bit that is set, and every atomic, gives the stretch a slot first. All that is not taken yet is zero.
"""

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from quadrants_lab.backends.lower.digits import Splits, places, splits
from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import slots_of
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.cell_order import FIRST, Slots, levels_of
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import UNSIGNED, DType, i32, i64, u1, u32
from quadrants_lab.ir.walk import find, rewrite_in, types_of


@dataclass(frozen=True, slots=True)
class LowerCells(Parametrised):
    """Guarantees that memory with a table is not accessed by indices any more, and without ``pages`` no memory in an
    order of cells. ``pages``: the device knows the orders of memory in pages, and runs iterations in lanes, for which a
    slot is loaded again after it was made, because the table's word is known to be the same for all of them."""

    pages: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        found = {b.name for b in kernel.buffers.values() if (slots_of(b) if self.pages else b.order)}
        if not found:
            return kernel
        b, made = Builder(kernel.next_id, types_of(kernel.body)), dict[str, N.Buffer]()
        body = []
        for task in kernel.tasks:
            known = splits(task)
            zeros = {s.id for s in find(task.body, N.Const) if s.value == 0 and str(s.value)[0] != "-"}

            def one(s: N.Stmt, known: Splits = known, zeros: set[int] = zeros) -> N.Stmt | list[N.Stmt]:
                if not isinstance(s, N.Access) or s.buffer not in found:
                    return s
                b.span, b.adjoint_of = s.span, s.adjoint_of
                at = _Place(b, kernel.buffers[s.buffer], s.index, known, made, self.pages)
                return b.made(at.access, s, isinstance(s, N.Store) and s.value in zeros)

            body.append(rewrite_in(task, one))
        return replace(kernel, body=tuple(body), buffers=kernel.buffers | made, next_id=b.next_id)


@dataclass(slots=True)
class _Place:
    """Where an element of a buffer is. ``made`` gets the views of the buffer that are used."""

    b: Builder
    buffer: N.Buffer
    index: N.Ids
    known: Splits
    made: dict[str, N.Buffer]
    again: bool  # see `LowerCells`

    def view(self, name: str, type: DType) -> N.Buffer:
        name = f"{self.buffer.name}.{name}"
        return self.made.setdefault(name, N.Buffer(name, "words", type, 1, None, of=self.buffer.name))

    def access(self, s: N.Access, zero: bool) -> None:
        """Appends the access, which may store a constant ``zero``."""
        b, slots = self.b, slots_of(self.buffer)
        elements = slots.elements if slots else prod(n for _, n in self.buffer.order)
        t = i32 if elements < 1 << 31 else i64
        if slots is None:
            at = self.number(places(self.buffer.order, self.index, self.known), t)
        else:
            stretch, place = self.stretch(slots, t)
            makes = isinstance(s, N.Atomic) or (isinstance(s, N.Store) and not zero)
            slot = self.slot(stretch + 1, X(b, s.value) if isinstance(s, N.Store) else None, makes)
            at = slot.cast(t) * slots.size + slots.begin + place
        b.stmts.append(replace(s, buffer=self.view("cells", self.buffer.dtype).name, index=(at.id,)))

    def slot(self, word: X, stored: X | None, makes: bool) -> X:
        """The number of a stretch's slot. With ``makes`` it gets one if it has none, unless all bits of the value that
        is ``stored`` are 0."""
        b, table = self.b, self.view("table", u32)
        slot = X(b, b.load(table, (word.id,)))
        if not makes:
            return slot
        missing = slot < FIRST
        if stored is not None:
            missing = missing & (stored if stored.type is u1 else stored.bitcast(UNSIGNED[stored.type.bits]) != 0)
        with b.block() as then:
            made = b.atomic("slot", table, (word.id,), b.const(1, u32))
            b.yield_(*([] if self.again else [made]))
        with b.block() as orelse:
            b.yield_(*([] if self.again else [slot.id]))
        results = [] if self.again else [b.param(u32)]
        b.add(N.If(b.fresh(), missing.id, tuple(then), tuple(orelse), tuple(results)))
        return X(b, b.load(table, (word.id,)) if self.again else results[0].id)

    def stretch(self, slots: Slots, t: DType) -> tuple[X, X]:
        """The number of the element's stretch, and of the element in it: from the outer and from the inner levels, or,
        where none begins with the stretches, from the number of the element."""
        outer, inner, left = [*levels_of(self.buffer.order)], list[tuple[int, int]](), slots.size
        while left > 1 and outer:
            axis, n = outer.pop()
            if left % n and n % left:
                break
            inner.insert(0, (axis, min(n, left)))
            outer += [(axis, n // left)] if n > left else []
            left //= min(n, left)
        if left == 1 and outer:
            digits = [*places((*outer, *inner), self.index, self.known)]
            return self.number(digits[: len(outer)], t), self.number(digits[len(outer) :], t)
        at = self.number(places(self.buffer.order, self.index, self.known), t)
        return _divided(at, slots.size), _modulo(at, slots.size)

    def number(self, digits: Iterable[tuple[int, int, int, int]], t: DType) -> X:
        """The number that these digits make; see `places`."""
        at: X | None = None
        for n, i, by, modulo in digits:
            digit = _divided(X(self.b, i).cast(t), by)
            digit = _modulo(digit, modulo) if modulo else digit
            at = digit if at is None else at * n + digit
        assert at is not None
        return at


def _divided(x: X, by: int) -> X:
    return x if by == 1 else x.shr(by.bit_length() - 1) if by & (by - 1) == 0 else x.quot(by)


def _modulo(x: X, by: int) -> X:
    return x & (by - 1) if by & (by - 1) == 0 else x.rem(by)
