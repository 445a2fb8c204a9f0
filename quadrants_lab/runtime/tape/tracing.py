"""The timeline of a program under a Tape: when each launch and each gradient ran, and how many bytes the Tape had saved
then, in the trace event format that Perfetto and chrome://tracing read
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.parts import Account

FORWARD, GRADIENT, AGAIN = range(3)
TRACKS = ("forward", "gradient", "run again")


@dataclass(frozen=True, slots=True)
class Ran:
    """A launch: its kernel, the index of its track, and when it began and ended (seconds). ``kept``: how many bytes the
    Tape had saved at its end. ``of``: equal for a launch and its gradient; for a repeated program, the index of the
    step. ``place``: file and line."""

    kernel: str
    track: int
    begin: float
    end: float
    kept: int
    of: object
    place: str


class Tracing:
    """Measures when the launches of a Tape run. ``waits``: wait for the end of each launch, so that times are the
    device's."""

    def __init__(self, account: Account, waits: bool) -> None:
        self.account = account
        self.waits = waits
        self.began = perf_counter()
        self._noted: list[tuple[Any, ...]] = []

    def now(self, plan: Plan) -> float:
        """Waits for everything that the plan's session has launched; returns the time."""
        if self.waits:
            plan.session.finish()
        return perf_counter()

    def note(self, plan: Plan, track: int, begin: float, of: object) -> None:
        """Records a launch that began at ``begin`` and has just ended."""
        if self.waits:  # the same as `now`, without a call in each launch
            plan.session.finish()
        self._noted.append((plan.compiled.lowered.kernel, track, begin, perf_counter(), self.account.used, of))

    def launch(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        """Launches the plan, and records when it ran."""
        begin = self.now(plan)
        value = plan.owner.launch(plan, args)
        self.note(plan, AGAIN, begin, None)
        return value

    @property
    def ran(self) -> list[Ran]:
        """The launches in the order in which they ended."""
        return [
            Ran(kernel.name, track, begin - self.began, end - self.began, kept, of,
                f"{kernel.span.file}, line {kernel.span.line}" if kernel.span is not None else "")
            for kernel, track, begin, end, kept, of in self._noted
        ]  # fmt: skip


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
        found.append({
            "ph": "X", "name": x.kernel, "cat": TRACKS[x.track], "pid": 1, "tid": track, "ts": at,
            "dur": 1e6 * (x.end - x.begin), "args": {"launch": n + 1, **place},
        })  # fmt: skip
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
    out.write_text(as_json(ran, about))
    return out


def _named(what: str, track: int, **args: object) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": track, "args": args}


def _counter(at: float, kept: int) -> dict[str, Any]:
    return {"ph": "C", "name": "kept by the Tape", "pid": 1, "tid": 0, "ts": at, "args": {"bytes": kept}}
