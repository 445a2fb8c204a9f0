"""Kernels that count on the device before a gradient is launched: depths of stacks, and iterations that push at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.runtime.compile import Counter, accesses, gate_counter
from quadrants_lab.runtime.plan import entry_params, field_memories, make_frame, set_arguments
from quadrants_lab.runtime.signature import ArraySlot, ScalarSlot, memory_of

if TYPE_CHECKING:
    from quadrants_lab.runtime.gradient import GradientPlan


class Ahead:
    """``args``, ``shapes``, ``data``: the scalar arguments, and the buffers by shape and by data, that the counts
    depend on."""

    def __init__(self, plan: GradientPlan, counter: Counter) -> None:
        self.plan = plan
        self.counter = counter
        kernel = counter.kernel
        fields = field_memories(plan.compiled, kernel, plan.session)
        self.frame = make_frame(counter.executable, kernel, fields, plan.session)
        self.entry = self.frame.entry(entry_params(plan.slots), returns="")
        self.frame.set_stacks([0] * len(stack_allocas(kernel)))
        self.args = {a.name for a in kernel.args}
        self.data = {b for b in accesses(kernel)[0] if kernel.buffers[b].kind in ("field", "ndarray")}
        self.shapes = {b.name for b in kernel.buffers.values() if b.kind == "ndarray"}

    def counts(self, args: Sequence[Any], operands: dict[str, Any]) -> dict[int, int] | None:
        """What is counted by number (`Counter.results`); None where the arguments do not match."""
        plan = self.plan
        passed = [
            arg if memory_of(arg) is None else operands[slot.name]
            for slot, arg in zip(plan.slots, args, strict=True)
            if isinstance(slot, (ScalarSlot, ArraySlot))
        ]
        if plan.draws_of is not None:
            self.frame.replay(plan.draws_of())
        if self.entry(*passed) is NotImplemented:
            if not plan.checked:
                return None
            set_arguments(self.frame, plan.slots, args)
            self.frame.launch()
        return {number: self.frame.ret(name) for number, name in self.counter.results.items()}


class Gates:
    """Sizes the heap for the iterations that get as far as a push, where it would otherwise take more than
    ``threshold`` bytes: conditions that few iterations pass need lanes for few."""

    def __init__(self, plan: GradientPlan, threshold: int) -> None:
        self.plan = plan
        self.threshold = threshold

    @cached_property
    def ahead(self) -> Ahead | None:
        """Compiled when it is first needed; None where no condition keeps iterations out."""
        counter = gate_counter(self.plan.compiled, self.plan.session)
        return None if counter is None else Ahead(self.plan, counter)

    def wanted(self, depths: list[int]) -> bool:
        """Whether a launch with these depths is to be counted."""
        frame = self.plan.frame
        try:
            most, (_, least) = frame.heap_bytes(depths), frame.least_heap(depths)
        except MemoryError:
            return False
        return most > max(self.threshold, least) and self.ahead is not None

    def passing(self, depths: list[int], args: Sequence[Any], operands: dict[str, Any]) -> dict[int, int] | None:
        """By the number of a task, how many of its iterations push; at least as many as there is room for within the
        threshold. None where the arguments do not match."""
        assert self.ahead is not None
        counted = self.ahead.counts(args, operands)
        if counted is None:
            return None
        lanes, least = self.plan.frame.least_heap(depths)
        room = self.threshold * lanes // max(least, 1)
        return {number: max(n, room) for number, n in counted.items() if n >= 0}
