"""What a Tape shows of itself: its repr, the graph of the program, the timeline."""

import json
from itertools import pairwise

import numpy as np
import pytest
from notebook.test_graphs import is_dot
from sessions import ended  # noqa: F401  # a fixture

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.runtime.tape.program_graph import Fold, _repeats, program_graph
from quadrants_lab.runtime.tape.step import StepRow, Uses
from quadrants_lab.runtime.tape.timeline import TRACKS

N = 64


class Program:
    def __init__(self) -> None:
        qd.init(arch=qd.cpu, offline_cache=False)
        x, w = (qd.field(qd.f32, N, needs_grad=True) for _ in range(2))
        y = qd.field(qd.f32, (), needs_grad=True)
        self.x, self.w, self.y = x, w, y

        @qd.kernel
        def step(t: qd.i32):
            for i in x:
                x[i] = qd.sin(x[i]) * w[i]

        @qd.kernel
        def damp():
            for i in x:
                x[i] = x[i] * x[i]

        @qd.kernel
        def total():
            for i in x:
                y[None] += x[i]

        self.step, self.damp, self.total = step, damp, total
        w.fill(1.0)

    def run(self, turns: int = 12) -> None:
        self.x.fill(0.5)
        for t in range(turns):
            self.step(t)
            self.damp()
        self.total()


@pytest.fixture
def p():
    return Program()


@pytest.mark.parametrize(("memory", "says"), [
    (None, "25 launches under no budget, at most 12,288 bytes kept, 0 steps run again"),
    (3000, "25 launches under a budget of 3,000 bytes, at most"),
])  # fmt: skip
def test_repr_says_launches_bytes_and_budget(p, memory, says) -> None:
    tape = qd.ad.Tape(p.y, memory=memory)
    assert repr(tape) == "<qd.ad.Tape of <qd.field: f32 (), needs_grad>: no launches>"
    for _ in range(3):  # later ones reuse the recording
        with tape:
            p.run(3)
            assert "recording, " in repr(tape)
        with tape:
            p.run()
        assert says in repr(tape)


def test_repr_says_one_launch(p) -> None:
    with qd.ad.Tape(p.y) as tape:
        p.total()
        assert "recording, 1 launch so far" in repr(tape)
    assert ": 1 launch under no budget, " in repr(tape)


# --- the graph ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "folds"), [
    ("", []),
    ("abc", [(0, 1, 1), (1, 1, 1), (2, 1, 1)]),
    ("aaab", [(0, 1, 3), (3, 1, 1)]),
    ("abababc", [(0, 2, 3), (6, 1, 1)]),
    ("xabcabc", [(0, 1, 1), (1, 3, 2)]),
    ("aabaabaab", [(0, 3, 3)]),
])  # fmt: skip
def test_repeated_steps_fold(text, folds) -> None:
    assert list(_repeats(text)) == folds


def test_each_step_is_in_one_launch_of_the_graph() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        text = "".join(rng.choice(list("abc"), rng.integers(1, 60)))
        x = Uses(0, "x", True, False, True)
        rows = [StepRow(c, 0, -1, 0, "", (x, Uses(1, c, False, True, False, 4))) for c in text]
        graph = program_graph(rows)
        assert sorted(n for x in graph.launches for n in x.steps) == list(range(len(text)))
        assert all({rows[n].what for n in x.steps} == {x.what} for x in graph.launches)
        assert sum(use.kept for use in graph.uses) == 4 * len(text)


def test_a_program_as_a_graph(p) -> None:
    with qd.ad.Tape(p.y) as tape:
        p.run()
    graph = tape.report.program()
    assert [(x.what, len(x.steps)) for x in graph.launches] == [("step", 12), ("damp", 12), ("total", 1)]
    assert graph.folds == [Fold(0, 2, 12)]
    assert graph.fields == {"x": True, "w": True, "y": True}
    kept = {(graph.launches[use.launch].what, use.field): use.kept for use in graph.uses if use.writes}
    assert 0 < kept["step", "x"] + kept["damp", "x"] <= tape.kept_bytes
    assert kept["total", "y"] == 0
    reads = {(graph.launches[use.launch].what, use.field) for use in graph.uses if not use.writes}
    assert {("step", "x"), ("step", "w"), ("damp", "x"), ("total", "x")} <= reads
    drawn = tape.graph()
    assert is_dot(drawn.source)
    assert 'label="12 times"' in drawn.source
    assert drawn._repr_mimebundle_()["text/plain"] == drawn.source


def test_two_fields_with_one_name_are_two_nodes() -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    a, b = (qd.field(qd.f32, 4, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def add(f: qd.template()):
        for i in f:
            y[None] += f[i]

    for _ in range(3):  # later ones reuse the recording
        with qd.ad.Tape(y) as tape:
            add(a)
            add(b)
        assert set(tape.report.program().fields) == {"f", "f (2)", "y"}


# --- the timeline -------------------------------------------------------------------------------------------------


def validate(data: dict) -> None:
    """Checks that the data are as the trace event format documents: the object form, and the fields of each phase."""
    assert set(data) <= {"traceEvents", "displayTimeUnit", "otherData", "systemTraceEvents", "stackFrames", "samples"}
    assert data["displayTimeUnit"] in ("ms", "ns")
    needs = {
        "X": {"name", "cat", "ts", "dur", "pid", "tid"}, "C": {"name", "ts", "pid", "args"},
        "M": {"name", "pid", "args"}, "s": {"name", "cat", "id", "ts", "pid", "tid"},
        "f": {"name", "cat", "id", "ts", "pid", "tid"},
    }  # fmt: skip
    metadata = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}
    flows: dict = {}
    for e in data["traceEvents"]:
        assert needs[e["ph"]] <= set(e), e
        assert set(e) <= {"ph", "name", "cat", "ts", "dur", "pid", "tid", "id", "bp", "args", "tts"}, e
        assert all(isinstance(e[k], (int, float)) and e[k] >= 0 for k in ("ts", "dur") if k in e), e
        assert all(isinstance(e[k], int) for k in ("pid", "tid", "id") if k in e), e
        if e["ph"] == "M":
            assert list(e["args"]) == [metadata[e["name"]]], e
        if e["ph"] == "C":
            assert all(isinstance(v, (int, float)) for v in e["args"].values()), e
        if e["ph"] in "sf":
            flows.setdefault((e["cat"], e["name"], e["id"]), []).append(e)
    for begin, end in flows.values():
        assert (begin["ph"], end["ph"]) == ("s", "f")
        assert begin["ts"] <= end["ts"]
        for flow in (begin, end):  # a flow binds to the slice around it
            assert any(e["ph"] == "X" and e["tid"] == flow["tid"] and e["ts"] <= flow["ts"] <= e["ts"] + e["dur"]
                       for e in data["traceEvents"]), flow  # fmt: skip


@pytest.mark.parametrize("memory", [None, 3000])
def test_the_timeline_is_a_trace_of_events(p, memory, tmp_path) -> None:
    with qd.ad.Tape(p.y, memory=memory, trace=True) as tape:
        p.run()
    gradient = p.w.grad.to_numpy()
    data = json.loads(tape.trace(tmp_path / "out" / "t.json").read_text())
    validate(data)
    slices = [e for e in data["traceEvents"] if e["ph"] == "X"]
    tracks = {track: [e["name"] for e in slices if e["cat"] == track] for track in TRACKS}
    forward = ["step", "damp"] * 12 + ["total"]
    assert tracks["forward"] == forward
    assert tracks["gradient"] == forward[::-1]
    again = tape.made_again
    assert (len(tracks["run again"]) > 0) is (memory is not None)
    assert len(tracks["run again"]) <= again
    for track in tracks:
        on = sorted((e for e in slices if e["cat"] == track), key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(on))
    assert len({e["id"] for e in data["traceEvents"] if e["ph"] == "f"}) == 25
    kept = [e["args"]["bytes"] for e in data["traceEvents"] if e["ph"] == "C"]
    assert kept[-1] == 0
    assert 0 < max(kept) <= tape.kept_bytes == data["otherData"]["kept_bytes"]
    with qd.ad.Tape(p.y, memory=memory):
        p.run()
    np.testing.assert_array_equal(p.w.grad.to_numpy(), gradient)


def test_each_run_has_a_timeline_of_its_own(p, tmp_path) -> None:
    tape = qd.ad.Tape(p.y, trace=True)
    for n, turns in enumerate((3, 2, 2)):
        with tape:
            p.run(turns)
        data = json.loads(tape.trace(tmp_path / "t.json").read_text())
        slices = [e for e in data["traceEvents"] if e["ph"] == "X"]
        assert sum(e["cat"] != "compile" for e in slices) == data["otherData"]["launches"] == 2 * (2 * turns + 1)
        compiled = sorted(e["name"] for e in slices if e["cat"] == "compile")
        assert compiled == ([] if n else ["damp", "damp", "step", "step", "total", "total"])
        both = sorted(slices, key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(both)), "a launch contains no compile"


def test_without_trace_there_is_no_timeline(p, tmp_path) -> None:
    with qd.ad.Tape(p.y) as tape:
        p.run()
    with pytest.raises(QuadrantsRuntimeError, match=r"were not timed\n.*trace=True"):
        tape.trace(tmp_path / "t.json")
    with pytest.raises(QuadrantsRuntimeError, match="recorded nothing yet"):
        qd.ad.Tape(p.y, trace=True).trace(tmp_path / "t.json")
