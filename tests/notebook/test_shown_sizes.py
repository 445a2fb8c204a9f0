"""What the panes say about sizes is what the launch took, in words of the reader's own program."""

import re
from dataclasses import replace

import pytest
from notebook.sample import cell_view

from quadrants_lab.notebook.collect import RECORDED
from quadrants_lab.runtime.tape.report import Report, Stretch
from quadrants_lab.runtime.tape.step import StepRow
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import CodeView, EditView, RooflineView, StageView
from quadrants_lab.widgets.panes import render
from quadrants_lab.widgets.roofline import sentence
from quadrants_lab.widgets.static import LIMITS, Static, _tape, static
from quadrants_lab.widgets.timeline import launches, timeline, timeline_view
from quadrants_lab.widgets.tree import seconds

CELL = """
import quadrants_lab as qd
qd.init(arch=qd.cpu)
x = qd.field(qd.f32, 8, needs_grad=True)
y = qd.field(qd.f32, (), needs_grad=True)

@qd.kernel
def leaves():
    for i in x:
        v = x[i]
        for j in range(10):
            v = qd.sin(v) + 0.5
            if v > 1.4:
                break
        y[None] += v

x.fill(0.5)
leaves()
"""


@pytest.fixture
def sample():
    made = cell_view()
    return made, made.kernels[0]


def test_values_without_a_stack_are_those_of_the_source(shell):
    """A loop that a break ends has a value more, which a pass adds."""
    shell.run_cell_magic("qdkernel", "--grad y", CELL)
    view = RECORDED[shell.user_ns["leaves"].dispatcher]
    sizes = shell.user_ns["leaves"].sizes()
    assert view.heap == (sizes.launch_bytes, sizes.lanes)
    assert sizes.launch_bytes > sizes.bytes
    assert [note.name for note in view.free] == [note.name for note in sizes.notes] == ["j"]


def test_the_heap_of_the_launch_is_the_device_s(sample):
    view, kernel = sample
    assert "In the launch" not in render(view, "0/sizes")
    kernel.heap = (8192, 32)
    assert "In the launch: 8.0 KB for 32 threads at a time, 256 B each" in render(view, "0/sizes")


def test_sliders_of_counted_stacks_have_names(sample):
    view, kernel = sample
    (stack,) = kernel.stacks
    counted = replace(stack.size, text="pushes", value=7, children=[], op="counted", key="counted($40)")
    kernel.stacks = [replace(stack, name=n, size=replace(counted, key=n)) for n in ("a", "b")]
    text = render(view, "0/sizes")
    assert "<code>pushes to a</code>" in text
    assert "<code>pushes to b</code>" in text


def test_a_tape_that_kept_nothing_draws_nothing():
    step = StepRow("k", 0, -1, 0, "it overwrites nothing that a gradient reads")
    report = Report(steps=[step])
    assert report.title() == "1 step: at most 0 bytes kept, 0 steps run again"
    assert str(report).startswith("1 step under no budget")
    assert "<table" not in write(timeline(report))
    assert write(timeline(Report())) == '\n<p>No step overwrites what gradients read.</p>'
    kept = replace(report, kept_bytes=64, made_again=1, steps=[replace(step, bytes=64)] * 3)
    assert "<img" in static(timeline(kept))
    assert kept.title() == "3 steps: at most 64 bytes kept, 1 step run again"
    shortest = Static(LIMITS[-1]).write(_tape(kept, LIMITS[-1]))
    assert re.search("<td[^>]*>k</td>", shortest)  # it had the head of the table alone


def test_steps_of_a_tape_are_counted_from_1():
    """Launches are counted from 1 everywhere else, too."""
    step = StepRow("k", 64, -1, 1, "", differentiable=("x",))
    rows = [step, replace(step, what="m"), replace(step, stretch=1), replace(step, what="m", stretch=1)]
    report = Report(16, 64, 2, rows, [Stretch(0, 2, 8, False), Stretch(2, 2, 8, False)])
    assert "stretch 1: steps 1 to 2, from 8 bytes" in str(report)
    assert "stretch 2: steps 3 to 4, from 8 bytes" in str(report)
    view = timeline_view(report)
    assert view.names == ["k", "m", "stretch 2: 2 steps, up to 1 time", "stretch 1: 2 steps, up to 1 time"]
    assert [(track, begin) for track, begin, *_ in view.bars if track == 2] == [(2, 4), (2, 6)]
    found = [re.findall("<td[^>]*>(.*?)</td>", row) for row in write(launches(report)).split("<tr>")[2:]]
    assert [row[:3] for row in found] == [[k, "1", str(n)] for n, k in enumerate("kmkm", 1)]  # one for each stretch


def test_code_is_forward_and_gradient_together_and_the_heap_is_that_of_the_launch(sample):
    view, kernel = sample
    for mode, (code, text) in {"forward": (40, 700), "gradient": (60, 900)}.items():
        kernel.code[mode] = [
            StageView("llvm", "cpu", CodeView, CodeView([], [("bytes of text", 1)])),
            StageView("asm", "cpu", CodeView, CodeView([], [("bytes of text", text), ("bytes of code", code)])),
            StageView("msl", "metal", CodeView, CodeView([], [("bytes of text", text)])),
        ]
    kernel.launches, kernel.heap = [], (8192, 32)
    cells = {r[0]: r[1:] for r in rows(render(view, "0/matrix"))}
    assert cells["cpu"] == ["8.0 KB", "100 B"]
    assert cells["metal"] == ["–", "1.6 KB of text"]


def rows(table: str) -> list[list[str]]:
    """The texts of the cells of the first table."""
    body = table.partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<td[^>]*>(?:<b>)?(.*?)(?:</b>)?</td>", row) for row in body.split("<tr>")[1:]]


def test_no_stacks_have_a_reason(sample):
    view, kernel = sample
    kernel.stacks = []
    assert "the pane Stacks says why" in render(view, "0/sizes")
    assert "is still in memory or can be computed again" in render(view, "0/stacks")


@pytest.mark.parametrize("pane", ["stacks", "cfg", "sizes"])
def test_no_gradient_has_a_reason(sample, pane):
    """To call the gradient helps only a kernel that uses something with a gradient."""
    view, kernel = sample
    kernel.stacks, kernel.graphs, kernel.free, kernel.kept = [], [], [], []
    del kernel.traces["gradient"]
    assert "call k.grad(), or give the cell --grad LOSS" in render(view, f"0/{pane}")
    for step in kernel.traces["forward"]:
        buffers = {name: replace(buffer, grad="") for name, buffer in step.after.buffers.items()}
        step.after = replace(step.after, buffers=buffers)
    assert "k has no gradient: it uses no field or array that was made with needs_grad" in render(view, f"0/{pane}")


def test_small_times_and_shares_have_digits():
    """"0.0026 µs" and "0% of the limit" say little."""
    assert [seconds(x) for x in (2.62e-9, 2.5e-6, 0.0)] == ["2.62 ns", "2.5 µs", ""]
    near = RooflineView(bytes=72.0, operations=694.0, seconds=20e-6, bandwidth=27.5e9, rate=146e9, dtype="f32")
    assert "<b>0.02%</b> of the device's limit, which is computing: about 72 B must move" in write(sentence(near))
    assert "<b>48%</b>" in write(sentence(replace(near, seconds=1e-8)))


def test_a_gradient_that_differs_by_nothing_is_off_by_0(sample):
    view, kernel = sample
    edit = EditView("1234", list(kernel.source), {"front end": 1e-3}, {"forward": 1e-6}, 100, 0, 0.0)
    kernel.edits = [edit, edit]
    text = render(view, "0/history")
    assert ">0</td>" in text
    assert "0.0e+00" not in text
    assert "<figcaption>stacks" not in text  # a plot of nothing
