"""Unrolls short loops that index local vectors and matrices.

An access to a local vector at an index that is known only at run time is one select for each element of the vector, and
a gradient keeps all elements in each trip. If the index is computed from the indices of loops with known bounds,
unrolling these loops makes the index a constant: the selects disappear, and the vector becomes a few values.
"""

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.unroll import unroll_loops
from quadrants_lab.ir.walk import constants, find, walk

MOST_MADE = 1000  # the most statements that a nest of loops may become
MOST_VISITED = 50_000  # the most statements to visit for that: an access has a select for each element
_LEAST = 2  # the fewest places that an index is compared with: a read of three elements compares it with two


def unroll_local_arrays(kernel: N.Kernel) -> N.Kernel:
    """Unrolls a loop if its bounds are constants once the loops around it are unrolled, if its index decides selects,
    and if the unrolled loop has no more than `MOST_MADE` statements (`ir.unroll`)."""
    wanted = _indexing(kernel.body)
    return unroll_loops(kernel, wanted, (MOST_MADE, MOST_VISITED)) if wanted else kernel


def _indexing(body: N.Block) -> set[int]:
    """The ids of loops whose index decides which of several elements a select chooses."""
    loops: dict[int, set[int]] = {}  # integer value -> ids of the loops whose indices it depends on
    places: dict[int, set[int]] = {}  # such a value -> the constants that it is compared with
    known, selected = constants(walk(body)), {s.args[0] for s in find(body, N.Op) if s.prim == "select"}
    if not selected:
        return set()
    for s in walk(body):
        if isinstance(s, N.For) and not (s.reverse or s.checkpoint or s.step != N.NO_ID):
            loops[s.index.id] = {s.id}
        elif isinstance(s, N.Op) and s.type.is_int:
            if of := set().union(*(loops.get(a, ()) for a in s.args)):
                loops[s.id] = of
        elif s.prim == "eq" and s.operands()[0] in loops and s.operands()[1] in known:
            places.setdefault(s.operands()[0], set()).add(known[s.operands()[1]])
    return set().union(*(loops[value] for value, found in places.items() if len(found) >= _LEAST))
