"""Finds the launch whose gradient is not the derivative of its kernel, by the dot-product test.

At a boundary between two launches let x be all memory that has a gradient, t the tangent of x and a its adjoint. a . t
must be the same before and after each launch, because at both boundaries it is the change of the loss along the initial
direction. If a . t differs, the gradient of that launch is wrong. One forward and one backward pass decide this for all
launches. The difference is compared with the changes of a and t by the launch itself, so errors of launches that
contribute little to the loss are found too.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import Label
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.check.cause import Cause, Event
from quadrants_lab.runtime.check.differences import gradients
from quadrants_lab.runtime.check.launch_flow import TooLong
from quadrants_lab.runtime.check.tangent import Tangents, is_own, opaque_steps

if TYPE_CHECKING:
    from quadrants_lab.runtime.interpret.interpreter import Lane
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.tape.recorder import Launches
    from quadrants_lab.runtime.tape.step import Step


MOST_BYTES = 1 << 30  # the most bytes of saved changes of tangents, over all steps
Arrays = dict[int, npt.NDArray[Any]]  # id of a memory -> values


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A ``step`` whose gradient is wrong; its first launch is launch ``number`` of the program, from 1. ``given`` and
    ``right``: the change of a . t by the step in the backward and in the forward pass. ``first``, ``last``: the
    indices, among all steps, of the step's first launch and of the step. ``adjoints``: before and after the step.
    ``tangent``: before the step."""

    step: Step
    number: int
    given: float
    right: float
    first: int
    last: int
    adjoints: tuple[Arrays, Arrays]
    tangent: Arrays


def seed_gradients(launches: Launches, loss: Memory) -> None:
    """Sets gradients to what the backward pass starts from: 1 for the loss, 0 for everything else."""
    for memory, grad in gradients(launches).values():
        grad.put(..., memory is loss)
        grad.flush()
        grad.version += 1
    for f in launches.tracked.values():
        f.version = f.memory.version  # the repeated launches only wrote values that the memory had before
        f.written.clear()


def find_mismatch(
    tangents: Tangents, x: Memory, direction: npt.NDArray[np.float64], tolerance: float
) -> Mismatch | None:
    """The last step at which the two modes differ by more than ``tolerance`` relative to the step's own change; None if
    there is none. Runs the gradients, so memory must be as the last launch left it. Raises TooLong if this takes more
    than `MOST_BYTES`."""
    launches = tangents.launches
    grads = {key: grad for key, (_, grad) in gradients(launches).items()}
    now: Arrays = {id(x): direction.reshape(x.operand.shape).copy()}
    # for each step: id of a memory -> index of the first tangent that the step changed, and the old tangents from there
    # on
    undo: list[dict[int, tuple[int, npt.NDArray[Any]]]] = []
    room = MOST_BYTES

    def forwards() -> None:
        nonlocal room
        old = {}
        for key, memory in tangents.tangents.items():
            if key in grads:
                if key not in now:
                    now[key] = np.zeros_like(memory.array)
                new, mine = memory.array.reshape(-1), now[key].reshape(-1)
                if where := _differing(mine, new):
                    old[key] = where.start, mine[where].copy()
                    mine[where] = new[where]
                    room -= old[key][1].nbytes
        if room < 0:
            raise TooLong
        undo.append(old)

    def adjoints() -> Arrays:
        return {key: grad.copy() for key, grad in grads.items()}

    tangents.along(x, direction, forwards)
    steps = list(launches.leaves())
    found: list[Mismatch] = []
    seed_gradients(launches, tangents.loss)
    at, eps = len(steps), float(np.finfo(tangents.loss.dtype.numpy).eps)
    later, t_later = adjoints(), {key: t.copy() for key, t in now.items()}
    moved: dict[int, slice | None] = {}  # id of a memory -> where `now` and `t_later` may differ
    mine: Step | None = None  # the step between the two compared boundaries
    end = at  # the index of that step

    def backwards(step: Step) -> None:
        nonlocal at, mine, end
        at -= 1
        for key, (low, old) in undo[at].items():
            high = low + old.size
            now[key].reshape(-1)[low:high] = old
            moved[key] = _around(slice(low, high), moved.get(key))
        if not step.inner:
            mine, end = step, at
        if at and steps[at - 1].inner and (step.inner or is_own(step)):
            return  # a function with a custom gradient and the launches within it are compared as one step
        if found:
            return
        changed: dict[int, slice] = {}
        sums = [(0.0, 0.0, 0.0, 0.0)]
        for key, grad in grads.items():
            a, a_later = grad.values().reshape(-1), later[key].reshape(-1)
            where = _around(_differing(a, a_later), moved.get(key))
            if where:
                changed[key] = where
                if key in now:
                    sums.append(_sums(*(each.reshape(-1)[where] for each in (a, a_later, now[key], t_later[key]))))
        given, right, change, size = (sum(column) for column in zip(*sums, strict=True))
        if mine is not None and not abs(given - right) <= tolerance * change + 4 * eps * size:
            number = sum(s.launch is not None for s in steps[: at + 1])
            tangent = {key: t.copy() for key, t in now.items()}
            found.append(Mismatch(mine, number, given, right, at, end, (adjoints(), later), tangent))
            return
        for key, where in changed.items():
            later[key].reshape(-1)[where] = grads[key].values().reshape(-1)[where]
            if key in now:
                t_later[key].reshape(-1)[where] = now[key].reshape(-1)[where]
        moved.clear()

    launches.differentiate(after=backwards)
    return found[0] if found else None


def _differing(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> slice | None:
    """The slice from the first to the last element that differs; None if none does."""
    changed = np.flatnonzero(a != b)
    return slice(int(changed[0]), int(changed[-1]) + 1) if changed.size else None


def _around(a: slice | None, b: slice | None) -> slice | None:
    """The smallest slice that contains both slices."""
    if a is None or b is None:
        return a or b
    return slice(min(a.start, b.start), max(a.stop, b.stop))


def _sums(*arrays: npt.NDArray[Any]) -> tuple[float, float, float, float]:
    """For an adjoint before and after a step, and a tangent before and after it: the change of a . t by the change of
    a, its change by the change of t, the sum of the absolute values in both changes, and the sum of the absolute values
    in a . t."""
    a, a_later, t, t_later = (each.astype(np.float64) for each in arrays)
    with np.errstate(all="ignore"):
        given, right = (a - a_later) * t, a_later * (t_later - t)  # without BLAS, whose threads would spin
        change = float(np.abs(given).sum() + np.abs(right).sum())
        return float(given.sum()), float(right.sum()), change, float(np.abs(a_later * t_later).sum())


@dataclass(frozen=True, slots=True)
class Element:
    """An element of memory ``key``: its adjoint before the step is ``given`` but should be ``right``."""

    name: str
    key: int
    index: Lane
    given: float
    right: float

    def __str__(self) -> str:
        return f"{self.name}.grad[{', '.join(map(str, self.index)) or 'None'}]"


@dataclass(frozen=True, slots=True)
class Narrow:
    """Where a step's gradient is wrong: the ``element``, and as ``event`` the statement whose derivative is wrong, or
    that writes the wrong adjoint; None if only the element is known."""

    element: Element
    event: Event | None = None

    def makes(self, found: Mismatch) -> bool:
        """Whether this element alone makes more than half of the difference."""
        along = abs(float(found.tangent[self.element.key][self.element.index]))
        return along * abs(self.element.given - self.element.right) > 0.5 * abs(found.given - found.right)


def why_mismatched(found: Mismatch, close: Narrow | None) -> Cause:
    """The cause of a mismatch: which gradient is wrong and, if that was found, at which statement."""
    step, off = found.step, _off(found)
    event = None if close is None else close.event
    label, values = "", () if event is None else event.values
    if close is not None:
        label = f"{close.element} becomes {close.element.given:.6g} by it, right is {close.element.right:.6g}"
    if is_own(step):
        kind, (given, primal, span), what = "custom gradient", _own(step), "the gradient that you gave"
        help = f"correct it, or drop it: then {primal} is differentiated by its kernels' own gradients"
        says = f"{given}, is not its derivative: {off}"
        if close is not None and _is_left(found, close.element):
            name = close.element.name
            says = f"{given}, leaves {name}.grad as it is, but {primal} overwrites {name}, which ends its derivative"
            help = f"set {name}.grad to 0 at its end"
        kernel = event.kernel if event is not None else ""
    else:
        plan = step.launch[0] if step.launch else None
        kernel = plan.kernel.name if plan else "a write from Python"
        kind, span, what = "dot product", plan.compiled.lowered.kernel.span if plan else None, "this kernel"
        says, help = f"reverse and forward mode part at the gradient of {kernel}: {off}", ""
    if event is None or event.stmt.span is None:
        return Cause(kind, says, span, label or what, help, kernel, found.number)
    beside = (Label(span, what),) if span is not None and is_own(step) else ()
    return Cause(kind, says, event.stmt.span, label, help, kernel, found.number, event.iteration, values, beside)


def _is_left(found: Mismatch, element: Element) -> bool:
    """Whether the error is that the step leaves an adjoint unchanged that it should set to 0."""
    return element.right == 0 and bool(found.adjoints[1][element.key][element.index] == element.given)


def why_in_python(launches: Launches) -> Cause | None:
    """The cause of a wrong gradient if a function with a custom gradient computes in Python, where forward mode cannot
    follow: the last such function. None if there is none."""
    opaque = opaque_steps(launches)
    if not opaque:
        return None
    given, primal, span = _own(opaque[-1])
    says = f"{given}, is not compared by itself: {primal} launches nothing, so forward mode cannot follow it"
    return Cause("custom gradient", says, span, "look here first")


def _own(step: Step) -> tuple[str, str, Span | None]:
    """For a step with a custom gradient: the words for it in messages, the name of its function, and where the function
    begins."""
    own = getattr(step.gradient, "func", step.gradient)
    primal = getattr(getattr(step.repeat, "func", None), "__name__", "its function")
    name = getattr(own, "__name__", repr(own))
    return f"{name}, which is given as the gradient of {primal}", primal, _where(own)


def _where(fn: Any) -> Span | None:
    """The source position at which a Python function begins."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return None
    line = linecache.getline(code.co_filename, code.co_firstlineno).rstrip()
    begin = len(line) - len(line.lstrip())
    return Span(code.co_filename, code.co_firstlineno, begin, code.co_firstlineno, len(line))


def _off(found: Mismatch) -> str:
    if not np.isfinite(found.given):
        return "it is not finite"
    if found.right == 0:
        return f"it gives {found.given:.6g} where there is nothing to give"
    ratio = found.given / found.right
    if abs(ratio) <= 1e-9:
        return "it gives nothing"
    if abs(ratio + 1) < 1e-3:
        return "its sign is wrong"
    return f"along one direction it gives {ratio:.6g} times what it should"
