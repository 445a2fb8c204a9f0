"""Warnings about derivative paths over several launches that end in memory without a derivative."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.autodiff.dead_paths import gets_nothing, missing
from quadrants_lab.autodiff.warned import GradientWarning, warn
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.arguments.signature import ArraySlot
from quadrants_lab.runtime.memory.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class DeadPaths:
    """Tracks values with a derivative that launches have stored in memory without one. ``which``: "grad" or "dual"."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.clear()

    def clear(self) -> None:
        self.open: dict[Hashable, Span | None] = {}  # by memory, where such a value was stored
        self.warned: set[tuple[Hashable, str]] = set()
        self.alive: list[Any] = []  # arrays in `open`, so that their addresses are not reused
        self.cut: dict[int, tuple[Memory, str, N.Load, N.Op]] = {}  # by integer memory, the gradient of its origin
        self.lost: dict[tuple[int, str], tuple[Memory, GradientWarning]] = {}  # given if that gradient stays 0

    def launched(self, plan: Plan, args: Sequence[Any]) -> None:
        """Warns where the launch reads a value with a derivative from memory without one."""
        if plan.owner.constant:
            return
        buffers = plan.compiled.lowered.kernel.buffers
        keys: dict[str, Hashable] = {name: memory.serial for name, memory in plan.memories(args).items()}
        arrays = {
            slot.name: arg for slot, arg in zip(plan.slots, args, strict=True)
            if isinstance(slot, ArraySlot) and isinstance(arg, np.ndarray)
        }  # fmt: skip
        keys |= {name: ("array", array.ctypes.data) for name, array in arrays.items()}
        opened: dict[Hashable, Span | None] = {}
        for (source, target), (read, write) in sorted(plan.value_flows.items()):
            if source not in keys or target not in keys:
                continue
            m, to = keys[source], keys[target]
            has_one, goes_on = bool(getattr(buffers[source], self.which)), bool(getattr(buffers[target], self.which))
            if not goes_on and (has_one or m in self.open):
                opened.setdefault(to, write)
                if target in arrays and to not in self.open:
                    self.alive.append(arrays[target])
            elif goes_on and not has_one and m in self.open and (m, target) not in self.warned:
                self.warned.add((m, target))
                warn([missing(buffers[source], read, self.open[m], self.which)])
        self.open = opened | self.open
        if self.which == "grad" and plan.integer_flows:
            self._through_integers(plan, args)

    def _through_integers(self, plan: Plan, args: Sequence[Any]) -> None:
        """Notes results that depend on values with a gradient through integers that another kernel wrote."""
        memories, buffers = plan.memories(args), plan.compiled.lowered.kernel.buffers
        own = [plan.gradient_of(name, args) for name in plan.reads]  # compile time has warned of paths in one kernel
        for (source, target), (read, cut) in plan.integer_flows.items():
            if source not in memories or target not in memories:
                continue
            grad, origin = plan.gradient_of(source, args), self.cut.get(memories[source].serial)
            if grad is not None and isinstance(cut, N.Op):
                self.cut.setdefault(memories[target].serial, (grad, source, read, cut))
            elif origin is not None and buffers[target].grad and not any(origin[0] is grad for grad in own):
                lost, name, read, cut = origin
                self.lost.setdefault((lost.serial, target), (lost, gets_nothing(name, target, read, cut)))

    def differentiated(self) -> None:
        """To be called after the gradients have run: warns of those that are 0 because integers are on the path."""
        warn([w for grad, w in self.lost.values() if not grad.values().any()])
        self.lost.clear()
