"""`python -m quadrants_lab opt`: IR text in, passes, IR text out; and what it says of text that is wrong."""

import io

import pytest
from programs import PROGRAMS
from running import interpreted, job_of

import quadrants_lab as qd
from quadrants_lab.__main__ import main
from quadrants_lab.errors import QuadrantsWarning
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.runtime.backend import backend
from quadrants_lab.runtime.compile.compile import tasks_ir

TEXT = """kernel double() forward {
  buffer @x: field f32[4]
  offload range_for bounds {
    %0: i32 = const 0
    %1: i32 = const 4
    yield %0, %1
  } do (%2: i32 'i') {
    %3: f32 = load @x[%2]
    %4: f32 = add %3, %3
    %5: f32 = load @x[%2]
    store @x[%2], %4
    yield
  }
}
"""
WITH_GRADIENT = TEXT.replace("f32[4]", "f32[4] grad @x.grad\n  buffer @x.grad: field f32[4]")


@pytest.fixture
def opt(tmp_path, capsys):
    """Status, stdout and stderr of the command on a file with this text."""

    def run(passes, text=TEXT, *options):
        file = tmp_path / "k.qlir"
        file.write_text(text)
        status = main(["opt", "-p", passes, *options, str(file)])
        out, err = capsys.readouterr()
        return status, out, err.replace(str(tmp_path) + "/", "")

    return run


def test_passes_run_in_order(opt):
    status, out, err = opt("cse,dce", TEXT, "--verify")
    assert (status, err) == (0, "")
    assert "%5" not in out
    assert "%4: f32 = add %3, %3" in out
    assert opt("dce,cse")[1] == out


def test_no_pass_prints_the_text_in_its_own_form(opt):
    assert opt("")[1].replace(" next %10", "").replace(" #6", "") == TEXT


def test_the_text_of_a_kernel_before_all_passes_has_what_its_gradient_needs(opt):
    """docs/start.md gave the text after all passes, from which a pass has dropped it."""
    qd.init(arch=qd.cpu)
    x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    @qd.kernel
    def squares():
        for i in x:
            y[None] += x[i] * x[i]
    squares()
    status, out, err = opt("gradient", squares.ir("front end"), "--verify")
    assert (status, err) == (0, "")
    assert "atomic add @x.grad[" in out
    with pytest.warns(QuadrantsWarning, match="QL0400"):
        assert "@x.grad" not in opt("gradient", squares.ir())[1]


def test_names_may_have_hyphens_and_pipelines_have_names(opt):
    assert opt("privatize-atomics")[1] == opt("privatize_atomics")[1]
    status, out, _ = opt("checked, gradient", WITH_GRADIENT, "--verify")
    assert status == 0
    assert "atomic add @x.grad[%2], %13 private" in out


def test_passes_have_arguments_in_braces(opt):
    sines = TEXT.replace("add %3, %3", "sin %3").replace("const 4\n", "const 4000\n").replace("[4]", "[4000]")
    assert 'range_for lanes 32 grain 689 why "32 lanes: sin" bounds {' in opt("cpu-schedule{width=8}", sines)[1]
    assert "offload range_for grain 689 bounds {" in opt("cpu-schedule{width=0}", sines)[1]
    assert opt("cse, cpu-schedule{width=8 reproducible=true},dce")[0] == 0


def every_pipeline():
    """The pipelines by name, and those that options, the data of a kernel or a device make."""
    from quadrants_lab.pipelines import by_name, derivatives, launch
    yield from by_name.PIPELINES.items()
    for how in ({"debug": True}, {"check_races": True, "suspect_races": True}, {"aliases": True, "ad_unroll": (4, 2)}):
        options = CompileOptions(**how)
        yield f"options {how}", (
            *launch.front(options), *launch.primal(options), *derivatives.before_reverse(options), *launch.ON_HOST,
        )  # fmt: skip
    yield "the rest", (*derivatives.FIRST, *derivatives.COUNTING_SLICES, *derivatives.SPARSE, *derivatives.gradient())
    for name in ("red_and_black", "arguments_in_place", "a_local_of_the_kernel_from_what_is_overwritten"):
        program = PROGRAMS[name]
        kernel = interpreted(job_of(program, program.cases[0]), gradient=False).forward[0].kernel
        keeps = derivatives.kept_by(tasks_ir(kernel, CompileOptions()))
        assert keeps.saved
        yield name, (derivatives.SaveOverwritten(keeps), *derivatives.gradient(keeps))
    for fast in (True, False):
        for arch in ("cpu", "c", "cuda", "amdgpu", "vulkan", "metal", "wasm"):
            yield f"{arch}, fast_math={fast}", backend(arch).lowering(CompileOptions(fast_math=fast))


def test_every_pass_of_every_pipeline_reads_back_what_it_writes():
    from quadrants_lab.ir.passes import Parametrised, written
    from quadrants_lab.pipelines.by_name import passes_by_name
    for name, passes in every_pipeline():
        read = passes_by_name(", ".join(map(written, passes)))
        assert [*map(written, read)] == [*map(written, passes)], name
        for fn, same in zip(passes, read, strict=True):
            assert fn == same or not isinstance(fn, Parametrised), name


def test_standard_input(opt, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert main(["opt", "-p", "cse", "-"]) == 0
    assert capsys.readouterr().out == opt("cse")[1]


def test_help_lists_every_pass(capsys):
    from quadrants_lab.pipelines.by_name import PASSES, PIPELINES
    assert main(["opt", "-p", "help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{out}" for name in (*PASSES, *PIPELINES))


SERIAL = "kernel k() forward {\n  buffer @x: field f32[4]\n  %0: i32 = const 0\n  %1: f32 = load @x[%0]\n}\n"
UNREAD = """k.qlir: line 9: unexpected text after the statement
9 |     %4: f32 = add %3 %3
  |                      ^
"""
INVISIBLE = """error: invalid IR in kernel 'double' before the first pass: %7 is read where it is not visible
  --> k.qlir, line 11
11 |     store @x[%2], %7
   |     ^^^^^^^^^^^^^^^^
"""
WRONG = {
    "a name": ("cse,csee", TEXT, "no pass 'csee': there are check_bounds, "),
    "the text": ("cse", TEXT.replace("add %3,", "add %3"), UNREAD),
    "the IR": ("cse", TEXT.replace("store @x[%2], %4", "store @x[%2], %7"), INVISIBLE),
    # which a pass assumes not to be, and would end in a KeyError
    "an id": ("cse", TEXT.replace("load @x[%2]", "load @x[%9]"), INVISIBLE.partition("%7")[0]),
    "an argument": ("lower-casts{call=true}", TEXT, "lower-casts has no argument 'call': it has saturates, "),
    "its value": ("lower-casts{calls=3}", TEXT, "'calls' of lower-casts is no int: 3"),
    "a brace": ("lower-casts{calls=true", TEXT, "expected names of passes with commas between, and found "),
    "a pass without arguments": ("cse{n=1}", TEXT, "cse has no argument 'n': it has none"),
    "the stage": (
        "lower_tasks", SERIAL,
        "k.qlir: pass 'lower tasks' does not take this kernel (TypeError: kernel k is not offloaded",
    ),
}


def test_what_has_no_gradient_has_an_empty_one(opt):
    with pytest.warns(QuadrantsWarning, match="QL0400.*kernel double does nothing"):
        status, out, _ = opt("gradient", TEXT)
    assert status == 0
    assert "offload" not in out


@pytest.mark.parametrize("what", WRONG)
def test_errors_show_the_line_and_end_with_2(opt, what):
    passes, text, says = WRONG[what]
    status, out, err = opt(passes, text)
    assert (status, out) == (2, "")
    assert err.startswith(says)


def test_an_error_of_the_program_shows_the_line_of_the_text(opt):
    uses_old_value = WITH_GRADIENT.replace("%5: f32 = load @x[%2]", "%5: f32 = atomic add @x[%2], %4").replace(
        "store @x[%2], %4", "%6: f32 = sin %5\n    store @x[%2], %6"
    )
    status, _, err = opt("reverse", uses_old_value)
    assert status == 2
    assert "error[QL0402]" in err
    assert "k.qlir, line 11\n11 |     %5: f32 = atomic add @x[%2], %4\n   |     ^^^" in err


def test_what_is_no_text(tmp_path, capsys):
    (tmp_path / "bytes.qlir").write_bytes(b"kernel \xfb")
    assert main(["opt", str(tmp_path / "bytes.qlir")]) == 2
    assert "bytes.qlir: this is no text of a kernel: invalid start byte at byte 7\n" in capsys.readouterr().err
