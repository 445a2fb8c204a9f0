"""Launch plans: a loaded specialisation of a kernel, its launch frame, and the closure that launches it.

What does not change from launch to launch is done when the plan is made: addresses of fields, which arguments are
arrays, whose versions grow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from quadrants_lab.analysis.effects import value_reads
from quadrants_lab.analysis.facts import Facts, draws, touched
from quadrants_lab.backends import forks
from quadrants_lab.backends.launch import Frame, Status
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import f16
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.arguments.slots import Distinct
from quadrants_lab.runtime.call.signature import (
    NAMES,
    Footprint,
    Launch,
    Noted,
    ReadVersions,
    Signature,
    Stamp,
    launch_function,
    noted,
)  # fmt: skip
from quadrants_lab.runtime.compile.compiled import DUAL, FORWARD, Compiled
from quadrants_lab.runtime.interop.arrays import ForeignArguments
from quadrants_lab.runtime.interop.gradients import Use
from quadrants_lab.runtime.launch.dispatch import KEEPS_LAST, Launched, refuse
from quadrants_lab.runtime.launch.frames import (
    KeptBuffers,
    Scratch,
    entry_params,
    failure,
    field_memories,
    launch_slowly,
    make_frame,
)  # fmt: skip
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.memory.memory import THREAD, Memory
from quadrants_lab.runtime.observe.observers import open_recording
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow, StackRow
    from quadrants_lab.runtime.gradient.stacks import StackSizes
    from quadrants_lab.runtime.launch.dispatch import Dispatcher
    from quadrants_lab.runtime.observe.observers import Recording


class Live:
    """The data of one launch for size expressions. ``arrays``: by buffer its array, or something of the same shape;
    ``memories``: by buffer the memory with its data, where ``arrays`` has only the shape."""

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


class Plan:
    """One specialisation in one session.

    ``call`` launches: it takes the kernel's positional arguments and returns the kernel's value, or NotImplemented,
    without a launch, where an argument does not match the specialisation. ``fast`` is the same, but passes such a call
    on to the dispatcher; ``slowly`` is `launch_slowly` with positional arguments. ``reads`` and ``writes`` name the
    buffers that the kernel touches. ``stacks``: of a gradient, their sizes. ``standing``: by buffer, the
    copies that the next launch reads in place of memory (`tape.stand_ins`). ``summed``: a launch since this was set to
    False has added gradients up beside their memory, and then to it.
    """

    stacks: StackSizes | None = None
    standing: Mapping[str, Any] | None = None
    summed = False

    def __init__(self, owner: Dispatcher, session: Session, compiled: Compiled, launched: Launched) -> None:
        self.owner = owner
        self.weak: Callable[[], Plan | None] = partial(_itself, self) if KEEPS_LAST.get() else ref(self)
        self.last_launched = launched
        # where launches of this plan are noted: those of a gradient are no launch of the kernel
        self.noted = launched if compiled.mode in (FORWARD, DUAL) else Launched()
        self.session = session
        self.compiled = compiled
        self.kernel = compiled.kernel
        self.facts = Facts(compiled.kernel)
        self.reads, self.writes = self.touched()
        self.footprints: dict[tuple[str, bool], Footprint | None] = {}  # see `footprint`
        self.fields = field_memories(compiled, self.kernel, session)
        self.field_places: dict[str, A.Place] = {b: self.fields[b] for b in self.kernel.buffers if b in self.fields}
        self.slots: Sequence[A.Slot] = owner.slots
        self.takes_arrays = any(isinstance(slot, A.ArraySlot) for slot in self.slots)
        self.gradient_args = tuple(
            (n, of, f"{slot.name}.{of}")
            for n, slot in enumerate(self.slots)
            for of in A.DERIVATIVES
            if isinstance(slot, A.ArraySlot) and f"{slot.name}.{of}" in self.kernel.buffers
        )
        classes = owner.ndarray_classes
        self.signature = Signature(self.slots, compiled.specs, classes, self.writes, self.gradient_args)
        loaded = {s.buffer for s in value_reads(self.kernel)} if self.gradient_args else set()
        uses = [
            (n, Use(self.slots[n].name, self.kernel.name, grad in loaded, grad in self.writes))
            for n, of, grad in self.gradient_args if of == "grad"
        ]  # fmt: skip
        names = [slot.name for slot in self.slots]
        self.foreign = ForeignArguments(session, self.kernel.name, names, uses, self.writes)
        self.frame = make_frame(compiled.executable, self.fields, session)
        if owner.graph:
            self.frame.as_graph()
        self.entry = self.frame.entry(entry_params(self.slots), returns=self.single_return())
        self.unbind: list[Callable[[], None]] = []  # to be called after a launch: give borrowed gradients back
        self.bound: dict[str, Memory] = {}  # the gradient buffers of array arguments
        self.placed: tuple[Frame, list[int | None]] | None = None  # the frame that has their addresses, and serials
        self.read_versions = ReadVersions(self)
        self.launched: Stamp = ()  # `read_versions` at the last launch
        self.scratch = Scratch(self)
        self.distinct = self.taken_for_distinct()
        self.prepare = self.preparation()
        noted = compiled.mode == FORWARD and self.takes_arrays and self.differentiable
        if self.scratch or (noted and self.facts.of(draws)):
            self.prepare = self.scratch.before(self.prepare)
        session.plans.add(self)
        if any(b.wide for b in self.kernel.buffers.values()):  # wide arrays need no fast path
            self.closures: tuple[Launch, Launch] = refuse, owner.retry(self)
        else:
            self.closures = (
                launch_function(self, self.prepare, refuse), launch_function(self, self.prepare, owner.retry(self))
            )
        self.noting: dict[tuple[str, bool], Any] = {}  # closures in place of these that also note launches
        self.record(open_recording())

    def record(self, by: Recording | None) -> None:
        """From now on the recording gets the launches of this plan; None: no recording does."""
        for function in self.noting.values():  # dispatchers may still have it
            function.__globals__.update(late=[True], slowly=self._again, **dict.fromkeys(NAMES))
        self.call, self.fast = self.closures
        self.slowly: Launch = lambda *args: self.launch_slowly(args)
        if by is not None:
            self.slowly = partial(by.launch, self, self.slowly)
            if self.call is not refuse:
                self.call = partial(by.launch, self, self.call)
                self.fast = partial(_call_or, self, self.owner.retry(self))

    def _again(self, *args: Any) -> Any:
        self.owner.forget()
        return self.call(*args)

    def note(self, way: str, timed: bool, **names: Any) -> Noted:
        """Installs a closure that notes launches, as ``call`` or ``fast``, with these names (see `launch_function`);
        returns the head of its notes."""
        function = self.noting.get((way, timed))
        if function is None:
            miss = refuse if way == "call" else self.owner.retry(self)
            function = launch_function(self, self.prepare, miss, noted(self, under_tape=way == "call"), timed)
            self.noting[way, timed] = function
        function.__globals__.update(names)
        if getattr(self, way) is not function:
            setattr(self, way, function)
            self.owner.forget()
        head: Noted = function.__globals__["me"]
        return head

    def taken_for_distinct(self) -> Distinct | None:
        """What must not overlap in a launch; where it does, another plan serves. None where no other can."""
        if self.compiled.options.aliases:
            return None
        places: dict[str, A.Place] = {s.name: n for n, s in enumerate(self.slots) if isinstance(s, A.ArraySlot)}
        places |= {grad: (n, of) for n, of, grad in self.gradient_args}
        return Distinct(places | self.fields, self.writes, self.session)

    def single_return(self) -> str:
        """The "ret" buffer whose value the entry can return by itself; "" where it cannot."""
        lowered = self.compiled.lowered
        if len(lowered.returns) != 1 or lowered.returns_tuple or lowered.returns[0] is f16:
            return ""
        if lowered.returns_as is not None:
            return ""
        return "".join(self.compiled.returns)

    def preparation(self) -> Callable[..., bool] | None:
        """A function that a launch calls with its arguments before the entry; it returns False where these do not
        match."""
        return self.bind_gradients if self.gradient_args else None

    def bind_gradients(self, *args: Any) -> bool:
        """Sets the gradient buffers of array arguments; the entry sets, and compares, only those of the data."""
        if not self.gradient_args:
            return True
        if self.distinct is not None and self.distinct.gradients and self.distinct.met(args):
            return False
        self.unbind.clear()  # not empty after a launch that failed
        self.bound.clear()
        found = [memory_of(A.derivative(args[n], of)) for n, of, _ in self.gradient_args]
        place = self.frame, [None if m is None or m.foreign else m.serial for m in found]
        known = place == self.placed and not self.session.exported
        if not (known or all(map(self._takes_gradient, self.gradient_args, found))):
            return False
        self.bound.update((grad, m) for (_, _, grad), m in zip(self.gradient_args, found, strict=True) if m)
        for grad in self.writes & self.bound.keys():
            self.bound[grad].version += 1
        if known:
            return True
        sums = self.keep_apart()
        for grad, memory in self.bound.items():
            if memory.foreign:
                unbind = self.frame.bind_temp(grad, memory.operand)
                if unbind is not None:
                    self.unbind.append(unbind)
            else:
                self.frame.set_buffer(grad, memory.address)
                self.frame.set_extents(grad, memory.operand.shape)
        self.unbind += sums
        self.placed = None if None in place[1] or self.unbind else place
        return True

    def _takes_gradient(self, of: tuple[int, str, str], memory: Memory | None) -> bool:
        buffer = self.kernel.buffers[of[2]]
        if memory is None or (memory.dtype, memory.operand.ndim) != (buffer.dtype, buffer.ndim):
            return False
        return A.is_wide(memory.operand.shape) is buffer.wide

    def keep_apart(self) -> list[Callable[[], None]]:
        """Replaces memory of ``bound`` that must not be another's; what is to be called after the launch."""
        return []

    def touched(self) -> tuple[frozenset[str], frozenset[str]]:
        """The buffers that a launch reads, and those that it changes."""
        return self.facts.of(touched)

    def frames(self) -> list[Frame]:
        """All frames that a launch may use."""
        return [self.frame]

    def live(self, args: Sequence[Any]) -> Live:
        """The data of a launch with ``args`` for size expressions."""
        memories = self.memories(args)
        return Live(self.scalars(args), self.operands(args, memories), memories)

    def unbind_gradients(self) -> None:
        """Gives gradients that a launch borrowed back to their owners."""
        for unbind in self.unbind:
            unbind()
        self.unbind.clear()
        self.bound.clear()

    def launch_slowly(self, args: Sequence[Any]) -> Any:
        """Launches checked arguments through the frame's setters, for arguments that the entry does not take: f16
        scalars, u64 scalars from 2**63 on, and wide arrays. NotImplemented where `prepare` refuses them."""
        with self.session.lock:
            if self.prepare is not None and not self.prepare(*args):
                return NotImplemented
            self.wrote(args)
            launch_slowly(self.frame, self.slots, args)
            self.unbind_gradients()
            return self.finish(*args)

    def finish(self, *args: Any) -> Any:
        """Completes a launch whose status is not 0: writes its prints to sys.stdout, and raises its failure."""
        status = self.frame.status
        if status & Status.PRINTED:
            sys.stdout.write("".join(self.frame.take_prints()))
        if status & ~Status.PRINTED:
            self.scratch.put_back(args)
            raise failure(self.frame, self.kernel.name, self.compiled.options.ad_stack_size)
        return self.returned()

    def returned(self) -> Any:
        """The kernel's return value after a successful launch."""
        names = self.compiled.returns
        if not names:
            return None
        values = tuple(self.frame.ret(name) for name in names)
        if self.compiled.lowered.returns_as is not None:
            return A.rebuilt(self.compiled.lowered.returns_as, iter(values))
        return values if self.compiled.lowered.returns_tuple else values[0]

    def places(self, args: Sequence[Any]) -> dict[str, A.Place]:
        """For each buffer over memory of ours, where that is found in a launch with ``args``."""
        if not self.takes_arrays:
            return self.field_places
        found: dict[str, A.Place] = dict(self.fields)
        slots = enumerate(self.slots)
        found |= {s.name: n for n, s in slots if isinstance(s, A.ArraySlot) and memory_of(args[n]) is not None}
        for n, of, name in self.gradient_args:
            if memory_of(A.derivative(args[n], of)) is not None:
                found[name] = (n, of)
        return {name: found[name] for name in self.kernel.buffers if name in found}

    def memories(self, args: Sequence[Any]) -> dict[str, Memory]:
        """The memory of each buffer that `places` finds."""
        return {name: A.memory_at(place, args) for name, place in self.places(args).items()}

    def operands(self, args: Sequence[Any], memories: dict[str, Memory] | None = None) -> dict[str, Any]:
        """The operand of each field and ndarray buffer in a launch with ``args``: an array, or memory of the device.
        ``memories``: what `memories` returns, if that is known."""
        return {name: getattr(x, "operand", x) for name, x in self.backing(args, memories).items()}

    def arrays(self, args: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """The data of each field and ndarray buffer in a launch with ``args``, for reading."""
        return {name: x.values() if isinstance(x, Memory) else x for name, x in self.backing(args).items()}

    def backing(self, args: Sequence[Any], memories: dict[str, Memory] | None = None) -> dict[str, Any]:
        """For each field and ndarray buffer in a launch with ``args`` its `Memory`, or the numpy array."""
        slots = zip(self.slots, args, strict=True)
        others = {s.name: a for s, a in slots if isinstance(s, A.ArraySlot) and memory_of(a) is None}
        return {**(self.memories(args) if memories is None else memories), **others}

    def gradient_of(self, buffer: str, args: Sequence[Any], which: str = "grad") -> Memory | None:
        """The memory of a buffer's gradient (or "dual") in a launch with ``args``, even if the kernel does not touch
        it."""
        lowered = self.compiled.lowered
        grad: str = getattr(lowered.kernel.buffers.get(buffer), which, "")
        for slot, arg in zip(self.slots, args, strict=True):
            if isinstance(slot, A.ArraySlot) and grad.startswith(f"{slot.name}."):
                return memory_of(A.derivative(arg, grad[len(slot.name) + 1 :]))
        return memory_of(lowered.bindings.get(grad))

    @property
    def repeatable(self) -> bool:
        """Whether two launches with the same arguments differ only in the content of memory."""
        return not self.scratch and (self.prepare is None or self.prepare == self.bind_gradients)

    @property
    def last_launch(self) -> tuple[Any, ...]:
        """What a gradient by hand has to know of the last launch; to be set again after one that repeats another."""
        return self.scratch.last, self.launched, self.frame.launch_number

    @last_launch.setter
    def last_launch(self, last: tuple[Any, ...]) -> None:
        self.scratch.last, self.launched, self.frame.launch_number = last

    def wrote(self, args: Sequence[Any]) -> None:
        """Counts the writes of a launch that does not go through ``call``."""
        memories = self.memories(args)
        for name in self.writes & memories.keys():
            memories[name].version += 1
        if self.read_versions:
            self.launched = self.read_versions.now(*args)

    def take_gradients(self, args: Sequence[Any]) -> None:
        """Makes what a launch writes memory of this thread."""
        for name, memory in self.memories(args).items():
            if name in self.writes:
                memory.owner = THREAD.number

    @property
    def last_kernel(self) -> N.Kernel:
        """The kernel that the last launch ran."""
        return self.kernel

    @property
    def last_options(self) -> CompileOptions:
        """The options that `last_kernel` was compiled with."""
        return self.compiled.options

    @forks.lazy
    def bounds_checked(self) -> Plan:
        """The plan of this forward kernel with checked indices, for data that the program may not be made for; itself
        where no index can be out of bounds."""
        from quadrants_lab.runtime.compile.compile import with_checked_bounds

        compiled = with_checked_bounds(self.compiled, self.session)
        return self if compiled is self.compiled else Plan(self.owner, self.session, compiled, self.last_launched)

    @property
    def sized_by(self) -> frozenset[str]:
        """The buffers whose data the stack sizes of a gradient depend on."""
        return frozenset()

    @property
    def differentiable(self) -> bool:
        """Whether the kernel touches anything that has a gradient."""
        return any(b.grad and not b.transient for b in self.compiled.lowered.kernel.buffers.values())

    @property
    def primal_reads(self) -> frozenset[str]:
        """The buffers that are read, without gradients."""
        return self.reads - {b.grad for b in self.kernel.buffers.values()}

    def report(self) -> list[StackRow]:
        """A row for each adstack; a forward kernel has none."""
        return []

    def given(self) -> KeptBuffers:
        """The buffers that another launch kept for the next launch of this plan."""
        return {}

    def kept(self) -> list[KeptRow]:
        """A row for each buffer of overwritten values that the last launch used."""
        from quadrants_lab.adstack.report import kept_rows

        return kept_rows(self.kernel, self.scratch.shapes)

    def drawn(self) -> int:
        """The launch number that determined the random draws of the last launch."""
        return self.frame.launch_number

    def scalars(self, args: Sequence[Any]) -> dict[str, Any]:
        """The value of each scalar argument."""
        return {s.name: a for s, a in zip(self.slots, args, strict=True) if isinstance(s, A.ScalarSlot)}


def _itself(plan: Plan) -> Plan:
    return plan


def _call_or(plan: Plan, otherwise: Launch, *args: Any) -> Any:
    value = plan.call(*args)
    return otherwise(*args) if value is NotImplemented else value
