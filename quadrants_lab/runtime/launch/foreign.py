"""Arguments of a launch that are memory of other libraries: what happens before the launch and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.effects import value_reads
from quadrants_lab.backends import forks
from quadrants_lab.runtime.arguments import signature as A
from quadrants_lab.runtime.interop.dlpack import can_import, must_be_writable, signal_stream
from quadrants_lab.runtime.interop.gradients import Use, running_backward, settle_argument
from quadrants_lab.runtime.interop.tensors import Tensor

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class ForeignArguments:
    """Those of the launches of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.imports = can_import(plan.session)

    @forks.lazy
    def written(self) -> list[int]:
        """The arguments that a launch writes."""
        return [n for n, slot in enumerate(self.plan.slots) if slot.name in self.plan.writes]

    @forks.lazy
    def gradients(self) -> list[tuple[int, Use]]:
        """The arguments whose gradients a launch touches."""
        plan, loaded = self.plan, {s.buffer for s in value_reads(self.plan.kernel)}
        return [
            (n, Use(plan.slots[n].name, plan.kernel.name, grad in loaded, grad in plan.writes))
            for n, of, grad in plan.gradient_args
            if of == "grad"
        ]

    def before(self, args: Sequence[Any], taped: bool) -> None:
        """To be called before a launch with such arguments. ``taped``: whether a Tape makes it."""
        node = running_backward() if self.gradients else None
        for n, use in self.gradients:
            settle_argument(args[n], use, node, taped)
        for n in self.written:
            must_be_writable(A.memory_of(args[n]), self.plan.slots[n].name, self.plan.kernel.name)

    def after(self, args: Sequence[Any]) -> None:
        """To be called after the launch."""
        for n in self.written:
            memory = A.memory_of(args[n])
            if memory is not None and isinstance(memory.foreign, Tensor):
                memory.foreign.written()
        grads = [A.memory_of(getattr(args[n], "grad", None)) for n, use in self.gradients if use.writes]
        if self.imports:
            for memory in (*map(A.memory_of, args), *grads):
                if memory is not None:
                    signal_stream(memory)
        for memory in grads:
            if memory is not None and memory.foreign:
                memory.flush()
