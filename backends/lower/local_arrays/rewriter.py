"""Replaces the accesses of local arrays by loads and stores, and tracks which value each slot holds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends.lower.local_arrays.arrays import (
    Access,
    Array,
    Table,
    accesses,
    arrays_of,
    tables_of,
)
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.types import i32, i64, u32, u64
from quadrants_lab.ir.walk import end_of, map_blocks, map_offloads, reading, types_of, uses, walk

Slot = tuple[str, int]  # the name of a buffer, and the index of an element


class Lost(Exception):
    """Raised when a value is needed that no slot holds any more; the task then stays as it is."""


class Rewriter:
    """Rewrites a task in program order. ``holds``: slot -> the value in it, if known. ``saved``: value -> the id of the
    load that saved it before its slot was overwritten. ``left``: value -> how many reads of it are still to come."""

    def __init__(
        self, b: Builder, body: N.Block, arrays: list[Array], tables: list[Table], ranges: Ranges
    ) -> None:
        self.b = b
        self.body = body
        self.ranges = ranges
        self.buffers = {a.buffer.name: a.buffer for a in arrays}
        self.slots: dict[int, Slot] = {v: (a.buffer.name, n) for a in arrays for v, n in a.slots.items()}
        self.array_of = {g: a for a in arrays for g in a.groups}
        self.table_of = {g: t for t in tables for g in t.groups}
        self.tables = tables
        groups = [*self.array_of, *self.table_of]
        self.at = {g.stmt.id: g for g in groups}
        # what `where` emitted in this block: (index, shape, place in the array, index if out of range) -> its result
        self.found: dict[tuple[object, ...], tuple[int, int]] = {}
        self.holds: dict[Slot, int] = {}
        self.saved: dict[int, int] = {}
        self.left = uses(body)
        self.changed: set[Slot] = set()

    def run(self) -> N.Block:
        return tuple(self.block(self.body, ()))

    # --- slots

    def value(self, v: int) -> int:
        """The id of the value at this point that equals the original value ``v``."""
        if v in self.saved or v not in self.slots:
            return self.saved.get(v, v)
        if self.holds.get(self.slots[v]) != v:
            raise Lost
        return self.load(v)

    def load(self, v: int) -> int:
        name, n = self.slots[v]
        return self.b.load(self.buffers[name], (self.b.const(n, i32),))

    def keep(self, slot: Slot, reads: int = 0) -> None:
        """Call this before a slot is overwritten: emits a load of its current value if more than ``reads`` reads of
        that value are still to come."""
        v = self.holds.get(slot, N.NO_ID)
        if v in self.slots and v not in self.saved and self.slots[v] == slot and self.left.get(v, 0) > reads:
            self.saved[v] = self.load(v)

    def ensure(self, wanted: dict[Slot, int]) -> None:
        """Emits stores of the values that slots should hold and do not hold yet. ``wanted``: slot -> value."""
        missing = {slot: v for slot, v in wanted.items() if self.holds.get(slot) != v}
        values = [self.value(v) for v in missing.values()]
        for slot in missing:
            self.keep(slot)
        for (slot, v), value in zip(missing.items(), values, strict=True):
            name, n = slot
            self.b.store(self.buffers[name], (self.b.const(n, i32),), value)
            self.holds[slot] = v
            self.changed.add(slot)

    def read(self, ids: Iterable[int]) -> None:
        """Counts these reads as done."""
        for i in ids:
            self.left[i] -= 1

    # --- accesses

    def access(self, g: Access) -> None:
        b, s = self.b, g.stmt
        b.span, b.adjoint_of = s.span, s.adjoint_of
        self.read(s.operands())
        if g in self.table_of:
            self.choose(g, self.table_of[g].buffer)
            return
        array = self.array_of[g]
        slots = {place: (array.buffer.name, n) for place, n in g.numbers.items()}
        if not g.made:
            missing = [slot for place, slot in slots.items() if self.holds.get(slot) != g.elements[place]]
            if 2 * len(missing) > len(slots):  # with so many stores, selects are no slower
                b.stmts.append(reading(s, {i: self.value(i) for i in dict.fromkeys(s.operands())}))
                return
        value = self.value(s.value) if isinstance(s, N.WithElement) else N.NO_ID
        self.ensure({slots[place]: old for place, old in g.elements.items()})
        if not g.made:
            self.choose(g, array.buffer)
            return
        for slot in slots.values():
            self.keep(slot)
        at, _ = self.where(g, self.last(g) if s.clamped else array.size)
        b.store(array.buffer, (at,), value)
        for place, v in g.made.items():
            self.holds[slots[place]] = v
            self.changed.add(slots[place])

    @staticmethod
    def last(g: Access) -> int:
        """The index of the last element."""
        return g.numbers[tuple(n - 1 for n in g.shape)]

    def choose(self, g: Access, buffer: N.Buffer) -> None:
        """Emits the load of a read."""
        b, s = self.b, g.stmt
        assert isinstance(s, N.Element)
        at, inside = self.where(g, self.last(g))
        if s.clamped or inside == N.NO_ID:
            b.add(N.Load(s.id, s.type, buffer.name, (at,), name=s.name, span=s.span))
        else:
            args = inside, b.load(buffer, (at,)), b.const(0, s.type)
            b.add(N.Op(s.id, s.type, "select", args, name=s.name, span=s.span))

    def fill(self, table: Table) -> None:
        for n, v in enumerate(table.elements):
            self.b.store(table.buffer, (self.b.const(n, i32),), self.value(v))

    def where(self, g: Access, beyond: int) -> tuple[int, int]:
        """Emits the element's index in the array, once in each block; ``beyond`` if the access is out of range. Also
        returns a flag whether it is in range, NO_ID if that is known."""
        b, tests = self.b, []
        key = g.stmt.index, g.shape, g.first, g.steps, beyond
        if key in self.found:
            return self.found[key]
        terms = [b.const(g.first, i32)] if g.first else []
        for i, n, step in zip(g.stmt.index, g.shape, g.steps, strict=True):
            at, known = self.value(i), self.ranges.range(i)
            if known is None or known[0] < 0 or known[1] >= n:
                signed, t = (i64, u64) if b.types[at].bits == 64 else (i32, u32)
                unsigned = b.types[at].kind == "u"
                whole = b.cast(at, t) if unsigned else b.op("bitcast", b.cast(at, signed), type=t)
                tests.append(b.op("lt", whole, b.const(n, t)))
            at = b.cast(at, i32)
            terms.append(at if step == 1 else b.op("mul", at, b.const(step, i32)))
        number, inside = b.reduced("add", terms), N.NO_ID
        if tests:
            inside = b.reduced("and", tests)
            number = b.op("select", inside, number, b.const(beyond, i32))
        self.found[key] = number, inside
        return number, inside

    # --- statements

    def block(self, block: N.Block, results: Sequence[Slot | None]) -> list[N.Stmt]:
        """Rewrites a block. The values that it yields go to the slots ``results``, where these are not None."""
        b, found = self.b, self.found
        self.found = dict(found)
        with b.block() as out:
            for s in block[:-1]:
                if s.id in self.at:
                    self.access(self.at[s.id])
                else:
                    b.span, b.adjoint_of = s.span, s.adjoint_of
                    self.statement(s)
            end = end_of(block)
            b.span, b.adjoint_of = end.span, end.adjoint_of
            ends = end.operands()
            self.read(ends)
            yielded = [self.value(v) for v, slot in zip(ends, results, strict=True) if slot is None]
            self.ensure({slot: v for slot, v in zip(results, ends, strict=True) if slot is not None})
            b.stmts.append(replace(end, values=tuple(yielded)))
        self.found = found
        return out

    def statement(self, s: N.Stmt) -> None:
        operands = s.operands()
        if not s.nests:
            self.read(operands)
            self.b.stmts.append(reading(s, {i: self.value(i) for i in dict.fromkeys(operands)}))
            return
        for table in self.tables:
            if table.loop == s.id:
                self.fill(table)
        written = self.written(s)
        inside = uses((s,)) if written and not isinstance(s, N.Loop) else {}
        carried = s.inits if isinstance(s, N.Loop) else ()
        for slot in written:
            held = self.holds.get(slot, N.NO_ID)
            self.keep(slot, carried.count(held) if isinstance(s, N.Loop) else inside.get(held, 0))
        if isinstance(s, N.If):
            self.branch(s)
        elif isinstance(s, (N.For, N.While)):
            self.loop(s, written)
        else:
            self.read(operands)
            self.b.stmts.append(map_blocks(reading(s, {i: self.value(i) for i in operands}), self.alone))

    def alone(self, block: N.Block) -> N.Block:
        """Rewrites a block that yields nothing, inside a statement that may skip it."""
        holds, saved, changed = self.holds, self.saved, self.changed
        self.holds, self.saved, self.changed = dict(holds), dict(saved), set()
        made = tuple(self.block(block, (None,) * len(block[-1].operands())))
        self.holds = {slot: v for slot, v in holds.items() if slot not in self.changed}
        self.saved, self.changed = saved, changed | self.changed
        return made

    def written(self, s: N.Stmt) -> set[Slot]:
        """The slots that the statement, or an iteration of it, may change."""
        found: set[Slot] = set()
        for x in walk((s,)):
            if x.id in self.at and self.at[x.id].made:
                g = self.at[x.id]
                found |= {(self.array_of[g].buffer.name, n) for n in g.numbers.values()}
            elif isinstance(x, (N.If, N.Loop)):
                found |= {self.slots[r.id] for r in x.results if r.id in self.slots}
                found |= {self.slots[p.id] for p in x.params() if p.id in self.slots}
        return found

    def branch(self, s: N.If) -> None:
        self.read(s.operands())
        cond = self.value(s.cond)
        slots = [self.slots.get(r.id) for r in s.results]
        before, saved, changed = self.holds, self.saved, self.changed
        ends, arms, self.changed = [], [], set()
        # values from before the If that only the else block reads: if the other block runs, these reads do not happen
        in_else = uses(s.orelse)
        for arm, sign in zip(s.blocks(), (-1, 1), strict=True):
            for i, n in in_else.items():
                self.left[i] += sign * n
            self.holds, self.saved = dict(before), dict(saved)
            arms.append(tuple(self.block(arm, slots)))
            ends.append(self.holds)
        self.saved = saved
        self.holds = dict(before)
        for slot in self.changed:
            same = ends[0].get(slot) == ends[1].get(slot) == before.get(slot)
            if not same:
                self.holds.pop(slot, None)
        self.changed |= changed
        self.results(s, slots)
        results = tuple(r for r, slot in zip(s.results, slots, strict=True) if slot is None)
        self.b.stmts.append(replace(s, cond=cond, then=arms[0], orelse=arms[1], results=results))

    def results(self, s: N.If | N.For | N.While, slots: Sequence[Slot | None]) -> None:
        for r, slot in zip(s.results, slots, strict=True):
            if slot is not None:
                self.holds[slot] = r.id

    def loop(self, s: N.For | N.While, written: set[Slot]) -> None:
        slots: list[Slot | None] = [self.slots.get(p.id) for p in s.carried]
        if slots != [self.slots.get(r.id) for r in s.results]:
            raise Lost
        self.read(s.operands())
        # a bound of the loop may be an element of an array and at the same time an initial value
        mine = [s.begin, s.end] if isinstance(s, N.For) else []
        mine += [init for init, slot in zip(s.inits, slots, strict=True) if slot is None]
        others = {i: self.value(i) for i in mine}
        self.ensure({slot: init for init, slot in zip(s.inits, slots, strict=True) if slot is not None})
        saved, changed = self.saved, self.changed
        self.saved, self.changed = dict(saved), set()
        for slot in written:
            self.holds.pop(slot, None)
        self.holds |= {slot: p.id for p, slot in zip(s.carried, slots, strict=True) if slot is not None}
        cond: tuple[N.Stmt, ...] = ()
        if isinstance(s, N.While):
            cond = tuple(self.block(s.cond, (None,)))
            if self.changed:
                raise Lost
            self.saved = dict(saved)
        body = tuple(self.block(s.body, slots))
        if not self.changed <= written:
            raise Lost
        for slot in written:
            self.holds.pop(slot, None)
        self.saved, self.changed = saved, changed | self.changed
        self.results(s, slots)
        alone = [k for k, slot in enumerate(slots) if slot is None]
        carried, results = tuple(s.carried[k] for k in alone), tuple(s.results[k] for k in alone)
        inits = tuple(others[s.inits[k]] for k in alone)
        s = replace(reading(s, others), carried=carried, results=results, inits=inits, body=body)
        self.b.stmts.append(replace(s, cond=cond) if isinstance(s, N.While) else s)


@deeply_recursive
def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """An optimisation: moves vectors and matrices to memory where this pays. There they are buffers of kind "private".
    """
    b, buffers = Builder(kernel.next_id, types_of(kernel.body)), dict(kernel.buffers)
    ranges = cache(lambda: Ranges(kernel))
    made = map_offloads(kernel, lambda task: _lowered(b, ranges, task, buffers))
    return kernel if made is kernel else replace(made, buffers=buffers, next_id=b.next_id)


def _lowered(
    b: Builder, ranges: Callable[[], Ranges], task: N.Offload, buffers: dict[str, N.Buffer]
) -> N.Offload:
    """The lowered task; the task itself if it has no array and no table, or if the rewriter raised `Lost`."""
    groups = accesses(task.body, b.types)
    if not groups:
        return task
    arrays = arrays_of(task.body, groups, b.types, buffers)
    tables = tables_of(task.body, groups, arrays, {*buffers})
    if not arrays and not tables:
        return task
    try:
        body = Rewriter(b, task.body, arrays, tables, ranges()).run()
    except Lost:
        return task
    made = *(a.buffer for a in arrays), *(t.buffer for t in tables)
    buffers |= {b.name: b for b in made}
    return replace(task, body=body)
