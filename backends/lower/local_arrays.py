"""Lowers vectors and matrices whose index is computed at run time to memory of the iteration.

In SSA such an access is a select for each element, and a loop carries all elements:

    v0' = select(i == 0, x, v0); v1' = select(i == 1, x, v1); ...    becomes    store @v[i], x
    y = select(i == 0, v0, select(i == 1, v1, ... v7))               becomes    load @v[i]

Each element that a loop carries, that an If results in or that a write makes has a slot. The rewriter follows,
statement by statement, which value each slot holds. A value that is used after its slot has another one is loaded
before that; what a slot should hold and does not is stored. Where a value would be lost, the task stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.types import DType, i32, i64, u1, u32, u64
from quadrants_lab.ir.walk import end_of, reading, types_of, uses, walk

FEWEST = 8  # elements from which on memory is faster than selects
Place = tuple[int, ...]  # an index along each axis
Slot = tuple[str, int]  # the name of a buffer, and the number of an element
Conditions = dict[int, tuple[tuple[int, ...], Place]]  # that an index is a place


class _Lost(Exception):
    """A value is needed that no slot holds any more."""


@deeply_recursive
def lower_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """Guarantees nothing about single selects: it is an optimisation. Buffers of kind "private" are its arrays."""
    b, buffers, body = Builder(kernel.next_id, types_of(kernel.body)), dict(kernel.buffers), []
    for task in kernel.body:
        made = _lowered(b, kernel, task, buffers) if isinstance(task, N.Offload) else None
        body.append(task if made is None else made)
    if all(new is old for new, old in zip(body, kernel.body, strict=True)):
        return kernel
    return replace(kernel, buffers=buffers, body=tuple(body), next_id=b.next_id)


def _lowered(b: Builder, kernel: N.Kernel, task: N.Offload, buffers: dict[str, N.Buffer]) -> N.Offload | None:
    """None where the task has no such array, or has to stay as it is."""
    groups = _groups(task.body)
    if not groups:
        return None
    arrays = _arrays(task.body, groups, b.types, len(buffers))
    if not arrays:
        return None
    try:
        body = _Rewriter(b, task.body, arrays, Ranges(kernel)).run()
    except _Lost:
        return None
    buffers |= {a.buffer.name: a.buffer for a in arrays}
    return replace(task, body=body)


# --- accesses at an index of the run time ---------------------------------------------------------------------------


@dataclass(eq=False)
class Group:
    """The selects of one access, by place: all elements of a box. ``index``: the ids of the index along each axis.
    ``elements``: what an element was before. ``last``: the select in whose place the access is made; a read's is its
    value. ``value``: what is written, NO_ID for a read."""

    index: tuple[int, ...]
    selects: dict[Place, N.Op]
    elements: dict[Place, int]
    last: N.Op
    value: int = N.NO_ID
    # how its places lie in the array: number of the first, and the step along each axis
    first: int = 0
    steps: tuple[int, ...] = ()
    array: Array | None = None

    @property
    def shape(self) -> Place:
        return tuple(max(at) + 1 for at in zip(*self.elements, strict=True))

    def number(self, place: Place) -> int:
        """Of the element in the array."""
        return self.first + sum(step * k for step, k in zip(self.steps, place, strict=True))


def _groups(body: N.Block) -> list[Group]:
    values = {s.id: s.value for s in walk(body) if isinstance(s, N.Const)}
    ops = {s.id: s for s in walk(body) if isinstance(s, N.Op)}
    equal: Conditions = {}
    for s in ops.values():
        if s.prim == "eq" and s.args[1] in values and s.args[0] not in values:
            equal[s.id] = (s.args[0],), (int(values[s.args[1]]),)
        elif s.prim == "and" and all(a in equal and len(equal[a][0]) == 1 for a in s.args):
            (i, at), (j, then) = equal[s.args[0]], equal[s.args[1]]
            equal[s.id] = (*i, *j), (*at, *then)
    if not equal:
        return []
    used = uses(body)
    found: list[Group] = []
    todo = [body]
    while todo:
        block = todo.pop()
        todo += [inner for s in block for inner in s.blocks()]
        selects = [s for s in block if isinstance(s, N.Op) and s.prim == "select" and s.args[0] in equal]
        writes = _writes(block, selects, equal)
        mine = {s.id for g in writes for s in g.selects.values()}
        found += [*writes, *_reads([s for s in selects if s.id not in mine], equal, ops, used)]
    return found if any(len(g.elements) >= FEWEST for g in found) else []


def _is_box(places: Iterable[Place], shape: Place) -> bool:
    return set(places) == set(product(*map(range, shape)))


def _writes(block: N.Block, selects: list[N.Op], equal: Conditions) -> list[Group]:
    open_: dict[tuple[int, tuple[int, ...]], Group] = {}
    made = []
    for s in selects:
        cond, value, old = s.args
        index, place = equal[cond]
        group = open_.get((value, index))
        if group is None or place in group.selects:
            group = open_[value, index] = Group(index, {}, {}, s, value)
            made.append(group)
        group.selects[place], group.elements[place], group.last = s, old, s
    return [g for g in made if len(g.selects) >= 2 and _is_box(g.selects, g.shape) and not _read_early(block, g)]


def _read_early(block: N.Block, group: Group) -> bool:
    """Whether something reads an element of the write before the last of its selects."""
    mine, met = {s.id for s in group.selects.values()}, False
    for s in block:
        if s is group.last:
            return False
        if met and not mine.isdisjoint((*s.operands(), *(i for x in walk((s,)) for i in x.operands()))):
            return True
        met = met or s.id in mine
    return True


def _reads(selects: list[N.Op], equal: Conditions, ops: dict[int, N.Op], used: dict[int, int]) -> list[Group]:
    here, inside, made = {s.id for s in selects}, set[int](), []
    for s in reversed(selects):
        if s.id in inside:
            continue
        index, chain, at = equal[s.args[0]][0], dict[Place, N.Op](), s.id
        while at in here and (at == s.id or used[at] == 1):
            now, place = equal[ops[at].args[0]]
            if now != index or place in chain:
                break
            chain[place], at = ops[at], ops[at].args[2]
        end = tuple(max(k) for k in zip(*chain, strict=True)) if len(index) > 1 else (max(chain)[0] + 1,)
        group = Group(index, chain, {place: op.args[1] for place, op in chain.items()} | {end: at}, s)
        if len(chain) > 1 and len(group.elements) == len(chain) + 1 and _is_box(group.elements, group.shape):
            made.append(group)
            inside |= {op.id for op in chain.values()}
    return made


# --- arrays -----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Array:
    buffer: N.Buffer
    groups: list[Group]
    slots: dict[int, int]  # value -> number of its element

    @property
    def size(self) -> int:
        """The number of elements; the last one of the buffer is written where the index is out of the array."""
        assert self.buffer.shape is not None
        return self.buffer.shape[0] - 1


class _Classes:
    """Values that may share a slot: a union-find whose classes know which place of which group they are, and which
    value of which loop or If, by its id."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.places: dict[int, dict[Group | int, Place]] = {}

    def root(self, value: int) -> int:
        while (up := self.parent.setdefault(value, value)) != value:
            self.parent[value] = self.parent[up]
            value = self.parent[up]
        return value

    def tag(self, value: int, group: Group | int, place: Place) -> None:
        self.places.setdefault(self.root(value), {}).setdefault(group, place)

    def join(self, a: int, b: int) -> None:
        """Makes them one class, unless that had two places in one group or statement."""
        a, b = self.root(a), self.root(b)
        mine, other = self.places.get(a, {}), self.places.get(b, {})
        if a != b and all(mine.get(g, place) == place for g, place in other.items()):
            self.parent[b] = a
            if other:
                self.places[a] = {**mine, **other}


def _phis(body: N.Block) -> Iterable[tuple[N.Stmt, int, int, tuple[int, ...]]]:
    """Of all that loops carry and Ifs result in: the statement, the number, the value, and the values that it takes."""
    for s in walk(body):
        if isinstance(s, N.Loop):
            ends = s.body[-1].operands()
            for n, (p, r, init, end) in enumerate(zip(s.carried, s.results, s.inits, ends, strict=True)):
                yield s, n, p.id, (r.id, end, init)
        elif isinstance(s, N.If):
            for n, (r, *taken) in enumerate(zip(s.results, *(x[-1].operands() for x in s.blocks()), strict=True)):
                yield s, n, r.id, tuple(taken)


def _arrays(body: N.Block, groups: list[Group], types: dict[int, DType], number: int) -> list[Array]:
    """The arrays of a task that are worth it: loops carry them."""
    if any(isinstance(s, N.Exit) for s in walk(body)):
        return []
    phis = list(_phis(body))
    own = {value for _, _, value, _ in phis} | {taken[0] for s, _, _, taken in phis if isinstance(s, N.Loop)}
    own |= {s.id for g in groups if g.value != N.NO_ID for s in g.selects.values()}
    classes = _Classes()
    for g in groups:
        for place, old in g.elements.items():
            if g.value != N.NO_ID:
                classes.tag(g.selects[place].id, g, place)
                if old in own:
                    classes.join(g.selects[place].id, old)
            elif old in own:
                classes.tag(old, g, place)
    for s, n, value, _ in phis:
        classes.tag(value, s.id, (n,))
    for _, _, value, taken in (*phis, *phis[::-1]):
        for other in taken:
            if other in own:
                classes.join(value, other)
    linked = _Linked(groups)
    for places in (classes.places.get(r, {}) for r in {classes.root(v) for v in own}):
        of = [g for g in places if isinstance(g, Group)]
        for g in of:
            linked.join(of[0], g)
    carried = {classes.root(value) for s, _, value, _ in phis if isinstance(s, N.Loop)}
    members: dict[int, list[int]] = {}
    for v in own:
        members.setdefault(classes.root(v), []).append(v)
    arrays: list[Array] = []
    for together in linked.parts():
        roots = {r for r in members if any(g in together for g in classes.places.get(r, {}))}
        largest = max(together, key=lambda g: (len(g.elements), g.value != N.NO_ID))
        size, dtype = len(largest.elements), types[largest.last.id]
        if size < FEWEST or roots.isdisjoint(carried) or dtype is u1 or dtype.bits < 32:
            continue
        found = {r: classes.places[r] for r in roots}
        number_of = {r: _flat(places[largest], largest.shape) for r, places in found.items() if largest in places}
        if len(number_of) < len(roots) or any(types[v] is not dtype for r in roots for v in members[r]):
            continue
        buffer = N.Buffer(f"array{number + len(arrays)}", "private", dtype, 1, (size + 1,))
        array = Array(buffer, [], {v: number_of[r] for r in roots for v in members[r]})
        array.groups += [g for g in together if _lies(g, array)]
        if all(g in array.groups for g in together if g.value != N.NO_ID):  # other reads stay selects
            arrays.append(array)
    return arrays


def _flat(place: Place, shape: Place) -> int:
    at = 0
    for k, n in zip(place, shape, strict=True):
        at = at * n + k
    return at


def _lies(g: Group, array: Array) -> bool:
    """Sets how the places of a group lie in the array; False where they do not lie in steps, or that is not known."""
    known = {place: array.slots[v] for place, v in g.elements.items() if v in array.slots}
    if g.value != N.NO_ID:
        known |= {place: array.slots[s.id] for place, s in g.selects.items()}
    origin = (0,) * len(g.shape)
    units = [tuple(int(k == axis) for k in range(len(g.shape))) for axis in range(len(g.shape))]
    if origin not in known or any(n > 1 and unit not in known for unit, n in zip(units, g.shape, strict=True)):
        return False
    g.first, g.array = known[origin], array
    g.steps = tuple(known[u] - g.first if n > 1 else 0 for u, n in zip(units, g.shape, strict=True))
    numbers = {g.number(place) for place in g.elements}
    inside = len(numbers) == len(g.elements) and min(numbers) >= 0 and max(numbers) < array.size
    return inside and all(at == g.number(place) for place, at in known.items())


class _Linked:
    """Groups that have elements in common."""

    def __init__(self, groups: list[Group]) -> None:
        self.parent = {g: g for g in groups}

    def root(self, g: Group) -> Group:
        while self.parent[g] is not g:
            g = self.parent[g]
        return g

    def join(self, a: Group, b: Group) -> None:
        self.parent[self.root(a)] = self.root(b)

    def parts(self) -> list[list[Group]]:
        found: dict[Group, list[Group]] = {}
        for g in self.parent:
            found.setdefault(self.root(g), []).append(g)
        return list(found.values())


# --- rewriting --------------------------------------------------------------------------------------------------


class _Rewriter:
    """``holds``: the value in each slot, none where that is not known. ``saved``: by value, where it was loaded to.
    ``left``: how many reads of a value, in the order of the text, are still to come."""

    def __init__(self, b: Builder, body: N.Block, arrays: list[Array], ranges: Ranges) -> None:
        self.b = b
        self.ranges = ranges
        self.body = body
        self.buffers = {a.buffer.name: a.buffer for a in arrays}
        self.slots: dict[int, Slot] = {v: (a.buffer.name, n) for a in arrays for v, n in a.slots.items()}
        self.arrays = arrays
        groups = [g for a in arrays for g in a.groups]
        self.at = {g.last.id: g for g in groups}
        self.parts = {s.id for g in groups for s in g.selects.values()} - self.at.keys()
        self.holds: dict[Slot, int] = {}
        self.saved: dict[int, int] = {}
        self.left = uses(body)
        self.changed: set[Slot] = set()

    def run(self) -> N.Block:
        return tuple(self.block(self.body, ()))

    # --- slots

    def value(self, v: int) -> int:
        """The id of a value here."""
        if v in self.saved or v not in self.slots:
            return self.saved.get(v, v)
        if self.holds.get(self.slots[v]) != v:
            raise _Lost
        return self.load(v)

    def load(self, v: int) -> int:
        name, n = self.slots[v]
        return self.b.load(self.buffers[name], (self.b.const(n, i32),))

    def keep(self, slot: Slot, reads: int = 0) -> None:
        """Before the slot gets another value: loads what it holds if more than ``reads`` reads of that are to come."""
        v = self.holds.get(slot, N.NO_ID)
        if v in self.slots and v not in self.saved and self.slots[v] == slot and self.left.get(v, 0) > reads:
            self.saved[v] = self.load(v)

    def ensure(self, wanted: dict[Slot, int]) -> None:
        """Stores what slots do not hold yet."""
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
        """Counts reads."""
        for i in ids:
            self.left[i] -= 1

    # --- accesses

    def access(self, g: Group) -> None:
        array = g.array
        assert array is not None
        name, b = array.buffer.name, self.b
        b.span, b.adjoint_of = g.last.span, g.last.adjoint_of
        for s in g.selects.values():
            self.read(s.operands())
        slots = {place: (name, g.number(place)) for place in g.elements}
        if g.value != N.NO_ID:
            value = self.value(g.value)
            self.ensure({slots[place]: old for place, old in g.elements.items()})
            for slot in slots.values():
                self.keep(slot)
            b.store(array.buffer, (self.where(g, array.size),), value)
            for place, s in g.selects.items():
                self.holds[slots[place]] = s.id
                self.changed.add(slots[place])
            return
        missing = [slot for place, slot in slots.items() if self.holds.get(slot) != g.elements[place]]
        if 2 * len(missing) > len(slots):  # selects are no slower
            for s in reversed(g.selects.values()):
                b.add(reading(s, {i: self.value(i) for i in dict.fromkeys(s.operands())}))
            return
        self.ensure({slots[place]: v for place, v in g.elements.items()})
        last = tuple(n - 1 for n in g.shape)
        at = self.where(g, g.number(last))
        b.add(N.Load(g.last.id, g.last.type, name, (at,), name=g.last.name, span=g.last.span))

    def where(self, g: Group, beyond: int) -> int:
        """The number of the element at the index, ``beyond`` where there is none."""
        b, tests = self.b, []
        terms = [b.const(g.first, u32)] if g.first else []
        for i, n, step in zip(g.index, g.shape, g.steps, strict=True):
            at, known = self.value(i), self.ranges.range(i)
            t = u64 if b.types[at].bits == 64 else u32
            if b.types[at].kind == "u":
                at = b.cast(at, t)
            else:
                at = b.op("bitcast", b.cast(at, i64 if t is u64 else i32), type=t)
            if known is None or known[0] < 0 or known[1] >= n:
                tests.append(b.op("lt", at, b.const(n, t)))
            at = b.cast(at, u32)
            terms.append(at if step == 1 else b.op("mul", at, b.const(step, u32)))
        number = reduce(partial(b.op, "add"), terms)
        if tests:
            number = b.op("select", reduce(partial(b.op, "and"), tests), number, b.const(beyond, u32))
        return b.cast(number, i32)

    # --- statements

    def block(self, block: N.Block, results: Sequence[Slot | None]) -> list[N.Stmt]:
        """The block rewritten. What it yields goes to the slots of ``results`` if there is one."""
        b = self.b
        with b.block() as out:
            for s in block[:-1]:
                if s.id in self.at:
                    self.access(self.at[s.id])
                elif s.id not in self.parts:
                    b.span, b.adjoint_of = s.span, s.adjoint_of
                    self.statement(s)
            end = end_of(block)
            b.span, b.adjoint_of = end.span, end.adjoint_of
            ends = end.operands()
            self.read(ends)
            yielded = [self.value(v) for v, slot in zip(ends, results, strict=True) if slot is None]
            self.ensure({slot: v for slot, v in zip(results, ends, strict=True) if slot is not None})
            b.stmts.append(replace(end, values=tuple(yielded)))
        return out

    def statement(self, s: N.Stmt) -> None:
        operands = s.operands()
        if not s.nests:
            self.read(operands)
            self.b.stmts.append(reading(s, {i: self.value(i) for i in dict.fromkeys(operands)}))
            return
        written = self.written(s)
        inside = uses((s,)) if written else {}
        carried = s.inits if isinstance(s, N.Loop) else ()
        for slot in written:
            held = self.holds.get(slot, N.NO_ID)
            self.keep(slot, carried.count(held) if isinstance(s, N.Loop) else inside.get(held, 0))
        if isinstance(s, N.If):
            self.branch(s)
        elif isinstance(s, (N.For, N.While)):
            self.loop(s, written)
        elif written:
            raise _Lost
        else:
            self.read(operands)
            made = reading(s, {i: self.value(i) for i in operands})
            self.b.stmts.append(made.with_blocks(tuple(self.alone(x) for x in s.blocks())))

    def alone(self, block: N.Block) -> N.Block:
        """A block of a statement that hands on nothing and writes no slot."""
        saved, changed, self.saved, self.changed = self.saved, self.changed, dict(self.saved), set()
        made = tuple(self.block(block, (None,) * len(block[-1].operands())))
        if self.changed:
            raise _Lost
        self.saved, self.changed = saved, changed
        return made

    def written(self, s: N.Stmt) -> set[Slot]:
        """The slots that may hold something else behind the statement, or behind an iteration of it."""
        found: set[Slot] = set()
        for x in walk((s,)):
            if x.id in self.at and self.at[x.id].value != N.NO_ID:
                g = self.at[x.id]
                assert g.array is not None
                found |= {(g.array.buffer.name, g.number(place)) for place in g.elements}
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
        in_else = uses(s.orelse)  # of what is there before the If: reads of it that are not to come in the other arm
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
            raise _Lost
        self.read(s.operands())
        mine = [i for i in s.operands() if i not in s.inits]
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
                raise _Lost
            self.saved = dict(saved)
        body = tuple(self.block(s.body, slots))
        if not self.changed <= written:
            raise _Lost
        for slot in written:
            self.holds.pop(slot, None)
        self.saved, self.changed = saved, changed | self.changed
        self.results(s, slots)
        alone = [k for k, slot in enumerate(slots) if slot is None]
        carried, results = tuple(s.carried[k] for k in alone), tuple(s.results[k] for k in alone)
        inits = tuple(others[s.inits[k]] for k in alone)
        s = replace(reading(s, others), carried=carried, results=results, inits=inits, body=body)
        self.b.stmts.append(replace(s, cond=cond) if isinstance(s, N.While) else s)
