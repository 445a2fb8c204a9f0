"""Unrolls short loops that index local vectors and matrices.

An access to a local vector at an index known only at run time concerns all elements of the vector, and a gradient
stores all elements in each trip. If the index is computed from the indices of loops with known bounds, unrolling these
loops makes it a constant: the accesses disappear, and the vector becomes a few values.

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
# the most statements that unrolling visits to find that out
MOST_VISITED = 50_000
LEAST_LONG = 16  # the fewest elements of a long vector


def unroll_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """Unrolls a loop if its bounds are constants once the loops around it are unrolled, if its index chooses among
    elements of a vector that unrolling may keep out of memory, and if the unrolled loop has no more than `MOST_MADE`
    statements (`ir.unroll`)."""
    most = MOST_MADE, MOST_VISITED
    accesses = _Accesses(kernel.body)
    wanted = accesses.wanted(set())
    if wanted and any(len(s.values) >= LEAST_LONG for s in accesses.stmts):
        wanted = accesses.wanted(accesses.in_memory(unrollable(kernel, wanted, most)))
    return unroll_loops(kernel, wanted, most) if wanted else kernel


class _Accesses:
    """The accesses of a body. ``loops``: integer value -> the loops on whose indices it depends. ``known``: constants,
    and values that are computed from constants and such indices alone. ``at``: index -> the accesses that it
    decides."""

    def __init__(self, body: N.Block) -> None:
        self.body = body
        self.loops: dict[int, set[int]] = {}
        self.stmts: list[N.Choice] = []
        self.at: dict[int, list[N.Choice]] = defaultdict(list)
        self.known = {*constants(walk(body))}
        for s in walk(body):
            if isinstance(s, N.For) and not (s.reverse or s.checkpoint or s.step != N.NO_ID):
                self.loops[s.index.id] = {s.id}
                if s.begin in self.known and s.end in self.known:
                    self.known.add(s.index.id)
            if isinstance(s, (N.Op, N.Element)) and s.type.is_int:
                if of := set().union(*(self.loops.get(a, ()) for a in s.operands())):
                    self.loops[s.id] = of
                if self.known.issuperset(s.operands()):
                    self.known.add(s.id)
            if isinstance(s, N.Choice):
                self.stmts.append(s)
                for i in s.index:
                    self.at[i].append(s)

    def wanted(self, in_memory: set[int]) -> set[int]:
        """The loops to unroll: their indices decide which of several elements is accessed, and the access is not one of
        ``in_memory``."""
        decide = (i for i, stmts in self.at.items() if any(s.id not in in_memory for s in stmts))
        return set().union(*(self.loops.get(i, ()) for i in decide))

    def in_memory(self, unrolled: set[int]) -> set[int]:
        """The accesses to long vectors that are also accessed at an index which is not known after these loops are
        unrolled. Values belong to one vector if an access chooses among them, or if loops and Ifs pass them on. Vectors
        of numbers with fewer than 32 bits never lie in memory."""
        same: dict[int, list[int]] = defaultdict(list)
        for s in walk(self.body):
            for a, b in merges(s):
                if a not in self.known:
                    same[a].append(b)
                    same[b].append(a)
        accesses = {i: s for s in self.stmts for i, _ in s.defs()}
        found, seen = set[int](), set[int]()
        for s in self.stmts:
            first, t = s.defs()[0]
            if s.id in seen or t.bits < 32 or all(self.stays_known(i, unrolled) for i in s.index):
                continue
            vector = [accesses[i] for i in reached([first], same.__getitem__) if i in accesses]
            seen |= {x.id for x in vector}
            if max(len(x.values) for x in vector) >= LEAST_LONG:
                found |= {x.id for x in vector}
        return found

    def stays_known(self, value: int, unrolled: set[int]) -> bool:
        return value in self.known and self.loops.get(value, set()) <= unrolled
