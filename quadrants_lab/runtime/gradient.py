"""Gradient launches: the depths of the adstacks are settled against live data before compiled code runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.adstack.evaluate import evaluate, evaluated, reads
from quadrants_lab.adstack.report import StackRow, report, stack_allocas
from quadrants_lab.autodiff.access import warn
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.frontend.specs import NdarraySpec, flat_specs
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir import sizeexpr as SE
from quadrants_lab.ir.walk import walk
from quadrants_lab.runtime.ahead import Ahead, Apart
from quadrants_lab.runtime.budget import Needs, no_room, over_budget
from quadrants_lab.runtime.compile import Compiled
from quadrants_lab.runtime.device_sizes import device_sizes
from quadrants_lab.runtime.faults import failure
from quadrants_lab.runtime.memory import Memory
from quadrants_lab.runtime.plan import Plan
from quadrants_lab.runtime.seeds import Seeds
from quadrants_lab.runtime.signature import ArraySlot, ScalarSlot, memory_of
from quadrants_lab.runtime.stamp import stamp_of
from quadrants_lab.runtime.steady import Steady
from quadrants_lab.runtime.trips import other_trips

if TYPE_CHECKING:
    from quadrants_lab.runtime.dispatch import Dispatcher
    from quadrants_lab.runtime.session import Session


class Live:
    """What size expressions read of one launch. ``arrays``: a buffer, its array, or what has its shape; ``memories``: a
    buffer, where its data is, if not in ``arrays``."""

    def __init__(
        self, scalars: dict[str, Any], arrays: dict[str, Any], memories: dict[str, Memory] | None = None
    ) -> None:
        self.scalars = scalars
        self.arrays = arrays
        self.memories = memories or {}

    def arg(self, name: str) -> int:
        return int(self.scalars[name])

    def shape(self, buffer: str, axis: int) -> int:
        return int(self.arrays[buffer].shape[axis])

    def array(self, buffer: str) -> npt.NDArray[Any]:
        memory = self.memories.get(buffer)
        array: Any = self.arrays[buffer] if memory is None else memory.values()
        found: npt.NDArray[Any] = array if isinstance(array, np.ndarray) else array.read()
        return found


class GradientPlan(Plan):
    """The plan of a reverse kernel.

    Depths are settled anew when something that they depend on changed: a field or ndarray by its version, a scalar
    argument or a shape by its value; arrays that are not ours are read before every launch.
    """

    def __init__(
        self, owner: Dispatcher, session: Session, compiled: Compiled, forward: Callable[[], Plan | None]
    ) -> None:
        self.find_forward = forward
        self.forward: Plan | None = None  # once it is known and stays
        super().__init__(owner, session, compiled)

    def preparation(self) -> Callable[..., bool] | None:
        """Sets depths that never change, or says how to settle the others before each launch."""
        self.sizes: list[SE.SizeExpr] = [s.size for s in stack_allocas(self.kernel) if s.size is not None]
        self.depths: list[int] = []
        self.data_read: frozenset[str] = frozenset()  # buffers whose data the depths depend on
        self.looked_at: tuple[dict[str, Any], dict[str, ref[Any]]] = {}, {}
        self.counted: dict[int, int] = {}
        counter = self.compiled.counter
        self.counting = None if counter is None else Ahead(self, counter)
        self.whole = self.frame, self.entry
        self.apart = Apart(self, self.session.settings.ad_stack_threshold)
        self.lists = False  # whether it was worth it to list the iterations that push
        self.passing: dict[int, int] = {}  # by task, how many these are, where they run apart
        self.current: Callable[..., Any] = self.entry
        if self.apart.possible:
            self.entry = lambda *args: self.current(*args)
        self.stamp: tuple[Any, ...] | None = None
        self.checked = False  # whether the arguments at hand are known to match
        self.without_gradient = tuple(
            n
            for n, (slot, spec) in enumerate(zip(self.slots, flat_specs(self.compiled.specs), strict=True))
            if isinstance(spec, NdarraySpec) and isinstance(slot, ArraySlot)
            if not spec.grad and slot.grad is not False
        )
        written = forward_writes(self.compiled)
        arrays = [n for n, slot in enumerate(self.slots) if isinstance(slot, ArraySlot)]
        self.must_differ = tuple(
            (n, m)
            for n, m in combinations(arrays, 2)
            if {self.slots[n].name, self.slots[m].name} & written
        )
        self.seeds = Seeds(self)
        draws = any(isinstance(s, N.Random) for s in walk(self.kernel.body))
        self.draws_of: Callable[[], int] | None = self.launch_number if draws else None
        self.steady = Steady(self)
        forced = self.compiled.options.ad_stack_size
        if forced:
            self.sizes = [SE.SizeConst(forced)] * len(self.sizes)
        else:
            frame = self.frame  # another one may take its place
            frame.trust_depths(lambda: failure(frame, self.kernel.name, 0))
        self.elsewhere = None if forced else device_sizes(self, self.sizes)
        fixed = [s.value for s in self.sizes if isinstance(s, SE.SizeConst)]
        if len(fixed) < len(self.sizes) or (fixed and self.apart.wanted(self.frame, fixed)):
            self._follow()
            return self.settle
        self.depths = fixed
        if self.depths:
            self.reserve()
        return self.settle_draws if draws else self.set_gradients if self.slots or self.seeds else None

    def forward_plan(self) -> Plan | None:
        """The plan of the kernel whose gradient this is; None where it was not launched."""
        if self.forward is not None:
            return self.forward
        plan = self.find_forward()
        if plan is not None and not plan.compiled.lowered.reads:
            self.forward = plan
        return plan

    def launch_number(self) -> int:
        """The launch whose random draws are repeated; 0 where there was none."""
        if self.owner.replays:
            return self.owner.replays
        plan = self.forward_plan()
        return 0 if plan is None else plan.frame.launch_number

    def compare_trips(self, forward: Plan, args: Sequence[Any]) -> None:
        """Warns, once, where a trip count was written since the kernel was launched."""
        changed = forward.trips.changed(forward.launched, args)
        if changed:
            forward.launched = ()
            warn([other_trips(self.kernel.name, changed)])

    def set_gradients(self, *args: Any) -> bool:
        """As in a forward launch; an array with a gradient does not match code that was compiled for one without."""
        for n in self.without_gradient:
            if getattr(args[n], "grad", None) is not None:
                return False
        for n, m in self.must_differ:
            if same_memory(args[n], args[m]):
                raise self.aliased(n, m)
        if not self.owner.replays:  # a Tape knows what it does
            forward = self.forward or self.forward_plan()
            if forward is not None and forward.launched and forward.launched != forward.trips.versions(args):
                self.compare_trips(forward, args)
            if self.seeds.looks and not self.seeds.given(args):
                self.seeds.looks = 0
                warn([self.seeds.doubt()])
        return not self.gradient_args or super().set_gradients(*args)

    def aliased(self, n: int, m: int) -> QuadrantsRuntimeError:
        a, b = self.slots[n].name, self.slots[m].name
        return QuadrantsRuntimeError(
            f"arguments {a!r} and {b!r} of kernel {self.kernel.name} are the same memory, and the kernel writes to "
            "it: the derivative takes them for two arrays",
            code="QL2074",
            help="pass a copy as one of them, or take one argument for both",
        )

    def settle_draws(self, *args: Any) -> bool:
        """Without stacks to size: draws and gradients of array arguments."""
        self.frame.replay(self.launch_number())
        return self.set_gradients(*args)

    def _follow(self) -> None:
        """What the depths depend on: fields by memory; arguments as (position, is a scalar, by its data)."""
        args, shapes, data = _dependencies(self.sizes)
        self.data_read = frozenset(data)
        for ahead in self.ahead():
            args |= ahead.args
            data |= ahead.data
            shapes |= ahead.shapes
        self.follows_fields: tuple[Memory, ...] = tuple(
            self.fields[b] for b in sorted(data) if b in self.fields
        )
        self.follows_args = tuple(
            (n, isinstance(slot, ScalarSlot), slot.name in data)
            for n, slot in enumerate(self.slots)
            if slot.name in args | shapes | data
        )
        self.stamp_of = stamp_of(len(self.slots), self.follows_fields, self.follows_args)

    def settle(self, *args: Any) -> bool:
        """Sets gradients of array arguments and, where anything changed, the depths."""
        steady = self.steady
        settled = steady.then is not None and self.stamp is not None
        if settled and not self.owner.replays and steady.of(*args) == steady.then:
            return True
        if not self.set_gradients(*args):
            return False
        stamp = self.stamp_of(*args)
        if self.draws_of is not None:
            number = self.draws_of()
            self.frame.replay(number)
            stamp = None if stamp is None else (*stamp, number)
        if stamp is None or stamp != self.stamp:
            self.stamp = None  # an interrupt before the depths are settled must not leave one behind
            if not self.known(args) or not self.resize(args):
                return False
            self.stamp = stamp
        if steady.possible:
            steady.keep(args)
        return True

    def known(self, args: Sequence[Any]) -> bool:
        """Whether what the depths depend on is of the kinds that `resize` reads."""
        return all(
            isinstance(args[n], (int, float)) if is_scalar else memory_of(args[n]) is not None
            or isinstance(args[n], np.ndarray)
            for n, is_scalar, _ in self.follows_args
        )

    def resize(self, args: Sequence[Any]) -> bool:
        """Evaluates every size, the counting slice first where there is one; False where the arguments do not match."""
        operands = self.operands(args)
        for name, operand in operands.items():
            buffer = self.kernel.buffers[name]
            if not hasattr(operand, "ndim") or (operand.ndim, operand.dtype) != (buffer.ndim, buffer.dtype.numpy):
                return False
        if self.counting is not None:
            counted = self.counting.counts(args, operands)
            if counted is None:
                return False
            self.counted = counted
        live = Live(self.scalars(args), operands, self.memories(args))
        sizes, counted = self.sizes, self.counted
        if self.elsewhere is not None and self.elsewhere.wanted(operands):
            found = self.elsewhere.values(args, operands, lambda e: evaluated(e, live))
            if found is None:
                return False
            sizes, counted = self.elsewhere.work.sizes, counted | found
        self.depths = [evaluate(size, live, counted) for size in sizes]
        self.looked_at = live.scalars, {name: ref(array) for name, array in operands.items()}
        if not self.choose(args, operands, live):
            return False
        self.reserve()
        return True

    def choose(self, args: Sequence[Any], operands: dict[str, Any], live: Live) -> bool:
        """Whether iterations that push run apart in this launch; False where the arguments do not match."""
        frame, entry = self.whole
        passing: dict[int, int] = {}
        if self.apart.wanted(frame, self.depths):
            if not self.lists:
                self.lists = True
                self._follow()
            listed = self.apart.settled(args, operands, live)
            if listed is None:
                return False
            passing = listed
            frame, entry = self.apart.frame, self.apart.entry
        self.passing = passing
        if frame is not self.frame:
            self.frame, self.current = frame, entry
            self.give_back.clear()
            return not self.gradient_args or super().set_gradients(*args)
        return True

    @property
    def ran(self) -> N.Kernel:
        return self.kernel if self.frame is self.whole[0] else self.apart.gates.split

    def ahead(self) -> list[Ahead]:
        """What is launched before a gradient."""
        found = [self.counting, self.apart.ahead if self.lists else None]
        return [a for a in found if a is not None]

    def operands(self, args: Sequence[Any]) -> dict[str, Any]:
        """What a launch with ``args`` takes for each field and ndarray buffer."""
        found = {name: memory.operand for name, memory in self.memories(args).items()}
        for slot, arg in zip(self.slots, args, strict=True):
            if isinstance(slot, ArraySlot):
                found.setdefault(slot.name, arg)
        return found

    def seen(self) -> Live:
        """The data that the depths were last settled for, as far as it still is there."""
        scalars, arrays = self.looked_at
        alive = {name: array for name, r in arrays.items() if (array := r()) is not None}
        fields = {n: m.values() if n in self.data_read else m.operand for n, m in self.fields.items()}
        return Live(scalars, fields | alive)

    def reserve(self) -> None:
        """Hands the depths to the device, which grows its heap; an error where they pass the session's budget."""
        budget = self.session.settings.ad_stack_budget
        try:
            if budget and self.frame.least_heap(self.depths)[1] > budget:
                raise over_budget(self.needs(), budget)
            self.frame.set_stacks(self.depths, budget, self.passing)
        except MemoryError as e:
            raise no_room(self.needs(), str(e)) from None

    def needs(self) -> Needs:
        """For errors: what a launch with these depths takes at the least."""
        rows = self.report()
        try:
            lanes, total = self.frame.least_heap(self.depths)
        except MemoryError:  # more than can be addressed
            lanes, total = 1, sum(row.bytes_per_lane for row in rows)
        return Needs(self.kernel, rows, stack_allocas(self.kernel), lanes, total)

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
        counted = frozenset().union(*(a.data for a in self.ahead()))
        return super().primal_reads | counted | _dependencies(self.sizes)[2]

    def drawn(self) -> int:
        return self.launch_number()

    def report(self) -> list[StackRow]:
        """A row a stack, with the depths of the last launch."""
        return report(self.kernel, self.depths, forced=bool(self.compiled.options.ad_stack_size))


def forward_writes(compiled: Compiled) -> frozenset[str]:
    """The buffers that the kernel itself, not its gradient, writes."""
    return frozenset(
        s.buffer for s in walk(compiled.lowered.kernel.body) if isinstance(s, (N.Store, N.Atomic))
    )


def same_memory(a: Any, b: Any) -> bool:
    """Whether two array arguments overlap."""
    if a is b:
        return True
    a, b = (x if (memory := memory_of(x)) is None else memory.operand for x in (a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    begins = [getattr(x, "address", None) for x in (a, b)]
    if None in begins:
        return False  # what one is of is the host's
    return bool(begins[0] < begins[1] + b.nbytes and begins[1] < begins[0] + a.nbytes)


def _dependencies(sizes: Sequence[SE.SizeExpr]) -> tuple[set[str], set[str], set[str]]:
    args: set[str] = set()
    shapes: set[str] = set()
    data: set[str] = set()
    for size in sizes:
        a, s, d = reads(size)
        args |= a
        shapes |= s
        data |= d
    return args, shapes, data
