"""Finds certain races: one iteration of a parallel loop writes an element, and another iteration reads the element or
overwrites it by a plain store.

If affine indices do not exclude that two accesses touch the same element (`dependence`), a few iterations of the loop
are run to find out (`race_trials`). `WatchRaces` finds all other races at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.dependence import other_iterations
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.walk import constants, reached

if TYPE_CHECKING:
    from quadrants_lab.analysis.race_trials import Race

_MOST_PAIRS = 64  # for each buffer at most so many pairs of accesses are tried
# imported late: most kernels have no pair to try
_witness = lazily("analysis.race_trials", "witness")
_error = lazily("analysis.race_trials", "error")


def check_races(kernel: N.Kernel) -> None:
    """Raises QuadrantsCompilationError for the first certain race of a kernel that is split into tasks."""
    for race in races(kernel):
        raise _error(race)


def races(kernel: N.Kernel) -> Iterator[Race]:
    """The certain races: at most one for each buffer of a task."""
    info = accesses_of(kernel)
    for number, task in enumerate(kernel.tasks):
        for pairs in suspects(info, number).values():
            sure = [p for p in pairs if not _counter(*p)]
            found = _witness(kernel, task, sure) if sure else None
            if found is not None:
                yield found


def _single(task: N.Offload) -> bool:
    """Whether the task has constant bounds and at most one iteration."""
    consts = constants(task.bounds)
    return all(b in consts and e in consts and consts[e] - consts[b] <= 1 for _, b, e in task.box())


def suspects(info: Accesses, number: int, aliases: bool = False) -> dict[str, list[tuple[Access, Access]]]:
    """Maps each buffer to the pairs of accesses, a write first, that may access the same element in different
    iterations of the parallel task ``number``.

    Two atomics do not race, nor do two stores of a value that is the same in all iterations. With ``aliases`` all
    ndarrays of one dtype count as the same memory.
    """
    if _single(info.kernel.tasks[number]):
        return {}
    groups: dict[str, list[Access]] = {}
    for a in info.of.values():
        buffer = info.kernel.buffers[a.stmt.buffer]
        if a.number == number and a.in_body and buffer.kind not in ("temp", "ret"):
            alias = aliases and buffer.kind == "ndarray"
            groups.setdefault(f"{buffer.dtype}x{buffer.ndim}" if alias else buffer.name, []).append(a)
    found: dict[str, list[tuple[Access, Access]]] = {}
    for name, accesses in groups.items():
        pairs = islice(_pairs(accesses), _MOST_PAIRS)
        met = [p for p in pairs if not _same_value(info, *p) and other_iterations(info, *p)]
        if met:
            found[name] = met
    return found


def _pairs(accesses: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """The pairs that can race: each store with each access, and each atomic with each load; of two stores in one order
    only."""
    loads = [a for a in accesses if a.stmt.loads]
    for w in accesses:
        for a in accesses if w.stmt.stores else loads if w.stmt.atomic else ():
            if not a.stmt.stores or w.order <= a.order:
                yield w, a


def _same_value(info: Accesses, a: Access, b: Access) -> bool:
    """Whether both are stores of the same value, which is the same in all iterations that store to one element. The
    order of such stores does not matter."""
    if not (isinstance(a.stmt, N.Store) and isinstance(b.stmt, N.Store)):
        return False
    known = [s.constant for s in map(info.defs.get, (a.stmt.value, b.stmt.value)) if s is not None]
    same = a.stmt.value == b.stmt.value or (len(known) == 2 and known[0] is not None and known[0] == known[1])
    given = a.stmt.index if a.stmt.index == b.stmt.index and a.stmt.value == b.stmt.value else ()
    return same and is_uniform(info, a.number, a.stmt.value, given)


def is_uniform(info: Accesses, task: int, value: int, given: Iterable[int] = ()) -> bool:
    """Whether the value is the same in all those iterations of task ``task`` in which the ``given`` values are the
    same."""
    written, same = info.written[task], {*given}

    def operands(v: int) -> tuple[int, ...]:
        return info.defs[v].operands() if v in info.defs and v not in same else ()

    def varies(s: N.Stmt | None) -> bool:
        changed = isinstance(s, N.Load) and s.buffer in written
        return changed or s is None or isinstance(s, (N.Random, N.Atomic))

    return not any(varies(info.defs.get(v)) for v in reached([value], operands) if v not in same)


def _counter(a: Access, b: Access) -> bool:
    """Whether the element is an integer counter: iterations count with atomics and also read it, for instance to look
    for room before they take some. The value that they read depends on the order of iterations, but the program may
    still be right."""
    return isinstance(a.stmt, N.Atomic) and isinstance(b.stmt, N.Load) and not b.stmt.type.is_float
