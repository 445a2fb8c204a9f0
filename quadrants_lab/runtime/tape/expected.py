"""What the next run of a program is to do at each step so that a recording of the last run can be used again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import numpy as np

from quadrants_lab.analysis.facts import draws
from quadrants_lab.ir.record import dataclass, function
from quadrants_lab.ir.weak import has_weak
from quadrants_lab.runtime.arguments.slots import ScalarSlot, TemplateSlot
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.observe.tape_numbers import TapeNumber
from quadrants_lab.runtime.tape.access_summary import AccessSummary
from quadrants_lab.runtime.tape.step import Step

if TYPE_CHECKING:
    from quadrants_lab.runtime.tape.keeper import Keeper

MOST_BYTES = 1 << 28  # that a recording may keep for the next run


@dataclass(slots=True)
class Expected:
    """What the next run is to do at a step: a launch, or the call of a ``function`` with a custom gradient, which is to
    touch no memory beside that with the serials ``touched``.

    Of a launch, ``same`` tells whether other arguments are those; ``objects``: weak references to its arrays, and to
    fields and objects among its template arguments. ``arity``: how many arguments it has, if ``same`` and
    `AccessSummary.holds` decide by which plan it is launched; ``steady``: it reads no attributes; ``inner``: it is made
    within a function with a custom gradient; ``plain``: nothing but the plan is to be called; ``draws``: its gradient
    repeats its random draws."""

    summary: Callable[[], AccessSummary | None]
    same: Callable[..., bool] = bool
    objects: Sequence[Callable[[], Any]] = ()
    arity: int | None = None
    steady: bool = False
    inner: bool = False
    plain: bool = False
    draws: bool = False
    function: Callable[[], Any] | None = None
    touched: frozenset[int] = frozenset()


def _nothing() -> None:
    """The summary of what is no launch."""


def expected(step: Step) -> Expected:
    """What the next run is to do at a step of the last one."""
    if step.call is not None:
        return Expected(_nothing, function=ref(step.call[0]), touched=step.call[1])
    summary, launch = step.known, step.launch or step.inner_launch
    assert summary is not None
    assert launch is not None
    args = launch[1]
    templates = [n for n, slot in enumerate(summary.plan.slots) if isinstance(slot, TemplateSlot)]
    known = [n for n in templates if _by_identity(args[n])]
    foreign = [n for n in summary.arrays if memory_of(args[n]) is None]
    objects = {f"is{n}": ref(args[n]) for n in (*summary.arrays, *known) if n not in foreign}
    reals = [n for n, slot in enumerate(summary.plan.slots) if isinstance(slot, ScalarSlot) and slot.dtype.is_float]
    tests = [f"{name}() is a{name[2:]}" for name in objects]
    tests += [f"a{n}.__class__ is ndarray and (a{n}.dtype, a{n}.shape) == is{n}" for n in foreign]
    tests += [f"a{n} == is{n}" for n in summary.scalars] + [f"a{n}.__class__ is not TapeNumber" for n in reals]
    space = {f"is{n}": (args[n].dtype, args[n].shape) for n in foreign} | {f"is{n}": args[n] for n in summary.scalars}
    text = f"def same({', '.join(f'a{n}' for n in range(len(args)))}): return {' and '.join(tests) or True}"
    return Expected(
        summary.weak,
        function("same", text, objects | space | {"ndarray": np.ndarray, "TapeNumber": TapeNumber}),
        [*objects.values()],
        len(args) if len(known) == len(templates) else None,
        not summary.plan.compiled.reads,
        step.inner_launch is not None,
        not (step.changes or step.by_data or summary.keeps) and summary.recomputable,
        summary.reverse is not None and summary.plan.facts.of(draws),
    )


def _by_identity(value: Any) -> bool:
    """Whether a template argument is the same if it is the same object: see `template_key`."""
    kind = type(value)
    return getattr(kind, "__qd_field__", False) or (getattr(kind, "__qd_data_oriented__", "") and has_weak(value))


def steps_to_run_again(launches: Keeper) -> list[Step] | None:
    """The steps of a recording with which the next run can be compared; None if there are others than plain launches
    and calls of functions with custom gradients, or if they would hold too much memory."""
    if not launches.steps or launches.memory is not None or launches.repeatable or launches.by_hand or launches.nested:
        return None
    if launches.dead_paths.open or launches.dead_paths.cut or launches.dead_paths.lost:
        return None
    if any(tracked.shadow is not None for tracked in launches.tracked.values()):
        return None
    if not all(isinstance(step, Step) and _can_be_expected(step) for step in launches.steps):
        return None
    steps = cast("list[Step]", launches.steps)
    found = [(step.known, launch[1]) for step in steps if (launch := step.launch or step.inner_launch) is not None]
    arrays = [memory_of(args[n]) for summary, args in found if summary is not None for n in summary.arrays]
    total = sum(memory.operand.nbytes for memory in {id(m): m for m in arrays if m is not None}.values())
    total += sum(step.nbytes + sum(memory.operand.nbytes for memory, _ in step.by_data) for step in steps)
    return steps if total <= MOST_BYTES else None


def _can_be_expected(step: Step) -> bool:
    inner = step.inner_launch is not None
    return step.call is not None or (step.known is not None and step.known.repeats(inner))
