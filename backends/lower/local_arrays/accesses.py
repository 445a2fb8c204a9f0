"""Accesses to local vectors and matrices at an index of the run time, as selects make them."""

from collections.abc import Collection
from itertools import product
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find, uses, walk

_LONG = 64  # selects
FEWEST = 8  # elements from which on memory is faster than selects
Place = tuple[int, ...]  # an index along each axis
Conditions = dict[int, tuple[tuple[int, ...], Place]]  # that an index is a place


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

    @property
    def shape(self) -> Place:
        return tuple(max(at) + 1 for at in zip(*self.elements, strict=True))

    def number(self, place: Place) -> int:
        """Of the element in the array."""
        return self.first + sum(step * k for step, k in zip(self.steps, place, strict=True))


def accesses(body: N.Block) -> list[Group]:
    values = {s.id: s.value for s in find(body, N.Const) if s.type.is_int}
    ops = {s.id: s for s in find(body, N.Op)}
    equal: Conditions = {}
    for s in ops.values():
        if s.prim == "eq" and s.args[1] in values and s.args[0] not in values:
            equal[s.id] = (s.args[0],), (values[s.args[1]],)
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


def _is_box(places: Collection[Place], shape: Place) -> bool:
    return prod(shape) == len(places) and set(places) == set(product(*map(range, shape)))


def _writes(block: N.Block, selects: list[N.Op], equal: Conditions) -> list[Group]:
    open_: dict[tuple[int, tuple[int, ...]], Group] = {}
    made, position = [], {s.id: n for n, s in enumerate(block)}
    for s in selects:
        cond, value, old = s.args
        index, place = equal[cond]
        group = open_.get((value, index))
        if group is None or place in group.selects:
            group = open_[value, index] = Group(index, {}, {}, s, value)
            made.append(group)
        group.selects[place], group.elements[place], group.last = s, old, s

    def read_early(group: Group) -> bool:
        """Whether something reads an element of the write before the last of its selects."""
        mine = {s.id for s in group.selects.values()}
        between = block[min(position[i] for i in mine) : position[group.last.id]]
        return any(not mine.isdisjoint(s.operands()) for s in walk(between))

    return [g for g in made if len(g.selects) >= 2 and _is_box(g.selects, g.shape) and not read_early(g)]


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
        if len(chain) > _LONG or made[-1:] == [group]:  # of a long chain that is no access, no part is looked at again
            inside |= {op.id for op in chain.values()}
    return made
