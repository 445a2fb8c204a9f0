"""Plans of gradient launches, which size the adstacks for the current data before they launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ref

from quadrants_lab.adstack.evaluate import evaluate, evaluated, reads
from quadrants_lab.adstack.report import StackRow, report, stack_allocas
from quadrants_lab.analysis.effects import touched
from quadrants_lab.analysis.facts import draws, statements
from quadrants_lab.analysis.regions import overlap
from quadrants_lab.autodiff.warned import GradientWarning, warn
from quadrants_lab.backends.launch import Frame
from quadrants_lab.backends.overlap import WRITTEN
from quadrants_lab.errors import Label, QuadrantsRuntimeError
from quadrants_lab.ir import nodes as N, sizeexpr as SE
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.arguments.aliases import Distinct, overlapping, same_memory
from quadrants_lab.runtime.arguments.signature import ArraySlot, Place, ScalarSlot
from quadrants_lab.runtime.call.signature import Stamp
from quadrants_lab.runtime.compile.compiled import BOTH
from quadrants_lab.runtime.gradient.pre_launch import CompactedLaunch, PreLaunch, device_sizes
from quadrants_lab.runtime.gradient.warnings import SeedCheck, Suspect, suspects
from quadrants_lab.runtime.interop.gradients import running_backward
from quadrants_lab.runtime.launch.dispatch import Launched
from quadrants_lab.runtime.launch.frames import failure, field_memories
from quadrants_lab.runtime.launch.observe import PUT_BACK
from quadrants_lab.runtime.launch.plan import Live, Plan
from quadrants_lab.runtime.launch.scratch import KeptBuffers
from quadrants_lab.runtime.memory.memory import Memory, allocate


class GradientPlan(Plan):
    """The plan of a reverse kernel.

    The stack depths are evaluated again when something that they depend on has changed: a field or ndarray by its
    version, a scalar argument or a shape by its value. Foreign arrays have no version and are read at each launch.
    """

    def touched(self) -> tuple[frozenset[str], frozenset[str]]:
        """Only gradients count as written: a gradient restores the content of all other buffers."""
        reads, writes = super().touched()
        if self.compiled.mode == BOTH:
            return reads, writes
        return reads, writes & {b.grad for b in self.kernel.buffers.values()}

    def frames(self) -> list[Frame]:
        return [self.whole[0], *(pre.frame for pre in self.pre_launches())]

    def preparation(self) -> Callable[..., bool] | None:
        """Sets depths that never change, and returns what each launch has to do: find the buffers that its forward
        launch kept, evaluate the other depths, set draws and gradients."""
        self.forward = Launched() if self.compiled.mode == BOTH else self.last_launched  # what this is the gradient of
        prepare = self.stack_preparation()
        if not self.scratch:
            return prepare
        return lambda *args: self.take_kept(args) and (prepare is None or prepare(*args))

    def stack_preparation(self) -> Callable[..., bool] | None:
        """The part of `preparation` for stacks, draws and gradients."""
        self.sizes: list[SE.SizeExpr] = [s.size for s in stack_allocas(self.kernel) if s.size is not None]
        self.depths: list[int] = []
        self.data_read: frozenset[str] = frozenset()  # buffers whose data the depths depend on
        self.last_inputs: tuple[dict[str, Any], dict[str, ref[Any]]] = {}, {}  # for `last_data`
        self.counted: dict[int, int] = {}
        counter = self.compiled.counter
        self.counting = None if counter is None else PreLaunch(self, counter)
        self.whole = self.frame, self.entry
        self.compacted = CompactedLaunch(self, self.session.settings.ad_stack_threshold)
        self.lists = False  # whether a launch has listed the iterations that push
        self.active: dict[int, int] = {}  # by task, how many are on the list in a compacted launch
        self.current: Callable[..., Any] = self.entry
        if self.compacted.possible:
            self.entry = lambda *args: self.current(*args)
        self.last_dependencies: tuple[Any, ...] | None = None  # when depths were last evaluated
        self.checked = False  # whether the current arguments are known to match
        self.must_differ = self._what_must_differ()
        self.suspected: tuple[Any, Sequence[Suspect]] = None, ()  # for `compare_reads`: when looked for, and which
        self.seeds = SeedCheck(self)
        repeats = self.facts.of(draws)
        self.replay_number: Callable[[], int] | None = self.launch_number if repeats else None
        self.guard = Guard(self)
        forced = self.compiled.options.ad_stack_size
        if forced:
            self.sizes = [SE.SizeConst(forced)] * len(self.sizes)
        else:
            frame, name = self.frame, self.kernel.name  # `choose_frame` may replace the frame
            frame.defer_overflow_check(lambda: failure(frame, name, 0))
        self.device_sizes = None if forced else device_sizes(self, self.sizes)
        fixed = [s.value for s in self.sizes if isinstance(s, SE.SizeConst)]
        if len(fixed) < len(self.sizes) or (fixed and self.compacted.wanted(self.frame, fixed)):
            self._find_dependencies()
            return self.prepare_stacks
        self.depths = fixed
        if self.depths:
            self.reserve()
        return self.prepare_draws if repeats else self.set_gradients

    @property
    def repeatable(self) -> bool:
        depends_on_data = bool(self.data_read) or self.counting is not None or self.device_sizes is not None
        return not self.scratch and not depends_on_data and self.replay_number is None

    def take_kept(self, args: Sequence[Any]) -> bool:
        """Binds the overwritten values that the forward launch kept; an error where it did not."""
        kept, needs = self.given(), self.scratch.keeps
        if needs and self.owner.kept is None:
            forward = self.forward.plan
            if forward is None:
                raise nothing_kept(self.kernel, "and it was not launched")
            if not needs <= kept.keys():
                how = "under qd.ad.FwdMode" if forward.owner.mode == "dual" else "in another mode"
                raise nothing_kept(self.kernel, f"and its last launch, {how}, kept none of them")
            if forward.scratch.last[0] != self.scratch.identity(args):
                raise nothing_kept(self.kernel, "and its last launch was one with other arguments")
        self.scratch.give(kept)
        return True

    def given(self) -> KeptBuffers:
        """The buffers that the forward launch kept."""
        if self.owner.kept is not None:
            return self.owner.kept
        forward = self.forward.plan
        return {} if forward is None else forward.scratch.kept()

    def launch_number(self) -> int:
        """The number of the launch whose random draws are repeated; 0 where there was none."""
        if self.owner.replays:
            return self.owner.replays
        plan = self.forward.plan
        return 0 if plan is None else plan.frame.launch_number

    def compare_reads(self, forward: Plan, now: Stamp, args: Sequence[Any]) -> None:
        """Warns, once, where memory that the gradient reads was written since the forward launch. In a loop of
        gradients these writes are the same each time, and are looked for once."""
        if PUT_BACK.get():  # a custom gradient launches this one under a Tape
            return
        between = forward, forward.frame.launch_number, now
        if between != self.suspected[0]:
            self.suspected = between, suspects(forward, self.kernel.name, self.primal_reads, args)
        found: dict[str, GradientWarning] = {}
        with suppress(TypeError, ValueError):  # of arguments that are no numbers, which the launch refuses
            for buffer, make_warning, read, wrote in self.suspected[1]:
                if buffer not in found and (read is None or overlap(read.of(args), wrote)):
                    found[buffer] = make_warning()
        if found:
            forward.launched = ()
            warn([*found.values()])

    def set_gradients(self, *args: Any) -> bool:
        """As in a forward launch, with checks."""
        if self.must_differ is not None and (met := self.must_differ.met(args)) is not None:
            raise self.aliased(*met)
        if not self.owner.replays:  # a Tape needs no checks
            forward = self.forward.plan
            if forward is not None and self.replay_number is not None:
                last = forward.scratch.last[0]
                if last and last != self.scratch.identity(args):
                    raise other_draws(self.kernel)
            if forward is not None and forward.launched:
                now = forward.read_versions.now(*args)
                if forward.launched != now:
                    self.compare_reads(forward, now, args)
            if self.seeds.looks and not self.seeds.given(args):
                self.seeds.looks = 0
                if running_backward() is None:  # torch's gradients may be 0
                    warn([self.seeds.warning()])
        return not self.gradient_args or super().set_gradients(*args)

    def taken_for_distinct(self) -> None:
        """No other plan serves a gradient of arrays that overlap: see `must_differ`."""

    def _what_must_differ(self) -> Distinct | None:
        """What the kernel itself writes may not be another array or field, unless its results are constants, whose
        derivatives are only set to 0. None where there is no such pair."""
        primal = self.compiled.lowered.kernel
        written = frozenset() if self.owner.constant else touched(primal.body, N.Write)
        places: dict[str, Place] = {s.name: n for n, s in enumerate(self.slots) if isinstance(s, ArraySlot)}
        places |= field_memories(self.compiled, primal, self.session)
        return Distinct(places, written, self.session) or None

    def keep_apart(self) -> list[Callable[[], None]]:
        """The code assumes that gradients do not share memory (`shared_arrays`). Where an argument's gradient is the
        memory of another one or of a field, zeros are bound for it, and the launch adds the result to the gradient
        afterwards."""
        if self.owner.constant:
            return []
        grads, memories = list(self.bound), list(self.bound.values())
        shared = {later: grads[first] for first, later in overlapping(memories, [WRITTEN] * len(grads))}
        if self.session.exported:
            for n, memory in enumerate(memories):
                met = next((name for name, of in self.fields.items() if same_memory(memory, of)), "")
                shared |= {n: met} if met else {}
        added: list[Callable[[], None]] = []
        for n, other in sorted(shared.items()):
            if any(not isinstance(s, N.Atomic) for name in (other, grads[n]) for s in self.facts.of(statements)[name]):
                raise self.aliased(other, grads[n])
            sums = allocate(self.session, memories[n].dtype, memories[n].operand.shape)
            added.append(partial(_add, memories[n], sums))
            self.summed = True
            self.bound[grads[n]] = sums
        return added

    def aliased(self, a: str, b: str) -> QuadrantsRuntimeError:
        return QuadrantsRuntimeError(
            f"{a!r} and {b!r} of kernel {self.kernel.name} are the same memory, and the kernel writes to it: a "
            "gradient is compiled for different arrays",
            code="QL2074",
            help="pass a copy as one of them, or take one argument for both",
        )

    @property
    def sized_by(self) -> frozenset[str]:
        data = (pre.data for pre in self.pre_launches())
        return frozenset().union(*data, *(reads(size)[2] for size in self.sizes))

    def prepare_draws(self, *args: Any) -> bool:
        """`prepare_stacks` for kernels without stacks to size."""
        self.frame.replay(self.launch_number())
        return self.set_gradients(*args)

    def _find_dependencies(self) -> None:
        """Finds what the depths depend on; ``depends_on_args``: (position, whether it is a scalar,
        whether its data matters)."""
        found = [reads(size) for size in self.sizes]
        args, shapes, data = ({name for names in found for name in names[k]} for k in range(3))
        self.data_read = frozenset(data)
        for pre in self.pre_launches():
            args |= pre.args
            data |= pre.data
            shapes |= pre.shapes
        self.depends_on_fields: tuple[Memory, ...] = tuple(self.fields[b] for b in sorted(data) if b in self.fields)
        self.depends_on_args = tuple(
            (n, isinstance(slot, ScalarSlot), slot.name in data)
            for n, slot in enumerate(self.slots)
            if isinstance(slot, (ScalarSlot, ArraySlot)) and slot.name in args | shapes | data
        )
        self.dependencies_of = self.signature.stamp(self._dependencies(self.depends_on_fields))

    def _dependencies(self, fields: Sequence[Memory]) -> list[str]:
        """The parts of the signature that the depths depend on, and the versions of the fields; None for each that may
        change without being noticed."""
        parts = [self.signature.field_version(memory, "None") for memory in fields]
        for n, is_scalar, by_data in self.depends_on_args:
            part = self.signature.parts[n]
            parts.append(part.value() if is_scalar else part.known_version() if by_data else part.shape())
        return parts

    def prepare_stacks(self, *args: Any) -> bool:
        """Sets gradients of array arguments and, if something has changed, the depths. False where the arguments do not
        match."""
        guard = self.guard
        guarded = guard.then is not None and self.last_dependencies is not None and not self.scratch
        if guarded and not self.owner.replays and guard.now(*args) == guard.then:
            return True
        if not self.set_gradients(*args):
            return False
        dependencies = self.dependencies_of(*args)
        if self.replay_number is not None:
            number = self.replay_number()
            self.frame.replay(number)
            dependencies = *dependencies, number
        if self.scratch and self.counting is not None:
            dependencies = (None,)  # the counting slice may read buffers that were kept
        if None in dependencies or dependencies != self.last_dependencies:
            self.last_dependencies = None  # in case of an interrupt before the depths are set
            if not self.resize(args):
                return False
            self.last_dependencies = dependencies
        if guard.possible:
            guard.keep(args)
        return True

    def resize(self, args: Sequence[Any]) -> bool:
        """Runs the counting slice, evaluates all sizes and sets the depths; False where the arguments do not match."""
        if not all(isinstance(args[n], (int, float)) for n, is_scalar, _ in self.depends_on_args if is_scalar):
            return False
        memories = self.memories(args)
        operands = self.operands(args, memories)
        for name, operand in operands.items() if self.takes_arrays else ():
            buffer = self.kernel.buffers[name]
            if not hasattr(operand, "ndim") or (operand.ndim, operand.dtype) != (buffer.ndim, buffer.dtype.numpy):
                return False
        if self.counting is not None:
            counted = self.counting.counts(args, operands)
            if counted is None:
                return False
            self.counted = counted
        live = Live(self.scalars(args), operands, memories)
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

    def choose_frame(self, args: Sequence[Any], operands: dict[str, Any], live: Live) -> bool:
        """Decides whether this launch is compacted; False where the arguments do not match."""
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
        if frame is not self.frame:
            self.frame, self.current = frame, entry
            return not self.gradient_args or super().set_gradients(*args)
        return True

    @property
    def last_kernel(self) -> N.Kernel:
        return self.kernel if self.frame is self.whole[0] else self.compacted.sparse.split

    @property
    def last_options(self) -> CompileOptions:
        return self.compiled.options if self.frame is self.whole[0] else self.compacted.options

    def pre_launches(self) -> list[PreLaunch]:
        """The kernels that are launched before the gradient."""
        found = [self.counting, self.compacted.pre_launch if self.lists else None]
        return [pre for pre in found if pre is not None]

    def last_data(self) -> Live:
        """The data for which the depths were last evaluated, without arrays that have been freed."""
        scalars, arrays = self.last_inputs
        alive = {name: array for name, r in arrays.items() if (array := r()) is not None}
        fields = {n: m.values() if n in self.data_read else m.operand for n, m in self.fields.items()}
        return Live(scalars, fields | alive)

    def reserve(self) -> None:
        """Passes the depths to the device, which grows its heap; an error where they exceed the session's budget."""
        budget = self.session.settings.ad_stack_budget
        try:
            if budget and self.frame.least_heap(self.depths)[1] > budget:
                raise too_much(self.kernel, self.report(), *self.needs(), f"ad_stack_budget_bytes allows {budget}")
            self.frame.set_stacks(self.depths, budget, self.active)
        except MemoryError as e:
            raise too_much(self.kernel, self.report(), *self.needs(), str(e), NoRoomForStacks) from None

    def needs(self) -> tuple[int, int]:
        """The least that a launch with these depths takes: iterations in flight, and bytes for them."""
        try:
            return self.frame.least_heap(self.depths)
        except MemoryError:  # more than can be addressed
            return 1, sum(row.bytes_per_lane for row in self.report())

    def launch_slowly(self, args: Sequence[Any]) -> Any:
        with self.session.lock:
            self.checked = True
            try:
                return super().launch_slowly(args)
            finally:
                self.checked = False

    @property
    def primal_reads(self) -> frozenset[str]:
        """The buffers that the gradient, its sizes and its counting slice read, without gradients."""
        return super().primal_reads | self.sized_by

    def drawn(self) -> int:
        return self.launch_number()

    def report(self) -> list[StackRow]:
        """A row for each stack, with the depths of the last launch."""
        return report(self.kernel, self.depths, forced=bool(self.compiled.options.ad_stack_size))


class Guard:
    """The fast path of a gradient's launches: ``now`` of the arguments is compared with ``then``, its result at the
    last launch; None where it does not tell of everything that a launch depends on. ``possible``: whether it can for
    this kernel: no argument brings gradient memory that a launch has to set, and no random draws are repeated."""

    def __init__(self, plan: GradientPlan) -> None:
        self.plan = plan
        self.possible = not (plan.gradient_args or plan.must_differ or plan.replay_number)
        self.now: Callable[..., Stamp] = lambda *args: ()
        self.then: Stamp | None = None
        self._made_for: tuple[Any, ...] = ()

    def keep(self, args: Sequence[Any]) -> None:
        """To be called when a launch has been prepared."""
        plan = self.plan
        forward, seed = plan.forward.plan, plan.seeds.seed
        if forward is None or forward.read_versions.of_arguments or (seed is None and plan.seeds.looks):
            self.then = None
            return
        if self._made_for != (seed, plan.dependencies_of, forward):
            self._made_for = seed, plan.dependencies_of, forward
            fields = [*plan.depends_on_fields, *forward.read_versions.fields, *([] if seed is None else [seed])]
            self.now = plan.signature.stamp([*plan._dependencies(fields), "last.plan.launched"], last=plan.forward)
        now = self.now(*args)
        self.then = None if None in now else now


def _add(memory: Memory, sums: Memory) -> None:
    memory.put(..., memory.values() + sums.values())
    memory.flush()


def nothing_kept(kernel: N.Kernel, why: str) -> QuadrantsRuntimeError:
    """The error where a gradient needs buffers that no launch kept for it."""
    saved = next(t for t in kernel.body if any(isinstance(s, N.Load) and kernel.buffers[s.buffer].role == "kept"
                                               for s in walk((t,))))  # fmt: skip
    return QuadrantsRuntimeError(
        f"the gradient of kernel {kernel.name} needs values that the kernel overwrites, {why}",
        code="QL0416",
        labels=(Label(saved.span, "overwritten here; a launch keeps what was there for its gradient"),),
        help=f"launch {kernel.name} first, with the arguments of its gradient; or under qd.ad.Tape(loss), which keeps "
        "the values of every launch"
        if running_backward() is None
        else f"qd.torch_op({kernel.name}, ...) keeps the values of every call",
    )


def other_draws(kernel: N.Kernel) -> QuadrantsRuntimeError:
    """The error where a gradient would repeat the random numbers of a launch with other arguments."""
    drawn = next(s for s in walk(kernel.body) if isinstance(s, N.Random))
    return QuadrantsRuntimeError(
        f"the gradient of kernel {kernel.name} repeats the random numbers of its last launch, which was one with other "
        "arguments",
        code="QL0416",
        labels=(Label(drawn.span, "drawn here"),),
        help=f"launch {kernel.name} with the arguments of its gradient first; or under qd.ad.Tape(loss), which repeats "
        "the numbers of every launch",
    )


_SHOWN = 8  # stacks that the error lists


class NoRoomForStacks(QuadrantsRuntimeError, MemoryError):
    """The device has not enough memory for the adstacks."""


def too_much(
    kernel: N.Kernel, rows: Sequence[StackRow], lanes: int, total: int, why: str,
    cls: type[QuadrantsRuntimeError] = QuadrantsRuntimeError,
) -> QuadrantsRuntimeError:  # fmt: skip
    """The error where a launch needs at least ``total`` bytes for ``lanes`` iterations in flight; ``rows``: those of
    the kernel's stacks."""
    stacks = stack_allocas(kernel)
    order = sorted(range(len(rows)), key=lambda n: -rows[n].bytes_per_lane)[:_SHOWN]
    labels = tuple(
        Label(
            stacks[n].span,
            f"{rows[n].name}: {rows[n].bytes_per_lane} bytes an iteration in flight, "
            f"{rows[n].depth} x {rows[n].dtype}; kept as {rows[n].reason}; {rows[n].cure}",
        )
        for n in order
    )
    rest = len(rows) - len(order)
    more = f"; {rest} smaller stacks are not listed" if rest else ""
    return cls(
        f"the gradient of kernel {kernel.name} needs {total} bytes of adstacks for {lanes} "
        f"iterations in flight{more}; {why}; nothing was launched",
        code="QL2076",
        labels=labels,
        help="qd.loop_config(checkpoint=True) before the long serial loop, fewer trips between gradients (split it "
        "over several kernels under a Tape), a narrower dtype, fewer threads, or a larger ad_stack_budget_bytes in "
        "qd.init()",
    )
