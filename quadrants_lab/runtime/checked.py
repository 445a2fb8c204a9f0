"""Launches under ``qd.ad.Tape(validation=True)``: doubtful accesses are checked element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.autodiff.elements import Clash
from quadrants_lab.errors import Label, QuadrantsAssertionError
from quadrants_lab.runtime.compile import Compiled
from quadrants_lab.runtime.plan import Plan

if TYPE_CHECKING:
    from quadrants_lab.runtime.dispatch import Dispatcher
    from quadrants_lab.runtime.session import Session


class CheckedPlan(Plan):
    """The plan of a forward kernel with element checks. A launch that overwrote an element which the gradient reads
    again raises QuadrantsAssertionError when it is done, naming both lines, the field and the index."""

    def __init__(self, owner: Dispatcher, session: Session, compiled: Compiled) -> None:
        super().__init__(owner, session, compiled)
        self.call = self._judged(self.call)

    def preparation(self) -> Callable[..., bool]:
        return self._prepared

    def _prepared(self, *args: Any) -> bool:
        """As in an unchecked launch, and every mark is cleared."""
        if self.gradient_args and not self.set_gradients(*args):
            return False
        assert self.compiled.checked is not None
        arrays = self.arrays(args)
        self.marks = {name: np.zeros(arrays[of].shape, np.int64) for name, of in self.compiled.checked.marks.items()}
        for name, marks in self.marks.items():
            self.frame.borrow(name, marks)
        return True

    def _judged(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            value = launch(*args)
            if value is not NotImplemented:
                self._judge(args)
            return value

        return call

    def launch_slowly(self, args: Sequence[Any]) -> Any:
        value = super().launch_slowly(args)
        self._judge(args)
        return value

    def _judge(self, args: Sequence[Any]) -> None:
        assert self.compiled.checked is not None
        for clash in self.compiled.checked.clashes:
            number = self.frame.ret(clash.slot)
            if number:
                shape = self.arrays(args)[clash.read.buffer].shape
                raise self._error(clash, tuple(int(i) for i in np.unravel_index(number - 1, shape)))

    def _error(self, clash: Clash, index: tuple[int, ...]) -> QuadrantsAssertionError:
        element = f"{clash.read.buffer}[{', '.join(map(str, index)) or 'None'}]"
        return QuadrantsAssertionError(
            f"kernel {self.kernel.name} breaks the data-access rule: {element} is overwritten after its value, which "
            "the gradient needs, was read",
            code="QL2098",
            labels=(Label(clash.write.span, "overwritten here"), Label(clash.read.span, "read here")),
            help="keep every value in an element of its own, for instance along an axis of time",
        )
