"""Kernels that are launched before a gradient: the counting slice, the one that lists the iterations that push, and the
one that evaluates stack sizes over many elements of arrays where the host cannot access the device's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from quadrants_lab.adstack import device_reduction as DR
from quadrants_lab.adstack.evaluate import Live, evaluate
from quadrants_lab.adstack.report import stack_allocas
from quadrants_lab.adstack.sparse_iterations import ROWS, may_be_sparse
from quadrants_lab.analysis.algebra import INT64_MAX
from quadrants_lab.analysis.effects import accesses
from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import sizeexpr as SE
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import i32
from quadrants_lab.runtime.arguments.signature import ArraySlot, ScalarSlot, memory_of
from quadrants_lab.runtime.compile.compiled import REVERSE, Counter, load_cached
from quadrants_lab.runtime.launch.frames import (
    entry_params,
    failure,
    field_memories,
    launch_slowly,
    make_frame,
)
from quadrants_lab.runtime.memory.memory import Memory, allocate

if TYPE_CHECKING:
    from quadrants_lab.adstack.sparse_iterations import SparseIterations
    from quadrants_lab.backends.launch import Frame
    from quadrants_lab.runtime.gradient.plan import GradientPlan


class PreLaunch:
    """A kernel that counts. Its counts depend on the scalar arguments ``args``, on the shapes of the buffers ``shapes``
    and on the data of the buffers ``data``."""

    def __init__(self, plan: GradientPlan, counter: Counter) -> None:
        self.plan = plan
        self.counter = counter
        kernel = counter.kernel
        fields = field_memories(plan.compiled, kernel, plan.session)
        self.frame = make_frame(counter.executable, fields, plan.session)
        self.entry = self.frame.entry(entry_params(plan.slots), returns="")
        self.frame.set_stacks([0] * len(stack_allocas(kernel)))
        self.args = {a.name for a in kernel.args}
        known = set(plan.kernel.buffers)
        read, written = accesses(kernel)
        self.derivatives = {grad for _, _, grad in plan.gradient_args} & (read | written)  # of array arguments
        self.data = {b for b in read & known if kernel.buffers[b].kind in ("field", "ndarray")}
        self.shapes = {b.name for b in kernel.buffers.values() if b.kind == "ndarray"} & known

    def counts(self, args: Sequence[Any], operands: dict[str, Any]) -> dict[int, int] | None:
        """The counts, by the numbers of `Counter.results`; None where the arguments do not match."""
        plan = self.plan
        passed = [
            arg if memory_of(arg) is None else operands[slot.name]
            for slot, arg in zip(plan.slots, args, strict=True)
            if isinstance(slot, (ScalarSlot, ArraySlot))
        ]
        for grad in self.derivatives:
            self.frame.set_buffer(grad, plan.bound[grad].address)
            self.frame.set_extents(grad, plan.bound[grad].operand.shape)
        if plan.replay_number is not None:
            self.frame.replay(plan.replay_number())
        if self.entry(*passed) is NotImplemented:
            if not plan.checked:
                return None
            launch_slowly(self.frame, plan.slots, args)
        return {number: self.frame.ret(name) for number, name in self.counter.results.items()}


class CompactedLaunch:
    """A gradient with a separate task for the iterations that push to stacks (`adstack.sparse_iterations`), on devices
    with many iterations in flight, for launches whose adstacks would otherwise take more than ``threshold`` bytes.

    If it `exists`, ``frame`` and ``entry`` launch it after `list_iterations`."""

    def __init__(self, plan: GradientPlan, threshold: int) -> None:
        self.plan = plan
        self.threshold = threshold
        gradient_alone = plan.compiled.mode == REVERSE
        self.possible = not plan.session.backend.CAPABILITIES.on_host and gradient_alone and may_be_sparse(plan.kernel)
        self.rows: dict[int, Memory] = {}
        self.sparse: SparseIterations
        self.options: CompileOptions
        self.pre_launch: PreLaunch
        self.frame: Frame
        self.entry: Callable[..., Any]

    @forks.lazy
    def exists(self) -> bool:
        """Compiles the kernels at first use, and sets ``sparse``, ``pre_launch``, ``frame`` and ``entry``; False where
        no condition keeps iterations from pushing."""
        from quadrants_lab.runtime.compile.derivatives import compile_sparse

        plan = self.plan
        compiled = compile_sparse(plan.compiled, plan.session) if self.possible else None
        if compiled is None:
            return False
        self.sparse, counter, executable, self.options = compiled
        fields = field_memories(plan.compiled, self.sparse.split, plan.session)
        self.frame = frame = make_frame(executable, fields, plan.session)
        if not plan.compiled.options.ad_stack_size:
            name = plan.kernel.name
            frame.defer_overflow_check(lambda: failure(frame, name, 0))
        self.entry = frame.entry(entry_params(plan.slots), returns="")
        self.pre_launch = PreLaunch(plan, counter)
        return True

    def wanted(self, frame: Frame, depths: list[int]) -> bool:
        """Whether a launch with these depths should be compacted; ``frame``: that of the ordinary gradient."""
        if not self.possible:
            return False
        try:
            return frame.heap_bytes(depths) > self.threshold and self.exists
        except MemoryError:
            return False

    def list_iterations(self, args: Sequence[Any], operands: dict[str, Any], live: Live) -> dict[int, int] | None:
        """Lists the iterations that push, and returns for each task's number how many it has; None where the arguments
        do not match."""
        pre = self.pre_launch
        for n, size in self.sparse.boxes.items():
            box = evaluate(size, live)
            if box >> 31:
                raise QuadrantsRuntimeError(
                    f"the gradient of kernel {self.plan.kernel.name} would list which of {box} iterations keep values, "
                    "and a list holds 2**31 - 1",
                    code="QL2101",
                    help=f"qd.init(ad_stack_sparse_threshold_bytes={1 << 62}) does without lists",
                )
            rows = self.rows.get(n)
            if rows is None or rows.operand.shape[0] < box:
                rows = self.rows[n] = allocate(self.plan.session, i32, (max(box, 1),))
            for each in (pre.frame, self.frame):
                each.set_buffer(f"{ROWS}{n}", rows.address)
            pre.frame.set_extents(f"{ROWS}{n}", (box,))
        listed = pre.counts(args, operands)
        if listed is None:
            return None
        for n, count in listed.items():
            self.frame.set_extents(f"{ROWS}{n}", (count,))
        return {task: listed[n] for n, task in self.sparse.tasks().items()}


LEAST_BYTES = 1 << 16  # of arrays; copying fewer to the host is as fast as a kernel


class DeviceSizes:
    """``work``: the ranges that the device evaluates, and what is left for the host."""

    def __init__(self, plan: GradientPlan, work: DR.DeviceReduction) -> None:
        self.plan = plan
        self.work = work

    @forks.lazy
    def pre_launch(self) -> PreLaunch:
        """Compiled at first use."""
        from quadrants_lab.passes import pipeline
        from quadrants_lab.pipelines.derivatives import COUNTING

        plan = self.plan
        options = plan.compiled.options
        kernel = pipeline.run(DR.sizing_kernel(plan.kernel, self.work), COUNTING, options.verify)
        results = {k: f"{DR.SIZE}{k}" for k in range(len(self.work.ranges))}
        return PreLaunch(plan, Counter(kernel, load_cached(kernel, options, plan.session), results))

    def wanted(self, operands: dict[str, Any]) -> bool:
        """Whether the arrays are too large to copy them to the host."""
        return sum(int(operands[name].nbytes) for name in self.work.data) >= LEAST_BYTES

    def values(
        self, args: Sequence[Any], operands: dict[str, Any], value: Callable[[SE.SizeExpr], int]
    ) -> dict[int, int] | None:
        """The values of the ranges, by the number of their `SizeCounted`; None where the arguments do not match.
        ``value`` evaluates expressions on the host."""
        pre = self.pre_launch
        for arg in pre.counter.kernel.args:
            if arg.name in self.work.given:
                most = (1 << (arg.type.bits - 1)) - 1
                pre.frame.set_arg(arg.name, max(-most - 1, min(most, value(self.work.given[arg.name]))))
        found = pre.counts(args, operands)
        if found is None:
            return None
        for k, e in enumerate(self.work.ranges):
            if e.op == "sum" and pre.frame.ret(f"{DR.ROUGH}{k}") >= INT64_MAX:
                found[k] = INT64_MAX
        return {-1 - k: n for k, n in found.items()}


def device_sizes(plan: GradientPlan, sizes: Sequence[SE.SizeExpr]) -> DeviceSizes | None:
    """None where no size depends on ranges of elements, or the host can access the device's memory."""
    if not getattr(plan.session.device, "remote", False):
        return None
    work = DR.device_reduction(sizes)
    return None if work is None else DeviceSizes(plan, work)
