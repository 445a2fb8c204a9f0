"""A loaded kernel on a GPU, as far as that does not depend on the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from quadrants_lab.backends._gpu.layout import gpu_layout
from quadrants_lab.backends._gpu.programs import programs
from quadrants_lab.backends._gpu.stacks import in_heap_order
from quadrants_lab.backends.boxes import fixed_total
from quadrants_lab.backends.cost import IN_STEP, short
from quadrants_lab.backends.disk_cache import Keep
from quadrants_lab.backends.launch import Executable
from quadrants_lab.backends.reductions import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

Built = TypeVar("Built")


class GpuExecutable(Executable):
    """``object``: the code, made by ``make`` where none is ``cached``; ``keep`` gets what was made. ``stacks``: the
    adstacks of each task in heap order. ``totals``: a task, how many iterations it has in
    every launch, None where that varies; ``stacked``: whether it keeps values on adstacks; ``reducing``: whether it
    reduces into a scalar; ``looping``: whether its iterations hold loops; ``in_step``: how many of them a thread runs
    in step (`lower.tasks`), where ``steps`` allows more than one. ``sizing_args``: the scalar
    arguments that group counts depend on; ``draws``: whether it draws at random."""

    def __init__(
        self, kernel: N.Kernel, make: Callable[[], bytes], cached: bytes | None, keep: Keep, steps: bool = False
    ) -> None:
        super().__init__(kernel)
        self._make, self._keep = make, keep
        self._once: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.layout = gpu_layout(kernel)
        self.programs = programs(kernel)
        self._cached = cached is not None
        self.object = self._made() if cached is None else cached
        self.tasks = kernel.tasks
        self.totals = [1 if t.kind == "serial" else fixed_total(t) for t in self.tasks]
        self.stacks = [in_heap_order(t) for t in self.tasks]
        self.stacked = [any(not s.count_only for s in stacks) for stacks in self.stacks]
        self.reducing = [bool(reductions(kernel, t.body)) for t in self.tasks]
        self.in_step = [IN_STEP if steps and short(t) else 1 for t in self.tasks]
        self.looping = [any(isinstance(s, N.Loop) for s in walk(t.body)) for t in self.tasks]
        bounds = [s for p in self.programs if p.inline for s in p.task.bounds]
        self.sizing_args = {s.arg for s in bounds if isinstance(s, N.ArgLoad)}
        self.draws = any(isinstance(s, N.Random) for s in walk(kernel.body))

    def _made(self) -> bytes:
        code = self._make()
        self._keep(code)
        return code

    def once(self, device: Any, make: Callable[[], Built]) -> Built:
        """What was made for a device already, or is made now."""
        if device not in self._once:
            self._once[device] = make()
        made: Built = self._once[device]
        return made

    def built(self, build: Callable[[bytes], Built]) -> Built:
        """What a device's compiler makes of the code. Cached code that it refuses is made anew."""
        try:
            return build(self.object)
        except Exception:
            if not self._cached:
                raise
            before, self.object, self._cached = self.object, self._make(), False
            if self.object == before:
                raise
            self._keep(self.object)
        return build(self.object)
