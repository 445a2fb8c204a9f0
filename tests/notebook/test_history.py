"""The runs of a cell leave rows: edits, times, the check of the gradient."""

import base64
import re
import struct
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from quadrants_lab.ir.types import DTYPES
from quadrants_lab.notebook import inspection
from quadrants_lab.notebook.collect import EDITS, MOST_EDITS, RECORDED, remember_edit
from quadrants_lab.notebook.inspection import Inspection, cell_and_run
from quadrants_lab.notebook.values import array_view
from quadrants_lab.runtime.check.differences import Move
from quadrants_lab.runtime.check.report import Verdict
from quadrants_lab.widgets import heatmap, inspector
from quadrants_lab.widgets.history import pane
from quadrants_lab.widgets.inspector import Inspector
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import ArrayView, CellView, KernelView, Line

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
    rows = EDITS["", "edited", 1]
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
    assert len(EDITS["", "k", 1]) == MOST_EDITS
    assert EDITS["", "k", 1][-1].source[0].text == f"x = {MOST_EDITS + 4}"


def test_kernels_of_one_name_have_histories_of_their_own():
    EDITS.clear()
    def ran(cell: str, *texts: str) -> list[list[str]]:
        view = CellView("t", [KernelView("k", "cell", [Line(text, 1)]) for text in texts])
        remember_edit(view, (), cell)
        return [[e.source[0].text for e in kernel.edits] for kernel in view.kernels]
    assert ran("a", "x = 1", "y = 1") == [["x = 1"], ["y = 1"]]  # two of one cell
    assert ran("b", "z = 1") == [["z = 1"]]  # another cell
    assert ran("a", "x = 2", "y = 1") == [["x = 1", "x = 2"], ["y = 1", "y = 1"]]


def test_the_front_end_tells_which_cell_runs():
    request = {"header": {"msg_id": "7"}, "metadata": {"cellId": "5c1f"}}
    assert cell_and_run(SimpleNamespace(get_parent=lambda: request)) == ("5c1f", "7")
    assert cell_and_run(SimpleNamespace(get_parent=lambda: {})) == ("", "")  # a front end without ids
    assert cell_and_run(SimpleNamespace()) == ("", "")  # a terminal


@pytest.mark.parametrize(
    ("runs", "alive"),  # the cell and the run of each widget, and which of them are left
    [
        ([("a", "1"), ("a", "2"), ("a", "3")], [2]),  # a notebook saved with its widgets does not grow
        ([("a", "1"), ("b", "2"), ("a", "3")], [1, 2]),
        ([("a", "1"), ("a", "1"), ("a", "2"), ("a", "2")], [2, 3]),  # a cell may display several
        ([("", "1"), ("", "2")], [0, 1]),
    ],
)
def test_a_run_closes_the_widgets_of_the_last_run_of_its_cell(monkeypatch, runs, alive):
    made = []
    monkeypatch.setattr(inspection, "_DISPLAYED", {})
    monkeypatch.setattr(inspector, "Inspector", lambda *args: made.append(Inspector(*args)) or made[-1])
    for cell, run in runs:
        request = {"header": {"msg_id": run}, "metadata": {"cellId": cell} if cell else {}}
        shell = SimpleNamespace(kernel=None, get_parent=lambda request=request: request)
        Inspection(CellView("t", [KernelView("k", "cell", [Line("x = 1", 1)])])).display(shell)
    assert [n for n, widget in enumerate(made) if widget.comm is not None] == alive
    assert [n for n, widget in enumerate(made) if widget.layout.comm is not None] == alive


def test_a_gradient_that_is_not_finite_is_said_and_not_drawn():
    EDITS.clear()
    for kind in ("right", "nonfinite", "right"):
        view = KernelView("k", "cell", [Line("x = 1", 1)])
        moved = (Move(1e-3, 1e-3, 1.0, 1.5, 0.0, 0.0),)
        remember_edit(CellView("t", [view]), [Verdict("x", kind, "", moved)])
    assert [e.error for e in view.edits if e.error == e.error] == [view.edits[0].error, view.edits[2].error]
    html = write(pane(view, "0/history", ()))
    assert ">not finite</td>" in html
    assert "nan" not in html
    (line,) = re.findall('<polyline points="([^"]*)"/>', html)
    assert len(line.split()) == 2
    assert re.findall(r"off by <b>(.*?)</b>", html) == ["3.3e-01"]


def seen(values) -> ArrayView:
    return array_view("a", DTYPES["f64"], np.array(values, float))


@pytest.mark.parametrize(("shape", "slices", "block", "square", "says"), [
    ((3,), 1, (1, 1), "48px;height:16px", "a[2] = 1"),
    ((1000,), 1, (1, 8), "250px;height:16px", "mean of a[992:1000] = 0.992993"),
    ((5, 7), 1, (1, 1), "112px;height:80px", "a[4, 6] = 1"),
    ((300, 400), 1, (5, 5), "240px;height:180px", "mean of a[295:300, 395:400] = 0.986633"),
    ((2, 3, 4), 2, (1, 1), "64px;height:48px", "a[1, 2, 3] = 1"),
    ((2, 2, 3, 4), 4, (1, 1), "64px;height:48px", "a[1, 1, 2, 3] = 1"),
])  # fmt: skip
def test_a_picture_of_any_array(shape, slices, block, square, says):
    """Squares are square but in a single row, which is as high as a pointer needs; the last one is the last element,
    and what is not finite is told."""
    values = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    values.flat[1] = np.nan
    view = seen(values)
    assert (len(view.picture.slices), view.picture.block) == (slices, block)
    last = slices - 1
    assert heatmap.element(view, last, *(n - 1 for n in view.picture.values.shape[1:])) == says
    shown = write(heatmap.shown(view, "0/run/0/a", "s"))
    assert f"width:{square}" in shown
    assert ("range" in shown) is (slices > 1)
    first = write(heatmap.one(view, "0/run/0/a", 0))
    assert "not finite" in first
    assert re.search(r"a\[.*?\] -[\d.]+ <img", first)
    assert len(first) < 30_000
    assert "there is no such slice" in write(heatmap.asked(view, "0/run/0/a", [str(slices)]))


@pytest.mark.parametrize(("values", "ends"), [
    ([0.0, 2.0, 3.0], (0, 3)), ([-1.0, 2.0, 3.0], (-3, 3)), ([-4.0, -2.0, -3.0], (-4, -2)), ([5, 5, np.inf], (5, 5)),
])  # fmt: skip
def test_the_scale_goes_from_the_least_to_the_greatest(values, ends):
    """If there are values of both signs, the scale is symmetric about 0."""
    shown = seen(values).picture
    assert heatmap.scale(shown.values[0], shown.signed) == ends
    assert seen(values[:2]).picture is None


def test_each_slice_has_its_own_scale():
    """On a common scale a slice with values of a thousandth is a single colour. What lies above zero is red in each
    slice, and a slice without finite values has no scale."""
    waves = np.array([[0.25, 0.5], [-0.5, 1.0]])
    view = seen([waves * 1e-3, waves * 1e3, np.abs(waves), waves * np.nan])
    pictures = [heatmap.picture(view, n) for n in range(4)]
    small, large, above, lost = (picture.uri for picture, _ in pictures)
    assert small == large != above
    texts = [write(foot) for _, foot in pictures]
    ends = [re.findall(r"(-?[\d.]+) <img.*?> (-?[\d.]+)", text) for text in texts]
    assert ends == [[("-0.001", "0.001")], [("-1000", "1000")], [("-1", "1")], []]
    assert ["each slice has its own scale" in text for text in texts] == [True, True, True, False]
    assert "everywhere" not in texts[3]
    assert lost not in (small, large, above)


def test_a_picture_of_few_elements_is_short():
    """A palette of 256 colours took 1 KB of the room that a saved notebook has for all panes."""
    uri = heatmap.picture(seen([0.0, -1.0, 0.5, 0.0, 1.0]), 0)[0].uri
    assert len(uri) < 200
    image = base64.b64decode(uri.partition(",")[2])
    body = {}
    at = 8
    while at < len(image):
        (length,) = struct.unpack_from(">I", image, at)
        body[image[at + 4 : at + 8]] = image[at + 8 : at + 8 + length]
        at += 12 + length
    colours = [tuple(body[b"PLTE"][3 * n : 3 * n + 3]) for n in zlib.decompress(body[b"IDAT"])[1:]]
    assert colours[0] == colours[3] == (247, 247, 247)
    assert (colours[1], colours[4]) == ((33, 102, 172), (178, 24, 43))
