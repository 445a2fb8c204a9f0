"""Runs a few iterations of a kernel with the integers that are known when it is compiled.

A trial computes indices, conditions and bounds as the kernel would, and skips what depends on data. So everything that
happens in a trial happens in every launch.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import leaves
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import wrapped
from quadrants_lab.ir.walk import by_class, find, of_kind, walk

_MOST_STEPS = 4000  # the most statements that one trial runs
_SAMPLES = {1: 20, 2: 5, 3: 3}  # number of axes -> how many indices are tried along each axis
_TRIPS = 3  # so many first trips of an inner loop are tried; its last two are tried as well


class Ended(Exception):
    """Raised at a point where the task's iteration ends, or may end."""


class _Unsure(Ended):
    """Raised at a point where data decide whether the innermost loop, or the task's iteration, goes on."""


class _Left(Ended):
    """Raised at an exit that leaves the innermost loop, or ends the task's iteration."""

    def __init__(self, by: N.Exit, values: tuple[Any, ...]) -> None:
        self.by, self.values = by, values


class Trial:
    """One trial. ``env``: id of a known value -> the value, as a numpy scalar. Only loops that contain a ``wanted``
    statement run."""

    def __init__(self, kernel: N.Kernel, wanted: set[int], block: N.Block) -> None:
        self.kernel = kernel
        self.env: dict[int, Any] = {}
        self.here: tuple[int, ...] = ()
        self.steps = 0
        loops = (s for s in find(block, N.For))
        self.loops = {s.id for s in loops if any(inner.id in wanted for inner in walk(s.body))}

    def load(self, s: N.Load) -> int | None:
        """The value that a trial assumes for an integer in memory; None if it assumes none."""

    def unknown(self, what: tuple[Any, ...]) -> int | None:
        """The value that a trial assumes for an argument or an extent that only a launch knows; None if it assumes
        none."""

    def sees_access(self, s: N.Access) -> None:
        """Called for each access that runs."""

    def sees_assert(self, s: N.Assert) -> None:
        """Called for each assert that runs."""

    def chosen(self, axes: Sequence[Sequence[int]]) -> Iterable[tuple[int, ...]]:
        """The iterations to run, in order. ``axes``: a few indices along each axis."""
        return product(*axes)

    def run_task(self, task: N.Offload) -> int:
        """Runs some iterations of a task; returns how many."""
        self.run(task.bounds)
        wanted, k, count = task.bounds[-1].operands(), len(task.indices), 0
        ends = [int(v) for i in wanted if (v := self.env.get(i)) is not None]
        if len(ends) < len(wanted):
            return 0
        axes = [_sample(range(ends[n], ends[k + n]), _SAMPLES.get(k, 2)) for n in range(k)]
        before = dict(self.env)
        for here in self.chosen(axes):
            self.here = here
            self.env = {**before, **{p.id: p.type.numpy(i) for p, i in zip(task.indices, here, strict=True)}}
            count += 1
            with suppress(Ended):
                self.run(task.body)
            if self.steps > _MOST_STEPS:
                break
        self.env = before
        return count

    def run(self, block: N.Block) -> tuple[Any, ...]:
        """Runs those statements of the block whose operands are known; returns the values of its terminator, None for
        each that is unknown."""
        for s in block:
            self.steps += 1
            if rule := _RULES.get(type(s)):
                rule(self, s)
        return tuple(map(self.env.get, block[-1].operands())) if block[-1].terminates else ()

    def _exit(self, s: N.Exit) -> None:
        raise _Left(s, tuple(map(self.env.get, s.values)))

    def _value(self, s: N.Value) -> None:
        self.env[s.id] = self.value(s)

    def _load(self, s: N.Load) -> None:
        self.sees_access(s)
        self.env[s.id] = self.typed(s, self.load(s))

    def _atomic(self, s: N.Atomic) -> None:
        self.sees_access(s)
        self.env[s.id] = None

    def _control(self, s: N.Control) -> None:
        ends = self.ends(s)
        self.env.update((r.id, None) for r in s.results)
        self.env.update((r.id, v) for r, v in zip(s.results, ends, strict=False))

    def _choice(self, s: N.Choice) -> None:
        index: list[Any] = [self.env.get(i) for i in s.index]
        known = dict(s.taken(index)) if None not in index else {}
        self.env.update((i, self.env.get(known.get(i, N.NO_ID))) for i, _ in s.defs())

    def ends(self, s: N.Control) -> tuple[Any, ...]:
        """The values that the statement yields; an empty tuple if they are not known."""
        match s:
            case N.If():
                return self.if_(s)
            case N.For():
                return self.for_(s)
        return ()

    def if_(self, s: N.If) -> tuple[Any, ...]:
        """The values that an If yields; an empty tuple if it is not known which arm runs."""
        cond = self.env.get(s.cond)
        if cond is not None:
            return self.run(s.then if cond else s.orelse)
        if any(True for arm in s.blocks() for _ in leaves(arm)):
            raise _Unsure
        return ()

    def for_(self, s: N.For) -> tuple[Any, ...]:
        """Runs a few trips of a loop with known bounds; returns those of its results that are known."""
        env, begin, end = self.env, self.env.get(s.begin), self.env.get(s.end)
        if begin is None or end is None or s.id not in self.loops or self.steps > _MOST_STEPS:
            return ()
        trips = range(int(begin), int(end))[:: -1 if s.reverse else 1]
        ends_early = any(of_kind(leaves(s.body), N.Break))
        carried = tuple(env.get(i) for i in s.inits)
        before = trips[0] if trips else 0
        for index in trips[:_TRIPS] if ends_early else _sample(trips, _TRIPS):
            if abs(index - before) > 1:
                carried = (None,) * len(carried)
            before, env[s.index.id] = index, s.index.type.numpy(index)
            env.update((p.id, v) for p, v in zip(s.carried, carried, strict=True))
            try:
                carried = self.run(s.body)
            except _Left as left:
                carried = left.values
                if isinstance(left.by, N.Break):
                    return carried
            except _Unsure:
                return ()
        return carried if not ends_early or len(trips) <= _TRIPS else ()

    def value(self, s: N.Value) -> Any:
        """The value of the statement, an integer or truth value; None if it is not known."""
        if not (s.type.is_int or s.type.kind == "b"):
            return None
        match s:
            case N.Const(value=value):
                return s.type.numpy(value)
            case N.ArgLoad(arg=arg):
                return self.typed(s, self.unknown(("arg", arg)))
            case N.ShapeOf(buffer=buffer, axis=axis):
                return self.typed(s, self.extent(buffer, axis))
            case N.Op(prim="select", args=(cond, a, b)) if self.env.get(cond) is not None:
                return self.env.get(a if self.env[cond] else b)
            case N.Op(prim=prim, args=args, type=type):
                values = [self.env.get(a) for a in args]
                return None if any(v is None for v in values) else PRIMS[prim].evaluate(type, *values)
        return None

    def typed(self, s: N.Value, value: int | None) -> Any:
        """The integer ``value`` as a scalar of the statement's dtype."""
        return None if value is None or not s.type.is_int else s.type.numpy(wrapped(value, s.type))

    def extent(self, buffer: str, axis: int) -> int | None:
        known = self.kernel.buffers[buffer].known_extent(axis)
        return self.unknown(("shape", buffer, axis)) if known is None else known


_RULES: dict[type[N.Stmt], Callable[[Trial, Any], None]] = by_class({
    N.Value: Trial._value, N.Load: Trial._load, N.Atomic: Trial._atomic, N.Choice: Trial._choice,
    N.Store: lambda t, s: t.sees_access(s),
    N.Assert: lambda t, s: t.sees_assert(s), N.Control: Trial._control, N.Exit: Trial._exit,
})  # fmt: skip


def _sample(axis: range, count: int) -> list[int]:
    """At most ``count`` indices of an axis: the first ones and the last two."""
    return [*axis[:count], *axis[max(count, len(axis) - 2) :]]

