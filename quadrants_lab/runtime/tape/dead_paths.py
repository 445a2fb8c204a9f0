"""Warns about paths of derivatives over several launches that end in memory without a derivative."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.analysis.facts import overwritten
from quadrants_lab.autodiff.dead_paths import gets_nothing, integer_flows, missing, value_flows
from quadrants_lab.autodiff.diagnostics import GradientWarning, warn
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.source import Span
from quadrants_lab.runtime.memory.identity import Place, memory_at
from quadrants_lab.runtime.memory.memory import Memory

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class DeadPaths:
    """Tracks values that have a derivative but that launches have stored in memory without a gradient or dual.
    ``which``: the derivative, "grad" or "dual"."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.clear()

    def clear(self) -> None:
        # memory -> where such a value was stored, and the memory's version then
        self.open: dict[Hashable, tuple[Span | None, int]] = {}
        self.warned: set[tuple[Hashable, str]] = set()
        self.alive: list[Any] = []  # the arrays in `open`, kept alive so that their addresses are not used again
        # integer memory -> the gradient of what its values were computed from
        self.cut: dict[int, tuple[Memory, str, N.Load, N.Op]] = {}
        self.lost: dict[tuple[int, str], tuple[Memory, GradientWarning]] = {}  # warnings to give if a gradient stays 0

    def goes_on(self, constants: Sequence[Place], ours: bool, args: Sequence[Any]) -> bool:
        """Whether `launched` should be called for a launch that reads or overwrites this memory; also because of other
        arrays, unless all are ``ours``."""
        if not (self.open or self.cut):
            return False
        serials = [memory_at(place, args).serial for place in constants]
        return not ours or any(serial in self.open or serial in self.cut for serial in serials)

    def launched(self, plan: Plan, args: Sequence[Any]) -> None:
        """Call this before a launch: warns if it reads a value with a derivative from memory without one."""
        if plan.owner.constant:
            return
        buffers = plan.compiled.lowered.kernel.buffers
        memories = plan.memories(args)
        self._filled_by_python(memories.values())
        keys: dict[str, Hashable] = {name: memory.serial for name, memory in memories.items()}
        arrays = plan.numpy_arrays(args)
        keys |= {name: ("array", array.ctypes.data) for name, array in arrays.items()}
        opened: dict[Hashable, tuple[Span | None, int]] = {}
        for (source, target), (read, write) in plan.facts.of(value_flows).items():
            if source.buffer not in keys or target.buffer not in keys:
                continue
            m, to = keys[source.buffer], keys[target.buffer]
            has_one, goes_on = (bool(getattr(buffers[p.buffer], self.which)) for p in (source, target))
            comes_in = source.first and m in self.open
            if not goes_on and target.last and (has_one or comes_in):
                at = memories[target.buffer].version if target.buffer in memories else 0
                opened.setdefault(to, (write, at))
                if target.buffer in arrays and to not in self.open:
                    self.alive.append(arrays[target.buffer])
            elif goes_on and not has_one and comes_in and (m, target.buffer) not in self.warned:
                self.warned.add((m, target.buffer))
                warn([missing(buffers[source.buffer], read, self.open[m][0], self.which)])
        gone = {keys[name] for name in plan.facts.of(overwritten) if name in keys}
        self.open = opened | {m: where for m, where in self.open.items() if m not in gone}
        if self.which == "grad" and (self.cut or plan.facts.of(integer_flows)):
            self._through_integers(plan, args, gone)

    def _filled_by_python(self, memories: Iterable[Memory]) -> None:
        """Forgets memory of which Python has written every element since then."""
        for memory in memories:
            filled = memory.python_filled if memory.operand.shape else memory.python_wrote
            if memory.serial in self.open and filled > self.open[memory.serial][1]:
                del self.open[memory.serial]

    def _through_integers(self, plan: Plan, args: Sequence[Any], gone: set[Hashable]) -> None:
        """Another kernel may have rounded values with a gradient to integers. Records the results of this launch that
        depend on such integers, and so on those values."""
        memories, buffers = plan.memories(args), plan.compiled.lowered.kernel.buffers
        # paths within one kernel have been reported when it was compiled
        own = [plan.gradient_of(name, args) for name in plan.reads]
        cuts: dict[int, tuple[Memory, str, N.Load, N.Op]] = {}
        for (source, target), (read, cut) in plan.facts.of(integer_flows).items():
            if source.buffer not in memories or target.buffer not in memories:
                continue
            to, grad = memories[target.buffer], plan.gradient_of(source.buffer, args)
            origin = self.cut.get(memories[source.buffer].serial) if source.first else None
            if grad is not None and cut is not None and target.last:
                cuts.setdefault(to.serial, (grad, source.buffer, read, cut))
            elif origin is not None and buffers[target.buffer].grad and not any(origin[0] is grad for grad in own):
                lost, name, read, cut = origin
                key = lost.serial, target.buffer
                self.lost.setdefault(key, (lost, gets_nothing(name, target.buffer, read, cut)))
        self.cut = cuts | {m: origin for m, origin in self.cut.items() if m not in gone}

    def differentiated(self) -> None:
        """Call this after the gradients have run: warns of gradients that are 0 because there are integers on the path.
        """
        warn([w for grad, w in self.lost.values() if not grad.any()])
        self.lost.clear()
