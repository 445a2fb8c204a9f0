"""Certain races: iterations of a parallel loop one of which reads, or overwrites by a plain store, what another
writes.

A pair of accesses that affine indices do not keep apart (`dependence`) is tried in a few iterations of the loop. A
trial computes integers as the loop would: indices, conditions, bounds. It skips what depends on data, so two
iterations that meet in a trial meet in every launch. Arguments and shapes take several values in turn, and an error
needs a race under each of them, because some programs pass an offset that keeps two halves apart. `watch_races` finds
all other races.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, product
from typing import Any

from quadrants_lab.analysis.accesses import Access, Accesses, accesses_of
from quadrants_lab.analysis.dependence import other_iterations
from quadrants_lab.analysis.effects import touched
from quadrants_lab.errors import Label, QuadrantsCompilationError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import reached, walk

RACE_CURE = (
    "run the loop serially (qd.loop_config(serialize=True) before it), write to a second field, or, to sum up, use += "
    "on the element, which is atomic"
)
_MOST_PAIRS = 64  # pairs of accesses to one buffer that are tried
_MOST_STEPS = 4000  # statements that one trial runs
_SAMPLES = {1: 20, 2: 5, 3: 3}  # number of axes -> indices tried along each
_TRIPS = 3  # first trips of an inner loop that are tried, beside the last two
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
    consts = {s.id: s.value for s in task.bounds if isinstance(s, N.Const)}
    return all(b in consts and e in consts and consts[e] - consts[b] <= 1 for _, b, e in task.box())


def suspects(info: Accesses, number: int, aliases: bool = False) -> dict[str, list[tuple[Access, Access]]]:
    """For each buffer the pairs of accesses, a write first, that may meet in different iterations of a parallel task.

    Two atomics do not race, nor do stores of a value that is the same in all iterations. With ``aliases`` ndarrays of
    one dtype are taken for the same memory.
    """
    task = info.kernel.tasks[number]
    if _single(task):
        return {}
    groups: dict[str, list[Access]] = {}
    for a in info.of.values():
        buffer = info.kernel.buffers[a.stmt.buffer]
        if a.number == number and a.in_body and buffer.kind not in ("temp", "ret"):
            alias = aliases and buffer.kind == "ndarray"
            groups.setdefault(f"{buffer.dtype}x{buffer.ndim}" if alias else buffer.name, []).append(a)
    found: dict[str, list[tuple[Access, Access]]] = {}
    for name, accesses in groups.items():
        pairs = ((w, a) for w in accesses for a in accesses if _may_race(w.stmt, a.stmt, w.order <= a.order))
        met = [p for p in islice(pairs, _MOST_PAIRS) if not _same_value(info, *p) and other_iterations(info, *p)]
        if met:
            found[name] = met
    return found


def _may_race(w: N.Stmt, a: N.Stmt, first: bool) -> bool:
    """Whether this order of the pair counts: a store and any access, or an atomic and a load. Of two stores only one
    order counts, that in which w is ``first``."""
    if isinstance(w, N.Store):
        return not isinstance(a, N.Store) or first
    return isinstance(w, N.Atomic) and isinstance(a, N.Load)


def _same_value(info: Accesses, a: Access, b: Access) -> bool:
    """Whether both are stores of one value, which is the same in all iterations that store to one element. The order of
    such stores does not matter."""
    if not (isinstance(a.stmt, N.Store) and isinstance(b.stmt, N.Store)):
        return False
    values = [info.defs.get(s.value) for s in (a.stmt, b.stmt)]
    same = a.stmt.value == b.stmt.value or (
        isinstance(values[0], N.Const) and isinstance(values[1], N.Const) and values[0].value == values[1].value
    )
    given = a.stmt.index if a.stmt.index == b.stmt.index and a.stmt.value == b.stmt.value else ()
    return same and is_uniform(info, a.task, a.stmt.value, given)


def is_uniform(info: Accesses, task: N.Offload, value: int, given: Iterable[int] = ()) -> bool:
    """Whether the value is the same in all iterations of the task in which the ``given`` values are."""
    written, same = touched(task.body, N.Write), {*given}

    def operands(v: int) -> tuple[int, ...]:
        return info.defs[v].operands() if v in info.defs and v not in same else ()

    def varies(s: N.Stmt | None) -> bool:
        changed = isinstance(s, N.Load) and s.buffer in written
        return changed or s is None or isinstance(s, (N.Random, N.Atomic))

    return not any(varies(info.defs.get(v)) for v in reached([value], operands) if v not in same)


def _counter(a: Access, b: Access) -> bool:
    """Whether it is an integer that iterations count with atomics and also read, for instance to look for room before
    they take it. What they read depends on the order, but the program may still be right."""
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


class _Ended(Exception):
    """An assert ended the iteration."""


class _Trial:
    """A few iterations of a task, run with the known integers only.

    ``touched`` has, for each wanted access and element, the first two iterations that touch it. ``free`` has the values
    that were assumed for arguments, shapes, and bounds that are loaded.
    """

    def __init__(self, kernel: N.Kernel, task: N.Offload, wanted: set[int], scale: Sequence[int]) -> None:
        self.kernel = kernel
        self.task = task
        self.wanted = wanted
        self.scale = scale
        self.free: dict[Any, int] = {}
        self.env: dict[int, Any] = {}
        self.touched: dict[int, dict[tuple[int, ...], list[tuple[int, ...]]]] = {i: {} for i in wanted}
        self.here: tuple[int, ...] = ()
        self.steps = 0
        self.iterations = 0
        loops = (s for s in walk(task.body) if isinstance(s, N.For))  # without a wanted access one need not run
        self.loops = {s.id for s in loops if any(inner.id in wanted for inner in walk(s.body))}
        self.in_bounds = True
        self.run(task.bounds)
        self.in_bounds = False
        ends = [v for i in task.bounds[-1].operands() if (v := self.env.get(i)) is not None]
        k = len(task.indices)
        if len(ends) < 2 * k:
            return
        axes = [_sample(range(ends[n], ends[k + n]), _SAMPLES.get(k, 2)) for n in range(k)]
        outer = dict(self.env)
        for here in product(*axes):
            self.env = {**outer, **dict(zip((p.id for p in task.indices), here, strict=True))}
            self.here = here
            self.iterations += 1
            with suppress(_Ended):
                self.run(task.body)
            if self.steps > _MOST_STEPS:
                break

    def assumed(self, what: Any) -> int:
        return self.free.setdefault(what, self.scale[len(self.free) % len(self.scale)])

    def run(self, block: N.Block) -> tuple[Any, ...]:
        """Runs what is known of the block; returns the values of its terminator, None for unknown ones."""
        env = self.env
        for s in block:
            self.steps += 1
            if isinstance(s, N.Yield):
                return tuple(env.get(v) for v in s.values)
            if isinstance(s, N.Access):
                if s.id in self.wanted:
                    self.touch(s)
                if self.in_bounds and isinstance(s, N.Load) and s.type.is_int:
                    env[s.id] = self.assumed(("load", s.buffer, s.index))
            elif isinstance(s, N.Value):
                value = self.value(s)
                if value is not None:
                    env[s.id] = value
            elif isinstance(s, N.Assert):
                if env.get(s.cond) == 0:
                    raise _Ended
            elif isinstance(s, N.If):
                cond = env.get(s.cond)
                if cond is not None:
                    ends = self.run(s.then if cond else s.orelse)
                    env.update((r.id, v) for r, v in zip(s.results, ends, strict=True) if v is not None)
            elif isinstance(s, N.For):
                self.loop(s)
        return ()

    def loop(self, s: N.For) -> None:
        """Runs a few trips of a loop with known bounds."""
        env, begin, end = self.env, self.env.get(s.begin), self.env.get(s.end)
        if begin is None or end is None or s.id not in self.loops or self.steps > _MOST_STEPS:
            return
        trips = range(begin, end)[::-1] if s.reverse else range(begin, end)
        carried = tuple(env.get(i) for i in s.inits)
        before = trips[0] if trips else 0
        for index in _sample(trips, _TRIPS):
            if abs(index - before) > 1:
                carried = (None,) * len(carried)
            env[s.index.id] = before = index
            for p, v in zip(s.carried, carried, strict=True):
                env.pop(p.id, None)
                if v is not None:
                    env[p.id] = v
            carried = self.run(s.body)
        env.update((r.id, v) for r, v in zip(s.results, carried, strict=True) if v is not None)

    def value(self, s: N.Value) -> Any:
        """The integer or truth value, or None where it is not known."""
        if not (s.type.is_int or s.type.kind == "b"):
            return None
        match s:
            case N.Const(value=value):
                return value
            case N.ArgLoad(arg=arg):
                return self.assumed(("arg", arg))
            case N.ShapeOf(buffer=buffer, axis=axis):
                shape = self.kernel.buffers[buffer].shape
                return self.assumed(("shape", buffer, axis)) if shape is None else shape[axis]
            case N.Op(prim="select", args=(cond, a, b)) if self.env.get(cond) is not None:
                return self.env.get(a if self.env[cond] else b)
            case N.Op(prim=prim, args=args, type=type):
                values = [self.env.get(a) for a in args]
                return None if None in values else int(PRIMS[prim].evaluate(type, *values))
        return None

    def touch(self, s: N.Access) -> None:
        at = tuple([v for i in s.index if (v := self.env.get(i)) is not None])
        if len(at) < len(s.index) or not self.is_inside(s.buffer, at):
            return
        iterations = self.touched[s.id].setdefault(at, [])
        if len(iterations) < 2 and self.here not in iterations:
            iterations.append(self.here)

    def is_inside(self, buffer: str, at: tuple[Any, ...]) -> bool:
        shape = self.kernel.buffers[buffer].shape
        return all(
            0 <= i < (self.assumed(("shape", buffer, n)) if shape is None else shape[n]) for n, i in enumerate(at)
        )

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


def _sample(axis: range, count: int) -> list[int]:
    """A few indices of an axis: the first ones and the last two."""
    return [*axis[:count], *axis[max(count, len(axis) - 2) :]]


def _error(race: Race) -> QuadrantsCompilationError:
    def of(iteration: tuple[int, ...]) -> str:
        named = [f"{p.name or 'index'} = {i}" for p, i in zip(race.task.indices, iteration, strict=True)]
        return ", ".join(named)

    at = f"{race.write.buffer}[{', '.join(map(str, race.element)) or 'None'}]"
    does = "read" if isinstance(race.other, N.Load) else "written"
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
