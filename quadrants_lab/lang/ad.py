"""`qd.ad`: gradients over many launches."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants_lab.lang.dense import Dense
from quadrants_lab.lang.missing import missing_attribute
from quadrants_lab.runtime import session
from quadrants_lab.runtime.observe import watch
from quadrants_lab.runtime.tape import Launches

__all__ = ["Tape", "clear_all_gradients"]


class Tape:
    """``with qd.ad.Tape(loss): ...`` runs the gradients of the kernels launched inside, last first, when it ends.

    ``loss`` is a 0-d field or ndarray with a gradient. At the start it is set to 0 and, with ``clear_gradients``, so
    are all gradients of the session; at the end ``loss.grad`` is set to 1. Each gradient sees memory as its launch
    left it, also where later launches wrote to it; afterwards memory is as the last launch left it. After an exception
    inside the with no gradient runs.
    """

    def __init__(
        self, loss: Any = None, clear_gradients: bool = True, validation: bool = False, grad_check: Any = None
    ) -> None:
        if not isinstance(loss, Dense):
            raise QuadrantsRuntimeTypeError(
                f"the loss of a Tape must be a 0-d field or ndarray, not {loss!r}", code="QL2090"
            )
        if loss.shape:
            raise QuadrantsRuntimeError(f"the loss of a Tape must be 0-d, it is {loss!r}", code="QL2090")
        if loss.grad is None:
            raise QuadrantsRuntimeError(
                f"the loss of a Tape must have a gradient, it is {loss!r}",
                code="QL2090",
                help="make it with needs_grad=True",
            )
        if validation or grad_check:
            raise QuadrantsRuntimeError("validation and grad_check are not supported yet", code="QL2091")
        self.loss = loss
        self.clear_gradients = clear_gradients
        self._launches = Launches()
        self._watch: AbstractContextManager[None] | None = None

    def __enter__(self) -> Tape:
        if self._watch is not None:
            raise QuadrantsRuntimeError("this Tape is already recording", code="QL2092")
        if self.clear_gradients:
            clear_all_gradients()
        self.loss.fill(0)
        self._launches.clear()
        self._watch = watch(self._launches)
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._watch is not None
        assert self.loss.grad is not None
        self._watch.__exit__(kind, error, trace)
        self._watch = None
        if kind is None:
            self.loss.grad.fill(1)
            self._launches.differentiate()
        self._launches.clear()


def clear_all_gradients() -> None:
    """Sets the gradients of all fields and ndarrays of the session to 0."""
    for owner in list(session.current().differentiable):
        owner.grad.fill(0)


def __getattr__(name: str) -> object:
    return missing_attribute("qd.ad", name, globals())
