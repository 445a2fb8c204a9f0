"""Says what the next run of a program must do at each step so that the recording of its last run can be used again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import numpy as np

from quadrants_lab.analysis.facts import draws
from quadrants_lab.ir.record import dataclass, function
from quadrants_lab.ir.weak import has_weak
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.arguments.keys import Named, template_key
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.observe.tape_numbers import TapeNumber
from quadrants_lab.runtime.tape.access_summary import AccessSummary
from quadrants_lab.runtime.tape.step import Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.keeper import Keeper

MOST_BYTES = 1 << 28  # the most bytes that a recording may keep for the next run


def _nothing() -> None:
    """In place of the summary of a step that is no launch, and of the function of a step that is no call; returns None.
    """


@dataclass(slots=True)
class Expected:
    """What the next run must do at a step: make a launch, or call a ``function`` with a custom gradient, which may
    access only memory whose serials are in ``touched``.

    For a launch: ``same(args)`` tells whether other arguments, equally many, are equivalent; ``objects``: weak
    references to its arrays, and to the objects that its template arguments refer to. ``changes``: the value of
    `session.changes` when `holds` last found that the same plan would be chosen, if the plan reads no attributes.
    ``inner``: a function with a custom gradient makes the launch; ``plain``: the plan can simply be called; ``entry``:
    for its gradient, the entry of the plan can simply be called; ``draws``: its gradient repeats its random draws.
    """

    summary: Callable[[], AccessSummary | None] = _nothing
    same: Callable[..., bool] = bool
    objects: Sequence[Callable[[], Any]] = ()
    changes: int = -1
    inner: bool = False
    plain: bool = False
    entry: bool = False
    draws: bool = False
    function: Callable[[], Any] = _nothing
    touched: frozenset[int] = frozenset()

    def holds(self, summary: AccessSummary) -> bool:
        """The same as `AccessSummary.holds`; if nothing has changed since the last call, without comparing."""
        if not summary.holds():
            return False
        if not summary.plan.compiled.reads:
            self.changes = S.changes
        return True


NOTHING = Expected()  # for a step that is neither a launch nor a call


def expected(step: Step) -> Expected:
    """What the next run must do at a step of the last run."""
    if step.call is not None:
        return Expected(function=ref(step.call[0]), touched=step.call[1])
    summary, args, named = step.known, step.args, Named()
    assert summary is not None
    reverse = summary.reverse
    templates = [n for n, slot in enumerate(summary.plan.slots) if slot.kind == "template"]
    known = [n for n in templates if _by_identity(args[n])]
    foreign = [n for n in summary.arrays if memory_of(args[n]) is None]
    objects = {f"is{n}": ref(args[n]) for n in (*summary.arrays, *known) if n not in foreign}
    keys = {f"is{n}": template_key(args[n], named) for n in templates if n not in known}
    reals = [n for n, slot in enumerate(summary.plan.slots) if slot.kind == "scalar" and slot.dtype.is_float]
    tests = [f"{name}() is a{name[2:]}" for name in objects]
    tests += [f"key(a{name[2:]}) == {name}" for name in keys]
    tests += [f"a{n}.__class__ is ndarray and (a{n}.dtype, a{n}.shape) == is{n}" for n in foreign]
    tests += [f"a{n} == is{n}" for n in summary.scalars] + [f"a{n}.__class__ is not TapeNumber" for n in reals]
    space = {f"is{n}": (args[n].dtype, args[n].shape) for n in foreign} | {f"is{n}": args[n] for n in summary.scalars}
    text = f"def same({', '.join(f'a{n}' for n in range(len(args)))}): return {' and '.join(tests) or True}"
    space |= {"ndarray": np.ndarray, "TapeNumber": TapeNumber, "key": template_key}
    repeats = reverse is not None and summary.plan.facts.of(draws)
    plain = not (step.changes or step.by_data or summary.keeps or repeats) and summary.recomputable
    return Expected(
        summary.weak,
        function("same", text, objects | keys | space),
        [*objects.values(), *map(ref, named)],
        inner=step.inner,
        plain=plain,
        entry=plain and (reverse is None or (reverse.gradient is not None and reverse.gradient.entry_alone)),
        draws=repeats,
    )


def _by_identity(value: Any) -> bool:
    """Whether a template argument is the same if it is the same object: see `template_key`."""
    kind = type(value)
    return getattr(kind, "__qd_field__", False) or (getattr(kind, "__qd_data_oriented__", "") and has_weak(value))


def steps_to_run_again(launches: Keeper) -> list[Step] | None:
    """The steps of a recording with which the next run can be compared. None if some are neither plain launches nor
    calls of functions with custom gradients, or if they would hold too much memory."""
    if not launches.steps or launches.memory is not None or launches.repeatable or launches.by_hand or launches.nested:
        return None
    if launches.dead_paths.open or launches.dead_paths.cut or launches.dead_paths.lost:
        return None
    if any(tracked.shadow is not None for tracked in launches.tracked.values()):
        return None
    if not all(isinstance(step, Step) and _can_be_expected(step) for step in launches.steps):
        return None
    steps = cast("list[Step]", launches.steps)
    arrays = [memory_of(step.args[n]) for step in steps if step.known is not None for n in step.known.arrays]
    total = sum(memory.operand.nbytes for memory in {id(m): m for m in arrays if m is not None}.values())
    total += sum(step.nbytes + sum(memory.operand.nbytes for memory, _ in step.by_data) for step in steps)
    return steps if total <= MOST_BYTES else None


def _can_be_expected(step: Step) -> bool:
    return step.call is not None or (step.known is not None and step.known.repeats(step.inner))
