"""Finds the launch plan (a compiled kernel, ready to launch) for a call of a kernel, or makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants_lab.backends import forks
from quadrants_lab.errors import QuadrantsSyntaxError
from quadrants_lab.frontend.names import Names, recalling
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.ir.importing import importing, lazily
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.weak import Table
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.arguments import slots as A
from quadrants_lab.runtime.arguments.keys import Named, Specialisations, template_key
from quadrants_lab.runtime.arguments.slots import AnySlot
from quadrants_lab.runtime.interop.arrays import adopt, is_foreign, row_major
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.memory.memory import THREAD, TIMES
from quadrants_lab.runtime.memory.refusals import refusal
from quadrants_lab.runtime.observe import observers as W, tape_numbers
from quadrants_lab.runtime.observe.tape_numbers import TapeNumber

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.specialisation import Compiled
    from quadrants_lab.runtime.launch.frames import KeptBuffers
    from quadrants_lab.runtime.launch.plan import Plan

_by_templates = lazily("runtime.launch.signature", "by_templates")


@dataclass(slots=True, eq=False)
class SharedByModes:
    """What all modes of a kernel share for arguments of given types: what names meant first, and the last launch."""

    names: Names
    launched: W.Launched[Plan]


MakePlan = Callable[["Dispatcher", S.Session, "Compiled", "W.Launched[Plan]"], "Plan"]


@dataclass(frozen=True, slots=True)
class Modes:
    """What the dispatchers of a kernel share; there is one for each mode (forward, gradient ..). ``ndarray_classes``:
    those with numbers, vectors and matrices as elements; ``plain``: the classes of arguments that need no conversion;
    ``graph``: whether the kernel is launched as one graph."""

    source: FunctionSource
    make_slots: Callable[[], Sequence[AnySlot]]
    field_class: type
    ndarray_classes: tuple[type, ...]
    make_plan: MakePlan
    plain: frozenset[type]
    graph: bool = False


class Specialised:
    """The specialisations of a kernel, in one mode (``owner``) and one session. ``parameters``: the slots, which belong
    to the session because its options say what annotations like int mean. ``slots``: the leaves of the parameters.
    ``shared``: what all modes of the kernel share. ``last_plan``: a weak reference, unless `KEEPS_LAST`. ``summaries``:
    a Tape's `AccessSummaries`. ``two_launches``: the specialisations whose kernel and gradient cannot run as one
    launch. ``path``: the fast path for `Dispatcher.call`, or None. ``awake``: whether ``path`` is installed. ``paths``:
    template arguments -> fast path; ``path`` looks them up."""

    __slots__ = (
        "__weakref__", "awake", "last_plan", "owner", "parameters", "path", "paths", "plans", "session", "shared",
        "slots", "summaries", "two_launches",
    )  # fmt: skip

    def __init__(self, owner: Dispatcher, session: S.Session | None, parameters: Sequence[AnySlot]) -> None:
        self.owner = owner
        self.session = session
        self.path: Callable[..., Any] | None = None
        self.awake = False
        self.paths = _NO_PATHS
        self.parameters = parameters
        self.slots: Sequence[A.Slot] = tuple(leaf for slot in parameters for leaf in slot.leaves())
        self.plans: Specialisations[Plan] = Specialisations(_ended)
        self.shared: Specialisations[SharedByModes] = Specialisations()
        self.last_plan: Callable[[], Plan | None] = _no_plan
        self.summaries: Any = None
        self.two_launches: Table[Any, bool] = Table()

    def install(self, path: Callable[..., Any]) -> None:
        """Makes ``path`` the fast path and installs it."""
        self.use_path((path, self.paths))
        self.wakes()

    def suspend(self) -> None:
        """Uninstalls the fast path: calls go to `Dispatcher.resolve`, until one that nobody watches installs it."""
        self.awake = False
        if self.owner.here is self:
            self.owner.call = self.owner.resolve

    def wakes(self) -> bool:
        """Installs a suspended fast path, unless somebody watches; returns whether it did. Hold the session's lock."""
        if self.path is None or self.awake or self.session is None:
            return False
        # code that adds an observer, or changes the default session, reads this flag afterwards and waits for the lock
        self.session.awake = True
        if not W.watching() and S.default() is self.session:
            self.awake = True
            self.owner.call = self.path
        return self.awake

    def take_path(self) -> tuple[Any, ...]:
        """Removes the fast path and returns it, for a later `use_path`; the next call goes to `Dispatcher.resolve`."""
        self.suspend()
        taken, self.path, self.paths = (self.path, self.paths), None, _NO_PATHS
        return taken

    def use_path(self, path: tuple[Any, ...]) -> None:
        """Sets a fast path that `take_path` returned; it is suspended at first."""
        assert self.session is not None
        self.session.fast_paths.add(self)
        self.path, self.paths = path


_NO_PATHS: Specialisations[Callable[..., Any]] = Specialisations()  # stands for "no fast paths"


class Dispatcher:
    """Launches a kernel in one mode: "forward", "reverse", "dual" or "both" (see `ValueAndGrad`). ``here``: its
    specialisations in the session of the last call.

    Calling ``call`` launches. It takes positional arguments, flattened by `flat`. It is the fastest path known: the
    closure of a plan if one plan serves every call; a lookup by template arguments; or `resolve`, which checks the
    arguments, compiles what is missing, and installs one of the other two.
    """

    __slots__ = (
        "__weakref__", "_session", "_sessions", "call", "constant", "forward", "gradient", "here", "kept", "mode",
        "name", "of", "replays", "second", "variants",
    )  # fmt: skip

    def __init__(self, of: Modes, mode: str, constant: bool = False, second: bool = False) -> None:
        self.of = of
        self.name = of.source.name
        self.mode = mode
        self.constant = constant  # whether the results have no derivative
        self.second = second  # it computes tangents to be differentiated, or their gradient
        self.gradient: Dispatcher | None = None  # for a forward kernel: the dispatcher of its gradient
        self.forward: Dispatcher | None = None  # for a gradient: the dispatcher of its kernel
        self.kept: KeptBuffers | None = None  # for a gradient: what its forward launch has saved, or None
        self.replays = 0  # the number of the launch to repeat, or to differentiate; 0 for the last launch
        self.variants: dict[tuple[str, bool], Dispatcher] = {}  # (mode, constant) -> variant
        self.here = Specialised(self, None, ())
        self._session: S.Session | None = None
        self._sessions: dict[S.Session, Specialised] = {}
        self.call: Callable[..., Any] = self.resolve

    @property
    def slots(self) -> Sequence[A.Slot]:
        """The slots of the kernel's arguments in the session of the last call."""
        return self.here.slots

    @property
    def plans(self) -> Specialisations[Plan]:
        return self.here.plans

    @property
    def last(self) -> Plan | None:
        """The plan of the last launch; None before the first launch, or if an object that the plan needs has ended."""
        return self.here.last_plan()

    def resolve(self, *args: Any) -> Any:
        """Checks the arguments, finds or makes the plan, installs the fast path, launches."""
        observers = W.OBSERVERS.get()
        only = observers[0] if len(observers) == 1 else None
        if (rerun := getattr(only, "rerun", None)) is not None:
            if (value := rerun.launch(self, args)) is not NotImplemented:
                return value if value is None else tape_numbers.returned(value, self.last)
        elif (path := self.wakes()) is not None:
            return path(*args)
        copies = row_major(args)
        if copies is not None:
            try:
                return self.resolve(*copies)
            finally:
                for given, copy in zip(args, copies, strict=True):
                    if given is not copy and given.flags.writeable:
                        given[...] = copy
        now = S.current()
        with now.lock:
            now.must_live()
            asked = W.MODE.get(), W.CONSTANT.get()
            if self.mode == "forward" and not self.is_variant and asked != ("forward", False):
                return self.variant(*asked).resolve(*args)
            for arg in args:
                if arg.__class__ is TapeNumber:
                    value = self.resolve(*tape_numbers.plain(args))
                    tape_numbers.check(args, self.last)
                    return value
            again = getattr(only, "again", None)
            if again is not None and self._session is now and (value := again(self, args)) is not NotImplemented:
                return value if value is None else tape_numbers.returned(value, self.last)
            self.enter(now)
            args = self.checked(args)
            plan = self.plan(now, args)
            self.note(plan)
            if self.mode in ("reverse", "both"):
                for memory in plan.written(args):
                    memory.owner = THREAD.number
            if observers:
                value = self._observed(plan, args)
                return value if value is None else tape_numbers.returned(value, plan)
            if not W.watching():
                self._install(plan, args)
            elif W.OBSERVERS.get(None) is None:  # another thread watches, not this one
                for memory in plan.written(args):
                    memory.unseen = next(TIMES)
            return self.launch(plan, args)

    def wakes(self) -> Callable[..., Any] | None:
        """Installs a suspended fast path, unless somebody watches launches, and returns it; otherwise None."""
        if W.watching():
            return None
        now = S.current()
        with now.lock:
            now.must_live()
            self.enter(now)
            return self.here.path if self.here.wakes() else None

    def note(self, plan: Plan) -> None:
        """Records the launch. If the last was in another mode, its fast path, which records nothing, is removed."""
        self.here.last_plan, noted = plan.weak, plan.noted
        if noted.plan is not plan:
            last, noted.plan = noted.plan, plan
            if last is not None:
                last.here.take_path()

    def launch(self, plan: Plan, args: Sequence[Any]) -> Any:
        """Launches the kernel on arguments that `checked` returned."""
        value = self._launch(plan, args, self._launch_refused)
        assert value is not NotImplemented, f"kernel {self.name} refused checked arguments: {args!r}"
        return value

    def _launch(self, plan: Plan, args: Sequence[Any], refused: Callable[[Plan, Sequence[Any]], Any]) -> Any:
        foreign = plan.takes_arrays and any(m is not None and m.foreign for m in map(memory_of, args))
        if foreign:
            plan.foreign.before(args, bool(self.replays))
        try:
            value = plan.call(*args)
            return refused(plan, args) if value is NotImplemented else value
        finally:
            if foreign:
                plan.foreign.after(args)

    def launch_by(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        """Launches checked arguments by a plan that was found for them earlier, even if attributes or lists that the
        kernel reads have changed since then. The caller holds the session's lock."""
        self.note(plan)
        return self._observed(plan, args) if W.OBSERVERS.get() else self.launch(plan, args)

    def enter(self, now: S.Session) -> None:
        """Switches to the specialisations of the session ``now``."""
        if self._session is not now:
            if now not in self._sessions or not (self._session is None or self._session.alive):
                self._sessions = {session: here for session, here in self._sessions.items() if session.alive}
            if now not in self._sessions:
                self._sessions[now] = Specialised(self, now, tuple(self.of.make_slots()))
            self.here.awake = False
            self._session, self.here, self.call = now, self._sessions[now], self.resolve

    def flat(self, args: Sequence[Any]) -> list[Any]:
        """The kernel's arguments in the form that ``call`` takes: vectors, matrices and structs are flattened."""
        now = S.current()
        if self._session is not now:
            with now.lock:
                now.must_live()
                self.enter(now)
        slots = zip(self.here.parameters, args, strict=True)
        return [leaf for slot, arg in slots for leaf in slot.flatten(arg, self.name)]

    def checked(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments in the form that plans take; raises an error that names the argument if one is wrong."""
        if len(args) != len(self.slots):
            raise arity_error(self.name, [s.name for s in self.slots], len(args))
        now = S.current()
        ours = self.adopted(args, now)
        for slot, memory in zip(self.slots, map(memory_of, ours), strict=True):
            if memory is None or memory.session is now or slot.kind != "array":
                continue
            if not (now.backend.CAPABILITIES.on_host and memory.session.backend.CAPABILITIES.on_host):
                raise S.wrong_session(memory.session, f"argument {slot.name!r} of {self.name}")
        return tuple(s.convert(a, self.name) for s, a in zip(self.slots, ours, strict=True))

    def adopted(self, args: Sequence[Any], now: S.Session) -> list[Any]:
        """The arguments; arrays of other libraries are replaced by ndarrays or numpy arrays over the same memory."""
        return [
            adopt(arg, slot, self.name, now, self.of.ndarray_classes)
            if arg.__class__ not in self.of.plain and slot.kind == "array" and is_foreign(arg)
            else arg
            for slot, arg in zip(self.slots, args, strict=False)
        ]

    @property
    def root(self) -> Dispatcher:
        """The dispatcher of the kernel itself; this one may serve one of its modes."""
        return self if self.forward is None else self.forward.root

    @property
    def is_variant(self) -> bool:
        """Whether this is a variant in mode "forward"."""
        return self.constant or self.second

    def variant(self, mode: str, constant: bool) -> Dispatcher:
        """The dispatcher that serves the kernel's forward calls in another mode. Mode "second": the result can be
        differentiated twice. ``constant``: the results and their gradient have no derivative."""
        if (mode, constant) not in self.variants:
            second = mode == "second"
            made = Dispatcher(self.of, "forward" if second else mode, constant, second)
            made.gradient, made.forward = self.gradient, self
            if made.is_variant:
                made.gradient = Dispatcher(self.of, "reverse", constant, second)
                made.gradient.forward = made
            self.variants[mode, constant] = made
        return self.variants[mode, constant]

    def plan_for(self, now: S.Session, args: Sequence[Any]) -> Plan:
        """The plan for arguments that another mode of the kernel has taken."""
        with now.lock:
            now.must_live()
            self.enter(now)
            return self.plan(now, self.checked(args))

    def plan(self, now: S.Session, args: Sequence[Any]) -> Plan:
        """The plan for checked arguments; compiles it if there is none yet."""
        named: Named = []
        key, specs = A.specialise(self.slots, args, named)
        options = S.compile_options(now)
        key = (key, options, now.placements)
        plan = self.plans.find(key) or self._made(now, key, named, specs)
        if plan.distinct is not None and plan.distinct.met(args):
            with S.checking("aliases"):
                return self.plan(now, args)
        return plan

    def _made(self, now: S.Session, key: Any, named: Named, specs: Sequence[Any]) -> Plan:
        """Compiles the plan. The key mentions the objects ``named``."""
        began = perf_counter()
        with forks.deferred():  # a child forked during an import would wait for ever for the half imported module
            with importing():
                from quadrants_lab.runtime.compile.kernel_cache import cached_kernel

            given = iter(specs)
            whole = [slot.whole(given) for slot in self.here.parameters]
            forward = None if self.forward is None else self.forward.plans.find(key)
            other = None if forward is None else forward.compiled
            first, (arguments, _, placements) = self.root, key
            first.enter(now)
            shared = first.here.shared.find((arguments, placements))
            names = Names() if shared is None else shared.names
            with recalling(names):
                compiled = cached_kernel(self.of.source, whole, self.mode, now, self.constant, self.second, other)
            compiled.let_go(named)
            if shared is None:
                shared = SharedByModes(names, W.Launched())
                first.here.shared.add((arguments, placements), named, compiled.reads, shared)
            start = perf_counter()
            plan = self.of.make_plan(self, now, compiled, shared.launched)
            compiled.clock.end(began, start)
            self.plans.add(key, named, compiled.reads, plan)
            return plan

    def retry(self, plan: Plan) -> Callable[..., Any]:
        """A function for calls that the plan's closure refused. It converts numbers of numpy and Tapes to Python's, and
        arrays of other libraries to ours, and calls the closure again, or else `resolve`."""
        def call(*args: Any) -> Any:
            with plan.session.lock:
                numbers = tape_numbers.plain(self.adopted(args, plan.session))
                ours = [a.item() if isinstance(a, np.generic) else a for a in numbers]
                value = self._launch(plan, ours, W.refuse)
            return self.resolve(*args) if value is NotImplemented else value

        return call

    def _install(self, plan: Plan, args: Sequence[Any]) -> None:
        here = self.here
        templates = [n for n, slot in enumerate(self.slots) if slot.kind == "template"]
        reads, named = plan.compiled.reads, Named()
        if not templates and not reads:
            here.install(plan.fast)
            return
        key = tuple([template_key(args[n], named) for n in templates])
        if here.paths is _NO_PATHS:
            here.paths = Specialisations()
        here.paths.add(key, named, reads, plan.fast)
        find = here.paths.find if here.paths.others else here.paths.plain.get
        here.install(_by_templates(self.slots, self.of.field_class, find, self.resolve))

    def _observed(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        # the first observer wraps the launch most closely: a recorder's clock then leaves out a Tape's copying
        watchers = [(o, o.before(plan, args)) for o in reversed(W.OBSERVERS.get())]
        failed = True
        try:
            value = self.launch(plan, args)
            failed = False
            return value
        finally:
            for observer, token in reversed(watchers):
                observer.after(plan, args, token, failed)

    def _launch_refused(self, plan: Plan, args: Sequence[Any]) -> Any:
        """Launches checked arguments with scalars that the closure refused, by setters. Refuses read-only arrays."""
        for slot, arg in zip(self.slots, args, strict=True):
            writes = slot.kind == "array" and slot.name in plan.writes
            if writes and isinstance(arg, np.ndarray) and not arg.flags.writeable:
                raise refusal("QL2048", f"argument {slot.name!r}", kernel=self.name, kind="numpy array")
        return plan.slowly(*args)


def _no_plan() -> None:
    """Stands in `Specialised.last_plan` for a weak reference before the first launch; returns None."""


def _ended(plan: Plan) -> None:
    """Call this when an object that the plan was made for has ended. The memory of fields that have ended is added to
    the session's count of garbage; Python frees it when it next collects unreachable objects."""
    here = plan.here
    if here.last_plan is plan.weak and not W.KEEPS_LAST.get():
        here.last_plan = _no_plan
    lent = getattr(plan.compiled.lowered.bindings, "lent", ())
    plan.session.unreachable += sum(memory.operand.nbytes for name, memory in plan.fields.items() if name in lent)


def arity_error(name: str, names: Sequence[str], got: int) -> QuadrantsSyntaxError:
    what = f"takes {len(names)} argument{'' if len(names) == 1 else 's'}, {got} were given"
    missing = ", ".join(names[got:])
    return QuadrantsSyntaxError(
        f"kernel {name} {what}",
        code="QL2049",
        help=f"missing: {missing}" if missing else f"it takes ({', '.join(names)})",
    )


class ValueAndGrad(Dispatcher):
    """Launches a kernel and its gradient as one kernel. It launches them one after the other if they cannot be
    combined, if launches are observed or recorded, and in checked modes. ``forward``: the kernel's own dispatcher."""

    __slots__ = ()

    def resolve(self, *args: Any) -> Any:
        if (path := self.wakes()) is not None:
            return path(*args)
        now = S.current()
        with now.lock:
            now.must_live()
            options = S.compile_options(now)
            watched = bool(W.OBSERVERS.get()) or W.watching() or (W.MODE.get(), W.CONSTANT.get()) != ("forward", False)
            if not (watched or options.debug or options.check_races):
                self.enter(now)
                args = self.checked(args)
                plan = None
                with forks.deferred():
                    from quadrants_lab.runtime.compile.specialisation import TwoLaunchesError
                if W.open_recording() is None:
                    with suppress(TwoLaunchesError):
                        plan = self.plan(now, args)
                if plan is not None:
                    self.here.last_plan = plan.weak
                    self._install(plan, args)
                    return self.launch(plan, args)
                if all(slot.kind != "template" for slot in self.slots):
                    self.here.install(self.launch_both)
        return self.launch_both(*args)

    def launch_both(self, *args: Any) -> Any:
        """Launches the kernel, then its gradient."""
        assert self.forward is not None
        assert self.forward.gradient is not None
        value = self.forward.call(*args)
        self.forward.gradient.call(*args)
        return value

    def _made(self, now: S.Session, key: Any, named: Named, specs: Any) -> Plan:
        from quadrants_lab.runtime.compile.specialisation import TwoLaunchesError

        if key in self.here.two_launches:
            raise TwoLaunchesError
        try:
            return super()._made(now, key, named, specs)
        except TwoLaunchesError:
            self.here.two_launches.put(key, True, named)
            raise
