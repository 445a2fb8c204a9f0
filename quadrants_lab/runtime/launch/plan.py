"""Makes launch plans. A plan is a compiled kernel ready to launch: a loaded specialisation, its launch frame (the
memory with the arguments), and the closure that launches it.

What is the same in every launch is done once, when the plan is made: finding the addresses of fields, which arguments
are arrays, and which memory is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from quadrants_lab.analysis.facts import Facts, draws, memory_reads, touched
from quadrants_lab.backends import forks
from quadrants_lab.backends.launch import Frame, Status
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.record import function
from quadrants_lab.ir.types import f16
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.compile.specialisation import BOTH, DUAL, FORWARD, REVERSE, Compiled
from quadrants_lab.runtime.interop.arrays import ForeignArguments
from quadrants_lab.runtime.launch import frames as F
from quadrants_lab.runtime.launch.signature import Footprint, Launch, Part, ReadVersions, Signature, Stamp
from quadrants_lab.runtime.memory.identity import Distinct, Place
from quadrants_lab.runtime.memory.memory import Memory
from quadrants_lab.runtime.observe.observers import (
    KEEPS_LAST,
    Launched,
    Noting,
    Recorder,
    open_recording,
    refuse,
)
from quadrants_lab.runtime.session import Session

if TYPE_CHECKING:
    from quadrants_lab.adstack.report import KeptRow, StackRow
    from quadrants_lab.analysis.accesses import Access


class Preparation(Protocol):
    """The protocol of what only a gradient's plan has: see `gradient_plan.GradientPlan`."""

    forward: Any
    stacks: Any
    entry_alone: bool

    def preparation(self) -> Callable[..., bool]: ...
    def keep_apart(self) -> list[Callable[[], None]]: ...


class Plan(F.Buffers):
    """One specialisation in one session: the kernel, its executable, its frame and its signature.

    ``owner``: the `Dispatcher` that made the plan; ``here``: that dispatcher's specialisations in the session. ``call``
    launches, with the session's lock held: it takes the kernel's positional arguments and returns the kernel's value,
    or NotImplemented, without a launch, where an argument does not match the specialisation. ``fast`` takes the lock
    itself, and hands such a call to the dispatcher; ``slowly`` is `launch_slowly` with positional arguments.
    ``prepare``: called with the arguments before the entry; it returns False where they do not match. ``reads`` and
    ``writes`` name the buffers that a launch touches; a gradient's ``writes`` are only gradients, since it restores all
    other buffers. ``gradient``: what only gradients' plans have; ``stacks``: the sizes of its adstacks. ``standing``:
    by buffer, a copy that the next launch reads instead of the buffer's memory (`tape.stand_ins`). ``summed``: since
    this was set to False, a launch has summed gradients in separate memory and then added the sum. ``checked``: the
    current arguments are known to match.
    """

    standing: Mapping[str, Any] | None = None
    summed = checked = False
    slowly: Launch
    derivatives: tuple[frozenset[str], frozenset[str]] | None = None  # see `tape_numbers`

    def __init__(
        self, owner: Any, session: Session, compiled: Compiled, launched: Launched[Plan],
        make_gradient: Callable[[Plan], Preparation] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(compiled, owner.slots, session)
        self.owner, self.here = owner, owner.here
        self.weak: Callable[[], Plan | None] = (lambda: self) if KEEPS_LAST.get() else ref(self)
        self.last_launched = launched
        # told of each launch of this plan; launches of a gradient do not count as launches of the kernel
        self.noted: Launched[Plan] = launched if compiled.mode in (FORWARD, DUAL) else Launched()
        self.facts = Facts(self.kernel)
        self.reads, self.writes = self.facts.of(touched)
        if compiled.mode == REVERSE:
            self.writes &= {b.grad for b in self.kernel.buffers.values()}
        self.footprints: dict[tuple[str, bool], Footprint | None] = {}  # arguments of `footprint` -> result
        self._stored: list[tuple[str, Footprint, Footprint | None]] | None = None  # the same of `stored`
        self.signature = Signature(
            self.slots, compiled.specs, owner.of.ndarray_classes, self.writes, self.gradient_args
        )
        names = [slot.name for slot in self.slots]
        self.foreign = ForeignArguments(session, self.kernel, names, self.gradient_args, self.writes)
        self.frame = F.make_frame(compiled.executable, self.fields, session)
        if owner.of.graph:
            self.frame.as_graph()
        self.entry = self.frame.entry(F.entry_params(self.slots), returns=self.single_return())
        self.unbind: list[Callable[[], None]] = []  # called after a launch: they return borrowed gradients
        self.bound: dict[str, Memory] = {}  # gradient buffer of an array argument -> the memory bound to it
        self.gradient_names = [grad for _, _, grad in self.gradient_args]
        self.written_gradients = [grad for grad in self.gradient_names if grad in self.writes]
        parts = self.signature.parts
        self.gradients = self.signature.stamp(parts[n].derivative(of) for n, of, _ in self.gradient_args)
        # the frame in which the gradients' addresses are set, and the serials of their memory
        self.placed: tuple[Frame, list[int | None]] | None = None
        noticed = owner.gradient is not None and self.differentiable
        self.read_versions = ReadVersions(self.facts.of(memory_reads) if noticed else (), self.signature, self.fields)
        self.launched: Stamp = ()  # what `read_versions` returned at the last launch
        self.scratch = F.Scratch(self, self.frames)
        self.distinct = self._taken_for_distinct()
        self.gradient = None if make_gradient is None else make_gradient(self)
        self.stacks: Any = None if self.gradient is None else self.gradient.stacks
        self.prepare = self.bind_gradients if self.gradient_args else None
        if self.gradient is not None:
            self.prepare = self.gradient.preparation()
        noted = compiled.mode == FORWARD and self.takes_arrays and self.differentiable
        if self.scratch or (noted and self.facts.of(draws)):
            self.prepare = self.scratch.before(self.prepare)
        session.plans.add(self)
        self.closures: tuple[Launch, Launch] = refuse, owner.retry(self)
        if not any(b.wide for b in self.kernel.buffers.values()):  # wide arrays need no fast path
            self.closures = launch_function(self, None), launch_function(self, owner.retry(self))
        self.noting: dict[tuple[str, bool], Noting] = {}  # closures in place of these that also note launches
        self.record(open_recording())

    def _taken_for_distinct(self) -> Distinct | None:
        """The buffers that the code assumes not to overlap: if they do, another plan, for aliases, serves the call.
        None if nothing can overlap, or if there can be no other plan. Gradients handle aliases themselves."""
        if self.compiled.options.aliases or self.compiled.mode in (REVERSE, BOTH):
            return None
        places: dict[str, Place] = {name: n for n, name in self.array_slots}
        places |= {grad: (n, of) for n, of, grad in self.gradient_args}
        return Distinct(places | self.fields, self.writes, self.session) or None

    def session_ended(self) -> None:
        """Drops everything that keeps the device alive; the compiled code and the facts about the last launch remain. A
        thread that has a closure of the plan, or waits in one for the lock, gets an error that names the session."""

        def over(*args: Any) -> Any:
            raise self.session.ended_error(f"what was compiled of kernel {self.kernel.name}")

        for closure in (*self.closures, *(noting.function for noting in self.noting.values())):
            if closure.__globals__.get("plan") is self:
                closure.__globals__.update(entry=over, prepare=over)
        if self.stacks is not None:
            self.stacks.session_ended()
        else:
            self.frame = F.ended_frame(self.frame)
        self.entry = self.call = self.fast = self.slowly = over
        self.closures, self.prepare, self.placed = (over, over), None, None
        self.noting.clear()
        self.unbind.clear()
        self.compiled.executable.unload()

    def record(self, by: Recorder | None) -> None:
        """From now on the recording ``by`` is told of the launches of this plan; if it is None, none is told."""
        for closure in self.noting.values():  # dispatchers may still hold the closure
            closure.end(self._again)
        self.call, self.fast = self.closures
        self.slowly = lambda *args: self.launch_slowly(args)
        if by is not None:
            self.slowly = partial(by.launch, self, self.slowly)
            if self.call is not refuse:
                self.call = partial(by.launch, self, self.call)
                self.fast = partial(_call_or, self, self.owner.retry(self))

    def single_return(self) -> str:
        """The name of the "ret" buffer whose value the entry can return; "" if it cannot return one."""
        lowered = self.compiled.lowered
        if len(lowered.returns) != 1 or lowered.returns_tuple or lowered.returns[0] is f16:
            return ""
        if lowered.returns_as is not None:
            return ""
        return "".join(self.compiled.returns)

    def bind_gradients(self, *args: Any) -> bool:
        """Binds the gradients of array arguments; the entry binds and compares only the arrays' own data."""
        if not self.gradient_args:
            return True
        if self.distinct is not None and self.distinct.gradients and self.distinct.met(args):
            return False
        self.unbind.clear()  # a launch that failed leaves functions here
        self.bound.clear()
        found = self.gradients(*args)
        place = self.frame, [None if m is None or m.foreign else m.serial for m in found]
        known = place == self.placed and not self.session.exported
        if not (known or all(map(self._takes_gradient, self.gradient_args, found))):
            return False
        self.bound.update(zip(self.gradient_names, found, strict=True))
        for grad in self.written_gradients:
            self.bound[grad].version += 1
        if known:
            return True
        sums = [] if self.gradient is None else self.gradient.keep_apart()
        for grad, memory in self.bound.items():
            if memory.foreign:
                unbind = self.frame.bind_temp(grad, memory.operand)
                if unbind is not None:
                    self.unbind.append(unbind)
            else:
                F.bind(self.frame, grad, memory)
        self.unbind += sums
        self.placed = None if None in place[1] or self.unbind else place
        return True

    def _takes_gradient(self, of: tuple[int, str, str], memory: Memory | None) -> bool:
        buffer = self.kernel.buffers[of[2]]
        if memory is None or (memory.dtype, memory.operand.ndim) != (buffer.dtype, buffer.ndim):
            return False
        return A.is_wide(memory.operand.shape) is buffer.wide

    def unbind_gradients(self) -> None:
        """Gives gradients that a launch borrowed back to their owners."""
        for unbind in self.unbind:
            unbind()
        self.unbind.clear()
        self.bound.clear()

    def launch_slowly(self, args: Sequence[Any]) -> Any:
        """Launches checked arguments through the frame's setters, for arguments that the entry does not take: f16
        scalars, u64 scalars from 2**63 on, and wide arrays. Returns NotImplemented if `prepare` refuses them."""
        with self.session.lock:
            self.session.must_live()
            try:
                self.checked = True
                if self.prepare is not None and not self.prepare(*args):
                    return NotImplemented
            finally:
                self.checked = False
            self.wrote(args)
            F.launch_slowly(self.frame, self.slots, args)
            self.unbind_gradients()
            return self.finish(*args)

    def finish(self, *args: Any) -> Any:
        """Completes a launch whose status is not 0: writes its prints to sys.stdout, and raises its error if any."""
        status = self.frame.status
        if status & Status.PRINTED:
            sys.stdout.write("".join(self.frame.take_prints()))
        if status & ~Status.PRINTED:
            self.scratch.put_back(args)
            from quadrants_lab.runtime.failures import failure

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

    def _again(self, *args: Any) -> Any:
        self.here.take_path()
        return self.call(*args)

    @property
    def repeatable(self) -> bool:
        """Whether two launches with the same arguments do the same, except for the content of memory."""
        if self.gradient is not None:
            return not (self.scratch or self.stacks.depend_on_data or self.gradient.forward.draws)
        return not self.scratch and self.prepare in (None, self.bind_gradients)

    @property
    def last_launch(self) -> tuple[Any, ...]:
        """The facts about the last launch that `kernel.grad` needs; they are restored after a launch that repeats
        another one."""
        return self.scratch.last, self.launched, self.frame.launch_number

    @last_launch.setter
    def last_launch(self, last: tuple[Any, ...]) -> None:
        self.scratch.last, self.launched, self.frame.launch_number = last

    def written(self, args: Sequence[Any]) -> list[Memory]:
        """The memory that a launch with ``args`` writes."""
        return [memory for name, memory in self.memories(args).items() if name in self.writes]

    def wrote(self, args: Sequence[Any]) -> None:
        """Counts the writes of a launch that did not go through ``call`` in the versions of the written memory."""
        for memory in self.written(args):
            memory.version += 1
        if self.read_versions:
            self.launched = self.read_versions.now(*args)

    @property
    def last_code(self) -> tuple[N.Kernel, CompileOptions]:
        """The kernel that ran in the last launch, and the options that it was compiled with."""
        return (self.kernel, self.compiled.options) if self.stacks is None else self.stacks.last_code()

    @forks.lazy
    def bounds_checked(self) -> Plan:
        """This forward plan with checks of indices, for unusual data; the plan itself if none can be out of bounds."""
        from quadrants_lab.runtime.compile.compile import with_checked_bounds

        compiled = with_checked_bounds(self.compiled, self.session)
        return self if compiled is self.compiled else Plan(self.owner, self.session, compiled, self.last_launched)

    @property
    def sized_by(self) -> frozenset[str]:
        """The buffers whose data a gradient's stack sizes depend on, directly or through the kernel that counts."""
        found: frozenset[str] = frozenset() if self.stacks is None else self.stacks.sized_by
        return found

    @property
    def differentiable(self) -> bool:
        """Whether the kernel accesses anything that has a gradient."""
        return any(b.grad and not b.transient for b in self.compiled.lowered.kernel.buffers.values())

    @property
    def primal_reads(self) -> frozenset[str]:
        """The buffers, other than gradients, that a launch and the sizes of its stacks read."""
        return self.reads - {b.grad for b in self.kernel.buffers.values()} | self.sized_by

    def footprint(self, buffer: str, writes: bool) -> Footprint | None:
        """The elements of the buffer that launches write, or with ``writes`` False read; None if they access none."""
        key = buffer, writes
        if key not in self.footprints:
            from quadrants_lab.analysis.accesses import accesses_of

            info = self.facts.of(accesses_of)
            found = [a for a in info.of.values() if a.stmt.buffer == buffer and a.stmt.loads != writes]
            self.footprints[key] = Footprint(info, found, self.signature, self.fields) if found else None
        return self.footprints[key]

    @property
    def stored(self) -> list[tuple[str, Footprint, Footprint | None]]:
        """Buffers with boxes in which launches store every element, whatever the data; and with each the elements that
        a launch may read before that."""
        if self._stored is None:
            from quadrants_lab.analysis.accesses import accesses_of, certain_stores

            info = self.facts.of(accesses_of)

            def of(accesses: list[Access]) -> Footprint:
                return Footprint(info, accesses, self.signature, self.fields)

            found = certain_stores(info)
            self._stored = [(a.stmt.buffer, of([a]), of(reads) if reads else None) for a, reads in found]
        return self._stored

    def frames(self) -> list[Frame]:
        """All frames that a launch may use."""
        found: list[Frame] = [self.frame] if self.stacks is None else self.stacks.frames()
        return found

    def report(self) -> list[StackRow]:
        """A row for each adstack; a forward kernel has none."""
        found: list[StackRow] = [] if self.stacks is None else self.stacks.report()
        return found

    def given(self) -> F.KeptBuffers:
        """The buffers that another launch saved, bound for the next launch of this plan."""
        kept: F.KeptBuffers = {} if self.gradient is None else self.gradient.forward.kept()
        return kept

    def kept(self) -> list[KeptRow]:
        """A row for each buffer of overwritten values that the last launch read."""
        from quadrants_lab.adstack.report import kept_rows

        return kept_rows(self.facts, self.scratch.shapes)

    def drawn(self) -> int:
        """The number of the launch that determined the random draws of the last launch."""
        number: int = self.frame.launch_number if self.gradient is None else self.gradient.forward.number()
        return number


def _call_or(plan: Plan, otherwise: Launch, *args: Any) -> Any:
    with plan.session.lock:
        value = plan.call(*args)
    return otherwise(*args) if value is NotImplemented else value


# --- the closure of a plan ----------------------------------------------------------------------------------------


def launch_function(plan: Plan, miss: Launch | None, noting: Noting | None = None) -> Launch:
    """The closure of ``plan``. It decides whether a call fits, binds the arguments, notes the versions of the memory
    that the kernel reads, and starts the entry. ``miss`` gets calls that do not fit; None for `Plan.call`, whose caller
    holds the session's lock. ``noting``: a recording that is told of the launches."""
    of, given = plan.signature, plan.signature.given
    prepared = plan.prepare is not None
    lost = f"return miss({given})" if noting is None else noting.lost
    needless = "owner.replays or " * (plan.gradient is not None and plan.gradient.entry_alone)
    lines = [f"if not ({needless}prepare({given})): {lost}"] * prepared
    passed = []
    for p in of.parts:
        if p.slot.name in of.arrays:
            lines += _binding(p, lost, plan.session.backend.CAPABILITIES.on_host)
        if p.slot.kind != "template":
            passed.append(f"{p.x}_" if p.slot.name in of.arrays else p.x)
    lines += [f"{of.field(plan.fields[name])}.version += 1" for name in sorted(plan.writes & plan.fields.keys())]
    if plan.read_versions:
        lines.append(f"plan.launched = {', '.join(plan.read_versions.parts)},")
    if plan.compiled.mode == BOTH:  # this launch includes a forward launch, which becomes the last one
        lines.append("if last.plan is not None: last.plan.launched = ()")
    launch = f"r = entry({', '.join(passed)})"
    if plan.scratch.changes_memory:
        launch = f"try: {launch}\nexcept BaseException: put_back(({given}{',' * bool(of.parts)})); raise"
    lines += launch.split("\n")
    if plan.gradient_args:
        lines.append("bound.clear()")
        lines.append("if borrowed: unbind_gradients()" + ("" if noting is None else f"; {noting.given_back}"))
    if noting is not None and noting.done:
        lines.append(f"if r is not NotImplemented: {'; '.join(noting.done)}")
    if plan.single_return():
        lines.append("if r is not NotImplemented and r is not Ellipsis: return r")
    else:
        lines.append(f"if r is None: return {'returned()' if plan.compiled.returns else 'None'}")
    lines += [f"if r is NotImplemented: {lost}", f"return finish({given})"]
    text = [f"def launch({given}):", *(() if noting is None else noting.before())]
    if noting is not None:
        lines = noting.around(lines, prepared)
    text.append("    if True:" if miss is None else "    with lock:")
    text += [f"        {line}" for line in (*_checks(plan, prepared), *lines)]
    text += [f"    return miss({given})"] * (noting is not None)
    space = of.space | {
        "lock": plan.session.lock, "entry": plan.entry, "finish": plan.finish, "miss": miss or refuse,
        "prepare": plan.prepare, "returned": plan.returned, "owner": plan.owner, "plan": plan, "weak": plan.weak,
        "session": plan.session, "put_back": plan.scratch.put_back, "borrowed": plan.unbind, "bound": plan.bound,
        "last": plan.last_launched, "unbind_gradients": plan.unbind_gradients, "plain": plan.owner.of.plain,
        "here": plan.here, "met": None if plan.distinct is None else plan.distinct.met,
    }  # fmt: skip
    return function("launch", "\n".join(text), space if noting is None else space | noting.space)


def _binding(p: Part, lost: str, on_host: bool) -> list[str]:
    """The source lines that bind an array. They check its session, which may have another device, and its elements."""
    return [
        f"{p.x}_ = {p.x}",
        f"if {p.x}.__class__ is {p.ours}:",
        f"    {p.x}_ = {p.x}._memory",
        *[f"    if {p.x}_.session is not session: {lost}"] * (not on_host),
        *[f"    {p.x}_.version += 1"] * p.written,
        f"    {p.x}_ = {p.x}_.operand",
        *[f"if getattr({p.x}_, 'shape', ())[-{len(p.element)}:] != {p.element}: {lost}"] * bool(p.element),
    ]


def _checks(plan: Plan, prepared: bool) -> list[str]:
    """The source lines that pass a call to ``miss`` if its arguments need another plan."""
    of, given = plan.signature, plan.signature.given
    lines = []
    if any(p.slot.kind == "template" for p in of.parts):
        lines.append("here.last_plan = weak")  # the dispatcher may have several plans installed
    if plan.distinct is not None and plan.distinct.fields:  # the entry does not know fields
        lines.append(f"if session.exported and met(({given},)): return miss({given})")
    other: list[str] = []  # whether an array has a gradient may decide which specialisation it needs
    for p in of.arrays.values():
        has = f"({p.x}.__class__ is {p.ours} and {p.x}.grad is not None)"
        other += [f"not {has}" if p.has_gradient else has] * (p.has_gradient is not None)
    if prepared:  # `adopt` has to look at the .grad of arrays of other libraries
        other += [f"{p.x}.__class__ not in plain" for p in of.arrays.values()]
    return lines + [f"if {' or '.join(other)}: return miss({given})"] * bool(other)
