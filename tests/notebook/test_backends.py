"""`%%qdkernel --arch a,b`: launches on several backends, compared, and what is said where one cannot run."""

import re

import numpy as np
import pytest
from notebook.test_magics import SETUP, WAVE, Ran

import quadrants_lab as qd
from quadrants_lab.notebook import show
from quadrants_lab.notebook.collect import devices
from quadrants_lab.notebook.compare import SIMULATION, Backends, difference
from quadrants_lab.runtime import session
from quadrants_lab.runtime.backend import Available, available, backend, names
from quadrants_lab.widgets.panes import render

FLOATS = SETUP.replace("f64", "f32")
ROW = r"^[│ ]*{} +[\d.]+ .?s .*(?:equal|in \w)"


@pytest.fixture
def cell(shell, capsys):
    assert shell.run_cell(FLOATS).success
    return lambda text: Ran(shell, capsys, text)


def rows(name: str, text: str) -> int:
    return len(re.findall(ROW.format(name), text, re.MULTILINE))


@pytest.mark.needs("vulkan")
def test_values_gradients_times_and_stacks_beside_each_other(cell):
    ran = cell("%%qdkernel --arch cpu,vulkan,metal --grad y --quiet" + WAVE + "wave()\nNone")
    assert ran.ok, ran.text
    for title in ("wave, forward", "wave, gradient"):
        assert title in ran.text
    for name in ("vulkan", "metal(?:, simulated)?"):
        assert rows(name, ran.text) == 2, ran.text
    assert re.search(r"^vulkan .*\b20 B", ran.text, re.MULTILINE)  # five slots of f32
    if available("metal").simulated:
        assert "metal, simulated: a simulation" in ran.text


def test_the_inspector_has_them_too(cell, shell):
    ran = cell("%%qdkernel --arch cpu,vulkan,metal --grad y" + WAVE + "wave()\nNone")
    assert ran.ok, ran.text
    for part in ("code of gradient", "vulkan", "metal", "greatest difference", "stack heap"):
        assert part in ran.text
    assert cell("%qdinspect wave").text.count("greatest difference") == 2


def test_the_matrix_has_registers_where_a_tool_tells(cell, shell):
    assert cell("%%qdkernel --grad y" + WAVE + "wave()\nNone").ok
    view = show(shell.user_ns["wave"]).view
    def row(request: str, name: str) -> str:
        """Its results, and its device and registers, from two tables."""
        return "".join(r for r in render(view, request).split("<tr>") if f"<b>{name}</b>" in r)
    assert "the registers of its core" in row("0/matrix", "cpu")
    assert row("0/matrix", "amdgpu").count("not made yet") == 2
    assert 'data-get="0/matrix/all"' in render(view, "0/matrix")
    isa = next(s for s in view.kernels[0].code["gradient"] if s.name == "isa").make()
    heads = "".join(x.text for x in isa.lines if x.text.startswith(";"))  # a program each
    vector, scalar = (max(map(int, re.findall(rf"(\d+) {kind}GPRs", heads))) for kind in "VS")
    assert dict(isa.measures).items() >= {("VGPRs", vector), ("SGPRs", scalar)}
    assert f"{vector} VGPRs, {scalar} SGPRs" in row("0/matrix/all", "amdgpu")
    assert "does not tell" in row("0/matrix", "vulkan")
    assert "data-get" not in render(view, "0/matrix")


def test_without_arch_nothing_is_repeated(cell):
    text = cell("%%qdkernel --grad y" + WAVE + "wave()\nNone").text
    assert "greatest difference" not in text
    assert re.search(r"nobody has looked at it: the code for.*vulkan", re.sub(r"[\s│]+", " ", text))


@pytest.mark.needs("vulkan")
def test_what_metal_does_not_have_is_told_with_the_variable(cell):
    text = SETUP + WAVE + "wave()\nNone"
    ran = cell("%%qdkernel --arch cpu,vulkan,metal --grad y --quiet" + text)
    assert ran.ok, ran.text
    assert rows("vulkan", ran.text) == 2
    said = re.sub(r"[\s│]+", "", ran.text)  # wherever the lines were wrapped
    assert "field'x'ofkernel'wave'isf64,whichMetaldoesnothave" in said
    assert "variable'v'ofkernel'wave'isf64,whichMetaldoesnothave" in said
    assert re.search(r"-->CellIn\[\d+\](\(\d+\))?,line", said)


def test_a_backend_that_cannot_run_says_why(cell, monkeypatch):
    monkeypatch.setattr(backend("vulkan"), "probe", lambda: "The vulkan backend found no device: a test.")
    ran = cell("%%qdkernel --arch cpu,vulkan" + WAVE + "wave()\nNone")
    assert "did not run: The vulkan backend found no device: a test." in re.sub(r"[\s│]+", " ", ran.text)
    assert re.search(r"nobody has looked at it: the code for.*vulkan", re.sub(r"[\s│]+", " ", ran.text))
    assert "--arch vulkan: The vulkan backend found no device: a test; its code can be looked at" in ran.text
    assert "no device: a test" in cell("%qdbackends").text


def test_a_launch_that_failed_is_not_repeated(cell):
    bad = "\n@qd.kernel\ndef k():\n    for i in range(9):\n        x[i] = 1.0\n\nk()"
    ran = cell("%%qdkernel --arch cpu,vulkan --quiet" + bad)
    assert not ran.ok
    assert "out of bounds" in ran.text
    assert cell("%%qdkernel --arch cpu,vulkan --quiet" + WAVE + "wave()").ok


@pytest.mark.parametrize("name", [n for n in names() if available(n).runs])
def test_without_a_session_the_cell_runs_on_the_first(cell, shell, name):
    qd.reset()
    text = "\n".join(line for line in FLOATS.splitlines() if "qd.init" not in line)
    ran = cell(f"%%qdkernel --arch {name},cpu --grad y --quiet" + text + WAVE + "wave()\nNone")
    assert ran.ok, ran.text
    assert session.current().settings.backend == name
    np.testing.assert_allclose(shell.user_ns["x"].grad.to_numpy()[0], 0.9754, atol=1e-4)
    assert ("a simulation" in ran.text) == available(name).simulated
    assert rows("cpu", ran.text) == (0 if name == "cpu" else 2)


@pytest.mark.needs("vulkan")
def test_a_cell_that_ran_elsewhere_says_so(cell):
    ran = cell("%%qdkernel --arch vulkan --quiet" + WAVE + "wave()\nNone")
    assert "the cell ran on cpu, the backend of its session, and was repeated on vulkan" in ran.text
    assert "qd.init(arch=qd.vulkan)" in ran.text


def test_an_unknown_backend_lists_those_there_are(cell):
    ran = cell("%%qdkernel --arch cpu,abacus\n1")
    assert "--arch abacus: no such backend here; there are cpu" in ran.text


@pytest.mark.needs("vulkan")
def test_arrays_and_what_was_returned(cell):
    text = "@qd.kernel\ndef total(a: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.f32:\n    s = 0.0\n"
    text += "    for i in range(4):\n        a[i] += 1.0\n        s += a[i]\n    return s\n"
    ran = cell("%%qdkernel --arch cpu,vulkan,metal\n" + text + "total(np.arange(4, dtype=np.float32))")
    assert ran.ok, ran.text
    assert "returned" in ran.text
    assert rows("vulkan", ran.text) == 1


def test_differences():
    nan, inf = np.nan, np.inf
    a = np.array([1, nan, inf, -inf, 2], np.float32)
    assert difference(a, a.copy()) == (0.0, ())
    assert difference(np.array([1.0, 2.0]), np.array([1.0, 2.5])) == (0.5, (1,))
    assert difference(np.array([[1.0, nan]]), np.array([[1.0, 2.0]])) == (inf, (0, 1))
    assert difference(np.array([inf]), np.array([-inf])) == (inf, (0,))
    assert difference(np.array(3), np.array(5)) == (2.0, ())
    assert difference(np.array([0], np.uint8), np.array([255], np.uint8)) == (255.0, (0,))
    assert difference(np.array([True, False]), np.array([True, True])) == (1.0, (1,))
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))) == (0.0, ())
    big = np.array([2**62], np.int64)
    assert difference(big, big + 1)[0] == 1.0


def test_devices_are_listed():
    shown = Backends()
    assert [row.name for row in shown.rows] == list(names())
    text, html = repr(shown), shown._repr_html_()
    for row in shown.rows:
        for said in row.devices or (row.why_not,):
            assert said in text
        assert f"<b>{row.name}</b>" in html
    assert re.search(r"^cpu +\S+, \d+ thread", text, re.MULTILINE)


def test_a_backend_without_a_device_may_still_run():
    assert Available("metal", (), "no GPU", simulated=True).runs
    assert not Available("metal", (), "no GPU", simulated=False).runs


def test_a_device_that_is_simulated_is_described_in_one_sentence(monkeypatch):
    row = Available("metal", (), "It is not here.", simulated=True)
    monkeypatch.setattr("quadrants_lab.notebook.compare.available", lambda name: row)
    assert devices()[0] == ("metal", f"It is not here; {SIMULATION}")
