"""Records a whole program that runs its own gradients, and compares the gradients that the program left. Before that,
the program runs once with all checks on, since without them an index out of bounds could damage other data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from itertools import count, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.runtime import session
from quadrants_lab.runtime.check.by_hand import Forward, misplaced
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Differentiable, gradients, launched, put_back
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import Observer, unwatched, watch
from quadrants_lab.runtime.tape.recorder import Launches

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


def why_not_ours(
    name: str, left: Any, x: Differentiable, filled: bool, launches: Forward, loss: Differentiable, stale: list[Cause]
) -> list[Cause]:
    """Why the gradient of ``x`` that a program ``left`` differs from the present one, which was computed from the
    recorded launches; empty if the two agree. ``filled``: Python wrote to it after the last gradient ran. ``stale``:
    causes that warnings about the program's gradients name."""
    ours = x.grad._memory.values()
    left, ours = left.astype(np.float64).reshape(-1), ours.astype(np.float64).reshape(-1)
    size = float(np.abs(ours).max(initial=0.0))
    if np.allclose(left, ours, rtol=1e-3, atol=1e-6 * size, equal_nan=True):
        return []
    where = int(np.argmax(np.abs(np.nan_to_num(left - ours, nan=np.inf))))
    beside = f"the program left {left[where]:.6g} in element {where} of {name}.grad, right is {ours[where]:.6g}"
    if filled:
        return [Cause("filled", f"{beside}: Python wrote to it after the last gradient ran",
                      help="clear gradients before the first one runs")]  # fmt: skip
    seedless, stale = ([c for c in stale if (c.kind == "seed") is seed] for seed in (True, False))
    seed = launches.names.get(id(loss._memory), "loss")
    found = misplaced(beside, launches, x.grad._memory, loss) if not stale or seedless else None
    if found is not None:
        return [found, *stale]
    if not left.any():
        says = f"{beside}: the gradients ran, and had nothing to start from"
        help = f"set {seed}.grad[None] = 1 before them, or use qd.ad.Tape({seed})"
        return [replace(seedless[0], says=says, help=help) if seedless else Cause("seed", says, help=help), *stale]
    ratio = float(left @ ours) / float(ours @ ours) if size else 0.0
    if abs(ratio - round(ratio)) < 1e-3 and round(ratio) > 1 and np.allclose(left, ratio * ours, rtol=1e-3):
        return [Cause("added", f"{beside}: {round(ratio)} times that, for gradients are added to what is there",
                      help=f"clear them before: {name}.grad.fill(0), or use qd.ad.Tape({seed})"), *stale]  # fmt: skip
    return stale or seedless or [
        Cause("order", f"{beside}: the gradients ran in another order than last launch first, at other values than "
              "the launches had, or from other gradients than 0", help=f"use qd.ad.Tape({seed})")
    ]  # fmt: skip


def beside_launches(name: str, launches: Launches, moved: Launches) -> Cause:
    """The cause if a program uses, in Python, values that it computes from an input. Either it passes them on: to the
    first launch that got another real number when the input was ``moved``, or by the first write that wrote other
    values then. Or they decide which launches the program makes, or which integers the launches get."""
    says = f"what is computed from {name} goes through Python, where no derivative flows"
    help = "hand it on from kernel to kernel, in a field with needs_grad=True"
    decided = f"Python decides by {name} what launch {{}} is, which a derivative does not show"
    number = 0
    for a, b in zip_longest(launches.leaves(), moved.leaves()):
        if a is not None and b is not None and a.write is not None and b.write is not None:
            if any(not np.array_equal(u, v) for (_, u), (_, v) in zip(a.write[1], b.write[1], strict=False)):
                to = launches.names.get(id(a.write[0]), "a field")
                says += f": to {to}, which Python writes before launch {number + 1}"
                return Cause("python", says, help=help, launch=number + 1)
            continue
        (one, two), number = (None if x is None else x.launch for x in (a, b)), number + 1
        if one is None or two is None or one[0].owner is not two[0].owner:
            return Cause("decision", decided.format(number), launch=number)
        plan = one[0]
        old, new, span = plan.scalars(one[1]), plan.scalars(two[1]), plan.compiled.lowered.kernel.span
        for arg in (n for n in old if old[n] != new[n]):
            values, kernel = ((arg, old[arg]), (f"{arg}, where {name} is moved", new[arg])), plan.kernel.name
            if isinstance(old[arg], int):
                says = f"{decided.format(number)}: its argument {arg}"
                return Cause("decision", says, span, "decided before this", "", kernel, number, (), values)
            says += f": as the argument {arg} of {kernel}"
            return Cause("python", says, span, f"{arg} is a number here", help, kernel, number, (), values)
    return Cause("python", says, help=help)


@dataclass(slots=True)
class Values:
    """Memory with a gradient, made to look like a `Differentiable`."""

    _memory: Memory
    grad: Any = None


def touched(
    launches: Launches, loss: Memory, named: Mapping[str, Differentiable], inputs: bool = False
) -> dict[str, Differentiable]:
    """All floating-point memory with a gradient that the launches access, except for the loss: that in ``named``
    under these names, other memory by its name in the first kernel. ``inputs``: leave out memory that a launch
    writes before any launch reads it."""
    found = dict(named)
    known = {id(loss), *(id(x._memory) for x in named.values()), *(outputs(launches) if inputs else ())}
    for memory, grad in gradients(launches).values():
        if id(memory) not in known:
            first = launches.names[id(memory)]
            names = (f"{first} ({n})" if n > 1 else first for n in count(1))
            found[next(name for name in names if name not in found)] = Values(memory, Values(grad))
    return found


def outputs(launches: Launches) -> set[int]:
    """The ids of the memory that a launch writes before any launch reads it."""
    seen: set[int] = set()
    found: set[int] = set()
    for plan, args in launched(launches):
        for name, memory in plan.memories(args).items():
            if name in plan.writes and name not in plan.reads and id(memory) not in seen:
                found.add(id(memory))
            seen.add(id(memory))
    return found


class _Written(Observer):
    """An observer that copies all memory that launches of any mode write to, before the first write."""

    def __init__(self) -> None:
        # id -> (memory or array, its copy, whether Python wrote it last)
        self.before_any: dict[int, tuple[Any, Any, bool]] = {}

    def before(self, plan: Plan, args: tuple[Any, ...]) -> None:
        for name, touched in plan.backing(args).items():
            if name in plan.writes and id(touched) not in self.before_any:
                filled = isinstance(touched, Memory) and touched.python_wrote == touched.version
                self.before_any[id(touched)] = touched, touched.copy(), filled

    def put_back(self) -> None:
        for touched, values, filled in self.before_any.values():
            put_back(touched, values)
            if filled:
                touched.python_wrote = touched.version


def checked_run(program: Callable[[], object]) -> QuadrantsError | None:
    """Runs the program with all checks; returns its error: a race between iterations, an index out of bounds or a
    failed assert; None if there is none. Prints and warnings are discarded, and what launches wrote is restored."""
    written = _Written()
    with warnings.catch_warnings(), redirect_stdout(StringIO()), unwatched(), watch(written):
        warnings.simplefilter("ignore")
        try:
            with session.checking("asserts", "check_out_of_bound", "check_races"):
                program()
        except QuadrantsError as e:
            return e
        finally:
            written.put_back()
    return None
