"""The base class of a kernel that is loaded on a GPU, for every API."""

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from quadrants_lab.backends._gpu.layout import gpu_layout
from quadrants_lab.backends._gpu.programs import programs
from quadrants_lab.backends._gpu.stacks import in_heap_order
from quadrants_lab.backends.cost import fixed_total
from quadrants_lab.backends.disk_cache import Keep
from quadrants_lab.backends.launch import Executable
from quadrants_lab.backends.lower.sums import reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.sizeexpr import SizeCounted, SizeExpr, SizeRange
from quadrants_lab.ir.types import f64
from quadrants_lab.ir.walk import find, of_kind

Built = TypeVar("Built")


def _is_steady(stack: N.AdStackAlloca) -> bool:
    """Whether the adstack holds f64 values and has the same depth in each iteration."""
    return stack.type is f64 and stack.size is not None and not _varies(stack.size)


def _varies(size: SizeExpr) -> bool:
    return isinstance(size, (SizeRange, SizeCounted)) or any(map(_varies, size.children()))


class GpuExecutable(Executable):
    """A loaded kernel. Its code, ``object``, is ``cached`` code from an earlier process; or else ``make`` compiles it,
    and ``keep`` stores it.

    Lists with an entry for each task: ``stacks``: its adstacks in heap order; ``totals``: its number of iterations,
    None if launches differ in it; ``stacked``: whether it stores values on adstacks; ``reducing``: whether it reduces
    into a scalar; ``looping``: whether its iterations have loops; ``in_step``: how many iterations a thread runs in
    step. The schedule of the kernel must be decided already.

    For the kernel: ``steady``: whether all its adstacks hold values of f64 and have the same depth in each iteration.
    ``sizing_args``: the scalar arguments on which group counts depend. ``draws``: whether it draws random numbers.
    """

    def __init__(
        self, kernel: N.Kernel, make: Callable[[], bytes], cached: bytes | None, keep: Keep
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
        self.steady = all(_is_steady(s) for stacks in self.stacks for s in stacks)
        self.reducing = [bool(reductions(kernel, t.body)) for t in self.tasks]
        self.in_step = [max(1, t.in_step) for t in self.tasks]
        self.looping = [any(find(t.body, N.Loop)) for t in self.tasks]
        bounds = [s for p in self.programs if p.inline for s in p.task.bounds]
        self.sizing_args = {s.arg for s in of_kind(bounds, N.ArgLoad)}
        self.draws = any(find(kernel.body, N.Random))

    def _made(self) -> bytes:
        code = self._make()
        self._keep(code)
        return code

    def once(self, device: Any, make: Callable[[], Built]) -> Built:
        """Calls ``make`` once for each device, and returns its result."""
        if device not in self._once:
            self._once[device] = make()
        made: Built = self._once[device]
        return made

    def unload(self) -> None:
        self._once.clear()

    def built(self, build: Callable[[bytes], Built]) -> Built:
        """Compiles the code by ``build``, a device's compiler. If the compiler refuses cached code, the kernel is
        compiled again."""
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
