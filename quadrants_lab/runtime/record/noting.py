"""Makes closures of plans that also write their launches to the log of a recording (`log`), so that recorded launches
stay fast; and `TIMER`, a thread that looks at the clock for them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Lock, Thread
from time import perf_counter, sleep
from typing import Any
from weakref import ref

from quadrants_lab.analysis.facts import draws
from quadrants_lab.runtime.compile.specialisation import REVERSE
from quadrants_lab.runtime.launch.plan import Plan, launch_function
from quadrants_lab.runtime.launch.signature import Launch, Signature
from quadrants_lab.runtime.memory.memory import Head


class Noted(Head):
    """The head of a note (an entry of the log) about a launch of the plan. The note consists of this object and a value
    for each of ``names``, ``step`` items in all. Names are ``a0``, ``a1``, ... for arguments, the names in `EXTRAS`,
    and ``kept`` followed by the name of a buffer. ``under_tape``: launches under a Tape are noted with this head, too.
    """

    __slots__ = ("names", "plan", "step", "under_tape")

    def __init__(self, plan: Plan, names: Sequence[str], under_tape: bool = False) -> None:
        self.plan = plan
        self.under_tape = under_tape
        self.names = tuple(names)
        self.step = 1 + len(self.names)

    def place(self, name: str) -> int:
        """How many items after the head the value of ``name`` is; 0 if the note does not have it."""
        return self.names.index(name) + 1 if name in self.names else 0


EXTRAS = {
    "depths": "plan.stacks.depths",
    "standing": "plan.standing",
    # for a launch that repeats or differentiates an earlier one: the number of that launch; 0 outside of a Tape
    "replays": "owner.replays",
    "number": "plan.frame.launch_number",  # the launch number, on which random draws depend; the launch sets it
}
# the names that `note` sets in the globals of a closure, besides ``late`` and ``slowly``
NAMES = ("hook", "copied", "note", "notes", "missed", "failed", "borrowed_back", "took", "mark", "find")


class Miss(Exception):
    """Raised within a closure that notes launches, if the call does not fit the plan, so there was no launch."""


def of_launch(plan: Plan) -> list[str]:
    """The names that the notes of every launch of the plan have."""
    names = [p.x for p in plan.signature.parts if p.slot.kind != "template"]
    return names + ["depths", "standing"] * (plan.stacks is not None)


def noted(plan: Plan, under_tape: bool) -> Noted:
    """The head of the notes that the closure of a plan writes."""
    random, back = plan.facts.of(draws), plan.compiled.mode == REVERSE
    names = of_launch(plan) + ["replays"] * (under_tape or back)
    names += [f"kept {name}" for name in sorted(plan.scratch.keeps)]
    return Noted(plan, names + ["number"] * (random or (under_tape and not back)), under_tape)


def note(plan: Plan, way: str, timed: bool, **names: Any) -> Noted:
    """Installs a closure that notes launches, in place of ``call`` or ``fast`` of the plan (``way``); returns the head
    of its notes.

    The closure uses the names in `NAMES`, and two more. It calls ``slowly`` instead if ``late``, a list, is not empty,
    or if the memory of an array is not ``recorded`` by ``hook``; but for such an array ``copied`` may return what to
    note. ``note`` and ``notes`` are called with one item, or several, to note; ``missed`` if there was no launch after
    all; ``failed`` if an error ended it; ``borrowed_back`` if gradients were added up after it; and if ``timed``,
    ``took`` with its seconds. Memory of values that are saved for a gradient gets the ``mark``; if the gradient meets
    memory with another mark, ``find`` is called.
    """
    closure: Any = plan.noting.get((way, timed))
    if closure is None:
        closure = plan.noting[way, timed] = Closure(plan, way, timed)
    closure.function.__globals__.update(names)
    if getattr(plan, way) is not closure.function:
        setattr(plan, way, closure.function)
        plan.here.take_path()
    head: Noted = closure.head
    return head


class Closure:
    """The closure of a plan with lines that note its launches (`observers.Noting`)."""

    lost, given_back = "raise Miss", "borrowed_back()"

    def __init__(self, plan: Plan, way: str, timed: bool) -> None:
        self.head = noted(plan, under_tape=way == "call")
        self.timed = timed
        self.done = [f"note({EXTRAS['number']})"] * ("number" in self.head.names) + ["took(clock() - now)"] * timed
        self.space = {"clock": perf_counter, "me": self.head, "Miss": Miss, "memories": plan.scratch.memories}
        self.function = launch_function(plan, None if way == "call" else plan.owner.retry(plan), self)

    def end(self, again: Launch) -> None:
        self.function.__globals__.update(late=[True], slowly=again, **dict.fromkeys(NAMES))

    def before(self) -> list[str]:
        return _elsewhere(self.head.plan.signature) + ["    now = clock()"] * self.timed

    def around(self, lines: list[str], prepared: bool) -> list[str]:
        plan, keeps = self.head.plan, sorted(self.head.plan.scratch.keeps)
        of = {p.x: f"{p.x}n" if p.slot.name in plan.signature.arrays else p.x for p in plan.signature.parts}
        first = ["me", *(of[name] for name in self.head.names if name in of)]
        second = [EXTRAS[name] for name in self.head.names if name in EXTRAS and name != "number"]
        second += [f"k{n}" for n in range(len(keeps))]
        if not prepared:
            first, second = first + second, []
        marked = "if k{0}.recorded is not mark: find(k{0})" if plan.compiled.mode == REVERSE else "k{0}.recorded = mark"
        kept = [f"k{n} = memories[{name!r}]" for n, name in enumerate(keeps)]
        kept += [marked.format(n) for n in range(len(keeps))]
        lines = [*_noting(first), *lines[:prepared], *kept, *_noting(second), *lines[prepared:]]
        lines = ["try:", *(f"    {line}" for line in lines), "except Miss: missed()"]
        return [*lines, "except BaseException: failed(); raise"]


def _elsewhere(of: Signature) -> list[str]:
    """Source lines that call ``slowly`` for launches that the closure cannot note. ``a0n`` is the noted value of an
    array ``a0``."""
    lines = []
    for p in of.arrays.values():
        hooked = [f"{p.x}.__class__ is {p.ours}", f"{p.x}._memory.recorded is hook"]
        hooked += [f"{p.x}.{which}._memory.recorded is hook" for which in p.derivatives]
        lines += [f"if {' and '.join(hooked)}: {p.x}n = {p.x}", f"elif {p.x}.__class__ not in plain:"]
        lines += [f"    return miss({of.given})", f"else: {p.x}n = copied({p.x})"]
    lines += [f"if {' or '.join(['late', *(f'{p.x}n is None' for p in of.arrays.values())])}:"]
    lines += [f"    r = slowly({of.given})", f"    return miss({of.given}) if r is NotImplemented else r"]
    return [f"    {line}" for line in lines]


def _noting(what: list[str]) -> list[str]:
    return [f"notes(({', '.join(what)}))"] if len(what) > 2 else [f"note({x})" for x in what]


EACH = 0.02  # it looks once in so many seconds


class Timer:
    """A thread that tells closures when a stretch should end. If a closure looked at the clock in each launch, that
    would take as long as everything else that it does to note a launch. The thread watches one recorder, the last one
    that called `watch`. It is started once, and sleeps while there is no recorder to watch."""

    def __init__(self) -> None:
        self._recorder: ref[Any] | None = None
        self._lock = Lock()
        self._wanted = Event()
        self._thread: Thread | None = None

    def watch(self, recorder: Any) -> None:
        if self._recorder is not None and self._recorder() is recorder and self._wanted.is_set():
            return
        with self._lock:
            self._recorder = ref(recorder)
            self._wanted.set()
            if self._thread is None or not self._thread.is_alive():  # in the child of a fork the thread is gone
                self._thread = Thread(target=self._run, name="recorder", daemon=True)
                self._thread.start()

    def look(self) -> None:
        """Ends a stretch that is due. Stops watching if the recorder is gone, or if no closure notes launches."""
        with self._lock:
            recorder = None if self._recorder is None else self._recorder()
            stretch = None if recorder is None else recorder.now
            if recorder is None or recorder.took:
                self._wanted.clear()
            elif stretch is not None and perf_counter() > stretch.due:
                stretch.late.append(True)

    def _run(self) -> None:
        while self._wanted.wait():
            sleep(EACH)
            self.look()


TIMER = Timer()
