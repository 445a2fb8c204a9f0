"""A warning about gradients without a seed: where all gradients that a kernel reads are 0, it adds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.effects import value_reads
from quadrants_lab.autodiff.warned import GradientWarning, warning
from quadrants_lab.errors import Label
from quadrants_lab.runtime.arguments.signature import ArraySlot, memory_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.memory.memory import Memory

_LOOKS = 8


class SeedCheck:
    """Checks the gradients that a reverse kernel reads. ``looks``: how many more launches are checked; it decreases
    where arrays have to be searched. ``seed``: memory of a single element that was not 0 at its version ``known``."""

    def __init__(self, plan: Plan) -> None:
        self.kernel = plan.kernel
        reads = {s.buffer for s in value_reads(plan.kernel)}
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

    def given(self, args: Sequence[Any]) -> bool:
        """Whether some element is not zero."""
        for memory in self.fields:
            if memory.operand.size != 1:
                continue
            if memory is self.seed and memory.version == self.known:
                return True  # reading the value would wait for launches
            if memory.values().item():
                self.seed, self.known = None if memory.foreign else memory, memory.version
                return True
        self.seed = None
        self.looks -= 1
        gradients = (*self.fields, *(memory_of(getattr(args[n], "grad", None)) for n in self.args))
        return any(memory is None or memory.values().any() for memory in gradients)

    def warning(self) -> GradientWarning:
        """The warning that all seeds are 0."""
        names = [f"{name}.grad" for name in self.of.values()]
        verb = "is" if len(names) == 1 else "are"
        first = (s.span for s in value_reads(self.kernel) if f"{self.of.get(s.buffer)}.grad" == names[0])
        span = next(first, self.kernel.span)
        return warning(
            "QL0409",
            f"the gradient of kernel {self.kernel.name} adds nothing: {', '.join(names)} {verb} 0 everywhere",
            (Label(span, f"the derivative starts here, from {names[0]}"),),
            f"set it first, for instance {names[0]}.fill(1), or launch the kernel under qd.ad.Tape(loss)",
            span,
        )

