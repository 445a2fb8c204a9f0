"""What a gradient starts from: where every gradient that it reads is zero, so is everything that it adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from quadrants_lab.analysis.effects import touched
from quadrants_lab.autodiff.warned import GradientWarning, warning
from quadrants_lab.errors import Label
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.arguments.signature import ArraySlot, memory_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

_CHUNK = 4096
_LOOKS = 8


class SeedCheck:
    """The gradients that a reverse kernel reads, the small ones first. ``looks``: how many more launches are to look;
    where arrays have to be searched it goes down with each. ``seed``: memory of one element that was not zero at its
    version ``known``."""

    def __init__(self, plan: Plan) -> None:
        self.kernel = plan.kernel
        reads = touched(plan.kernel.body, N.Load)
        self.of = {b.grad: b.name for b in plan.kernel.buffers.values() if not b.passing and b.grad in reads}
        fields = [plan.fields[grad] for grad in self.of if grad in plan.fields]
        self.fields = sorted(fields, key=lambda memory: memory.operand.size)
        self.args = [
            n
            for n, slot in enumerate(plan.slots)
            if isinstance(slot, ArraySlot) and plan.kernel.buffers[slot.name].grad in self.of
        ]
        self.looks = _LOOKS if self.of else 0
        self.seed: Memory | None = None
        self.known = 0

    def __bool__(self) -> bool:
        return bool(self.of)

    def given(self, args: Sequence[Any]) -> bool:
        """Whether some element is not zero."""
        for held in self.fields:
            if held.operand.size != 1:
                continue
            if held is self.seed and held.version == self.known:
                return True  # without looking, for which launches would be waited for
            if held.values().item():
                self.seed, self.known = None if held.foreign else held, held.version
                return True
        self.seed = None
        self.looks -= 1
        if any(_any(memory.values()) for memory in self.fields):
            return True
        for n in self.args:
            memory = memory_of(getattr(args[n], "grad", None))
            if memory is None or _any(memory.values()):
                return True
        return False

    def warning(self) -> GradientWarning:
        """The warning that nothing was given to start from."""
        names = [f"{name}.grad" for name in self.of.values()]
        verb = "is" if len(names) == 1 else "are"
        reads = (s for s in walk(self.kernel.body) if isinstance(s, N.Load) and self.of.get(s.buffer) is not None)
        span = next((s.span for s in reads if f"{self.of[s.buffer]}.grad" == names[0]), self.kernel.span)
        return warning(
            "QL0409",
            f"the gradient of kernel {self.kernel.name} adds nothing: {', '.join(names)} {verb} 0 everywhere",
            (Label(span, f"the derivative starts here, from {names[0]}"),),
            f"set it first, for instance {names[0]}.fill(1), or launch the kernel under qd.ad.Tape(loss)",
            span,
        )


def _any(array: npt.NDArray[Any]) -> bool:
    """Whether an element is not zero; looks no further than the first one."""
    flat = array.reshape(-1)
    return any(flat[k : k + _CHUNK].any() for k in range(0, flat.size, _CHUNK))
