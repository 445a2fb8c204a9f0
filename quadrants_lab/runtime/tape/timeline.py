"""Writes the timeline of a program under a Tape: when each launch and each gradient ran, and how many bytes the
Tape had saved then, in the trace event format that Perfetto and chrome://tracing read
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from quadrants_lab.runtime.compile.specialisation import Compiled
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.parts import Account

FORWARD, GRADIENT, AGAIN, COMPILE = range(4)
TRACKS = ("forward", "gradient", "run again", "compile")
Noted: TypeAlias = "tuple[Compiled, int, float, float, int, object]"


@dataclass(frozen=True, slots=True)
class Ran:
    """A launch, or what was compiled for one: its kernel, the index of its track, the times when it began and ended
    (seconds). ``kept``: bytes that the Tape held at its end. ``of``: a launch and its gradient have the same one; for a
    repeated program, it is the index of the step. ``place``: file and line."""

    kernel: str
    track: int
    begin: float
    end: float
    kept: int
    of: object
    place: str


class Tracing:
    """Times the launches of a Tape. ``waits``: it waits for the end of each launch, so that times are the device's.
    ``noted``: the code of each launch, with all but the last member of its `Ran`; ``runs``: notes of a recording, each
    of many launches (`record.log.Run`)."""

    def __init__(self, account: Account, waits: bool) -> None:
        self.account = account
        self.waits = waits
        self.began = perf_counter()
        self.noted: list[Noted] = []
        self.runs: list[Any] = []

    def now(self, plan: Plan) -> float:
        """Waits for everything that the plan's session has launched; returns the time."""
        if self.waits:
            plan.session.finish()
        return perf_counter()

    def note(self, plan: Plan, track: int, begin: float, of: object, end: float = 0.0) -> None:
        """Notes a launch that began at ``begin``. ``end``: when it ended, if that was not just now."""
        self.noted.append((plan.compiled, track, begin, end or self.now(plan), self.account.used, of))

    def launch(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        """Launches the plan, and records when it ran."""
        begin = self.now(plan)
        value = plan.owner.launch(plan, args)
        self.note(plan, AGAIN, begin, None)
        return value

    @property
    def ran(self) -> list[Ran]:
        """The launches in the order in which they ended, and behind them what was compiled for them."""
        of_runs = [
            (x.plan.compiled, GRADIENT if run.back else FORWARD, x.began, x.ended, 0, x.at)
            for run in self.runs for x in run.launches()
        ]  # fmt: skip
        noted = sorted([*self.noted, *of_runs], key=itemgetter(3))
        return [self._ran(*x) for x in [*noted, *self._compiled(noted)]]

    def _ran(self, compiled: Compiled, track: int, begin: float, end: float, kept: int, of: object) -> Ran:
        kernel, since = compiled.lowered.kernel, self.began
        place = f"{kernel.span.file}, line {kernel.span.line}" if kernel.span is not None else ""
        return Ran(kernel.name, track, begin - since, end - since, kept, of, place)

    def _compiled(self, all_noted: Sequence[Noted]) -> Iterator[Noted]:
        """What was compiled since the Tape began. What it kept then is what it kept at the end of the launch before."""
        ends = [noted[3] for noted in all_noted]
        for compiled in {id(noted[0]): noted[0] for noted in all_noted}.values():
            begin, end = compiled.clock.began, compiled.clock.ended
            if begin >= self.began:
                before = bisect_right(ends, end) - 1
                yield compiled, COMPILE, begin, end, all_noted[before][4] if before >= 0 else 0, None


def pairs(ran: Sequence[Ran]) -> dict[int, int]:
    """Maps the index of each gradient to the index of its launch."""
    launched: dict[object, int] = {}
    found: dict[int, int] = {}
    for n, x in enumerate(ran):
        if x.track == FORWARD:
            launched[x.of] = n
        elif x.track == GRADIENT and x.of in launched:
            found[n] = launched.pop(x.of)
    return found


def events(ran: Sequence[Ran]) -> list[dict[str, Any]]:
    """The events: a slice ("X") for each launch, on a track for each of `TRACKS`, an arrow ("s", "f") from each launch
    to its gradient, and a counter ("C") of the saved bytes. Times are in microseconds."""
    found: list[dict[str, Any]] = [_named("process_name", 0, name="Tape")]
    for n, name in enumerate(TRACKS, 1):
        found += [_named("thread_name", n, name=name), _named("thread_sort_index", n, sort_index=n)]
    arrows = pairs(ran)
    begins = set(arrows.values())
    for n, x in enumerate(ran):
        at, track = 1e6 * x.begin, x.track + 1
        place = {"source": x.place} if x.place else {}
        number = {} if x.track == COMPILE else {"launch": n + 1}
        found.append({
            "ph": "X", "name": x.kernel, "cat": TRACKS[x.track], "pid": 1, "tid": track, "ts": at,
            "dur": 1e6 * (x.end - x.begin), "args": {**number, **place},
        })  # fmt: skip
        if x.track == COMPILE:
            continue
        if n == 0 or x.kept != ran[n - 1].kept:
            found.append(_counter(1e6 * x.end, x.kept))
        arrow = {"name": "gradient of", "cat": "gradient of", "pid": 1, "tid": track, "ts": at}
        if n in begins:
            found.append({"ph": "s", "id": n, **arrow})
        elif n in arrows:
            found.append({"ph": "f", "bp": "e", "id": arrows[n], **arrow})
    return [*found, _counter(1e6 * max((x.end for x in ran), default=0.0), 0)]


def as_json(ran: Sequence[Ran], about: dict[str, Any]) -> str:
    """The events as the text of a file. ``about``: further data, which viewers show."""
    return json.dumps({"traceEvents": events(ran), "displayTimeUnit": "ms", "otherData": about})


def write(path: str | Path, ran: Sequence[Ran], about: dict[str, Any]) -> Path:
    """Writes the events to a file and returns its absolute path."""
    out = Path(path).absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(as_json(ran, about), encoding="utf-8")
    return out


def _named(what: str, track: int, **args: object) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": track, "args": args}


def _counter(at: float, kept: int) -> dict[str, Any]:
    return {"ph": "C", "name": "kept by the Tape", "pid": 1, "tid": 0, "ts": at, "args": {"bytes": kept}}
