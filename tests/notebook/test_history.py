"""The runs of a cell leave rows: edits, times, the check of the gradient."""

from __future__ import annotations

import numpy as np

from quadrants_lab.notebook.collect import RECORDED
from quadrants_lab.notebook.history import EDITS, MOST_EDITS, remember_edit
from quadrants_lab.runtime.check.report import Verdict
from quadrants_lab.widgets.heat import heatmap
from quadrants_lab.widgets.model import CellView, KernelView, Line

CELL = """
import quadrants_lab as qd
qd.init(arch=qd.cpu)
x = qd.field(qd.f32, 8, needs_grad=True)
y = qd.field(qd.f32, (), needs_grad=True)

@qd.kernel
def edited():
    for i in x:
        y[None] += {factor} * x[i] * x[i]

x.fill(0.5)
edited()
"""


def test_each_run_is_a_row_with_its_check(shell):
    EDITS.clear()
    for factor, check in (("2.0", ""), ("2.0", " --check"), ("3.0", "")):
        shell.run_cell_magic("qdkernel", f"--grad y{check}", CELL.format(factor=factor))
    rows = EDITS["edited"]
    assert len({r.digest for r in rows[:2]}) == 1
    assert rows[2].digest != rows[0].digest
    assert [r.error is None for r in rows] == [True, False, True]
    assert rows[1].error < 1e-2
    for r in rows:
        assert {"front end", "machine code"} <= r.parts.keys()
        assert {"forward", "gradient"} == r.launches.keys()
        assert r.code > 0
    kernel = shell.user_ns["edited"]
    assert len(RECORDED[kernel.dispatcher].edits) == 3


def test_of_many_runs_the_last_are_kept():
    EDITS.clear()
    for n in range(MOST_EDITS + 5):
        remember_edit(CellView("t", [KernelView("k", "cell", [Line(f"x = {n}", 1)])]), [Verdict("x", "right", "")])
    assert len(EDITS["k"]) == MOST_EDITS
    assert EDITS["k"][-1].source[0].text == f"x = {MOST_EDITS + 4}"


def test_a_picture_of_any_array():
    assert heatmap(np.zeros(2)) == ""
    for shape in ((3,), (1000,), (5, 7), (300, 400), (2, 3, 4)):
        values = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        values.flat[1] = np.nan
        assert heatmap(values).startswith("data:image/png;base64,iVBORw0KGgo")
        assert len(heatmap(values)) < 20_000
