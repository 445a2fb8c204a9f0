"""Watches a session with ``qd.init(check=...)`` for the first NaN, and for gradients that are lost.

Indices, asserts and races are checked by the compiled kernels themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from quadrants_lab.autodiff.diagnostics import GradientWarning, warn, warning
from quadrants_lab.errors import Label, QuadrantsAssertionError, QuadrantsError
from quadrants_lab.runtime.check.cause import Cause
from quadrants_lab.runtime.check.differences import Differentiable, inputs_of, saved
from quadrants_lab.runtime.check.flow import follow
from quadrants_lab.runtime.check.launch_flow import TooLong
from quadrants_lab.runtime.check.nonfinite import why_nonfinite
from quadrants_lab.runtime.check.recording import touched
from quadrants_lab.runtime.check.why import why_zero
from quadrants_lab.runtime.observe.observers import unwatched, watch
from quadrants_lab.runtime.record.launch_data import keep_last
from quadrants_lab.runtime.record.records import Copier, LaunchRecord

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.session import Session
    from quadrants_lab.runtime.tape.recorder import Launches

SECONDS = 5.0  # the interpreter follows an input whose gradient is zero for at most so many seconds
# The kinds of causes by which a gradient is lost. With other kinds, such as a factor of 0, or a field that is written
# before anything reads it, as results of steps in between are, a gradient of zero is right.
_LOST = frozenset(
    ("no gradient", "integer", "jumps", "atomic", "decision", "overwritten", "underflow", "no iterations")
)


class CheckedSession(Copier):
    """An observer of all launches of a session. It stores the data of each kernel's last launch, of which
    ``k.reproduce`` makes a script. If a launch makes a NaN although it reads none, it raises QuadrantsAssertionError
    (QL0424), which names the operation; so does a gradient's launch that makes a NaN or an infinity."""

    of_session = True

    def __init__(self) -> None:
        super().__init__()
        self.forward = 0  # how many launches there were, not counting gradients
        self.told: set[str] = set()  # the texts of the warnings that were given

    def after(self, plan: Plan, args: tuple[Any, ...], token: LaunchRecord, failed: bool) -> None:
        super().after(plan, args, token, failed)
        self.forward += token.mode == "forward"
        token.launch = self.forward if token.mode == "forward" else 0
        keep_last([token])
        if not failed and _makes_nonfinite(token):
            with unwatched():
                _raise(why_nonfinite(token, token.launch, backwards=token.mode == "reverse"))

    def tell_lost(self, launches: Launches, loss: Differentiable) -> None:
        """Warns (QL0423), once for each cause, of inputs of the launches under a Tape whose gradient is zero because it
        is lost on the way from the loss. The gradients must have run."""
        zero = {
            name: x for name, x in touched(launches, loss._memory, {}, inputs=True).items()
            if not x.grad._memory.values().any()
        }  # fmt: skip
        if not zero or id(loss._memory) not in launches.initial:
            return
        found: list[GradientWarning] = []
        with saved(launches, [loss, *zero.values()]), unwatched():
            for name, x in inputs_of(zero).items():
                with suppress(TooLong, QuadrantsError, ArithmeticError):
                    trace = follow(launches, loss._memory, x.memory, x.direction, SECONDS)
                    why = why_zero(trace, name)
                    if why.kind in _LOST and not trace.partial:
                        found.append(_lost(name, why))
        warn(w for w in found if w.text not in self.told)
        self.told |= {w.text for w in found}


_OF_SESSIONS: WeakKeyDictionary[Session, CheckedSession] = WeakKeyDictionary()


@contextmanager
def checking_session(now: Session) -> Iterator[None]:
    """Makes a context in which the launches of the session are checked as its option ``check`` says."""
    checks = _OF_SESSIONS.setdefault(now, CheckedSession())
    with watch(checks):
        yield


def tell_lost_gradients(now: Session, launches: Launches, loss: Differentiable) -> None:
    """Calls `CheckedSession.tell_lost` of the session's observer."""
    _OF_SESSIONS[now].tell_lost(launches, loss)


def _makes_nonfinite(record: LaunchRecord) -> bool:
    """Whether the launch wrote a NaN although it read none. For a gradient, an infinity counts like a NaN, and what it
    reads from the forward launch may be infinite."""
    backwards, inputs = record.mode == "reverse", record.inputs or {}
    gradients = {b.grad for b in record.plan.kernel.buffers.values()}

    def spoilt(a: npt.NDArray[Any]) -> bool:
        return a.dtype.kind == "f" and bool((~np.isfinite(a) if backwards else np.isnan(a)).any())

    if any(spoilt(a) for name, a in inputs.items() if not backwards or name in gradients):
        return False
    return any(map(spoilt, (record.outputs or {}).values()))


def _raise(why: Cause) -> NoReturn:
    """Raises the cause as an error, with the iteration and the operands in its first line."""
    where = ", ".join(filter(None, (why.where, why.operands)))
    label = (Label(why.at, why.label),) if why.at is not None else ()
    raise QuadrantsAssertionError(f"{why.says} ({where})", code="QL0424", labels=label, help=why.help)


def _lost(name: str, why: Cause) -> GradientWarning:
    label = (Label(why.at, why.label),) if why.at is not None else ()
    return warning("QL0423", f"the gradient of {name} is zero: {why.says}", label, why.help, why.at)
