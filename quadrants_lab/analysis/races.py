"""Certain races: one iteration of a parallel loop writes an element, and another iteration reads the element or
overwrites it by a plain store.

If affine indices do not exclude that a pair of accesses touches one element (`dependence`), the pair is tried in a few
iterations of the loop (`trials`): two iterations that touch one element in a trial do so in every launch. Arguments and
shapes take several values in turn, and an error needs a race under each of them, because some programs pass an offset
that separates two halves. `WatchRaces` finds all other races.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.dependence import other_iterations
from quadrants_lab.analysis.trials import Ended, Trial
from quadrants_lab.errors import Label, QuadrantsCompilationError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import constants, reached, walk

RACE_CURE = (
    "run the loop serially (qd.loop_config(serialize=True) before it), write to a second field, or, to sum up, use += "
    "on the element, which is atomic"
)
_MOST_PAIRS = 64  # the most pairs of accesses to one buffer that are tried
# Values that arguments and shapes take, by the order in which they are read: each is the largest in some trial.
_SCALES = ((3, 11, 41, 150), (150, 41, 11, 3), (11, 3, 150, 41), (41, 150, 3, 11))


@dataclass(frozen=True, slots=True)
class Race:
    """``write`` in iteration ``first`` and ``other`` in iteration ``second`` of the task touch the same ``element``."""

    write: N.Write
    other: N.Access
    element: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    task: N.Offload


def check_races(kernel: N.Kernel) -> None:
    """Raises QuadrantsCompilationError for the first certain race of an offloaded kernel."""
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
    """Whether constant bounds leave the task at most one iteration."""
    consts = constants(task.bounds)
    return all(b in consts and e in consts and consts[e] - consts[b] <= 1 for _, b, e in task.box())


def suspects(info: Accesses, number: int, aliases: bool = False) -> dict[str, list[tuple[Access, Access]]]:
    """For each buffer the pairs of accesses, a write first, that may meet in different iterations of a parallel task.

    Two atomics do not race, nor do stores of a value that is the same in all iterations. With ``aliases`` ndarrays of
    one dtype are taken for the same memory.
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
    """Each store with each access, and each atomic with each load. Of two stores only one order counts."""
    loads = [a for a in accesses if a.stmt.loads]
    for w in accesses:
        for a in accesses if w.stmt.stores else loads if w.stmt.atomic else ():
            if not a.stmt.stores or w.order <= a.order:
                yield w, a


def _same_value(info: Accesses, a: Access, b: Access) -> bool:
    """Whether both are stores of one value, which is the same in all iterations that store to one element. The order of
    such stores does not matter."""
    if not (isinstance(a.stmt, N.Store) and isinstance(b.stmt, N.Store)):
        return False
    known = [s.constant for s in map(info.defs.get, (a.stmt.value, b.stmt.value)) if s is not None]
    same = a.stmt.value == b.stmt.value or (len(known) == 2 and known[0] is not None and known[0] == known[1])
    given = a.stmt.index if a.stmt.index == b.stmt.index and a.stmt.value == b.stmt.value else ()
    return same and is_uniform(info, a.number, a.stmt.value, given)


def is_uniform(info: Accesses, task: int, value: int, given: Iterable[int] = ()) -> bool:
    """Whether the value is the same in all iterations of task ``number`` in which the ``given`` values are the
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
    for room before they take some. The number that they read depends on the order of iterations, but the program may
    still be right."""
    return isinstance(a.stmt, N.Atomic) and isinstance(b.stmt, N.Load) and not b.stmt.type.is_float


# --- a few iterations --------------------------------------------------------------------------------------------


def _witness(kernel: N.Kernel, task: N.Offload, pairs: Sequence[tuple[Access, Access]]) -> Race | None:
    """A race of one of the pairs, provided that each trial has one."""
    found: Race | None = None
    valid = 0
    for scale in _SCALES:
        trial = _Trial(kernel, task, {a.stmt.id for p in pairs for a in p}, scale)
        if trial.iterations < 2:
            continue
        valid += 1
        found = trial.race(pairs)
        if found is None:
            return None
        if not trial.free:  # nothing was assumed, so all trials are the same
            return found
    return found if valid > 1 else None


class _Trial(Trial):
    """``touched`` has, for each wanted access and element, the first two iterations that touch it. ``free`` has the
    values that were assumed for arguments, shapes, and bounds that are loaded."""

    def __init__(self, kernel: N.Kernel, task: N.Offload, wanted: set[int], scale: Sequence[int]) -> None:
        super().__init__(kernel, wanted, task.body)
        self.task, self.scale = task, scale
        self.free: dict[tuple[Any, ...], int] = {}
        self.touched: dict[int, dict[tuple[int, ...], list[tuple[int, ...]]]] = {i: {} for i in wanted}
        self.bounds = {s.id for s in walk(task.bounds)}
        self.iterations = self.run_task(task)

    def unknown(self, what: tuple[Any, ...]) -> int:
        return self.free.setdefault(what, self.scale[len(self.free) % len(self.scale)])

    def load(self, s: N.Load) -> int | None:
        assumed = s.id in self.bounds and s.type.is_int
        return self.unknown(("load", s.buffer, s.index)) if assumed else None

    def sees(self, s: N.Stmt) -> None:
        if isinstance(s, N.Access) and s.id in self.touched:
            self.touch(s)
        elif isinstance(s, N.Assert) and self.env.get(s.cond) == 0:
            raise Ended

    def touch(self, s: N.Access) -> None:
        at = tuple([int(v) for i in s.index if (v := self.env.get(i)) is not None])
        if len(at) < len(s.index) or not self.is_inside(s.buffer, at):
            return
        iterations = self.touched[s.id].setdefault(at, [])
        if len(iterations) < 2 and self.here not in iterations:
            iterations.append(self.here)

    def is_inside(self, buffer: str, at: tuple[Any, ...]) -> bool:
        return all(0 <= i < (self.extent(buffer, n) or 0) for n, i in enumerate(at))

    def race(self, pairs: Iterable[tuple[Access, Access]]) -> Race | None:
        """Two iterations that meet by one of the pairs."""
        for write, other in pairs:
            ours, theirs = self.touched[write.stmt.id], self.touched[other.stmt.id]
            for element in sorted(ours.keys() & theirs.keys()):
                for first, second in product(ours[element], theirs[element]):
                    if first != second:
                        assert isinstance(write.stmt, N.Write)
                        return Race(write.stmt, other.stmt, element, first, second, self.task)
        return None


def _error(race: Race) -> QuadrantsCompilationError:
    def of(iteration: tuple[int, ...]) -> str:
        named = [f"{p.name or 'index'} = {i}" for p, i in zip(race.task.indices, iteration, strict=True)]
        return ", ".join(named)

    at = f"{race.write.buffer}[{', '.join(map(str, race.element)) or 'None'}]"
    does = "read" if race.other.loads else "written"
    labels = [Label(race.write.span, f"{at} is written here where {of(race.first)}")]
    if race.other is race.write:
        labels.append(Label(race.write.span, f"and where {of(race.second)}"))
    else:
        labels.append(Label(race.other.span, f"and {does} here where {of(race.second)}"))
    return QuadrantsCompilationError(
        f"iterations of a parallel loop race for {race.write.buffer}: what it holds depends on which comes first",
        code="QL1706",
        labels=tuple(labels),
        help=RACE_CURE,
    )
