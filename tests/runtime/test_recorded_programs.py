"""What a recording tells of the last launches of a program is what an observer finds that copies everything at each
launch; and it copies no more for many launches than for few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from gc import collect
from itertools import count, pairwise
from math import inf
from time import perf_counter
from typing import Any
from weakref import ref

import numpy as np
import pytest
from child import together
from programs.launching import PROGRAMS, N, Program, World
from sessions import EVERYWHERE, NIGHT

import quadrants_lab as qd
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.notebook.compare import NOT_KEPT, ROUNDED
from quadrants_lab.runtime.observe.observers import watch
from quadrants_lab.runtime.record import rebuild, recorder as module
from quadrants_lab.runtime.record.recorder import Recorder, recording
from quadrants_lab.runtime.record.records import Copier, LaunchRecord
from quadrants_lab.runtime.record.replay import replay, shadow
from quadrants_lab.runtime.tape import rerun


class Eager(Copier):
    """Keeps the records of all launches, with the numbers that a recording gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[LaunchRecord] = []
        self.forward = 0
        self.of: dict[Any, int] = {}
        self.latest: dict[Any, int] = {}

    def before(self, plan: Any, args: tuple[Any, ...]) -> LaunchRecord:
        self.made.append(super().before(plan, args))
        return self.made[-1]

    def after(self, plan: Any, args: tuple[Any, ...], token: LaunchRecord, failed: bool) -> None:
        super().after(plan, args, token, failed)
        owner = plan.owner
        token.kept = tuple(plan.kept()) if owner.mode == "reverse" else ()
        if owner.mode == "reverse":
            known = self.of.get(token.draws) if owner.replays else self.latest.get(owner.forward)
            token.launch = known or self.forward + 1
        else:
            self.forward += 1
            token.launch = self.latest[owner] = self.of[token.draws] = self.forward

    def last(self) -> list[LaunchRecord]:
        last = {r.plan.owner: r for r in self.made}
        return sorted(last.values(), key=lambda r: r.number)


@contextmanager
def told() -> Iterator[None]:
    with suppress(KeyboardInterrupt, AssertionError):
        yield


def eagerly(options: dict[str, Any], run: Program) -> Eager:
    world, eager = World(options), Eager()
    with told(), watch(eager):
        run(world)
    return eager


def recorded(options: dict[str, Any], run: Program) -> Recorder:
    world = World(options)
    with recording() as recorder, told():
        run(world)
    return recorder


def content(record: LaunchRecord) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel": record.kernel, "mode": record.mode, "scalars": record.scalars}
    found |= {"launch": record.launch, "failed": record.failed, "report": record.report, "kept": record.kept}
    found |= {"returned": record.returned, "shapes": record.shapes}
    for which in ("inputs", "outputs"):
        arrays = getattr(record, which)
        assert arrays is not None
        found |= {f"{which} {name}": a.tobytes() for name, a in arrays.items()}
    return found


def compare(eager: Eager, recorder: Recorder) -> None:
    here, there = recorder.records(), eager.last()
    assert [(r.kernel, r.mode, r.number) for r in here] == [(r.kernel, r.mode, r.number) for r in there]
    of_all = {r.number: r for r in eager.made}
    for mine in (*here, *recorder.past):
        assert content(mine) == content(of_all[mine.number])


# the least seconds of a stretch, how many times as long as copies it is, and after how many launches closures note them
WAYS = {"one stretch": (1000.0, 20, 4), "closures": (1000.0, 20, 1), "apart": (0.0, 0, 4)}


def set_way(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("LEAST_SECONDS", "SHARE", "BY_HAND_FIRST"), WAYS[how], strict=True):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(rebuild, "PAST_SECONDS", inf)  # else a busy machine leaves out what launches wrote


# by day one of the ways beside the closures
BY_WAY = [(name, how) for n, name in enumerate(PROGRAMS) for k, how in enumerate(WAYS)
          if NIGHT or how == "closures" or k == 2 * (n % 2)]  # fmt: skip


@pytest.mark.parametrize(("name", "how"), BY_WAY)
def test_a_record_has_what_an_observer_copies(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_way(how, monkeypatch)
    options = {"arch": qd.cpu, "offline_cache": False, "debug": "error" in name}
    compare(eagerly(options, PROGRAMS[name]), recorded(options, PROGRAMS[name]))


ON_DEVICES = ("in place", "Python writes in between", "ndarrays", "several kernels in turns", "errors in the middle",
              "random numbers under a Tape", "Tape over launches in place", "gradients by hand")  # fmt: skip


@pytest.mark.parametrize("options", [p for p in EVERYWHERE if p.id != "cpu"])
@pytest.mark.parametrize("name", ON_DEVICES)
def test_on_every_device(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    set_way("closures", monkeypatch)
    options = options | {"debug": "error" in name}
    compare(eagerly(options, PROGRAMS[name]), recorded(options, PROGRAMS[name]))


@pytest.mark.parametrize("name", ["in place", "several kernels in turns", "ndarrays", "random numbers", "Tape",
                                  "Tape over launches in place", "gradients by hand"])  # fmt: skip
def test_records_are_repeated_and_stepped_through(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are repeated on another device of the same kind, and by the interpreter."""
    set_way("closures", monkeypatch)
    recorder = recorded({"arch": qd.cpu, "offline_cache": False}, PROGRAMS[name])
    for record in recorder.records():
        session = shadow(record.plan.session, "cpu")
        made = replay(record, session)
        session.end()
        for array, value in made.outputs.items():
            np.testing.assert_array_equal(value, record.outputs[array])
    for kernel in cell_view("cell", recorder).kernels:
        assert kernel.steps.placed(kernel.steps.at, "0").trace().events


@pytest.mark.parametrize("name", ["ping-pong", "in place", "Python writes in between", "Tape", "gradients by hand",
                                  "Tape over launches in place"])  # fmt: skip
def test_many_launches_take_no_more_copies_than_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_way("one stretch", monkeypatch)
    world, made = World({"arch": qd.cpu, "offline_cache": False}), []
    for times in (1, 40):
        with recording() as recorder:
            for _ in range(times):
                PROGRAMS[name](world)
            copies = recorder.copies
            made.append((copies.made, copies.nbytes, copies.held))
        assert recorder.launches > 20 * times
    assert made[0] == made[1]


@pytest.mark.parametrize(("room", "held", "past"), [(1 << 20, 4, range(39)), (30, 1, range(30, 39))])
def test_copies_are_made_again_when_it_is_time(
    room: int, held: int, past: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the memory of those that no record needs."""
    set_way("one stretch", monkeypatch)
    monkeypatch.setattr(module, "PAST_BYTES", room)
    world = World({"arch": qd.cpu, "offline_cache": False})
    with recording() as recorder:
        for n in range(40):
            world.in_place(1.0)
            if n % 10 == 9:
                assert recorder.now is not None
                recorder.now.due = 0.0
                module.TIMER.look()
    assert recorder.copies.made == 4
    assert recorder.copies.held == held * 4 * N
    (record,) = recorder.records()
    assert record.number == 39
    assert [r.number for r in recorder.past] == [*past]


def test_nothing_of_a_recording_is_left_behind() -> None:
    world = World({"arch": qd.cpu, "offline_cache": False})
    world.in_place(1.0)
    fast = world.in_place._dispatch.call
    with recording() as recorder:
        for _ in range(20):
            world.in_place(1.0)
            world.there()
            world.x[0] = 0.5
        assert world.in_place._dispatch.call is not fast
    world.in_place(1.0)  # the next call takes its path again
    assert world.in_place._dispatch.call is fast
    world.there()
    assert world.there._dispatch.call is world.there._dispatch.last.closures[1]
    assert world.x._memory.recorded is world.x._memory.noted is None
    gone = ref(recorder)
    del recorder
    collect()
    assert gone() is None


def test_a_launch_in_another_thread_is_recorded_too() -> None:
    """Memory has its results, so the launches after it have them."""
    world = World({"arch": qd.cpu, "offline_cache": False})
    with recording() as recorder:
        for _ in range(6):
            world.in_place(1.0)
            together(lambda: world.back(0.5))
            world.there()
    expected = World({"arch": qd.cpu, "offline_cache": False})
    for _ in range(6):
        expected.in_place(1.0)
        expected.back(0.5)
        expected.there()
    found = {r.kernel: r for r in recorder.records()}
    assert [r.number for r in found.values()] == [15, 16, 17]
    np.testing.assert_array_equal(found["there"].outputs["z"], expected.z.to_numpy())


def test_a_record_says_where_last_digits_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what a repetition left is not what is there."""
    set_way("one stretch", monkeypatch)
    monkeypatch.setattr(rebuild._Repetition, "differs", lambda self, serial: True)
    recorder = recorded({"arch": qd.cpu, "offline_cache": False}, PROGRAMS["in place"])
    (record,) = recorder.records()
    assert record.rounded
    (kernel,) = cell_view("cell", recorder).kernels
    assert kernel.launches[0].note == ROUNDED


def test_memory_that_was_written_behind_the_recording_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    set_way("one stretch", monkeypatch)
    world = World({"arch": qd.cpu, "offline_cache": False})
    with recording() as recorder:
        for n in range(9):
            world.in_place(1.0)
            if n == 4:
                world.x._memory.array[0] = 5.0
                world.x._memory.version += 1
    (record,) = recorder.records()
    assert record.inputs is record.outputs is None
    (kernel,) = cell_view("cell", recorder).kernels
    assert kernel.launches[0].note == NOT_KEPT


def test_equal_tapes_are_noted_at_once() -> None:
    """And nothing is lost: each launch has its time, and the timeline has each launch and gradient."""
    world = World({"arch": qd.cpu, "offline_cache": False})
    with recording() as recorder:
        for _ in range(6):
            with qd.ad.Tape(world.y) as tape:
                for t in range(8):
                    world.step(t)
                world.last()
        noted = sum(len(run) for stretch in (*recorder._recent, recorder.now) for run in stretch.runs)
        assert noted >= 3 * 18
    assert all(record.seconds > 0 for record in (*recorder.records(), *recorder.past))
    assert recorder.launches == 6 * 18
    assert sum(len(times.warm) + (times.first is not None) for times in recorder.times.values()) >= noted
    (made,) = recorder.tapes.values()
    for ran in (made().ran, tape.report.ran):
        launches = [(x.kernel, x.track, x.of) for x in ran if x.track < 2]
        forward = [*(("step", 0, t) for t in range(8)), ("last", 0, 8)]
        assert launches == [*forward, *((name, 1, t) for name, _, t in reversed(forward))]
        assert all(a.begin <= a.end <= b.begin for a, b in pairwise(ran))


def test_a_note_of_many_launches_is_complete_when_its_stretch_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    set_way("one stretch", monkeypatch)

    def run(o: World, recorder: Recorder | None = None) -> None:
        for n in range(6):
            with qd.ad.Tape(o.y):
                for t in range(8):
                    if t == 4 and n > 3 and recorder is not None:
                        assert recorder.now is not None
                        recorder.now.due = 0.0
                        module.TIMER.look()
                    o.step(t)
                o.last()

    options = {"arch": qd.cpu, "offline_cache": False}
    eager, world = eagerly(options, run), World(options)
    with recording() as recorder:
        run(world, recorder)
        runs = [one for stretch in (*recorder._recent, recorder.now) for one in stretch.runs if not one.back]
    compare(eager, recorder)
    assert [len(one) for one in runs[-2:]] == [4, 5]


# 18 launches and gradients look at the clock twice each: the third look is before a launch, the fourth after it, ...
@pytest.mark.parametrize("look", [3, 4, 23, 24])
def test_ctrl_c_beside_a_launch_of_a_note_of_many_loses_no_contents(
    look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_way("one stretch", monkeypatch)
    world, looks = World({"arch": qd.cpu, "offline_cache": False}), count(1)

    def clock() -> float:
        if next(looks) == look:
            raise KeyboardInterrupt
        return perf_counter()

    def run() -> None:
        with qd.ad.Tape(world.y):
            for t in range(8):
                world.step(t)
            world.last()

    with recording() as recorder:
        for _ in range(4):
            run()
        monkeypatch.setattr(rerun, "perf_counter", clock)
        with pytest.raises(KeyboardInterrupt):
            run()
        run()
    found = recorder.records()
    assert [(r.kernel, r.mode) for r in found] == [(k, m) for m, names in
            (("forward", ("step", "last")), ("reverse", ("last", "step"))) for k in names]  # fmt: skip
    for record in (*found, *recorder.past):
        assert record.inputs is not None, record
        assert record.outputs is not None, record
    left = found[-1].outputs
    assert left is not None
    np.testing.assert_array_equal(left["u.grad"], world.u.grad.to_numpy())
