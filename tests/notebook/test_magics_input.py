"""Input of cells: errors in it, completions, names that are redefined."""

import linecache
import re
import warnings

import pytest
from IPython.core.completer import CompletionContext
from notebook.test_magics import WAVE, Ran, cell  # noqa: F401  # fixtures

import quadrants_lab as qd
from quadrants_lab.ir.parse import parse_size
from quadrants_lab.notebook.cell import compile_cell
from quadrants_lab.notebook.options import OPTIONS, candidates
from quadrants_lab.notebook.views import readable
from quadrants_lab.runtime import session


def test_no_session_is_needed_before(cell, shell, capsys):
    qd.reset()
    assert Ran(shell, capsys, "%%qdkernel --quiet\nz = qd.field(qd.f32, shape=2)").ok
    assert session.current().alive


BAD = [
    ("%%qdkernel\n@qd.kernel\ndef k():\n    for i in x\n        pass", "SyntaxError", "line 4"),
    ("%%qdkernel\n@qd.kernel\ndef k():\n    for i in x:\n        x[i] = nothing\n\nk()", "'nothing'", "line 5"),
    ("%%qdkernel\n@qd.kernel\ndef k():\n    for i in x:\n        import os\n\nk()", "QuadrantsSyntaxError", "line 5"),
    ("%%qdkernel\n@qd.kernel\ndef k():\n    for i in range(9):\n        x[i] = 1.0\n\nk()", "out of bounds", "line 5"),
    ("%%qdkernel\n@qd.kernel\ndef k(s: qd.i32):\n    for i in range(0, 4, s):\n        x[i] = 1.0\n\nk(0)",
     "the step of this range is 0", "line 4"),
    ("%%qdkernel\n@qd.kernel\ndef k(a: qd.i32):\n    y[None] = a\n\nk(1.5)", "argument 'a' of k", "line 6"),
    ("%%qdkernel" + WAVE + "wave(3)", "takes 0 arguments", "line 10"),
    ("%%qdkernel" + WAVE + "wave()\nwave.grad().nothing", "AttributeError", "nothing"),
    ("%%qdkernel --grad q" + WAVE + "wave()", "no such name", "x, n, y"),
    ("%%qdkernel --grad n" + WAVE + "wave()", "i32", "sum it into"),
    ("%%qdkernel --grad x" + WAVE + "wave()", "shape (4,)", "sum it into"),
    ("%%qdkernel --grad np" + WAVE + "wave()", "module", "not a field"),
    ("%%qdkernel --grad y\n1", "launched no kernel", "needs_grad"),
    ("%%qdkernel --grad y" + WAVE + "wave()\nwave.grad()", "runs the gradients itself", "line 11"),
    ("%%qdkernel --bogus" + WAVE, "UsageError: --bogus: no such option", "--grad"),
    ("%%qdkernel --grda y" + WAVE, "did you mean --grad?", "--shards COUNT  of a cell"),
    ("%%qdkernel --arch abacus" + WAVE, "no such backend", "cpu"),
    ("%%qdkernel --grad" + WAVE, "UsageError", "expected one argument"),
    ("%%qdkernel --grad 'y" + WAVE, "UsageError", "cannot read the options"),
    ("%%qdkernel --help\n1", "--release", "--arch"),
    ("%%qdkernel --quiet\nimport asyncio\nawait asyncio.sleep(0)", "'await' outside function", "await in an ordinary"),
    ("%%qdkernel\n!true\n\nx = = 1", "SyntaxError", "line 4"),
    ("%qdinspect", "takes the name of a kernel", ""),
    ("%qdinspect x", "not a kernel", "ScalarField"),
    ("%qdinspect nothing", "no such name", ""),
]


@pytest.mark.parametrize("text, says, where", BAD, ids=[b[1][:24] for b in BAD])
def test_bad_input_is_a_short_error_and_the_next_cell_works(cell, text, says, where):
    ran = cell(text)
    assert not ran.ok
    assert says in ran.text
    assert where in ran.text
    if "AttributeError" not in ran.text:
        assert len(ran.text.splitlines()) < 12, ran.text
    assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").ok


@pytest.mark.parametrize(("options", "text", "says"), [
    ("--quiet", "%time wave()", "Wall time"),
    ("--quiet", "%%time\nwave()", "Wall time"),
    ("--quiet", "\n\n!echo {1 + 1} apples\nwave()", "2 apples"),
    ("--quiet", "told = !echo plums\nwave(); told", "['plums']"),
    ("--quiet", "    wave()\n    y[None]", "Out["),
    ("--quiet --arch cpu, c  # on both", "wave()", "c  "),
    ("--quiet --check --grad box.loss", "import types\nbox = types.SimpleNamespace(loss=y)\nwave()", "right"),
])  # fmt: skip
def test_what_ipython_allows_in_cells(cell, options, text, says):
    assert cell("%%qdkernel --quiet" + WAVE).ok
    ran = cell(f"%%qdkernel {options}\n{text}")
    assert ran.ok
    assert says in ran.text


def test_a_plain_cell_shows_diagnostics_shortly_too(cell):
    ran = cell(WAVE + "wave(1)")
    assert not ran.ok
    assert "raised at" in ran.text
    assert len(ran.text.splitlines()) < 8


def test_other_errors_keep_their_traceback(cell):
    ran = cell("%%qdkernel\ndef f():\n    return 1 / 0\n\nf()")
    assert "ZeroDivisionError" in ran.text
    assert "----> 3     return 1 / 0" in ran.text
    assert "run_cell_magic" not in ran.text  # the magic's frame shows all of the cell in one line


def test_a_cell_without_kernel_says_so(cell):
    ran = cell("%%qdkernel\n1 + 1")
    assert ran.ok
    assert "launched no kernel" in ran.text


def test_release_leaves_the_checks_out(cell):
    text = "@qd.kernel\ndef k(j: qd.i32):\n    for i in range(2):\n        x[i + j] = 1.0\n\nk(0)"
    assert cell("%%qdkernel --quiet --release\n" + text).ok
    assert cell("assert 'assert' not in k.ir()").ok
    assert cell("%%qdkernel --quiet\nk(1)").ok
    assert cell("assert 'assert' in k.ir()").ok
    assert cell("k(0)\nassert 'assert' not in k.ir()").ok


# --- pieces -------------------------------------------------------------------------------------------------------

def test_line_numbers_are_those_of_the_editor():
    made = compile_cell("a = 1\n\nraise ValueError", "%%qdkernel", 90_001)
    assert linecache.getline(made.file, 4) == "raise ValueError"
    with pytest.raises(SyntaxError) as caught:
        compile_cell("a = 1\nb = = 2", "%%qdkernel", 90_002)
    assert caught.value.lineno == 3


def test_a_number_that_comes_again_gets_another_name():
    first = compile_cell("a = 1", "%%qdkernel", 90_003)
    assert compile_cell("a = 1", "%%qdkernel", 90_003).file == first.file
    assert compile_cell("a = 2", "%%qdkernel", 90_003).file != first.file


@pytest.mark.parametrize(
    "text, shown",
    [("1", True), ("1;", False), ("a = 1", False), ("a = 1\na  # note", True), ("a = 1\na; # note", False)],
)
def test_the_last_expression_is_displayed_unless_silenced(text, shown):
    assert (compile_cell(text, "%%qdkernel", 90_004).last is not None) is shown


@pytest.mark.parametrize("line, found", [
    ("%%qdkernel ", list(OPTIONS)),
    ("%%qdkernel --g", ["--grad"]),
    ("%%qdkernel --grad ", ["loss1", "loss2"]),
    ("%%qdkernel --arch cpu,", ["metal"]),
    ("%%qdkernel --arch cpu,me", ["metal"]),
    ("%%qdkernel --quiet --q", []),
    ("%qdinspect k", ["k1"]),
    ("%qdstep ", ["k1"]),
    ("%qdstep k1 ", ["--launch", "--step", "--line"]),
    ("%qdstep k1 3 --li", ["--line"]),
    ("%qdstep k1 --launch ", []),
    ("%qdcheck ", ["loss1", "loss2"]),
    ("%%time --g", []),
    ("%%qdkernel", []),
])
def test_completions(line, found):
    names = {"loss": ["loss1", "loss2"], "arch": ["cpu", "metal"], "kernel": ["k1"]}
    assert candidates(line, lambda kind: names[kind]) == found


def test_the_shell_completes_options_and_names(shell, cell):
    assert cell(WAVE).ok
    found = [m for m in shell.Completer.custom_matchers if getattr(m, "matcher_identifier", "") == "quadrants_lab"]
    assert len(found) == 1
    for line, want in (("%%qdkernel --grad ", "y"), ("%qdinspect ", "wave"), ("%%qdkernel --re", "--release")):
        context = CompletionContext(token="", full_text=line, cursor_position=len(line), cursor_line=0, limit=None)
        assert want in [c.text for c in found[0](context)["completions"]]


@pytest.mark.parametrize("size, text", [
    ("max(@n[], 0)", "max(n[None], 0)"),
    ("sum(j%8 in 0..@n[]: max(j%8, 0))", "sum of max(j, 0) for j in range(n[None])"),
    ("@m[%3] * @a.shape[0]", "m[k] * a.shape[0]"),
    ("arg count + 1", "count + 1"),
])
def test_sizes_read_as_the_user_would_write_them(size, text):
    assert readable(parse_size(size)) == text


RAISES = """
@qd.kernel
def guarded():
    for i in x:
        assert x[i] < 0.3, f"{{x}} is {x[i]}"
        y[None] += x[i]
"""


def test_asserts_hold_in_inspected_cells_unless_released(cell):
    failed = cell("%%qdkernel --quiet" + RAISES + "guarded()")
    assert not failed.ok
    assert re.search(r"assertion failed in kernel guarded: \{x\} is 0.[34]", failed.text)  # either may be first
    assert "line 5" in failed.text
    assert cell("%%qdkernel --quiet --release\nguarded()").ok


def test_a_cell_without_a_launch_names_the_kernels_that_it_defines(cell):
    assert "it defines guarded: call it" in cell("%%qdkernel" + RAISES).text
    assert "a function under @qd.kernel" in cell("%%qdkernel\n1").text


def test_the_line_magic_lists_the_options(cell):
    for option in OPTIONS:
        assert option in cell("%qdkernel --help").text


def test_a_warning_shows_its_line_once(cell):
    through = "t = qd.field(qd.f64, shape=4)\n@qd.kernel\ndef through():\n    for i in x:\n        t[i] = x[i]\n"
    through += "    for i in x:\n        y[None] += t[i]\n"
    for magic in ("%%qdkernel --quiet\n", ""):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert cell(magic + through + "through()\nthrough.grad()").ok
        (w,) = caught
        text = warnings.formatwarning(w.message, w.category, w.filename, w.lineno, w.line)
        assert text.startswith("warning[QL0407]")
        assert re.search(r"--> Cell In\[\d+\]( \(\d+\))?, line", text)
        assert text.count("t[i] = x[i]") == 1


def test_missing_packages_are_reported_without_a_traceback(cell):
    for magic in ("%%qdkernel\n", ""):
        ran = cell(magic + "qd.Mesh")
        assert not ran.ok
        assert "meshes are outside of quadrants_lab" in ran.text
        assert "missing.py" not in ran.text


def test_shards_ask_for_a_program_and_its_data(cell):
    for line in ("--shards", "--shards x", "--shards 1", "--shards 2 --grad y"):
        assert not cell(f"%%qdkernel {line}\n1").ok
    ran = cell("%%qdkernel --shards 2\nqd.sync()")
    assert "QL2212" in ran.text
    assert "the cell does not end in fn(params, data)" in ran.text
    assert "QL2213" in cell("%%qdkernel --shards 2\nmax(1, 2)").text
