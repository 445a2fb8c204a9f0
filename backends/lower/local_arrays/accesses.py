"""Recognises accesses to local vectors and matrices at an index known only at run time. They have the form of selects,
as have their adjoints:

    read    y = select(i == 0, v0, select(i == 1, v1, v2))
    write   v0' = select(i == 0, x, v0); v1' = select(i == 1, x, v1); ...
    sum     y = select(i == 0, v0, 0) + select(i == 1, v1, 0) + ..., the adjoint of a write: 0 if i is out of range
    add     v0' = v0 + select(i == 0, x, 0); x1 = select(i == 0, 0, x);
            v1' = v1 + select(i == 1, x1, 0); x2 = select(i == 1, 0, x1); v2' = v2 + x2, the adjoint of a read
"""

from collections.abc import Collection
from dataclasses import field
from itertools import product
from math import prod
from operator import mul

from quadrants_lab.backends.lower.local_arrays import FEWEST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find, of_kind, uses, walk

_LONG = 64  # the most selects of one access
Place = tuple[int, ...]  # an element's constant index along each axis
# id of a condition -> (ids of the run-time index, the place that the index equals if the condition holds)
Conditions = dict[int, tuple[tuple[int, ...], Place]]


@dataclass(eq=False)
class Group:
    """One access, found as a group of operations, one for each place; the places form a box. ``index``: the ids of the
    run-time index along each axis. ``elements``: place -> old value. ``parts``: the operations, in program order.
    ``last``: the operation that the access will replace; for a read or sum its result is the value read. ``made``:
    place -> new value, empty for a read or sum. ``value``: the value that is written or added, or the other operand of
    a sum; NO_ID if there is none."""

    kind: str  # "read", "write", "sum" or "add"
    index: tuple[int, ...]
    elements: dict[Place, int]
    parts: list[N.Op]
    made: dict[Place, int]
    value: int = N.NO_ID
    # where the group's places lie in the array: the index of the first element, the step along each axis, and the index
    # of each place's element
    first: int = 0
    steps: tuple[int, ...] = ()
    numbers: dict[Place, int] = field(default_factory=dict)

    @property
    def last(self) -> N.Op:
        return self.parts[-1]

    @property
    def shape(self) -> Place:
        return _corner(self.elements, 1)

    def lie(self, first: int, steps: tuple[int, ...]) -> None:
        """Sets the positions in the array of the elements that the group accesses."""
        self.first, self.steps = first, steps
        self.numbers = {at: first + sum(map(mul, steps, at)) for at in self.elements}


def _corner(places: Collection[Place], beyond: int) -> Place:
    """The last place of the box, with ``beyond`` added along each axis."""
    return tuple(max(at) + beyond for at in zip(*places, strict=True))


def accesses(body: N.Block) -> list[Group]:
    consts, ops = [*find(body, N.Const)], [*find(body, N.Op)]
    values = {s.id: s.value for s in consts if s.type.is_int}
    zeros = {s.id for s in consts if s.value == 0}
    equal: Conditions = {}
    for s in ops:
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
        selects = [s for s in of_kind(block, N.Op) if s.prim == "select" and s.args[0] in equal]
        if not selects:
            continue
        here = _Here(block, selects, equal, used, zeros)
        for pattern in (_sums, _adds, _writes, _reads):
            for g in pattern(here):
                ids = {s.id for s in g.parts}
                if here.left.issuperset(ids):
                    here.left -= ids
                    found.append(g)
            here.selects = [s for s in here.selects if s.id in here.left]
    return found if any(len(g.elements) >= FEWEST for g in found) else []


class _Here:
    """The search within one block: its selects that belong to no access yet, its operations, and how often each value
    is read."""

    def __init__(
        self, block: N.Block, selects: list[N.Op], equal: Conditions, used: dict[int, int], zeros: set[int]
    ) -> None:
        self.selects, self.equal, self.used, self.zeros = selects, equal, used, zeros
        self.block = block
        self.left = {s.id for s in block}  # ids of statements that belong to no access yet
        self.ops = {s.id: s for s in of_kind(block, N.Op)}
        self.position = {s.id: n for n, s in enumerate(block)}

    def at_once(self, g: Group) -> bool:
        """Whether nothing reads a new element before the last operation of the access. Then the access can replace that
        operation."""
        made = {*g.made.values()}
        between = self.block[min(self.position[s.id] for s in g.parts) : self.position[g.last.id]]
        mine = {s.id for s in g.parts}
        return not any(s.id not in mine and not made.isdisjoint(s.operands()) for s in walk(between))

    def terms(self) -> dict[int, N.Op]:
        """Maps ids to selects, for the selects that choose a value at a place and 0 elsewhere, and are read once."""
        return {s.id: s for s in self.selects if s.args[2] in self.zeros and self.used[s.id] == 1}


def _is_box(places: Collection[Place], shape: Place) -> bool:
    return prod(shape) == len(places) and set(places) == set(product(*map(range, shape)))


def _whole(g: Group) -> bool:
    return len(g.parts) > 1 and _is_box(g.elements, g.shape)


def _beyond(places: Collection[Place]) -> Place:
    """The place that a read needs no test for: the remaining corner of the box; along a single axis, the place after
    the others."""
    corner = _corner(places, 0)
    return corner if len(corner) > 1 else (corner[0] + 1,)


def _sums(here: _Here) -> list[Group]:
    terms, inside, made = here.terms(), set[int](), []
    adds = [s for s in here.ops.values() if s.prim == "add"] if terms else []
    for s in reversed(adds):
        if s.id in inside:
            continue
        g, at = Group("sum", (), {}, [], {}), s.id
        while (op := here.ops.get(at)) is not None and (at == s.id or here.used[at] == 1):
            term = op if at in terms else next((terms[a] for a in op.args[::-1] if a in terms), None)
            if term is None or (op.prim != "add" and op is not term):
                break
            index, place = here.equal[term.args[0]]
            if (g.index or index) != index or place in g.elements:
                break
            g.index, g.elements[place] = index, term.args[1]
            g.parts += [op] if op is term else [op, term]
            at = N.NO_ID if op is term else op.args[op.args[0] == term.id]
        g.value = at
        g.parts.reverse()
        inside |= {op.id for op in g.parts}
        if len(g.elements) > 1 and _whole(g):
            made.append(g)
    return made


def _adds(here: _Here) -> list[Group]:
    terms, made, chains = here.terms(), [], list[list[N.Op]]()
    if not terms:
        return []
    # operand -> the sum that it is an operand of
    added = {a: s for s in here.ops.values() if s.prim == "add" for a in s.args}
    first = {s.args[:2]: s for s in terms.values()}
    chain_of: dict[int, list[N.Op]] = {}
    for s in here.selects:
        if s.args[1] in here.zeros:
            chain = chain_of.pop(s.args[2], None)
            if chain is None or here.used[s.args[2]] != 2:
                chains.append(chain := [])
            chain.append(s)
            chain_of[s.id] = chain
    for chain in chains:
        index = here.equal[chain[0].args[0]][0]
        g = Group("add", index, {}, [], {}, chain[0].args[2])
        parts = [first[k] for s in chain if (k := (s.args[0], s.args[2])) in first]
        places = [place for now, place in (here.equal[s.args[0]] for s in chain) if now == index]
        if len(parts) < len(chain) or len(places) < len(chain):
            continue
        for term, place in zip((*parts, chain[-1]), (*places, _beyond(places)), strict=True):
            sum_ = added.get(term.id)
            if sum_ is None or here.used[term.id] != 1 or place in g.elements:
                break
            g.elements[place], g.made[place] = sum_.args[sum_.args[0] == term.id], sum_.id
            g.parts += [term, sum_]
        else:
            g.parts = sorted((*g.parts, *chain[:-1]), key=lambda s: here.position[s.id])
            if _whole(g) and here.at_once(g):
                made.append(g)
    return made


def _writes(here: _Here) -> list[Group]:
    open_: dict[tuple[int, tuple[int, ...]], Group] = {}
    made = []
    for s in here.selects:
        cond, value, old = s.args
        index, place = here.equal[cond]
        group = open_.get((value, index))
        if group is None or place in group.made:
            group = open_[value, index] = Group("write", index, {}, [], {}, value)
            made.append(group)
        group.made[place], group.elements[place] = s.id, old
        group.parts.append(s)
    return [g for g in made if _whole(g) and here.at_once(g)]


def _reads(here: _Here) -> list[Group]:
    among, inside, made = {s.id: s for s in here.selects}, set[int](), []
    for s in reversed(here.selects):
        if s.id in inside:
            continue
        index, chain, at = here.equal[s.args[0]][0], dict[Place, N.Op](), s.id
        while at in among and (at == s.id or here.used[at] == 1):
            now, place = here.equal[among[at].args[0]]
            if now != index or place in chain:
                break
            chain[place], at = among[at], among[at].args[2]
        elements = {place: op.args[1] for place, op in chain.items()} | {_beyond(chain): at}
        group = Group("read", index, elements, [*chain.values()][::-1], {})
        if len(elements) == len(chain) + 1 and _whole(group):
            made.append(group)
        # a long chain of selects that is no access is not searched again from its middle
        if len(chain) > _LONG or made[-1:] == [group]:
            inside |= {op.id for op in chain.values()}
    return made
