"""Inspectors in files: pages for a browser, and files that `qd.inspect` opens without the program."""

import base64
import gzip
import html
import json
import re

import pytest
from IPython.core.formatters import DisplayFormatter
from notebook.test_magics import SETUP, WAVE

import quadrants_lab as qd
from quadrants_lab.__main__ import main
from quadrants_lab.backends import wasm
from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.notebook import show
from quadrants_lab.widgets.inspector import Inspector
from quadrants_lab.widgets.pack import answers, pack, unpack
from quadrants_lab.widgets.panes import PANES


@pytest.fixture(scope="module")
def wanted(shell, tmp_path_factory):
    """The file of a kernel, which has ended, with the steps of two iterations; and what its inspector answered."""
    assert shell.run_cell(SETUP).success
    assert shell.run_cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").success
    wave = shell.user_ns["wave"]
    path = wave.export(tmp_path_factory.mktemp("saved") / "k.json", iterations=[1, "3"])
    found = answers(show(wave).view)
    qd.reset()
    return path, found


@pytest.fixture
def seen(wanted):
    return qd.inspect(wanted[0])


def held(page: str) -> dict:
    return json.loads(gzip.decompress(base64.b64decode(re.search(r'id="data">([^<]+)<', page)[1])))


def test_a_page_holds_all_panes_and_the_steps_that_were_chosen(seen, tmp_path):
    page = seen.export(tmp_path / "k.html").read_text()
    assert not re.search(r'(?:src|href)="(?!data:)|https?://(?!www\.w3\.org/2000/svg)', page)
    found = unpack(held(page)["answers"])
    assert found == seen.answers
    assert {f"0/{p}" for p, x in PANES.items() if not x.needs} | {"0/steps/1/0/1", "0/steps/1/0/3"} <= set(found)
    assert "x.grad[3] +=" in html.unescape(found["0/steps/1/0/3"])
    assert sum("/code/" in request for request in found) > 10
    assert not any("not made yet" in text for text in found.values())


def test_a_file_is_inspected_without_the_kernel(wanted, seen, tmp_path):
    _, found = wanted
    assert {request: seen.answers[request] for request in found} == found
    assert {*seen.answers} - {*found} == {"0/steps/1/0/1", "0/steps/1/0/3"}
    assert len(json.dumps(pack(found))) < 0.8 * len(json.dumps(found))
    assert "operand of sin" in repr(seen)
    bundle = seen._repr_mimebundle_()
    assert "operand of sin" in bundle["text/html"]
    assert "not exported" in seen.answer("0/steps/1/0/2")
    again = qd.inspect(seen.export(tmp_path / "again.json"))
    assert again.answers == seen.answers


def test_a_file_that_is_the_result_of_a_cell_is_displayed_live(seen, monkeypatch):
    shells = []
    monkeypatch.setattr(seen, "display", shells.append)
    formatter = DisplayFormatter()
    formatter.ipython_display_formatter.enabled = True
    assert formatter.format(seen) == ({}, {})  # nothing is left for the formatters of static HTML and text
    assert len(shells) == 1


@pytest.mark.parametrize(("name", "text", "says"), [
    ("none.json", None, "No such file or directory"),
    ("other.json", "[1]", "it is not what the export of a kernel wrote"),
    ("binary.json", "\x00\x01", "it is not what the export of a kernel wrote"),
    ("old.json", '{"format": 0}', "it is of format 0"),
])
def test_other_files_are_refused_with_a_reason(tmp_path, name, text, says):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(qd.QuadrantsRuntimeError, match=says):
        qd.inspect(tmp_path / name)


def test_the_command_line_writes_a_page(tmp_path, capsys):
    program = tmp_path / "p.py"
    text = SETUP + WAVE + "wave()\ny.grad[None] = 1\nwave.grad()\n"
    program.write_text(text)
    assert main(["inspect", str(program), "--html", str(tmp_path / "p.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "p.html")
    found = unpack(held((tmp_path / "p.html").read_text())["answers"])
    assert "x.grad[0] +=" in html.unescape(found["0/steps"])
    assert main(["inspect", str(program), "--html", str(tmp_path / "p.txt")]) == 1
    assert main(["inspect", str(tmp_path / "none.py"), "--html", str(tmp_path / "p.html")]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"{tmp_path / 'none.py'}: No such file or directory"


def test_a_recording_outside_of_cells_displays_itself_and_is_exported(tmp_path):
    """A Tape's steps, the data of launches and the stepper are there; an exception keeps what was recorded."""
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, shape=4, needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)
    x.fill(0.5)

    @qd.kernel
    def wave(n: int):
        for i in x:
            v = x[i]
            for _ in range(n):
                v = qd.sin(v)
            y[None] += v

    with qd.recording() as seen, qd.ad.Tape(y):
        wave(3)
    assert all(part in seen.text(200) for part in ("n = 3", "x.grad", "operand of sin"))
    assert isinstance(seen._display_(), Inspector)  # marimo
    found = unpack(held(seen.export(tmp_path / "r.html", iterations=[1]).read_text())["answers"])
    assert "x.grad[1] +=" in html.unescape(found["0/steps/1/0/1"])
    assert "forward" in found["0/tape"]
    with pytest.raises(ZeroDivisionError), qd.recording():
        print(wave(5), 1 // 0)
    assert "n = 5" in str(qd.inspect(wave))
    with pytest.warns(qd.QuadrantsWarning, match="no kernel was launched"), qd.recording():
        pass


def test_what_cannot_be_written_is_told(tmp_path, monkeypatch):
    """A name of no kind, a page that computes without what makes it."""
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, 4)

    @qd.kernel
    def k():
        for i in x:
            x[i] = 1.0

    k()
    with pytest.raises(QuadrantsRuntimeError, match=r"name it \*\.html or \*\.json"):
        k.export("k.txt")
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    with pytest.raises(QuadrantsRuntimeError, match=r"QL0720.*: pip install wasmtime"):
        k.export(tmp_path / "k.html", live=True)
