"""Unrolls short loops that index local vectors and matrices.

An access to a local vector at an index known only at run time is one select for each element of the vector, and a
gradient stores all elements in each trip. If the index is computed from the indices of loops with known bounds,
unrolling these loops makes it a constant: the selects disappear, and the vector becomes a few values.

On most devices, a long vector lies in memory if it is also accessed at an index that stays unknown after unrolling;
unrolling does not change that. So loops are not unrolled if they access only such vectors: their copies would take
longer to compile and run no faster.
"""

from collections import defaultdict

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import merges
from quadrants_lab.ir.unroll import unroll_loops, unrollable
from quadrants_lab.ir.walk import constants, reached, walk

MOST_MADE = 1000  # a nest of loops is not unrolled if it would become more statements
# the most statements that unrolling visits to find that out: an access has a select for each element
MOST_VISITED = 50_000
LEAST_LONG = 16  # the fewest elements of a long vector
_LEAST = 2  # the least number of places that an index is compared with: a read of three elements compares it with two


def unroll_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """Unrolls a loop if its bounds are constants once the loops around it are unrolled, if its index chooses among
    elements of a vector that unrolling may keep out of memory, and if the unrolled loop has no more than `MOST_MADE`
    statements (`ir.unroll`)."""
    most = MOST_MADE, MOST_VISITED
    accesses = _Accesses(kernel.body)
    wanted = accesses.wanted(set())
    if wanted and any(len(places) >= LEAST_LONG - 1 for places in accesses.places.values()):
        wanted = accesses.wanted(accesses.in_memory(unrollable(kernel, wanted, most)))
    return unroll_loops(kernel, wanted, most) if wanted else kernel


class _Accesses:
    """The selects of a body whose condition compares indices with constant places. ``loops``: integer value -> the
    loops on whose indices it depends. ``known``: constants, and values that are computed from constants and such
    indices alone. ``places``: index -> the constants that it is compared with. ``tests``: condition -> the indices and
    the place. ``at``: index -> the selects that it decides."""

    def __init__(self, body: N.Block) -> None:
        self.body = body
        self.loops: dict[int, set[int]] = {}
        self.places: dict[int, set[int]] = {}
        self.tests: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.selects: dict[int, N.Op] = {}
        self.at: dict[int, list[int]] = defaultdict(list)
        consts = constants(walk(body))
        self.known = {*consts}
        for s in walk(body):
            if isinstance(s, N.For) and not (s.reverse or s.checkpoint or s.step != N.NO_ID):
                self.loops[s.index.id] = {s.id}
                if s.begin in self.known and s.end in self.known:
                    self.known.add(s.index.id)
            if not isinstance(s, N.Op):
                continue
            if s.type.is_int:
                if of := set().union(*(self.loops.get(a, ()) for a in s.args)):
                    self.loops[s.id] = of
                if self.known.issuperset(s.args):
                    self.known.add(s.id)
            elif s.prim == "eq" and (place := consts.get(s.args[1])) is not None:
                self.places.setdefault(s.args[0], set()).add(place)
                self.tests[s.id] = s.args[:1], (place,)
            elif s.prim == "and" and all(a in self.tests for a in s.args):
                (one, at), (other, then) = (self.tests[a] for a in s.args)
                self.tests[s.id] = (*one, *other), (*at, *then)
            if s.prim == "select" and s.args[0] in self.tests:
                self.selects[s.id] = s
                for i in self.tests[s.args[0]][0]:
                    self.at[i].append(s.id)

    def wanted(self, in_memory: set[int]) -> set[int]:
        """The loops to unroll: their indices decide which of several elements a select chooses, and the select is not
        one of ``in_memory``."""
        decide = (i for i, places in self.places.items() if len(places) >= _LEAST and i in self.loops)
        return set().union(*(self.loops[i] for i in decide if not self.at[i] or not in_memory.issuperset(self.at[i])))

    def in_memory(self, unrolled: set[int]) -> set[int]:
        """The selects among elements of long vectors that are also accessed at an index which is not known after these
        loops are unrolled. Values belong to one vector if selects choose among them, or if loops and Ifs pass them on.
        Vectors of numbers with fewer than 32 bits never lie in memory."""
        same: dict[int, list[int]] = defaultdict(list)
        pairs = [(a, s.id) for s in self.selects.values() for a in s.args[1:]]
        pairs += [pair for s in walk(self.body) if s.nests for pair in merges(s)]
        for a, b in pairs:
            if a not in self.known:
                same[a].append(b)
                same[b].append(a)
        found, seen = set[int](), set[int]()
        for s in self.selects.values():
            if s.id in seen or s.type.bits < 32 or all(self.stays_known(i, unrolled) for i in self.tests[s.args[0]][0]):
                continue
            vector = reached([s.id], same.__getitem__).keys() & self.selects.keys()
            seen |= vector
            if len({self.tests[self.selects[i].args[0]][1] for i in vector}) >= LEAST_LONG - 1:
                found |= vector
        return found

    def stays_known(self, value: int, unrolled: set[int]) -> bool:
        return value in self.known and self.loops.get(value, set()) <= unrolled
