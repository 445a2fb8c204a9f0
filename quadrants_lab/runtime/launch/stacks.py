"""Finds the sizes of a gradient's adstacks before it runs, by up to three kernels: one counts depths, one lists
iterations that push, and one evaluates sizes over arrays that are only on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from quadrants_lab.adstack import device_reduction as DR
from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate, evaluated, reads
from quadrants_lab.adstack.report import NoRoomForStacks, StackRow, report, stack_allocas, too_much
from quadrants_lab.adstack.sparse_iterations import ROWS, may_be_sparse
from quadrants_lab.analysis.algebra import INT64_MAX
from quadrants_lab.analysis.effects import accesses
from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N, sizeexpr as SE
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import i32
from quadrants_lab.ir.walk import of_kind
from quadrants_lab.runtime.compile.specialisation import REVERSE, Counter, load_cached
from quadrants_lab.runtime.failures import failure
from quadrants_lab.runtime.launch import frames as F
from quadrants_lab.runtime.launch.plan import Plan
from quadrants_lab.runtime.launch.signature import Stamp
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.memory.memory import Memory, allocate
from quadrants_lab.runtime.observe.observers import refuse

if TYPE_CHECKING:
    from quadrants_lab.adstack.sparse_iterations import SparseIterations
    from quadrants_lab.backends.launch import Frame


Replays = Callable[[], int] | None


class PreLaunch:
    """A kernel that counts something before the gradient runs. Its counts depend on the scalars ``args``, the shapes of
    ``shapes`` and the data of ``data``. ``replays()``: the number of the launch whose random draws it repeats."""

    def __init__(self, plan: Plan, counter: Counter, replays: Replays) -> None:
        self.plan = plan
        self.replays = replays
        self.counter = counter
        kernel = counter.kernel
        fields = F.field_memories(plan.compiled, kernel, plan.session)
        self.frame = F.make_frame(counter.executable, fields, plan.session)
        self.entry = self.frame.entry(F.entry_params(plan.slots), returns="")
        self.frame.set_stacks([0] * len(stack_allocas(kernel)))
        self.args = {a.name for a in kernel.args}
        known = set(plan.kernel.buffers)
        read, written = accesses(kernel)
        # derivatives of array arguments
        self.derivatives = {grad for _, _, grad in plan.gradient_args} & (read | written)
        self.data = {b for b in read & known if kernel.buffers[b].kind in ("field", "ndarray")}
        self.shapes = {b.name for b in kernel.buffers.values() if b.kind == "ndarray"} & known

    def counts(self, args: Sequence[Any], operands: dict[str, Any]) -> dict[int, int] | None:
        """Runs the kernel; returns what was counted -> count (as `Counter.results`), or None if ``args`` do not fit."""
        plan = self.plan
        passed = [
            arg if memory_of(arg) is None else operands[slot.name]
            for slot, arg in zip(plan.slots, args, strict=True)
            if slot.kind != "template"
        ]
        for grad in self.derivatives:
            F.bind(self.frame, grad, plan.bound[grad])
        if self.replays is not None:
            self.frame.replay(self.replays())
        if self.entry(*passed) is NotImplemented:
            if not plan.checked:
                return None
            F.launch_slowly(self.frame, plan.slots, args)
        return {number: self.frame.ret(name) for number, name in self.counter.results.items()}


class CompactedLaunch:
    """A gradient that runs the iterations that push to stacks in a separate task (`adstack.sparse_iterations`). It is
    used on devices with many iterations in flight, if the ordinary gradient's adstacks would take more than
    ``threshold`` bytes.

    Call `exists`, then `list_iterations`; after that, ``frame`` and ``entry`` launch it.
    """

    def __init__(self, plan: Plan, replays: Replays, threshold: int) -> None:
        self.plan = plan
        self.replays = replays
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
        """Compiles the kernels at first use, and sets ``sparse``, ``pre_launch``, ``frame``, ``entry``; else False."""
        from quadrants_lab.runtime.compile.derivatives import compile_sparse

        plan = self.plan
        compiled = compile_sparse(plan.compiled, plan.session) if self.possible else None
        if compiled is None:
            return False
        self.sparse, counter, executable, self.options = compiled
        fields = F.field_memories(plan.compiled, self.sparse.split, plan.session)
        self.frame = frame = F.make_frame(executable, fields, plan.session)
        if not plan.compiled.options.ad_stack_size:
            name = plan.kernel.name
            frame.defer_overflow_check(lambda: failure(frame, name, 0))
        self.entry = frame.entry(F.entry_params(plan.slots), returns="")
        self.pre_launch = PreLaunch(plan, counter, self.replays)
        return True

    def wanted(self, frame: Frame, depths: list[int]) -> bool:
        """Whether a launch with these depths should run this gradient, not the ordinary one (with ``frame``)."""
        if not self.possible:
            return False
        try:
            return frame.heap_bytes(depths) > self.threshold and self.exists
        except MemoryError:
            return False

    def list_iterations(self, args: Sequence[Any], operands: dict[str, Any], live: LiveData) -> dict[int, int] | None:
        """Lists the iterations that push; returns task -> how many, or None if ``args`` do not fit the plan."""
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


LEAST_BYTES = 1 << 16  # so few bytes are copied to the host as fast as a kernel evaluates them


class DeviceSizes:
    """Evaluates stack sizes on the device. ``work``: the ranges to evaluate, and the sizes that follow on the host."""

    def __init__(self, plan: Plan, replays: Replays, work: DR.DeviceReduction) -> None:
        self.plan = plan
        self.replays = replays
        self.work = work

    @forks.lazy
    def pre_launch(self) -> PreLaunch:
        """The kernel that evaluates maxima and sums over ranges; it is compiled at first use."""
        from quadrants_lab.passes import pipeline
        from quadrants_lab.pipelines.derivatives import COUNTING

        plan = self.plan
        options = plan.compiled.options
        kernel = pipeline.run(DR.sizing_kernel(plan.kernel, self.work), COUNTING, options.verify)
        results = {k: f"{DR.SIZE}{k}" for k in range(len(self.work.ranges))}
        return PreLaunch(plan, Counter(kernel, load_cached(kernel, options, plan.session), results), self.replays)

    def wanted(self, operands: dict[str, Any]) -> bool:
        """Whether the arrays are too large to copy them to the host."""
        return sum(int(operands[name].nbytes) for name in self.work.data) >= LEAST_BYTES

    def values(
        self, args: Sequence[Any], operands: dict[str, Any], value: Callable[[SE.SizeExpr], int]
    ) -> dict[int, int] | None:
        """Runs the kernel; returns number of a `SizeCounted` -> its value, or None if ``args`` do not fit the plan.
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


class StackSizes:
    """The depths of a gradient's adstacks: ``sizes``, evaluated for the data of a launch. They are evaluated again when
    something that they depend on has changed: the version of a field or ndarray, a scalar argument, or a shape. Arrays
    of other libraries have no version, so they are read at each launch.

    ``vary``: whether a launch may need another evaluation. ``data_read``: the buffers whose data the depths depend on.
    ``counted``: the counts of the kernel that counts. ``active``: if the iterations that push run separately, how many
    each task has. ``whole``: frame and entry of the ordinary gradient. ``last_dependencies``: what the depths depended
    on at their last evaluation.
    """

    def __init__(self, plan: Plan, replays: Replays) -> None:
        self.plan = plan
        self.forced = plan.compiled.options.ad_stack_size
        sizes = [s.size for s in stack_allocas(plan.kernel) if s.size is not None]
        self.sizes: list[SE.SizeExpr] = [SE.SizeConst(self.forced)] * len(sizes) if self.forced else sizes
        self.depths: list[int] = []
        self.data_read: frozenset[str] = frozenset()
        self.last_inputs: tuple[Mapping[str, Any], dict[str, ref[Any]]] = {}, {}  # for `last_data`
        self.counted: dict[int, int] = {}
        counter = plan.compiled.counter
        self.counting = None if counter is None else PreLaunch(plan, counter, replays)
        self.whole = plan.frame, plan.entry
        self.compacted = CompactedLaunch(plan, replays, plan.session.settings.ad_stack_threshold)
        self.lists = False  # whether a launch has listed the iterations that push
        self.active: dict[int, int] = {}
        self.current: Callable[..., Any] = plan.entry
        if self.compacted.possible:
            plan.entry = lambda *args: self.current(*args)
        self.last_dependencies: Stamp | None = None
        if not self.forced:
            frame, name = plan.frame, plan.kernel.name  # `choose_frame` may replace the frame
            frame.defer_overflow_check(lambda: failure(frame, name, 0))
        # None if no size depends on ranges of elements, or if the host can access the device's memory
        by_device = not self.forced and getattr(plan.session.device, "remote", False)
        work = DR.device_reduction(self.sizes) if by_device else None
        self.device_sizes = None if work is None else DeviceSizes(plan, replays, work)
        fixed = [s.value for s in of_kind(self.sizes, SE.SizeConst)]
        self.vary = len(fixed) < len(self.sizes) or (bool(fixed) and self.compacted.wanted(plan.frame, fixed))
        if self.vary:
            self._find_dependencies()
        elif fixed:
            self.depths = fixed
            self.reserve()

    def _find_dependencies(self) -> None:
        """Finds what the depths depend on. ``depends_on_args``: (position, is it a scalar?, does its data matter?)."""
        found = [reads(size) for size in self.sizes]
        args, shapes, data = ({name for names in found for name in names[k]} for k in range(3))
        self.data_read = frozenset(data)
        for pre in self.pre_launches():
            args |= pre.args
            data |= pre.data
            shapes |= pre.shapes
        fields = self.plan.fields
        self.depends_on_fields: tuple[Memory, ...] = tuple(fields[b] for b in sorted(data) if b in fields)
        self.depends_on_args = tuple(
            (n, slot.kind == "scalar", slot.name in data)
            for n, slot in enumerate(self.plan.slots)
            if slot.kind != "template" and slot.name in args | shapes | data
        )
        self.dependencies_of = self.plan.signature.stamp(self.dependencies(self.depends_on_fields))

    def dependencies(self, fields: Sequence[Memory]) -> list[str]:
        """Expressions, for `Signature.stamp`, of what the depths depend on, and of the versions of the fields; an
        expression is None at run time if the value can change unnoticed."""
        parts = [self.plan.signature.field_version(memory, "None") for memory in fields]
        for n, is_scalar, by_data in self.depends_on_args:
            part = self.plan.signature.parts[n]
            parts.append(part.value() if is_scalar else part.known_version() if by_data else part.shape())
        return parts

    def update(self, args: Sequence[Any], number: int | None) -> bool:
        """Evaluates the depths again if something has changed; False if the arguments do not fit the plan. ``number``:
        the number of the launch whose random draws are repeated."""
        now = (*self.dependencies_of(*args), number or 0)
        if self.plan.scratch and self.counting is not None:
            now = (None,)  # the kernel that counts may read saved buffers, which have no version
        if None in now or now != self.last_dependencies:
            self.last_dependencies = None  # stays None if an interrupt comes before the depths are set
            if not self.resize(args):
                return False
            self.last_dependencies = now
        return True

    def resize(self, args: Sequence[Any]) -> bool:
        """Runs the kernel that counts, evaluates all sizes, and sets the depths. Returns False if ``args`` do not
        fit the plan."""
        if not all(isinstance(args[n], (int, float)) for n, is_scalar, _ in self.depends_on_args if is_scalar):
            return False
        memories = self.plan.memories(args)
        operands = self.plan.operands(args, memories)
        for name, operand in operands.items() if self.plan.takes_arrays else ():
            buffer = self.plan.kernel.buffers[name]
            if not hasattr(operand, "ndim") or (operand.ndim, operand.dtype) != (buffer.ndim, buffer.dtype.numpy):
                return False
        if self.counting is not None:
            counted = self.counting.counts(args, operands)
            if counted is None:
                return False
            self.counted = counted
        live = LiveData(self.plan.scalars(args), operands, memories)
        sizes, counted = self.sizes, self.counted
        if self.device_sizes is not None and self.device_sizes.wanted(operands):
            found = self.device_sizes.values(args, operands, lambda e: evaluated(e, live))
            if found is None:
                return False
            sizes, counted = self.device_sizes.work.sizes, counted | found
        self.depths = [evaluate(size, live, counted) for size in sizes]
        self.last_inputs = live.scalars, {name: ref(array) for name, array in operands.items()}
        if not self.choose_frame(args, operands, live):
            return False
        self.reserve()
        return True

    def choose_frame(self, args: Sequence[Any], operands: dict[str, Any], live: LiveData) -> bool:
        """Decides whether the iterations that push run separately in this launch. Returns False if ``args`` do not
        fit the plan."""
        frame, entry = self.whole
        self.active = {}
        if self.compacted.wanted(frame, self.depths):
            if not self.lists:
                self.lists = True
                self._find_dependencies()
            active = self.compacted.list_iterations(args, operands, live)
            if active is None:
                return False
            self.active = active
            frame, entry = self.compacted.frame, self.compacted.entry
        if frame is not self.plan.frame:
            self.plan.frame, self.current = frame, entry
            return self.plan.bind_gradients(*args)
        return True

    def pre_launches(self) -> list[PreLaunch]:
        """The kernels that are launched before the gradient."""
        found = [self.counting, self.compacted.pre_launch if self.lists else None]
        return [pre for pre in found if pre is not None]

    def frames(self) -> list[Frame]:
        """All frames that a launch may use."""
        return [self.whole[0], *(pre.frame for pre in self.pre_launches())]

    def last_code(self) -> tuple[N.Kernel, CompileOptions]:
        """The kernel that ran in the last launch, and the options that it was compiled with."""
        if self.plan.frame is self.whole[0]:
            return self.plan.kernel, self.plan.compiled.options
        return self.compacted.sparse.split, self.compacted.options

    def session_ended(self) -> None:
        """Drops everything that keeps the device alive; the depths remain."""
        plan, whole = self.plan, F.ended_frame(self.whole[0])
        plan.frame = whole if plan.frame is self.whole[0] else F.ended_frame(plan.frame)
        self.whole, self.current = (whole, refuse), refuse
        self.compacted.frame, self.compacted.entry = plan.frame, refuse
        for pre in filter(None, (self.counting, getattr(self.compacted, "pre_launch", None))):
            pre.frame, pre.entry = F.ended_frame(pre.frame), refuse
            pre.counter.executable.unload()
        self.device_sizes = None

    def last_data(self) -> LiveData:
        """The data for which the depths were last evaluated, without memory that was freed since then."""
        scalars, arrays = self.last_inputs
        alive = {name: array for name, r in arrays.items() if (array := r()) is not None}
        there = {n: m for n, m in self.plan.fields.items() if not (n in self.data_read and m.freed)}
        fields = {n: m.values() if n in self.data_read else m.operand for n, m in there.items()}
        return LiveData(scalars, fields | alive)

    def reserve(self) -> None:
        """Passes the depths to the device, which grows its heap; an error if they exceed the session's budget."""
        frame, kernel, budget = self.plan.frame, self.plan.kernel, self.plan.session.settings.ad_stack_budget
        try:
            if budget and frame.least_heap(self.depths)[1] > budget:
                raise too_much(kernel, self.report(), *self.needs(), f"ad_stack_budget_bytes allows {budget}")
            frame.set_stacks(self.depths, budget, self.active)
        except MemoryError as e:
            raise too_much(kernel, self.report(), *self.needs(), str(e), NoRoomForStacks) from None

    def needs(self) -> tuple[int, int]:
        """The least that a launch with these depths needs: (iterations in flight, bytes of adstacks for these)."""
        try:
            return self.plan.frame.least_heap(self.depths)
        except MemoryError:  # the bytes exceed the address space
            return 1, sum(row.bytes_per_lane for row in self.report())

    @property
    def depend_on_data(self) -> bool:
        return bool(self.data_read) or self.counting is not None or self.device_sizes is not None

    @property
    def sized_by(self) -> frozenset[str]:
        """The buffers whose data the sizes, or the kernel that counts, read."""
        data = (pre.data for pre in self.pre_launches())
        return frozenset().union(*data, *(reads(size)[2] for size in self.sizes))

    def report(self) -> list[StackRow]:
        """A row for each stack, with the depths of the last launch."""
        return report(self.plan.kernel, self.depths, forced=bool(self.forced))
