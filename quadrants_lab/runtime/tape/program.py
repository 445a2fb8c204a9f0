"""Implements `qd.ad.program`, which records the launches of a Python function and repeats them without running the
function.

A `Program` stores the launches of a call under a key of everything that the function reads. When a later call has the
same key, the launches are repeated: one by one on the CPU, as one captured graph on CUDA. A function that reads or
writes fields in Python is not recorded, because that could not be repeated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quadrants_lab.errors import QuadrantsWarning, render
from quadrants_lab.ir.weak import has_weak, strong, weak
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.arguments.keys import Named, Reads, Specialisations, state, template_key
from quadrants_lab.runtime.interop.arrays import is_foreign
from quadrants_lab.runtime.launch.dispatch import Dispatcher
from quadrants_lab.runtime.memory.identity import memory_of
from quadrants_lab.runtime.observe.observers import OBSERVERS, Observer, watch
from quadrants_lab.runtime.tape.environment import environment_key
from quadrants_lab.runtime.tape.recorder import Launches
from quadrants_lab.runtime.tape.recording import Recording, surroundings

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan

Call = tuple["Dispatcher", "Plan", tuple[Any, ...]]

MOST = 16  # the most recordings that a program keeps
_HELP = "a program launches kernels and does nothing else with fields; set and read them outside, or by kernels"


class Calls(Observer):
    """An observer that lists launches. ``why_not``: why repeating them would not do the same as calling the function,
    "" if it would."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.choices: list[Hashable] = []  # for each launch: what its plan was chosen by
        self.why_not = ""
        self.thread = get_ident()

    def after(self, plan: Plan, args: tuple[Any, ...], token: Any, failed: bool) -> None:
        name = plan.kernel.name
        if any(memory is not None and memory.foreign for memory in map(memory_of, args)):
            self.why_not = f"kernel {name} uses memory of another library"
        elif plan.numpy_arrays(args):
            self.why_not = f"kernel {name} uses a numpy array"
        elif plan.compiled.returns:
            self.why_not = f"kernel {name} returns a value to Python"
        elif failed:
            self.why_not = f"a launch of {name} failed"
        self.calls.append((plan.owner, plan, args))
        self.choices.append(_choice(plan, args))

    def choices_hold(self) -> bool:
        """Whether the same plan would be chosen for each launch now. This is false if the function changes an attribute
        or a list between launches, even if it changes it back."""
        return self.choices == [_choice(plan, args) for _, plan, args in self.calls]

    def touched(self, what: object) -> None:
        """Called when Python reads or writes a field or ndarray."""
        if get_ident() == self.thread:
            self.why_not = f"it reads or writes {what!r} in Python"


class Launch(NamedTuple):
    """A recorded launch. ``args``: for each argument a function that returns it, by a weak reference if it is an object
    of the program. ``given``: the arguments themselves if they are only numbers and templates, which a plan does not
    check; else empty."""

    dispatcher: Dispatcher
    plan: Plan
    args: tuple[Callable[[], Any], ...]
    given: tuple[Any, ...]


def _launch(dispatcher: Dispatcher, plan: Plan, args: tuple[Any, ...], named: set[int]) -> Launch:
    """Makes a `Launch`. ``named``: ids of objects that exist without the recording; they are referred to weakly. Arrays
    that the function itself makes are kept alive."""
    arrays = [slot.kind == "array" for slot in plan.slots]
    own = [is_array and id(arg) not in named for is_array, arg in zip(arrays, args, strict=True)]
    found = tuple([strong(arg) if kept else weak(arg) for arg, kept in zip(args, own, strict=True)])
    slots = zip(plan.slots, args, strict=True)
    given = () if any(arrays) else tuple([None if s.kind == "template" else arg for s, arg in slots])
    return Launch(dispatcher, plan, found, given)


class Repeated(Recording):
    """The recorded launches of one call. ``named``: the objects that the key of the call mentions."""

    def __init__(self, calls: list[Call], named: Named) -> None:
        super().__init__(calls[0][1].session, [plan for _, plan, _ in calls])
        ids = set(map(id, named))
        self.launches = [_launch(*call, ids) for call in calls]

    def needs(self) -> list[Any]:
        """The objects to which the recording has weak references."""
        found = [of for launch in self.launches for of in (*launch.args, *launch.plan.compiled.named)]
        return [one for of in found if has_weak(one := of())]

    def run(self) -> None:
        """Repeats the launches outside of a Tape."""
        if self.start(lambda: self._launch_all, []):
            for dispatcher, plan, args, given in self.launches:
                dispatcher.note(plan)
                plan.wrote(given or [of() for of in args])
            return
        with self.session.lock:
            for dispatcher, plan, args, given in self.launches:
                dispatcher.note(plan)
                if plan.call(*(given or [of() for of in args])) is NotImplemented:
                    self.capture = None  # the plan no longer takes these arguments
                    dispatcher.call(*[of() for of in args])

    def _launch_all(self) -> None:
        for _, plan, args, given in self.launches:
            plan.call(*(given or [of() for of in args]))

    def under_tape(self) -> None:
        """Repeats the launches under a Tape."""
        for launch in self.launches:
            launch.dispatcher.call(*[of() for of in launch.args])


class Program:
    """A function ``fn`` with the recorded launches of its calls. A recording is looked up by the circumstances of the
    call (`recording.surroundings`) and by a key of all that the function and its kernels read (`environment_key`); it
    is False for a call that cannot be recorded, so Python runs it."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.known: Specialisations[Repeated | bool] = Specialisations()
        self.session = -1  # the serial of the session in which the recordings were made
        self.names: set[str] = set()  # names in the code, for `environment_key`
        self.warned = False

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        observers = OBSERVERS.get()
        tape = observers[0] if len(observers) == 1 and isinstance(observers[0], Launches) else None
        plain = tape is not None and not (tape.paused or tape.repeatable)
        if (observers and not plain) or any(map(_is_array, (*args, *kwargs.values()))):
            return self.fn(*args, **kwargs)
        now = S.current()
        if self.session != now.serial:
            self.session, self.known = now.serial, Specialisations()
        key = surroundings(now), environment_key((self.fn, args, kwargs), self.names)
        found = self.known.find(key)
        if found is None:
            return self._record(key, args, kwargs)
        if not isinstance(found, Repeated):
            return self.fn(*args, **kwargs)
        if tape is None:
            found.run()
        else:
            with now.lock:
                found.under_tape()
        return None

    def _record(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        calls = Calls()
        with watch(calls), S.current().observing_fields(calls.touched):
            value = self.fn(*args, **kwargs)
        why_not = calls.why_not or ("it returns a value" if value is not None else "")
        named: Named = []
        same = calls.choices_hold() and environment_key((self.fn, args, kwargs), self.names, named) == key[-1]
        if not (why_not or same):
            why_not = "it changes what it reads: a variable, an attribute, or what is in a list or dict"
        if len(self.known) >= MOST:
            self.known = Specialisations()
        if not calls.calls or why_not:
            self.known.add(key, named, (), False)
        else:
            made = Repeated(calls.calls, named)
            self.known.add(key, named + made.needs(), _reads(calls.calls), made)
        if why_not and not self.warned:
            self.warned = True
            says = f"qd.ad.program: {self.fn.__name__} is run by Python each time, for {why_not}"
            warnings.warn(render("QL2102", says, (), _HELP, kind="warning"), QuadrantsWarning, stacklevel=4)
        return value


def _reads(calls: list[Call]) -> Reads:
    """The attributes that the kernels read."""
    reads = [read for _, plan, _ in calls for read in plan.compiled.reads]
    return tuple({(id(of()), name): (of, name) for of, name in reads}.values())


def _choice(plan: Plan, args: Sequence[Any]) -> Hashable:
    """What decides which plan launches a kernel and may change while the arguments are the same objects."""
    slots = zip(plan.slots, args, strict=True)
    return state(plan.compiled.reads), *(template_key(a) for s, a in slots if s.kind == "template")


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_foreign(value)
