"""The panes on hand-made data: each says what it must, its requests answer, and every tie leads to a source line."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from notebook.sample import cell_view

from quadrants_lab.ir.types import DTYPES
from quadrants_lab.notebook.inspection import as_text
from quadrants_lab.notebook.values import array_view
from quadrants_lab.widgets import beside, pack, run
from quadrants_lab.widgets.code import folded, stage_code
from quadrants_lab.widgets.highlight import highlight
from quadrants_lab.widgets.live import write
from quadrants_lab.widgets.model import ArrayView, BackendRun, CellView, CodeView, Line, StageView
from quadrants_lab.widgets.pack import answers, page, small_answers
from quadrants_lab.widgets.panes import known, render, shape
from quadrants_lab.widgets.passes import folded as folded_ir
from quadrants_lab.widgets.source import margin
from quadrants_lab.widgets.static import LIMITS, MOST_TEXT, STYLE, Static, static, static_html
from quadrants_lab.widgets.terminal import cell, drawn as drawn_text
from quadrants_lab.widgets.tree import Table, chips


@pytest.fixture(scope="module")
def view():
    return cell_view()


def text_of(markup: str) -> str:
    """The text that a reader sees, including listings and graphs, which are data in an attribute."""
    whole = re.sub(r' data-(?:lines|graph)="([^"]*)"', lambda m: ">" + html.unescape(m[1]), markup)
    return html.unescape(re.sub(r"<[^>]+>", "", whole)).replace('\\"', '"')


@pytest.mark.parametrize("pane, says", [
    ("source", ["v = qd.sin(v) + 0.1", "v 50", "1 value kept on a stack, 200 B per thread"]),
    ("passes", ["lower", "simplify", "no change"]),
    ("passes/gradient", ["reverse", "determine ad stack size", "compared with"]),
    ("passes/gradient/2/ir", ["adstack_push $40, %8"]),
    ("cfg", ["entry", "for line 9", "adstack_push $40, %8", "back"]),
    (
        "stacks",
        ["operand of sin at line 10", "evaluated before the launch", "every use of it in the loop is linear", "200 B"],
    ),
    ("stacks", ["for line 9: max(n[None], 0) trips = 50", "pushes v +1"]),
    ("sizes", ["max(n[None], 0) = 50", "n[None] = 50"]),
    ("code/forward/0", ["7 instructions", "42 bytes of code", "sinf@PLT"]),
    ("code/forward/1", ["metal · 3 lines", "2 instructions", "1 phis", "precise::sin"]),
    ("code/forward/sizes", ["asm", "msl", "phis", "bytes of code"]),
    ("code/gradient/1", ["variable 'v' of kernel 'k' is f64"]),
    ("code/gradient/sizes", ["msl: error[QL3001]: variable 'v'"]),
    ("run", ["forward 12 µs on cpu", "line 4: 8 lanes: sin", "n = 50", "0.4301"]),
    ("run", ["metal, simulated", "200 µs", "3e-08 in y", "3e-08 of 0.43", "metal, simulated: a simulation"]),
    ("run", ["did not run: no device: this is a test", "12.5 KB"]),
    ("stacks", ["stack heap", "metal, simulated", "12.5 KB"]),
])
def test_panes_say_what_the_trace_holds(view, pane, says):
    text = text_of(render(view, f"0/{pane}"))
    for part in says:
        assert part in text


def test_two_kernels_edits_and_backends_stand_side_by_side(view):
    (kernel,) = view.kernels
    launches = [replace(x, seconds=1.0, compared=[]) for x in kernel.launches]
    slow = replace(kernel, name="slow", launches=launches, cell=[])
    slow.source = [replace(x, text=x.text.replace("def k", "def slow").replace("0.1", "0.2")) for x in kernel.source]
    past = [("launch 1, forward", replace(launches[0], arguments=[("n", "7")]))]
    edited = replace(kernel, before=slow, past=past)
    edited.cell = [edited, slow]
    both = CellView("cell", [edited, slow])
    menu = re.findall(r'data-req="0/beside/(\w+)"', render(both, "0/beside"))
    assert menu[:4] == ["edit", "launch0", "metal", "kernel1"]
    said = [text_of(render(both, f"0/beside/{key}")) for key in menu[:4]]
    assert re.search(r"The last edit beside this edit: forward as long;.*; the source is another", said[0])
    assert re.search(r"n, forward\s*7\s*50\s*differs", said[1])
    assert re.search(r"launch, forward\s*12 µs\s*200 µs\s*16.7 times as long", said[2])
    assert re.search(r"cpu beside metal: forward 16.7 times as long", said[2])
    assert "off by 3e-08" in said[2]
    assert re.search(r"k beside slow: .*\d of \d+ figures differ; the source is another", said[3])
    told, pair = render(both, "0/beside/kernel1/source"), beside.others(edited)["kernel1"]
    assert '"h":[["equal",0,1,0,1],["change",1,2,1,2]' in html.unescape(told)  # its own lines alone
    assert "0.2" in text_of(render(both, "0/beside/kernel1/source/1"))
    assert "- def k():" in (text := as_text(drawn_text(beside.beside(pair.first, pair.second))))
    assert "the same: IR of forward" in text
    for request in ("0/beside/nothing", "0/beside/edit/nothing", "0/beside/edit/source/2"):
        assert "there is no" in text_of(render(both, request))


def test_a_badge_in_the_gutter_tells_of_all_values_of_its_line(view):
    (badge,) = margin(view.kernels[0])[9]
    assert write(badge.body) == '<span class="wide">v </span>50'
    assert [row.partition(",")[0] for row in badge.tip.splitlines()] == ["v: depth 50", "w: no stack"]


def test_the_kernel_that_took_the_most_time_is_shown_first(view):
    (kernel,) = view.kernels
    fast, slow = (replace(kernel, launches=[replace(x, seconds=t) for x in kernel.launches]) for t in (1e-6, 1e-3))
    assert shape(CellView("cell", [fast, slow, fast]))["kernel"] == 1
    assert shape(CellView("cell", [replace(kernel, launches=[])]))["kernel"] == 0


def test_what_the_user_has_not_written_is_one_line_each():
    head = ["target triple", "target layout", "declare x", "declare y"]
    frame = [f"  %t{n} = load ptr" for n in range(5)]
    helper = ["define internal float @qd.sin.f32(float %p0) {", "  ret float %p0", "}"]
    text = [*head, "define void @task0() {", *frame, "  %t9 = fadd", "  ret void", "}", *helper]
    user = text.index("  %t9 = fadd")
    lines = [Line(x, 9 if n == user or x in helper else 0, 4 if n == user else -1) for n, x in enumerate(text)]
    assert folded(lines, "llvm") == [(0, user, "bounds and frame"), (user + 3, len(text), "helper function qd.sin.f32")]
    stage = StageView("llvm", "cpu", CodeView, CodeView(lines, []), language="llvm")
    listing, _ = stage_code(stage)
    assert listing.top == user


def test_ir_opens_at_its_longest_task_with_bounds_as_one_line():
    """Before the user's task may stand tasks that copy what a gradient reads."""
    task = ["  offload range_for bounds {", "    %1: i32 = const 0", "    %2: i32 = const 4", "    yield %1, %2"]
    short, long = [*task, "  } do (", "  }"], [*task, "  } do (", "    %5 = load", "    store %5", "  }"]
    text = ["kernel k() {", "  buffer @x", "  buffer @y", *short, *long, "}"]
    folds, top = folded_ir([Line(x) for x in text])
    assert text[top].startswith("  offload")
    assert top == 9
    assert folds == [(1, 3, "2 buffers"), (4, 7, "bounds of the loop"), (10, 13, "bounds of the loop")]


def test_every_offered_request_is_answered(view):
    found = answers(view)
    assert {f"0/{p}" for p in known(view)} <= set(found)
    assert "0/passes/gradient/2/ir" in found
    assert "0/passes/gradient/2" in found
    assert {"0/code/gradient/0", "0/code/forward/1"} <= set(found)
    assert not any("nothing is known" in x or "there is no such" in x for x in found.values())


def test_a_notebook_has_first_what_opens(view, monkeypatch):
    """The column beside the source stayed empty without a kernel where other panes were large."""
    monkeypatch.setattr(pack, "MOST_BYTES", 3000)
    assert list(small_answers(view))[:2] == ["0/source", "0/passes/gradient/2/ir"]


def test_a_notebook_has_the_code_that_opens_before_the_ir_of_each_pass(view):
    kept = list(small_answers(view))
    assert kept.index("0/matrix") < kept.index("0/code/gradient/0") < kept.index("0/passes/forward/0/ir")


def noise(name: str) -> ArrayView:
    """An array whose picture takes more than 10 KB."""
    values = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)
    return array_view(name, DTYPES["f32"], values)


def test_pictures_do_not_take_the_room_of_other_panes(view):
    """The Run pane of a cell that compared large fields was stored, and no Passes and no CFG."""
    (kernel,) = view.kernels
    launch = replace(kernel.launches[0], arrays=[noise("a")])
    kept = list(small_answers(CellView("cell", [replace(kernel, launches=[launch], tapes=[])])))
    assert {"0/passes", "0/cfg", "0/steps", "0/matrix", "0/run"} <= {*kept}
    assert kept.index("0/cfg") < kept.index("0/run")


def test_the_picture_of_an_array_is_as_large_for_each_backend():
    mine = array_view("x", DTYPES["f32"], np.arange(1.0, 5.0, dtype=np.float32))
    shown = write(run.arrays([mine], [BackendRun("vulkan", arrays=[mine])], "0/run/0"))
    assert len(set(re.findall(r'style="([^"]*)"', shown))) == 2  # of the squares and of the bar of colours
    assert shown.count("f32[4]") == 1


def test_the_front_end_is_not_counted_as_a_pass(view):
    (kernel,) = view.kernels
    steps = kernel.traces["forward"]
    front = replace(steps[0], name="front end", before=None, doc="")
    shown = replace(kernel, traces={**kernel.traces, "forward": [front, *steps]}, changes={})
    cell = CellView("cell", [shown])
    assert f"front end and {len(steps)} passes, " in render(cell, "0/passes/forward")
    assert ">3 passes, " in render(cell, "0/passes/gradient")


@pytest.mark.parametrize("request_", [
    "", "7/source", "0/nonsense", "x/y", "0/passes/gradient/99", "0/code/forward/9", "0/run/1/nothing/0", "0/run/9/u/0",
    "0/run/x/u/0", "0/run/1/u/9", "0/run/1/u/-1", "0/run/1/u/0/99/0", "0/run/1/u/0/1", "0/run/1/u/a/b/c", "0/run/1",
    "0/run/0/y/0",
])
def test_a_request_for_nothing_gets_a_sentence(view, request_):
    assert 'class="none"' in render(view, request_)


def test_static_copy_needs_neither_scripts_nor_classes(view):
    markup = static_html(view, "u1")
    assert not re.search(r'<(script|style|svg|button|input)| class="| onclick', markup)
    assert "data:image/svg+xml;base64," in markup
    for part in (">v 50<", "adstack_push", "sinf@PLT", "0.4301", "precise::sin", "3e-08 in y", "is a test", "f64"):
        assert part in (markup if "<" in part else text_of(markup))
    assert len(markup) < 60_000


def test_a_static_copy_gives_each_pane_what_the_others_leave(view):
    """With one measure for all panes, long code left no room for a small graph."""
    (kernel,) = view.kernels
    code = [Line(f"mov {n}", n % 12) for n in range(4000)]
    stages = [StageView("asm", "cpu", CodeView, CodeView(code, []))]
    pictures = [noise(name) for name in "abcdef"]
    launch = replace(kernel.launches[0], compared=[], arrays=[*kernel.launches[0].arrays, *pictures])
    large = replace(kernel, code={"forward": stages, "gradient": stages}, launches=[launch])
    markup = static_html(CellView("cell", [large]))
    assert len(markup) < MOST_TEXT + 2000
    assert len(static_html(CellView("cell", [large] * 4))) < MOST_TEXT + 2000
    assert markup.count("data:image/svg+xml;base64,") == 4
    assert "too large for the copy" not in markup
    assert "data:image/png" not in markup
    assert "0.4301" in markup
    assert "mov 3" in markup


@pytest.mark.parametrize("shape", [(8,), (6, 4), (3, 6, 4)])
def test_a_static_copy_shows_arrays_as_pictures(view, shape):
    (kernel,) = view.kernels
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    launch = replace(kernel.launches[0], arrays=[array_view("a", DTYPES["f32"], values)])
    shown = static_html(CellView("cell", [replace(kernel, launches=[launch], code={}, traces={}, graphs=[])]))
    assert '<img alt="a[' in shown
    assert "data:image/png;base64," in shown
    assert "<input" not in shown


def test_what_a_static_copy_opens_has_its_room_first(view):
    """A long source left the run, which is the only open pane, without colours and pictures."""
    (kernel,) = view.kernels
    for length in range(215, 255, 4):  # at some of these the source alone fits
        source = [Line("# " + "x" * 60, n) for n in range(length)]
        markup = static_html(CellView("cell", [replace(kernel, source=source)]))
        shown = markup.partition("<summary><b>Run</b>")[2].partition("<summary>")[0]
        assert STYLE["chip"] in shown


def test_a_static_copy_sets_text_to_the_left_and_numbers_to_the_right():
    """Jupyter's own rule for tables sets all of them to the right."""
    markup = static(Table(("array", "bytes"), [("x", "4")], right=[1]))
    assert re.findall(r"<(t[dh])\b([^>]*)>", markup) == [
        ("th", " align=left style=text-align:left"), ("th", " align=right"),
        ("td", " style=text-align:left"), ("td", " align=right"),
    ]  # fmt: skip
    two = chips([("front end", "1 ms"), ("driver", "2 ms")])
    assert text_of(Static(LIMITS[-1]).write(two)).split() == "· front end 1 ms · driver 2 ms".split()
    assert as_text(drawn_text(two)).strip() == "front end 1 ms   driver 2 ms"


def test_what_a_launch_did_with_an_array_stands_beside_its_name():
    """Behind the values it was "2 more read"."""
    (row,) = run.arrays([ArrayView("x", "f32", (4,), "1 … 3 more", note="read")], (), "0/run/0").rows
    assert [text_of(static(row[n])) for n in (0, -1)] == ["x read", "1 … 3 more"]


def test_a_terminal_shows_the_same(view):
    text = as_text(cell(view))
    for part in ("msl", "3e-08 in y", "error[QL3001]", "12.5 KB", "did not run: no"):
        assert part in text


def test_the_page_asks_the_network_for_nothing(view):
    whole = page(shape(view), answers(view))
    assert not re.search(r'(?:src|href)="(?!data:)', whole)
    assert "http" not in whole.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("language", ["ir", "python", "llvm", "gas", "spirv", "cpp", "ptx", ""])
def test_highlighting_keeps_lines_and_text(language):
    lines = ["%1: f32 = const 1.5", "", "  a < b & 'c'", '"""open', 'still"""']
    marked = highlight(lines, language)
    assert [text_of(x) for x in marked] == lines
