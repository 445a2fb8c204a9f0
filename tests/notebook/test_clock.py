"""Times in the panes come from one clock: parts add up to the whole."""

from time import perf_counter, sleep

import pytest
from notebook.test_magics import SETUP, WAVE

import quadrants_lab as qd
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.runtime.compile import compile as compiling
from quadrants_lab.runtime.observe.observers import Observer, watch
from quadrants_lab.runtime.record.recorder import recording

PARTS = ["front end", "passes and checks", "machine code", "driver", "first launch"]


@pytest.fixture
def launches(tmp_path):
    file = tmp_path / "wave.py"
    file.write_text(SETUP.replace("qd.init(arch=qd.cpu)", "qd.init(arch=qd.cpu, offline_cache=False)") + WAVE)
    made: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), made)
    yield made["wave"], made["y"]
    qd.reset()


def shown(recorder) -> dict:
    (kernel,) = cell_view("cell", recorder).kernels
    return {launch.mode: dict(launch.times) for launch in kernel.launches} | {"traces": kernel.traces}


def test_the_parts_are_within_the_whole(launches):
    wave, y = launches
    with recording() as recorder:
        start = perf_counter()
        wave()
        took = perf_counter() - start
        y.grad[None] = 1
        wave.grad()
        for _ in range(3):
            wave()
    found = shown(recorder)
    for mode in ("forward", "gradient"):
        whole = found[mode]["compiled and first launched in"]
        assert sum(found[mode][part] for part in PARTS) == pytest.approx(whole, rel=1e-9)
        assert min(found[mode][part] for part in PARTS) > 0
    assert found["forward"]["compiled and first launched in"] <= took
    assert "median of 3 warm launches" in found["forward"]
    assert "warm launch" not in found["gradient"]
    passes = [step.seconds for step in found["traces"]["forward"] if step.name != "front end"]
    assert 0 < sum(passes)
    assert found["traces"]["forward"][0].seconds == found["forward"]["front end"]


def test_passes_are_timed_where_they_ran_and_not_again(launches, monkeypatch):
    wave, _ = launches
    with recording() as recorder:
        wave()
    monkeypatch.setattr(compiling, "make_ir", None)  # a second compile would call it
    (kernel,) = cell_view("cell", recorder).kernels
    assert [s.name for s in kernel.traces["forward"]][:2] == ["front end", "trust bounds"]


class Slow(Observer):
    """An observer, as a Tape is one, that takes its time at either end of a launch."""

    def before(self, plan, args) -> None:
        sleep(0.05)

    def after(self, plan, args, token, failed) -> None:
        sleep(0.05)


def test_a_launch_takes_no_longer_because_a_tape_copies_what_it_overwrites(launches):
    wave, _ = launches
    with recording() as recorder, watch(Slow()):
        wave()
        start = perf_counter()
        wave()
        took = perf_counter() - start
    assert shown(recorder)["forward"]["warm launch"] <= took - 0.1


def test_a_kernel_that_was_launched_before_has_warm_launches_alone(launches):
    wave, _ = launches
    wave()
    with recording() as recorder:
        wave()
        wave()
    assert list(shown(recorder)["forward"]) == ["median of 2 warm launches"]
