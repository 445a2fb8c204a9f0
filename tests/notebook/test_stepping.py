"""The Steps pane and `%qdstep`: what they show is what the iteration did."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
from notebook.test_magics import SETUP, WAVE, cell  # noqa: F401
from programs import PROGRAMS
from running import Bench, f64, job_of

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.notebook import show
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.runtime.record.records import recording
from quadrants_lab.widgets.model import CellView, StepTrace
from quadrants_lab.widgets.pack import answers
from quadrants_lab.widgets.panes import render
from quadrants_lab.widgets.static import static_html


@pytest.fixture
def wave(cell, shell):
    """The view of a gradient of five sines."""
    assert cell("%%qdkernel --grad y" + WAVE + "wave()").ok
    return show(shell.user_ns["wave"]).view


def trace_of(view: CellView, lane: str) -> StepTrace:
    return view.kernels[0].steps.shown.make(0, lane, "")


def test_pushes_are_the_values_along_the_way_and_pops_take_them_back(wave):
    trace = trace_of(wave, "2")
    told = [(trace.statements[at].kind, value) for at, value, _ in trace.events]
    v, along = 0.3, []
    for _ in range(5):
        along.append(f"{v:.6g}")
        v = np.sin(v)
    assert [value for kind, value in told if kind == "push"] == along
    assert [value for kind, value in told if kind == "pop"] == along[::-1]
    assert told[-1] == ("write", f"x.grad[2] += {np.prod(np.cos([float(a) for a in along])):.6g}")
    assert (trace.lane, trace.box, trace.stacks) == ("2", "0 .. 3", [("v", 6, "f64")])


def test_forwards_comes_before_backwards_and_each_step_has_its_line(wave):
    trace = trace_of(wave, "")
    back = [trace.statements[at].back for at, _, _ in trace.events]
    assert back == sorted(back)
    assert {s.line for s in trace.statements} <= {4, 5, 6, 7, 8}
    assert "v.grad" in {s.name for s in trace.statements} | {n for s in trace.statements for n in s.carried}


def test_the_pane_hands_the_script_what_it_draws(wave):
    markup = render(wave, "0/steps/1/0/3")
    data = json.loads(html.unescape(re.search(r'data-stepper="([^"]*)"', markup)[1]))
    trace = trace_of(wave, "3")
    assert len(data["e"]) == len(trace.events)
    assert [s[0] for s in data["s"]] == [s.text for s in trace.statements]
    assert "iteration 3" in markup
    assert "0/steps" in answers(wave)
    assert "x.grad[0] +=" in static_html(wave)


@pytest.mark.parametrize(
    ("lane", "says"),
    [("9", "has no iteration 9 here: there are 0 .. 3"), ("a", "is not an iteration")],
)
def test_an_iteration_that_there_is_not_is_a_sentence(wave, lane, says):
    assert says in html.unescape(render(wave, f"0/steps/1/0/{lane}"))


def test_the_magic_in_a_terminal(cell, wave):
    ran = cell("%qdstep wave 1")
    assert ran.ok
    assert "gradient of wave, iteration 1" in ran.text
    assert "x.grad[1] +=" in ran.text
    assert "adstack_push" in ran.text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "takes the name of a kernel"),
        ("wav", "no such name"),
        ("wave 77", "there are 0 .. 3"),
        ("wave one", "is not an iteration"),
    ],
)
def test_bad_wishes_are_told(cell, wave, line, says):
    ran = cell(f"%qdstep {line}")
    assert not ran.ok
    assert says in ran.text
    assert cell("%qdstep wave 0").ok


def test_after_a_quiet_cell_its_own_launch_is_followed(cell, shell, wave):
    assert cell("x[1] = 0.9").ok
    assert cell("%%qdkernel --grad y --quiet\nwave()").ok
    trace = trace_of(show(shell.user_ns["wave"]).view, "1")
    first = next(value for at, value, read in trace.events if read == "x[1]")
    assert first == "0.9"
    assert cell("%qdstep wave 1").ok


def test_kernels_of_objects_are_followed_too(cell):
    bell = """
@qd.data_oriented
class Bell:
    @qd.kernel
    def ring(self):
        for i in x:
            y[None] += x[i] * x[i]

bell = Bell()
"""
    assert cell("%%qdkernel --grad y --quiet" + bell + "bell.ring()").ok
    ran = cell("%qdstep bell.ring 2")
    assert "x.grad[2] += 0.6" in ran.text
    assert "no such name" in cell("%qdstep bell.rung 2").text


def test_without_a_record_there_is_a_reason(cell, shell):
    assert cell(WAVE.replace("wave", "plain") + "plain()").ok
    ran = cell("%qdstep plain")
    assert not ran.ok
    assert "launch it in a %%qdkernel cell" in ran.text
    assert "launch it in a" in render(show(shell.user_ns["plain"]).view, "0/steps")


def test_a_forward_launch_alone_has_steps_too(cell, shell):
    assert cell("%%qdkernel" + WAVE.replace("wave", "ahead") + "ahead()").ok
    trace = trace_of(show(shell.user_ns["ahead"]).view, "1")
    assert not trace.stacks
    assert not any(s.back for s in trace.statements)
    assert trace.events[-1][1].startswith("y[None] += ")


def test_the_bounds_of_a_later_loop_are_no_steps_of_the_iteration(cell, shell):
    two = """
@qd.kernel
def two():
    for i in x:
        y[None] += x[i]
    for i in range(n[None]):
        y[None] += 1.0

"""
    assert cell("%%qdkernel" + two + "two()").ok
    trace = trace_of(show(shell.user_ns["two"]).view, "3")
    assert [s.line for s in trace.statements] == [5] * len(trace.statements)
    assert trace.events[-1][1] == "y[None] += 0.4"
    assert not trace.cut


def test_a_gradient_that_takes_several_trips_as_one_shows_that_pass(cell, shell):
    many = """
@qd.kernel
def many():
    for i in range(1):
        v = qd.Vector([x[0], x[1], x[2], x[3]])
        for _ in range(n[None]):
            v = qd.sin(v)
        y[None] += v.sum()

"""
    assert cell("qd.init(arch=qd.cpu, ad_unroll=3)\n" + SETUP.split("qd.init(arch=qd.cpu)\n")[1]).ok
    assert cell("%%qdkernel --grad y" + many + "many()").ok
    view = show(shell.user_ns["many"]).view
    first, second = view.kernels[0].traces["gradient"][:2]
    assert (first.name, second.name) == ("unroll", "reverse")
    assert first.after is second.before
    assert "Several trips of a loop as one" in first.doc
    pushes = sum(1 for at, _, _ in trace_of(view, "").events if trace_of(view, "").statements[at].kind == "push")
    assert pushes == 4 * 2  # five trips in two groups


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "program",
    [pytest.param(p, id=p.name, marks=[] if n % 6 == 0 else [pytest.mark.slow])
     for n, p in enumerate(PROGRAMS.values())],
)  # fmt: skip
def test_every_program_can_be_followed(program):
    bench, job = Bench(f64, "cpu"), job_of(program, program.cases[-1])
    with recording() as recorder:
        bench.run(job, gradient=program.grad)
    (view,) = cell_view("cell", recorder).kernels
    launch = view.steps.shown
    for task in range(len(launch.tasks)):
        try:
            trace = launch.make(task, "", "")
        except QuadrantsError as e:
            if "there are none" not in str(e):
                raise
            continue
        kinds = [trace.statements[at].kind for at, _, _ in trace.events]
        assert trace.cut or kinds.count("push") == kinds.count("pop")
