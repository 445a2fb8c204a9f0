"""The launch whose gradient is not the derivative of what it computes.

Between two launches let x be all that has a gradient, t its tangent and a its adjoint. a . t is the same number before
and after each launch, for both say by how much the loss changes along the direction that the tangents began with. Where
it is another before a launch than after it, the gradient of that launch is wrong. One way forwards and one back settle
that for all launches; what a launch itself changes of a and t shows an error of its however small its part is.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.errors import Label
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import gradients
from quadrants_lab.runtime.check.launch_flow import TooLong

if TYPE_CHECKING:
    from quadrants_lab.runtime.check.narrow import Narrow
    from quadrants_lab.runtime.check.tangent import Tangents
    from quadrants_lab.runtime.memory.memory import Memory
    from quadrants_lab.runtime.tape.recorder import Launches
    from quadrants_lab.runtime.tape.step import Step


MOST_BYTES = 1 << 30  # of tangents between steps
Arrays = dict[int, npt.NDArray[Any]]  # by the id of the memory that they are of


@dataclass(frozen=True, slots=True)
class Parting:
    """``step``, which launch number ``number`` of the program begins, from 1. ``given``: by how much its gradient
    makes a . t grow on the way back; ``right``: by how much it does so on the way forwards. ``first``, ``last``: the
    step and the launches within it among all steps, from 0. ``adjoints``: before and after the step; ``tangent``:
    before it."""

    step: Step
    number: int
    given: float
    right: float
    first: int
    last: int
    adjoints: tuple[Arrays, Arrays]
    tangent: Arrays


def restart(launches: Launches, loss: Memory) -> None:
    """Gradients as they are before the first one runs: 1 of the loss, 0 of all else."""
    for memory, grad in gradients(launches).values():
        grad.array[...] = memory is loss
        grad.settle()
        grad.version += 1
    for f in launches.tracked.values():
        f.version = f.memory.version  # whoever made the launches again wrote what they had written
        f.written.clear()


def part(tangents: Tangents, x: Memory, way: npt.NDArray[np.float64], tolerance: float) -> Parting | None:
    """The last step of the program at which the two part by more than ``tolerance`` of what the step itself changes;
    None where they part nowhere. Gradients are run again, so the last launch must be the last that wrote. Raises
    TooLong where that takes more than `MOST_BYTES`."""
    launches = tangents.launches
    grads = {key: grad for key, (_, grad) in gradients(launches).items()}
    now: Arrays = {id(x): way.reshape(x.operand.shape).copy()}
    undo: list[dict[int, tuple[int, npt.NDArray[Any]]]] = []  # a step -> where its tangents differ, what they were
    room = MOST_BYTES

    def forwards() -> None:
        nonlocal room
        old = {}
        for key, memory in tangents.tangents.items():
            if key in grads:
                if key not in now:
                    now[key] = np.zeros_like(memory.array)
                new, mine = memory.array.reshape(-1), now[key].reshape(-1)
                if where := _apart(mine, new):
                    old[key] = where.start, mine[where].copy()
                    mine[where] = new[where]
                    room -= old[key][1].nbytes
        if room < 0:
            raise TooLong
        undo.append(old)

    def adjoints() -> Arrays:
        return {key: grad.copy() for key, grad in grads.items()}

    tangents.along(x, way, forwards)
    steps = list(launches.leaves())
    found: list[Parting] = []
    restart(launches, tangents.loss)
    at, eps = len(steps), float(np.finfo(tangents.loss.dtype.numpy).eps)
    later, t_later = adjoints(), {key: t.copy() for key, t in now.items()}
    moved: dict[int, slice | None] = {}  # where `now` and `t_later` may differ
    mine: Step | None = None  # the one that a boundary is looked at for
    end = at  # its place

    def backwards(step: Step) -> None:
        nonlocal at, mine, end
        at -= 1
        for key, (low, old) in undo[at].items():
            high = low + old.size
            now[key].reshape(-1)[low:high] = old
            moved[key] = _around(slice(low, high), moved.get(key))
        if step.inner_launch is None:
            mine, end = step, at
        if at and steps[at - 1].inner_launch is not None and (step.inner_launch is not None or is_own(step)):
            return  # the launches of a function with a gradient of its own are one step with it
        if found:
            return
        changed: dict[int, slice] = {}
        sums = [(0.0, 0.0, 0.0, 0.0)]
        for key, grad in grads.items():
            a, a_later = grad.values().reshape(-1), later[key].reshape(-1)
            where = _around(_apart(a, a_later), moved.get(key))
            if where:
                changed[key] = where
                if key in now:
                    sums.append(_sums(*(each.reshape(-1)[where] for each in (a, a_later, now[key], t_later[key]))))
        given, right, change, size = (sum(column) for column in zip(*sums, strict=True))
        if mine is not None and not abs(given - right) <= tolerance * change + 4 * eps * size:
            number = sum(1 for s in steps[: at + 1] if s.launch is not None or s.inner_launch is not None)
            tangent = {key: t.copy() for key, t in now.items()}
            found.append(Parting(mine, number, given, right, at, end, (adjoints(), later), tangent))
            return
        for key, where in changed.items():
            later[key].reshape(-1)[where] = grads[key].values().reshape(-1)[where]
            if key in now:
                t_later[key].reshape(-1)[where] = now[key].reshape(-1)[where]
        moved.clear()

    launches.differentiate(after=backwards)
    return found[0] if found else None


def _apart(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> slice | None:
    """From the first to the last of their elements that differ."""
    changed = np.flatnonzero(a != b)
    return slice(int(changed[0]), int(changed[-1]) + 1) if changed.size else None


def _around(a: slice | None, b: slice | None) -> slice | None:
    """What reaches over both."""
    if a is None or b is None:
        return a or b
    return slice(min(a.start, b.start), max(a.stop, b.stop))


def _sums(*arrays: npt.NDArray[Any]) -> tuple[float, float, float, float]:
    """Of an array's adjoint and tangent, each before and after a step: what either makes a . t grow by, how much that
    is where nothing cancels out, and a . t itself without cancelling."""
    a, a_later, t, t_later = (each.astype(np.float64) for each in arrays)
    with np.errstate(all="ignore"):
        given, right = (a - a_later) * t, a_later * (t_later - t)  # summed without BLAS, whose threads wait
        change = float(np.abs(given).sum() + np.abs(right).sum())
        return float(given.sum()), float(right.sum()), change, float(np.abs(a_later * t_later).sum())


def is_own(step: Step) -> bool:
    """Whether it is a function with a gradient of its own."""
    return step.gradient is not None and step.launch is None and step.write is None


def why_parted(found: Parting, close: Narrow | None) -> Cause:
    """In words, by name."""
    step, off = found.step, _off(found)
    event = None if close is None else close.event
    label, values = "", () if event is None else event.values
    if close is not None:
        label = f"{close.element} becomes {close.element.given:.6g} by it, right is {close.element.right:.6g}"
    if is_own(step):
        own = getattr(step.gradient, "func", step.gradient)
        name = getattr(own, "__name__", repr(own))
        primal = getattr(getattr(step.repeat, "func", None), "__name__", "its function")
        kind, span, what = "custom gradient", _where(own), "the gradient that you gave"
        says = f"{name}, which is given as the gradient of {primal}, is not its derivative: {off}"
        kernel = event.kernel if event is not None else ""
    else:
        plan = step.launch[0] if step.launch else None
        kernel = plan.kernel.name if plan else "a write from Python"
        kind, span, what = "parting", plan.compiled.lowered.kernel.span if plan else None, "this kernel"
        says = f"reverse and forward mode part at the gradient of {kernel}: {off}"
    if event is None or event.stmt.span is None:
        return Cause(kind, says, span, label or what, kernel=kernel, launch=found.number)
    beside = (Label(span, what),) if span is not None and is_own(step) else ()
    return Cause(
        kind, says, event.stmt.span, label, "", kernel, found.number, event.iteration, values, beside
    )


def _where(fn: Any) -> Span | None:
    """Where a Python function begins."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return None
    line = linecache.getline(code.co_filename, code.co_firstlineno).rstrip()
    return Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, len(line))


def _off(found: Parting) -> str:
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
