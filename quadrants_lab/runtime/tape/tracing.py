"""The timeline of a program under a Tape: when each launch and each gradient ran, and how much the Tape kept then, in
the trace event format that Perfetto and chrome://tracing read
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from quadrants_lab.runtime.observe.observers import Observer

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan
    from quadrants_lab.runtime.tape.parts import Account

TRACKS = ("forward", "gradient", "run again")


@dataclass(frozen=True, slots=True)
class Ran:
    """A launch: its kernel, the index of its track, when it began (seconds) and how long it took. ``kept``: bytes that
    the Tape kept when it began. ``of``: what tells which gradient belongs to which launch. ``place``: file and line."""

    kernel: str
    track: int
    begin: float
    seconds: float
    kept: int
    of: tuple[int, int]
    place: str


class Tracing(Observer):
    """Measures the launches that it observes; it waits for each, so that times are those of the device."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.ran: list[Ran] = []
        self.backwards = False  # whether the Tape runs gradients
        self.began = perf_counter()
        self.ended = 0.0

    def before(self, plan: Plan, args: tuple[Any, ...]) -> float:
        plan.session.finish()
        return perf_counter()

    def after(self, plan: Plan, args: tuple[Any, ...], token: float, failed: bool) -> None:
        plan.session.finish()
        end, owner = perf_counter(), plan.owner
        gradient = owner.mode == "reverse"
        of = (id(owner.forward), owner.replays) if gradient else (id(owner), plan.frame.launch_number)
        span = plan.compiled.lowered.kernel.span
        place = f"{span.file}, line {span.line}" if span is not None else ""
        track = 1 if gradient else 2 if self.backwards else 0
        self.ran.append(Ran(plan.kernel.name, track, token - self.began, end - token, self.account.used, of, place))

    def launch(self, plan: Plan, args: tuple[Any, ...]) -> Any:
        """Launches again, and measures that."""
        token = self.before(plan, args)
        value = plan.owner.launch(plan, args)
        self.after(plan, args, token, False)
        return value

    @contextmanager
    def gradients(self) -> Iterator[None]:
        """Within the with, the Tape runs gradients, and makes launches again that it did not keep enough of."""
        self.backwards = True
        try:
            yield
        finally:
            self.backwards = False
            self.ended = perf_counter() - self.began

    def events(self) -> list[dict[str, Any]]:
        """The events: a slice ("X") for each launch, on a track for each of `TRACKS`, an arrow ("s", "f") from each
        launch to its gradient, and a counter ("C") of the bytes kept. Times are in microseconds."""
        found: list[dict[str, Any]] = [_named("process_name", 0, name="Tape")]
        for n, name in enumerate(TRACKS, 1):
            found += [_named("thread_name", n, name=name), _named("thread_sort_index", n, sort_index=n)]
        launched: dict[tuple[int, int], int] = {}
        kept = -1
        for n, ran in enumerate(self.ran):
            at, track = 1e6 * ran.begin, ran.track + 1
            place = {"source": ran.place} if ran.place else {}
            found.append({
                "ph": "X", "name": ran.kernel, "cat": TRACKS[ran.track], "pid": 1, "tid": track, "ts": at,
                "dur": 1e6 * ran.seconds, "args": {"launch": n + 1, **place},
            })  # fmt: skip
            if ran.kept != kept:
                kept = ran.kept
                found.append(_counter(at, kept))
            arrow = {"name": "gradient of", "cat": "gradient of", "pid": 1, "tid": track, "ts": at}
            if ran.track == 0:
                launched[ran.of] = n
                found.append({"ph": "s", "id": n, **arrow})
            elif ran.track == 1 and ran.of in launched:
                found.append({"ph": "f", "bp": "e", "id": launched.pop(ran.of), **arrow})
        bound = {e["id"] for e in found if e["ph"] == "f"}
        found = [e for e in found if e["ph"] != "s" or e["id"] in bound]  # a launch may have no gradient
        return [*found, _counter(1e6 * self.ended, 0)]

    def write(self, path: str | Path, about: dict[str, Any]) -> Path:
        """Writes the events to a file and returns its absolute path. ``about``: further data, which viewers show."""
        out = Path(path).absolute()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"traceEvents": self.events(), "displayTimeUnit": "ms", "otherData": about}))
        return out


def _named(what: str, track: int, **args: object) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": track, "args": args}


def _counter(at: float, kept: int) -> dict[str, Any]:
    return {"ph": "C", "name": "kept by the Tape", "pid": 1, "tid": 0, "ts": at, "args": {"bytes": kept}}
