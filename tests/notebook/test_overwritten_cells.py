"""Cells whose kernels overwrite what their gradients need, on several backends, step by step; cells that race."""

import re

import numpy as np
import pytest

from quadrants_lab.notebook import show
from quadrants_lab.widgets.panes import render, shape
from quadrants_lab.widgets.static import static_html

SETUP = """
import numpy as np
import quadrants_lab as qd
qd.init(arch=qd.cpu)
x = qd.field(qd.f32, shape=6, needs_grad=True)
at = qd.field(qd.i32, shape=6)
y = qd.field(qd.f32, shape=(), needs_grad=True)
x.from_numpy(np.linspace(0.2, 0.7, 6).astype(np.float32))
at.from_numpy(np.array([0, 1, 2, 3, 4, 4], np.int32))
"""
IN_PLACE = """
@qd.kernel
def in_place():
    for i in x:
        for _ in range(3):
            x[i] = qd.sin(x[i]) * x[i] + 0.3
    for i in x:
        y[None] += x[i]

in_place()
"""
SCATTER = """
@qd.kernel
def scatter():
    for i in x:
        x[at[i]] = x[i] * 0.5
        y[None] += x[at[i]]

scatter()
"""


@pytest.fixture
def cell(shell, capsys):
    assert shell.run_cell(SETUP).success

    def run(text: str):
        capsys.readouterr()
        result = shell.run_cell(text, store_history=True)
        out, err = capsys.readouterr()
        return result, re.sub(r"\x1b\[[0-9;]*m", "", out + err)

    return run


def test_backends_agree_and_the_panes_say_what_was_kept(cell, shell) -> None:
    result, text = cell("%%qdkernel --grad y --arch cpu,vulkan,metal --check\n" + IN_PLACE + "x.grad.to_numpy()")
    assert result.success, text
    v = np.linspace(0.2, 0.7, 6)
    d = np.ones(6)
    for _ in range(3):
        d, v = d * (np.cos(v) * v + np.sin(v)), np.sin(v) * v + 0.3
    np.testing.assert_allclose(result.result, d, rtol=1e-5)
    view = show(shell.user_ns["in_place"]).view.kernels[0]
    assert [(k.name, k.elements, k.bytes) for k in view.kept] == [("x", 6, 24)]
    compared = [run for launch in view.launches for run in launch.compared]
    assert len(compared) >= 4, text
    assert not [run.problem for run in compared if run.problem]
    assert all(float(run.greatest.split()[0]) < 1e-5 for run in compared if run.greatest), text


def test_steps_of_a_gradient_that_starts_from_what_was_kept(cell) -> None:
    result, text = cell("%%qdkernel --grad y --quiet\n" + IN_PLACE)
    assert result.success, text
    result, text = cell("%qdstep in_place 2")
    assert result.success, text


@pytest.mark.parametrize("options", ["--grad y --check", "--check --grad y --quiet"])
def test_check_reports_a_race(cell, options) -> None:
    result, text = cell(f"%%qdkernel {options}\n" + SCATTER)
    assert not result.success
    assert re.search(r"QL2075.*iterations race for x\[4\]", text), text
    result, text = cell("1 + 1")
    assert result.result == 2
    result, text = cell("%%qdkernel --grad y --quiet\n" + SCATTER)
    assert result.success, text


def test_a_certain_race_is_reported_in_any_cell(cell) -> None:
    result, text = cell("%%qdkernel --release\n" + SCATTER.replace("x[at[i]] = x[i] * 0.5", "x[i] = x[(i + 1) % 6]"))
    assert not result.success
    assert "QL1706" in text


@pytest.mark.parametrize("options, loss", [("--grad y", ""), ("", "\nwith qd.ad.Tape(y):\n    in_place()")])
def test_a_pane_tells_what_a_tape_kept(cell, shell, options, loss) -> None:
    result, text = cell(f"%%qdkernel {options}\n" + IN_PLACE.replace("\nin_place()", loss or "\nin_place()"))
    assert result.success, text
    view = show(shell.user_ns["in_place"]).view
    assert ["tape", "Tape"] in shape(view)["panes"]
    pane = render(view, "0/tape")
    kept = r'<td class="num">24</td></tr></tbody></table>\s*<p class="foot">Each step: it overwrites what its own'
    times = r'(<td class="num">1</td>){2}(<td class="num">[\d.]+ [mµn]s</td>){2}'
    assert re.search(f"<td>in_place</td>{times}{kept}", pane)
    assert "it overwrites what its own gradient reads" in static_html(view)


def test_a_pane_tells_what_a_budget_kept_and_made_again(cell, shell) -> None:
    launches = "\nwith qd.ad.Tape(y, memory=100) as tape:\n    for _ in range(9):\n        in_place()"
    result, text = cell("%%qdkernel\n" + IN_PLACE.replace("\nin_place()", launches))
    assert result.success, text
    tape, view = shell.user_ns["tape"], show(shell.user_ns["in_place"]).view
    assert [report.steps for report in view.kernels[0].tapes] == [tape.report.steps]
    assert tape.kept_bytes == tape.report.kept_bytes <= 100
    assert tape.made_again == tape.report.made_again == sum(step.times for step in tape.report.steps) > 8
    title = f"9 steps: at most {tape.kept_bytes} bytes kept, {tape.made_again} steps run again, budget 100 bytes"
    pane = render(view, "0/tape")
    assert title in pane
    assert "in the end all steps are, to leave memory as it was" in pane


def test_the_report_of_a_tape_that_kept_nothing_is_a_sentence(cell, shell) -> None:
    made = "qd.ad.Tape(qd.field(float, (), needs_grad=True), memory=9)"
    result, text = cell(f"with {made} as tape:\n    pass\ntape.report")
    assert result.success, text
    assert "no step overwrites what gradients read" in repr(result.result)
    shown = shell.display_formatter.format(result.result)[0]["text/html"]
    assert "0 steps: nothing kept of a budget of 9 B" in shown
    assert "No step overwrites what gradients read." in shown
    assert "<img" not in shown  # there is nothing to draw
