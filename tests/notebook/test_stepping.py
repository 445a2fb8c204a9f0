"""The Steps pane and `%qdstep`: what they show is what the iteration did."""

import html
import json
import re

import numpy as np
import pytest
from notebook.test_magics import SETUP, WAVE, cell  # noqa: F401
from programs import PROGRAMS
from running import Bench, each, f64, job_of

from quadrants_lab.errors import QuadrantsError
from quadrants_lab.notebook import magic, show
from quadrants_lab.notebook.collect import cell_view
from quadrants_lab.notebook.stepping import add_verdict
from quadrants_lab.runtime.interpret import interpreter_trace
from quadrants_lab.runtime.record.recorder import recording
from quadrants_lab.widgets.model import ONLY_READY, CellView, NotReady, StepTrace
from quadrants_lab.widgets.pack import answers, small_answers
from quadrants_lab.widgets.panes import render, shape
from quadrants_lab.widgets.static import static_html
from quadrants_lab.widgets.steps import rows


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


def window(markup: str) -> dict:
    """The data of a window of an iteration."""
    return json.loads(html.unescape(re.search(r'data-window="([^"]*)"', markup)[1]))


def test_the_pane_hands_the_script_what_it_draws(wave):
    markup = render(wave, "0/steps/1/0/3")
    data = json.loads(html.unescape(re.search(r'data-stepper="([^"]*)"', markup)[1]))
    trace = trace_of(wave, "3")
    assert len(data["e"]) == len(trace.events)
    assert [s[0] for s in data["s"]] == [s.text for s in trace.statements]
    assert "iteration 3" in markup
    assert "x.grad[0] +=" in static_html(wave)  # as after the cell: before the code of all backends is known
    assert "0/steps" in answers(wave)


GREATEST = """
@qd.kernel
def part():
    for i in range(1, 4):
        y[None] += {part}

part()
"""


@pytest.mark.parametrize(("part", "lane", "why"), [
    ("x[i] * x[i]", "3", "x.grad[3] += 1.8"),  # one iteration can have written x.grad[3],
    ("(x[i] - x[i - 1]) ** 2", "2", "x.grad[1] += -1.6"),  # two of them,
    ("10 * x[0] * x[i]", "3", "x.grad[0] += 9"),  # or any
    ("qd.sqrt(x[i])", "1", "x.grad[1] += nan"),
])
def test_a_gradient_opens_in_the_iteration_that_adds_most_to_it(cell, shell, part, lane, why):
    assert cell("x.from_numpy(np.array([0.1, -0.5, 0.3, 0.9]))").ok
    assert cell("%%qdkernel --grad y" + GREATEST.format(part=part)).ok
    view = show(shell.user_ns["part"]).view
    trace = trace_of(view, "")
    assert (trace.lane, trace.why) == (lane, f"adds most to a gradient: {why}")
    assert f"; it {trace.why}; the iterations are 1 .. 3" in render(view, "0/steps")
    assert trace_of(view, "1").lane == "1"


@pytest.mark.parametrize(
    ("lane", "says"), [("9", "has no iteration 9 here: there are 0 .. 3"), ("a", "is not an iteration")]
)
def test_an_iteration_that_there_is_not_is_a_sentence(wave, lane, says):
    assert says in html.unescape(render(wave, f"0/steps/1/0/{lane}"))


def test_the_magic_in_a_terminal(cell, wave):
    ran = cell("%qdstep wave 1")
    assert ran.ok
    assert "gradient of wave, iteration 1" in ran.text
    assert "x.grad[1] +=" in ran.text
    assert "adstack_push" in ran.text


@pytest.mark.parametrize(("line", "says"), [
    ("", "takes the name of a kernel"),
    ("wav", "no such name"),
    ("wave 77", "there are 0 .. 3"),
    ("wave one", "is not an iteration"),
])
def test_bad_requests_are_errors(cell, wave, line, says):
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


def test_the_launches_of_a_program_are_followed_one_by_one(cell, shell):
    """Each on what it found: a state that every launch changes, and the number that it was given."""
    steps = """
s = qd.field(qd.f64, shape=3, needs_grad=True)
s.from_numpy(np.array([0.1, 0.2, 0.3]))

@qd.kernel
def step(k: float):
    for i in s:
        s[i] = qd.sin(s[i]) * k

@qd.kernel
def total():
    for i in s:
        y[None] += s[i]

for k in (1.0, 2.0, 3.0, 4.0):
    step(k)
total()
"""
    assert cell("%%qdkernel --grad y --quiet" + steps).ok
    view = show(shell.user_ns["step"]).view.kernels[0].steps
    assert [x.id for x in view.launches] == ["1f", "1", "2f", "2", "3f", "3", "4f", "4"]
    assert view.shown.id == "1"  # gradients run the last launch first
    states, now = [], 0.2
    for k in (1.0, 2.0, 3.0, 4.0):
        states.append(now)
        now = np.sin(now) * k
    for launch, state, k in zip(view.launches[1::2], states, (1.0, 2.0, 3.0, 4.0), strict=True):
        trace = launch.make(launch.task, "1", "")
        values = [value for at, value, _ in trace.events if isinstance(value, str)]
        slope = np.prod([np.cos(v) * f for v, f in zip(states, (1, 2, 3, 4), strict=True)][launch.number - 1 :])
        assert f"{np.cos(state):.6g}" in values, k
        assert any(v.startswith("s.grad[1]") and v.endswith(f" {slope:.6g}") for v in values), values
    ran = cell("%qdstep step 1 --launch 3 --line 6")
    assert ran.ok
    assert f"{np.cos(states[2]):.6g}" in ran.text
    assert "kept are 1, 2, 3, 4" in cell("%qdstep step --launch 5").text
    found = answers(show(shell.user_ns["step"]).view)
    assert {f"0/steps/{n}" for n in ("1f", "1", "2f", "2", "3f", "3", "4f", "4")} <= set(found)


def test_one_gives_the_number_of_one_of_many_launches(cell, shell):
    """A notebook keeps that; a menu of a thousand launches would be too much for it."""
    tape = "\nwith qd.ad.Tape(y):\n    for _ in range(500):\n        wave()\n"
    assert cell("%%qdkernel --quiet" + WAVE + tape).ok
    view = show(shell.user_ns["wave"]).view
    assert len(view.kernels[0].steps.launches) == 1000
    whole = small_answers(view)["0/steps"]
    assert "<option" not in whole
    assert re.search('<input[^>]* data-ask="0/steps/" data-into="steps"[^>]* data-then>', whole)
    assert "kept: 1 to 500<" in whole
    assert 'data-req="0/steps/1f"' in whole  # the launch of the gradient that is shown
    forward = render(view, "0/steps/7f")
    assert "forward of wave, iteration" in forward
    assert re.search('value="7" data-ask="0/steps/"[^>]* data-then="f">', forward)
    kernel = view.kernels[0]
    kernel.steps.launches[:] = [x for x in kernel.steps.launches if x.number % 2]
    kernel.steps.at = -1
    assert "kept: some from 1 to 499<" in render(view, "0/steps")
    assert "no gradient of launch 8 of this kernel is kept; the nearest: 7 and 9" in render(view, "0/steps/8")
    assert "no launch 502 of this kernel is kept; the nearest: 499" in render(view, "0/steps/502f")
    assert "is not the number of a launch" in render(view, "0/steps/aboutf")


def test_a_long_iteration_is_shown_in_windows(cell, shell, monkeypatch):
    """A step outside of the first window is found when it is asked for, with the stacks' contents at that step."""
    monkeypatch.setattr(interpreter_trace, "WINDOW", 40)
    assert cell("n[None] = 50\n").ok
    assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").ok
    view = show(shell.user_ns["wave"]).view
    kinds = {"turn": "value", "last": "write", "push-0-60": "push", "pop--120": "pop", "line-8-120": "trip"}
    for where in ("step-77", "turn", "last", "push-0-60", "pop--120", "line-8-0", "back-7-0", "lost-0"):
        data = window(render(view, f"0/steps/1/0/1/{where}"))
        numbers = range(data["first"], data["first"] + len(data["e"]))
        assert len(data["e"]) <= 40
        if where == "lost-0":
            assert data["found"] == -1
            continue
        at = numbers[-1] if where == "last" else data["found"]
        assert at in numbers
        if where in kinds:
            assert data["s"][data["e"][at - data["first"]][0]][2] == kinds[where]
    v, along = 0.2, []
    for _ in range(50):
        along.append(f"{v:.6g}")
        v = np.sin(v)
    data = window(render(view, "0/steps/1/0/1/turn"))
    held = [value for at, value, _ in data["past"] if data["s"][at][2] == "push"]
    pushed = [e[1] for e in data["e"] if data["s"][e[0]][2] == "push"]
    assert held + pushed == along[data["below"][0] :]
    assert data["cut"]
    assert "no place in an iteration" in render(view, "0/steps/1/0/1/there")


def test_a_far_place_is_found_on_a_thread_that_can_be_stopped(wave):
    token = ONLY_READY.set(True)
    try:
        with pytest.raises(NotReady, match="the steps of iteration 2") as missing:
            render(wave, "0/steps/1/0/2/turn")
        missing.value.make()
        assert window(render(wave, "0/steps/1/0/2/turn"))["turn"] > 0
    finally:
        ONLY_READY.reset(token)
    assert missing.value.stop is not None


def test_names_of_the_compiler_are_its_own(cell, shell):
    loop = "            v = qd.sin(v)\n"
    breaks = WAVE.replace(loop, f"{loop}            if v > 2.0:\n                break\n")
    assert cell("%%qdkernel --grad y --quiet" + breaks + "wave()").ok
    trace = trace_of(show(shell.user_ns["wave"]).view, "")
    assert {"trips", "live"} <= set(trace.hidden)
    assert "v" not in trace.hidden
    assert any("'trips'" in s.text for s in trace.statements)
    assert not any("trips" in text for _, _, text, _ in rows(trace))
    named = breaks.replace("v = x[i]", "trips = x[i]\n        v = trips")
    assert cell("%%qdkernel --grad y --quiet" + named + "wave()").ok
    assert "trips" not in trace_of(show(shell.user_ns["wave"]).view, "").hidden


@pytest.mark.parametrize(
    ("at", "text", "values"),
    [(0.5, "the first NaN arises on the way forwards", ("nan",)),
     (0.125, "the first infinity arises on the way back", ("inf",))],
)  # fmt: skip
def test_each_finding_of_a_check_has_its_step(cell, shell, monkeypatch, at, text, values):
    """The findings are a root of a negative number and a root of 0, in iteration 0."""
    root = f"""
@qd.kernel
def root():
    for i in x:
        v = x[i] - {at}
        y[None] += qd.sqrt(v)

"""
    shown = []
    monkeypatch.setattr(magic, "add_verdict", lambda view, report: shown.append(view) or add_verdict(view, report))
    shell.user_ns["x"][0] = 0.125
    assert cell("%%qdkernel --quiet" + root).ok
    assert cell("%qdcheck y root()").ok
    (view,) = shown
    report, (request,) = view.kernels[0].check
    (cause,) = report.all_causes
    assert cause.says.startswith(text)
    assert cause.step[1:] == ((0,), 6)
    assert f'data-get="{request}"' in render(view, "0/check")
    answer = render(view, request)
    data = json.loads(html.unescape(re.search(r'data-stepper="([^"]*)"', answer)[1]))
    number, value, _ = data["e"][data["found"] - data["first"]]
    assert value in values
    assert data["s"][number][1] == 6
    assert "iteration 0" in answer
    assert (shape(view)["open"], shape(view)["panes"][0]) == ("check", ["check", "Verdict"])


def test_a_wrong_gradient_of_ones_own_has_its_step(cell, shell, monkeypatch):
    own = """
@qd.kernel
def squares():
    for i in x:
        y[None] += x[i] * x[i]

@qd.kernel
def slopes():
    for i in x:
        x.grad[i] += 2.1 * x[i] * y.grad[None]

energy = qd.ad.grad_replaced(lambda: squares())

@qd.ad.grad_for(energy)
def energy_slope():
    slopes()

"""
    shown = []
    monkeypatch.setattr(magic, "add_verdict", lambda view, report: shown.append(view) or add_verdict(view, report))
    assert cell("%%qdkernel --grad y --check" + own + "energy()").ok
    (view,) = shown
    report, (request,) = view.kernels[0].check
    (cause,) = report.all_causes
    assert cause.says.startswith("energy_slope, which is given as the gradient")
    assert cause.step[1:] == ((3,), 10)
    assert view.kernels[int(request[0])].name == "slopes"
    data = json.loads(html.unescape(re.search(r'data-stepper="([^"]*)"', render(view, request))[1]))
    number, _, _ = data["e"][data["found"] - data["first"]]
    assert data["s"][number][1] == 10


def test_without_a_record_there_is_a_reason(cell, shell):
    assert cell(WAVE.replace("wave", "plain") + "plain()").ok
    ran = cell("%qdstep plain")
    assert not ran.ok
    assert "launch it in a %%qdkernel cell" in ran.text
    assert "launch it in a" in render(show(shell.user_ns["plain"]).view, "0/steps")


def test_after_a_cell_that_failed_what_it_launched_is_followed(cell, shell):
    """The record was lost with the cell, and the message said that there was none."""
    text = "@qd.kernel\ndef beyond():\n    for i in x:\n        y[None] += 2 * x[i + 1]\n\nbeyond()"
    assert not cell(f"%%qdkernel\n{text}").ok
    last = shell.user_ns["x"].shape[0] - 1
    assert cell(f"%qdstep beyond {last}").ok
    steps = show(shell.user_ns["beyond"]).view.kernels[0].steps
    trace = steps.shown.make(0, str(last), "")
    at, value, _ = trace.events[-1]
    assert trace.statements[at].text.startswith("assert bounds")
    assert value == "False"
    assert not cell("%%qdkernel\n" + text.replace("x[i + 1]", "x[i]") + "\n1 / 0").ok
    assert cell("%qdstep beyond 1").ok


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
    assert "Joins several trips of a loop to one trip" in first.doc
    pushes = sum(1 for at, _, _ in trace_of(view, "").events if trace_of(view, "").statements[at].kind == "push")
    assert pushes == 4 * 2  # five trips in two groups


@pytest.mark.filterwarnings("ignore")
@each(PROGRAMS.values(), every=20)
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


def test_a_launch_in_an_earlier_quiet_cell_is_inspected(cell, shell):
    assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").ok
    text = render(show(shell.user_ns["wave"]).view, "0/run")
    assert "A launch takes: forward " in text or "a launch takes: forward " in text
    assert "x.grad" in text
