"""What the panes say about sizes is what the launch took, in words of the reader's own program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from notebook.sample import cell_view

from quadrants_lab.notebook.collect import RECORDED
from quadrants_lab.runtime.tape.report import Report, StepRow
from quadrants_lab.widgets.model import EditView
from quadrants_lab.widgets.panes import render
from quadrants_lab.widgets.static import LIMITS, _tape
from quadrants_lab.widgets.timeline import bars

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
    assert "In the launch: 8.0 KB for 32 iterations at a time, 256 B each" in render(view, "0/sizes")


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
    assert report.title() == "1 step: at most 0 bytes kept, 0 steps made again"
    assert str(report).startswith("1 step under no budget")
    assert bars(report) == "<p>No step overwrites what gradients read.</p>"
    kept = replace(report, kept_bytes=64, made_again=1, steps=[replace(step, bytes=64)] * 3)
    assert "<svg" in bars(kept)
    assert kept.title() == "3 steps: at most 64 bytes kept, 1 step made again"
    assert '<td class="">k</td>' in _tape(kept, LIMITS[-1])  # the shortest copy had the head of the table alone


def test_a_gradient_that_differs_by_nothing_is_off_by_0(sample):
    view, kernel = sample
    edit = EditView("1234", list(kernel.source), {"front end": 1e-3}, {"forward": 1e-6}, 100, 0, 0.0)
    kernel.edits = [edit, edit]
    text = render(view, "0/history")
    assert ">0</td>" in text
    assert "0.0e+00" not in text
    assert "<figcaption>stacks" not in text  # a plot of nothing
