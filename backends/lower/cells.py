"""Lowers accesses to sparse layouts: an element's several indices become one index into memory that is ordered by cells
(`ir.cell_order`). Some memories are stored in slots: the elements in this order are cut into stretches of equal length,
each stretch can have a slot, and a table gives the index of each stretch's slot.

load @x[%i, %j] becomes slot = load @x.table[1 + stretch]; load @x.cells[begin + slot * size + place]

A load needs no test, because a stretch without a slot has the index of a slot that holds zeros. Every atomic, and every
store except of a constant 0, first claims a slot for the stretch if it has none. Slots that are not claimed hold zeros.
If a loop accesses elements of one stretch only, the slot is claimed once, before the loop.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends.cost import fixed_total
from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.buffers import slots_of
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.cell_order import FIRST, Order, digits, levels_of
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import UNSIGNED, DType, i32, i64, u1, u32
from quadrants_lab.ir.walk import find, map_blocks, same_or, types_of, walk

Digit = tuple[int, int, int, int]  # see `places`
Claimed = dict[tuple[str, tuple[Digit, ...]], int]  # (buffer, digits of a stretch's index) -> the index of its slot


@dataclass(frozen=True, slots=True)
class LowerCells(Parametrised):
    """Guarantees that an access to memory with a table has no cell indices any more, but one index; without ``pages``
    the same holds for all memory ordered by cells. ``pages``: the device itself handles memory in pages that is ordered
    by cells; ``wide``: its addresses have 64 bits."""

    pages: bool = False
    wide: bool = False

    @deeply_recursive
    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        found = {b.name for b in kernel.buffers.values() if (slots_of(b) if self.pages else b.order)}
        if not found:
            return kernel
        b, made = Builder(kernel.next_id, types_of(kernel.body)), dict[str, N.Buffer]()
        body = []
        ranges = Ranges(kernel)
        for task in kernel.tasks:
            lowered, pair = _Task(b, kernel, ranges, found, made, self.wide, task), copied(kernel, task)
            if pair is None or not slots_of(pair[0]):
                body.append(lowered.lowered())
            else:
                body.append(lowered.copying(*pair))
        return replace(kernel, body=tuple(body), buffers=kernel.buffers | made, next_id=b.next_id)


class _Task:
    """Lowers the accesses of a task to the buffers ``found``. ``made``: filled with the buffers (views of ``found`` as
    a table or as slots) that the lowered task uses."""

    def __init__(
        self, b: Builder, kernel: N.Kernel, ranges: Ranges, found: set[str], made: dict[str, N.Buffer], wide: bool,
        task: N.Offload,
    ) -> None:  # fmt: skip
        self.b, self.buffers, self.found, self.made = b, kernel.buffers, found, made
        self.wide, self.task = wide, task
        self.known = splits(task, ranges)
        consts = {s.id: s for s in find(task.body, N.Const)}
        self.zeros = {i for i, s in consts.items() if s.value == 0 and str(s.value)[0] != "-"}
        self.trips = {i: s.value for i, s in consts.items() if s.type.is_int}
        counts = {s.id for s in find(task.body, N.Load) if kernel.buffers[s.buffer].counts_cells}
        self.tests = {s.id: s.prim for s in find(task.body, N.Op) if s.args and s.args[0] in counts}

    def lowered(self) -> N.Offload:
        return map_blocks(self.task, lambda block: self.block(block, {}, False))

    def copying(self, to: N.Buffer, of: N.Buffer) -> N.Offload:
        """The lowered task, if the task copies all elements of a buffer: it copies the words of the table and of the
        claimed slots as one row, because launch frames have room only for the original number of axes."""
        b, slots, each = self.b, slots_of(of), of.dtype.nbytes
        b.span, b.adjoint_of = self.task.span, N.NO_ID
        assert slots is not None
        t = i64 if self.wide or slots.elements * each > i32.limits[1] else i32
        from_, into = self.view(of, "table", u32), self.view(to, "table", u32)

        def words(table: N.Buffer) -> X:
            taken = X(b, b.load(table, (b.const(0, t),))).cast(t)
            return (((taken + FIRST) * slots.size + slots.begin) * each + 3).shr(2)

        at = X(b, b.param(t).id)
        with b.block() as bounds:
            zeros = [b.const(0, p.type) for p in self.task.indices[:-1]]
            ones = [b.const(1, p.type) for p in self.task.indices[:-1]]
            b.yield_(*zeros, b.const(0, t), *ones, words(from_).max(words(into)).id)
        with b.block() as body:
            word = (at < words(from_)).select(X(b, b.load(from_, (at.id,))), X(b, b.const(0, u32)))
            b.store(into, (at.id,), word.id)
            b.yield_()
        indices = (*self.task.indices[:-1], N.Param(at.id, t))
        return replace(self.task, bounds=tuple(bounds), indices=indices, body=tuple(body), lanes=0)

    def block(self, block: N.Block, claimed: Claimed, active: bool) -> N.Block:
        """Lowers a block. ``claimed``: slots that are known where the block begins; ``active``: the block runs for an
        active cell."""
        claimed = dict(claimed)
        with self.b.block() as out:
            for s in block:
                self.b.span, self.b.adjoint_of = s.span, s.adjoint_of
                if isinstance(s, N.Access) and s.buffer in self.found:
                    self.access(s, claimed)
                    continue
                if isinstance(s, N.For):
                    self.claim_before(s, claimed, active)
                out.append(map_blocks(s, partial(self.inner, s, claimed, active)))
        return same_or(block, out)

    def inner(self, s: N.Stmt, claimed: Claimed, active: bool, block: N.Block) -> N.Block:
        """Lowers a block inside the statement ``s``."""
        if isinstance(s, N.If) and block is {"le": s.orelse, "gt": s.then}.get(self.tests.get(s.cond, "")):
            active = True
        return self.block(block, claimed, active)

    def claim_before(self, loop: N.For, claimed: Claimed, active: bool) -> None:
        """Emits, before a loop, code that claims slots for those stretches that are the same in all iterations and
        that the loop surely writes to. In an active cell it also claims slots for stretches that the loop may write
        to, because active cells have memory anyway."""
        if not self.runs(loop):
            return
        inside = types_of((loop,)).keys()
        for s in find(loop.body, N.Write) if active else self.sure(loop.body):
            stretch = self.digits(s)[0] if s.buffer in self.found and self.makes(s) and not self.tested(s) else ()
            if stretch and not any(i in inside for _, i, _, _ in stretch):
                self.slot(s, stretch, claimed)

    def runs(self, loop: N.For) -> bool:
        """Whether the loop is known to have at least one iteration."""
        return self.trips.get(loop.begin, 0) < self.trips.get(loop.end, 0) and loop.begin in self.trips

    def sure(self, block: N.Block) -> Iterator[N.Write]:
        """The writes that every run of the block makes."""
        for s in block:
            if isinstance(s, N.Write):
                yield s
            elif isinstance(s, N.For) and self.runs(s):
                yield from self.sure(s.body)

    def makes(self, s: N.Access) -> bool:
        """Whether the access claims a slot for its stretch."""
        return isinstance(s, N.Atomic) or (isinstance(s, N.Store) and s.value not in self.zeros)

    def access(self, s: N.Access, claimed: Claimed) -> None:
        """Emits the access."""
        buffer, slots = self.buffers[s.buffer], slots_of(self.buffers[s.buffer])
        elements = slots.elements if slots else prod(n for _, n in buffer.order)
        wide = i64 if self.wide or elements > i32.limits[1] else i32
        stretch, inner = self.digits(s)
        at = self.number(inner)
        if slots is not None:
            slot = self.slot(s, stretch, claimed) if stretch else self.word(s, _divided(at, slots.size) + 1)
            place = at if stretch else _modulo(at, slots.size)
            at = slot.cast(wide) * slots.size + slots.begin + place.cast(wide)
        self.b.add(replace(s, buffer=self.view(buffer, "cells", buffer.dtype).name, index=(at.id,)))

    def view(self, buffer: N.Buffer, name: str, type: DType) -> N.Buffer:
        name = f"{buffer.name}.{name}"
        return self.made.setdefault(name, N.Buffer(name, "words", type, 1, None, of=buffer.name))

    def slot(self, s: N.Access, stretch: tuple[Digit, ...], claimed: Claimed) -> X:
        """The index of the slot of the stretch that ``s`` accesses."""
        known = claimed.get((s.buffer, stretch))
        if known is not None:
            return X(self.b, known)
        slot = self.word(s, self.number(stretch) + 1)
        if self.makes(s) and not self.tested(s):
            claimed[s.buffer, stretch] = slot.id
        return slot

    def tested(self, s: N.Access) -> bool:
        """Whether the access claims a slot only if some bit of the written value is not 0. This matters for copies
        of memory, most of which may be zeros."""
        return s.stores and self.buffers[s.buffer].kind == "scratch"

    def word(self, s: N.Access, at: X) -> X:
        """The index of a slot, from its entry in the table at index ``at``."""
        b, table = self.b, self.view(self.buffers[s.buffer], "table", u32)
        slot = X(b, b.load(table, (at.id,)))
        if not self.makes(s):
            return slot
        missing = slot < FIRST
        if isinstance(s, N.Store) and self.tested(s):
            stored = X(b, s.value)
            missing = missing & (stored if stored.type is u1 else stored.bitcast(UNSIGNED[stored.type.bits]) != 0)
        with b.block() as then:
            b.yield_(b.atomic("slot", table, (at.id,), b.const(1, u32)))
        with b.block() as orelse:
            b.yield_(slot.id)
        result = b.param(u32)
        b.add(N.If(b.fresh(), missing.id, tuple(then), tuple(orelse), (result,)))
        return X(b, result.id)

    def digits(self, s: N.Access) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
        """The digits of the index of the element's stretch, and of its place within the stretch. If no level of the
        order begins where stretches begin, the stretch has no digits and the element has all."""
        order, slots = levels_of(self.buffers[s.buffer].order), slots_of(self.buffers[s.buffer])
        outer, inner, left = [*order], list[tuple[int, int]](), slots.size if slots else 0
        while left > 1 and outer:
            axis, n = outer.pop()
            if left % n and n % left:
                break
            inner.insert(0, (axis, min(n, left)))
            outer += [(axis, n // left)] if n > left else []
            left //= min(n, left)
        if left == 1 and outer:
            found = tuple(places((*outer, *inner), s.index, self.known))
            return found[: len(outer)], found[len(outer) :]
        return (), tuple(places(order, s.index, self.known))

    def number(self, digits: Sequence[Digit]) -> X:
        """The index that is composed of these digits."""
        t = i32 if prod(n for n, _, _, _ in digits) <= i32.limits[1] else i64
        at: X | None = None
        for n, i, by, modulo in digits:
            digit = _divided(X(self.b, i).cast(t), by)
            digit = _modulo(digit, modulo) if modulo else digit
            at = digit if at is None else at * n + digit
        assert at is not None
        return at


def copied(kernel: N.Kernel, task: N.Offload) -> tuple[N.Buffer, N.Buffer] | None:
    """(target, source) if the task copies all elements of one memory ordered by cells to another memory with the same
    order; else None."""
    if len(task.body) != 3:
        return None
    load, store, _ = task.body
    own = tuple(p.id for p in task.indices)
    if not (isinstance(load, N.Load) and isinstance(store, N.Store) and store.value == load.id):
        return None
    of, to = kernel.buffers[load.buffer], kernel.buffers[store.buffer]
    same = of.order == to.order and of.dtype == to.dtype and load.index == store.index == own
    all_ = prod(n for _, n in levels_of(of.order))
    return (to, of) if same and of.order and fixed_total(task) == all_ else None


def _divided(x: X, by: int) -> X:
    return x if by == 1 else x.shr(by.bit_length() - 1) if by & (by - 1) == 0 else x.quot(by)


def _modulo(x: X, by: int) -> X:
    return x & (by - 1) if by & (by - 1) == 0 else x.rem(by)


# --- digits ---------------------------------------------------------------------------------------------------------
#
# The loops of `passes.over_cells` make indices that are sums of a cell's first index and a place in the cell, or
# quotients of such a sum. An address in an order of cells then needs no division.

# id of an index that is a sum -> (id of the cell's index, cell's extent, id of the place in the cell, 1); of an index
# that is a quotient -> (id of the dividend, 1, NO_ID, divisor)
Splits = dict[int, tuple[int, int, int, int]]


def splits(task: N.Offload, ranges: Ranges) -> Splits:
    """The values of the task that are a value times a constant plus an index below that constant, and quotients of
    values."""
    consts = {s.id: s.value for s in find(task.body, N.Const) if s.type.is_int}
    products: dict[int, tuple[int, int]] = {}
    found: Splits = {}
    for s in walk(task.body):
        if isinstance(s, N.Op) and s.prim == "mul" and s.args[1] in consts:
            products[s.id] = s.args[0], consts[s.args[1]]
        elif isinstance(s, N.Op) and s.prim == "add" and s.args[0] in products:
            cell, n = products[s.args[0]]
            low, high = ranges.range(s.args[1]) or (-1, n)
            if low >= 0 and high < n:
                found[s.id] = cell, n, s.args[1], 1
        elif isinstance(s, N.Op) and s.prim == "floordiv" and consts.get(s.args[1], 0) > 0:
            found[s.id] = s.args[0], 1, N.NO_ID, consts[s.args[1]]
    return found


def places(order: Order, index: tuple[int, ...], known: Splits) -> Iterator[tuple[int, int, int, int]]:
    """For each level of the order: its extent, and how to compute its digit of the index, as the value to divide, the
    divisor, and the modulus (0: none is needed)."""
    for axis, n, inner, outermost in digits(order):
        i, by, modulo = index[axis], inner, 0 if outermost else n
        while i in known:
            cell, m, place, divisor = known[i]
            by *= divisor
            if by % m == 0:
                i, by = cell, by // m
            elif modulo and m % (by * modulo) == 0:
                i, modulo = place, 0 if by * modulo == m else modulo
            else:
                break
        yield n, i, by, modulo
