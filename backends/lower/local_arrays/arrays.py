"""Lists the accesses of a task to local vectors and matrices at indices known only at run time. Finds which values of
the task are successive values of an element of one local array; and tables, which are values computed before a loop,
among which reads in the loop choose."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import count, pairwise, product
from math import prod
from operator import mul

from quadrants_lab.backends.lower.local_arrays import FEWEST
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, u1
from quadrants_lab.ir.walk import find, of_kind, reached, walk

# the fewest elements of a table: lanes that gather from 16 elements take twice the time of selects, from 64 half of it
LEAST_TABLE = 32
Place = tuple[int, ...]  # an element's constant index along each axis


@dataclass(eq=False)
class Access:
    """One access. ``elements``: place -> value before. ``made``: place -> value after, empty for a read. The elements
    have the dtype ``dtype``."""

    stmt: N.Choice
    elements: dict[Place, int]
    made: dict[Place, int]
    dtype: DType
    # where the elements lie in the array: the index of the first element, the step along each axis, and the index of
    # each place's element
    first: int = 0
    steps: tuple[int, ...] = ()
    numbers: dict[Place, int] = field(default_factory=dict)

    shape = property(lambda self: self.stmt.shape)

    def lie(self, first: int, steps: tuple[int, ...]) -> None:
        """Sets the positions in the array of the elements that are accessed."""
        self.first, self.steps = first, steps
        self.numbers = {at: first + sum(map(mul, steps, at)) for at in self.elements}


def accesses(body: N.Block, types: Mapping[int, DType]) -> list[Access]:
    """The accesses of a task; none if all of them are to arrays that do not go to memory."""
    found = []
    for s in find(body, N.Choice):
        places = [*product(*map(range, s.shape))]
        results = (r.id for r in s.results) if isinstance(s, N.WithElement) else ()
        elements = dict(zip(places, s.values, strict=True))
        found.append(Access(s, elements, dict(zip(places, results, strict=False)), types[s.values[0]]))
    return found if any(len(a.elements) >= FEWEST for a in found) else []


@dataclass(eq=False)
class Array:
    buffer: N.Buffer
    groups: list[Access]
    slots: dict[int, int]  # value -> index of the element whose successive values it belongs to

    @property
    def size(self) -> int:
        """The number of elements. The buffer has one more, which takes the writes whose index is out of range."""
        assert self.buffer.shape is not None
        return self.buffer.shape[0] - 1


@dataclass(eq=False)
class Table:
    """A constant array for reads in a loop. ``loop``: the id of the loop; ``elements``: the values that are stored
    before it."""

    buffer: N.Buffer
    groups: list[Access]
    elements: list[int]
    loop: int


class _Classes:
    """Sets of values that may share a slot, as a union-find. For each set it is known at which place it occurs in which
    access group, loop or If."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.places: dict[int, dict[Access | int, Place]] = {}

    def root(self, value: int) -> int:
        parent = self.parent
        while (up := parent.get(value)) is not None:
            if (beyond := parent.get(up)) is None:
                return up
            parent[value] = value = beyond
        return value

    def tag(self, value: int, group: Access | int, place: Place) -> None:
        self.places.setdefault(self.root(value), {}).setdefault(group, place)

    def join(self, a: int, b: int) -> None:
        """Joins the sets of two values, unless the joined set would have two places in one access group or statement.
        """
        a, b = self.root(a), self.root(b)
        mine, other = self.places.get(a, {}), self.places.get(b, {})
        if a != b and all(mine.get(g, place) == place for g, place in other.items()):
            self.parent[b] = a
            if other:
                self.places[a] = {**mine, **other}


def _phis(body: N.Block) -> Iterable[tuple[N.Stmt, int, int, tuple[int, ...]]]:
    """For each value that a loop carries or an If results in: the statement, the index among its carried values or
    results, the value's id, and the ids that it is one of."""
    for s in walk(body):
        if isinstance(s, N.Loop):
            ends = s.body[-1].operands()
            for n, (p, r, init, end) in enumerate(zip(s.carried, s.results, s.inits, ends, strict=True)):
                yield s, n, p.id, (r.id, end, init)
        elif isinstance(s, N.If):
            for n, (r, *taken) in enumerate(zip(s.results, *(x[-1].operands() for x in s.blocks()), strict=True)):
                yield s, n, r.id, tuple(taken)


def arrays_of(
    body: N.Block, groups: list[Access], types: dict[int, DType], buffers: Mapping[str, N.Buffer]
) -> list[Array]:
    """The arrays of a task for which memory pays: those that loops carry. Their names differ from those of all
    ``buffers``."""
    if any(find(body, N.Exit)):
        return []
    phis = list(_phis(body))
    own = {value for _, _, value, _ in phis} | {taken[0] for s, _, _, taken in phis if isinstance(s, N.Loop)}
    own |= {v for g in groups for v in g.made.values()}
    classes = _Classes()
    for g in groups:
        for place, old in g.elements.items():
            if g.made:
                classes.tag(g.made[place], g, place)
                if old in own:
                    classes.join(g.made[place], old)
            elif old in own:
                classes.tag(old, g, place)
    for s, n, value, _ in phis:
        classes.tag(value, s.id, (n,))
    for _, _, value, taken in (*phis, *phis[::-1]):
        for other in taken:
            if other in own:
                classes.join(value, other)
    # access group -> the groups that share elements with it
    beside: dict[Access, dict[Access, None]] = {g: {} for g in groups}
    for places in (classes.places.get(r, {}) for r in {classes.root(v) for v in own}):
        for g, h in pairwise(of_kind(places, Access)):
            beside[g][h] = beside[h][g] = None
    loops = [*find(body, N.Loop)]
    # set of values -> the name of their variable, "v" for the carried value 'v[0]'
    variables = {classes.root(p.id): p.name.partition("[")[0] or "array" for s in loops for p in s.carried}
    members: dict[int, list[int]] = {}
    for v in own:
        members.setdefault(classes.root(v), []).append(v)
    arrays: list[Array] = []
    left = dict.fromkeys(groups)
    while left:
        together = reached([next(iter(left))], beside.__getitem__)
        left = {g: None for g in left if g not in together}
        roots = {r for r in members if any(g in together for g in classes.places.get(r, {}))}
        largest = max(together, key=lambda g: (len(g.elements), bool(g.made)))
        size, dtype = len(largest.elements), largest.dtype
        if size < FEWEST or roots.isdisjoint(variables) or dtype is u1 or dtype.bits < 32:
            continue
        found = {r: classes.places[r] for r in roots}
        number_of = {r: _flat(places[largest], largest.shape) for r, places in found.items() if largest in places}
        if len(number_of) < len(roots) or any(types[v] is not dtype for r in roots for v in members[r]):
            continue
        variable = next(variables[r] for r in roots if r in variables)
        name = _unused(variable, {*buffers, *(a.buffer.name for a in arrays)})
        buffer = N.Buffer(name, "private", dtype, 1, (size + 1,))
        array = Array(buffer, [], {v: number_of[r] for r in roots for v in members[r]})
        array.groups += [g for g in together if _lies(g, array)]
        if all(g in array.groups for g in together if g.made):  # otherwise the reads stay selects
            arrays.append(array)
    return arrays


def tables_of(
    body: N.Block, groups: list[Access], arrays: list[Array], taken: set[str]
) -> list[Table]:
    """The tables of a task, for its reads that belong to no array. With a table, a trip makes one load instead of a
    select for each element. Each table is stored before the outermost loop that computes none of its elements."""
    mine = {g for a in arrays for g in a.groups}
    slots = {v for a in arrays for v in a.slots}
    reads = {g.stmt.id: g for g in groups if not g.made and len(g.elements) >= LEAST_TABLE and g not in mine}
    reads = {i: g for i, g in reads.items() if g.dtype.bits >= 32 and slots.isdisjoint(g.elements.values())}
    if not reads or any(find(body, N.Exit)):
        return []
    depth = dict[int, int]()  # value -> how many statements are nested around its definition
    found: dict[tuple[int, ...], Table] = {}
    for s, around in _nested(body, ()):
        depth.update((i, len(around)) for i, _ in s.defs())
        depth.update((p.id, len(around) + 1) for p in s.params())
        if (g := reads.get(s.id)) is None:
            continue
        most = max(depth.get(v, 0) for v in g.elements.values())
        loop = next(of_kind(around[most:], N.Loop), None)
        if loop is None:
            continue
        g.lie(0, tuple(prod(g.shape[k + 1 :]) for k in range(len(g.shape))))
        elements = [g.elements[place] for place in product(*map(range, g.shape))]
        key = loop.id, *elements
        if (table := found.get(key)) is None:
            others = *(a.buffer for a in arrays), *(t.buffer for t in found.values())
            name = _unused("table", {*taken, *(b.name for b in others)})
            buffer = N.Buffer(name, "private", g.dtype, 1, (len(elements),))
            table = found[key] = Table(buffer, [], elements, loop.id)
        table.groups.append(g)
    return [*found.values()]


def _nested(block: N.Block, around: tuple[N.Stmt, ...]) -> Iterator[tuple[N.Stmt, tuple[N.Stmt, ...]]]:
    """Each statement in the block, at any depth, with the statements that enclose it, outermost first."""
    for s in block:
        yield s, around
        for inner in s.blocks():
            yield from _nested(inner, (*around, s))


def _unused(name: str, taken: set[str]) -> str:
    return next(n for k in count() if (n := f"{name}{k or ''}") not in taken)


def _flat(place: Place, shape: Place) -> int:
    at = 0
    for k, n in zip(place, shape, strict=True):
        at = at * n + k
    return at


def _lies(g: Access, array: Array) -> bool:
    """Sets where the places of a group lie in the array. False if they are not evenly spaced along each axis, or if
    this is not known."""
    known = {place: array.slots[v] for place, v in (*g.elements.items(), *g.made.items()) if v in array.slots}
    origin = (0,) * len(g.shape)
    units = [tuple(int(k == axis) for k in range(len(g.shape))) for axis in range(len(g.shape))]
    if origin not in known or any(n > 1 and unit not in known for unit, n in zip(units, g.shape, strict=True)):
        return False
    first = known[origin]
    g.lie(first, tuple(known[u] - first if n > 1 else 0 for u, n in zip(units, g.shape, strict=True)))
    numbers = {*g.numbers.values()}
    inside = len(numbers) == len(g.elements) and min(numbers) >= 0 and max(numbers) < array.size
    return inside and all(at == g.numbers[place] for place, at in known.items())
