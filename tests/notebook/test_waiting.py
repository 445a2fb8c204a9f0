"""Long work in a cell says what it is doing and can be stopped."""

import queue
import signal
import threading

import pytest
from child import ANSWER
from notebook.test_magics import SETUP, WAVE, cell  # noqa: F401

from quadrants_lab.backends import forks
from quadrants_lab.notebook import collect, progress, show
from quadrants_lab.notebook.code_process import CodeProcess, Job
from quadrants_lab.passes import pipeline
from quadrants_lab.runtime.compile import interruption
from quadrants_lab.runtime.compile.interruption import interruptible
from quadrants_lab.widgets.model import ONLY_READY, CellView, CodeView, KernelView, Line, NotReady, StageView
from quadrants_lab.widgets.panes import render


def test_an_interrupted_compile_is_one_line_and_the_next_cell_works(cell, monkeypatch):
    run = pipeline.run
    def interrupted(kernel, passes, verify=False, trace=None):
        def pressed(kernel):
            raise KeyboardInterrupt
        return run(kernel, (*tuple(passes)[:1], pressed), verify, trace)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "run", interrupted)
        ran = cell("%%qdkernel --grad y --quiet" + WAVE + "wave()")
    assert not ran.ok
    assert ran.text.strip().splitlines() == ["KeyboardInterrupt: interrupted: wave, forward: pressed"]
    assert cell("%%qdkernel --grad y --quiet" + WAVE + "wave()").ok


def test_an_interrupt_names_the_line_that_was_interrupted(cell):
    ran = cell("%%qdkernel\nx[0] = 1\nraise KeyboardInterrupt")
    said = ran.text.strip()
    assert said.startswith("KeyboardInterrupt: interrupted at Cell In[")
    assert said.endswith(", line 3: raise KeyboardInterrupt")


def test_an_interrupt_while_the_inspector_is_made_is_one_line(cell, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt
    with monkeypatch.context() as patched:
        patched.setattr("quadrants_lab.notebook.magic.cell_view", pressed)
        ran = cell("%%qdkernel --grad y" + WAVE + "wave()")
    assert ran.text.strip().startswith("KeyboardInterrupt: interrupted: the cell has run")
    assert len(ran.text.strip().splitlines()) == 1
    assert cell("%qdinspect wave").ok


def test_ctrl_c_does_not_wait_for_a_compiler():
    going, may_end = threading.Event(), threading.Event()
    def compiler():
        going.set()
        signal.raise_signal(signal.SIGINT)
        may_end.wait(ANSWER)
        return 1
    with pytest.raises(KeyboardInterrupt):
        interruptible(compiler)
    assert going.is_set()
    assert interruption._one._is_owned() is False
    may_end.set()
    assert interruptible(lambda: 2) == 2  # behind the one that was left alone
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)
    assert interruptible(lambda: threading.current_thread()) in forks._threads


def test_work_of_more_than_a_second_is_told_with_its_part(capsys):
    told = threading.Event()
    with progress.Progress(patience=0.0, pause=0.001) as seen:
        seen.tell("wave, reverse: simplify")
        for _ in range(10_000):
            if told.wait(0.001) or "simplify" in (text := capsys.readouterr().out):
                break
    assert "wave, reverse: simplify, 0 s (interrupt to stop)" in text
    assert capsys.readouterr().out.endswith("\n")
    assert seen.now == "wave, reverse: simplify"


def test_work_that_is_quick_says_nothing(capsys):
    with progress.Progress() as seen:
        seen.tell("wave, forward: simplify")
    assert capsys.readouterr().out == ""


def test_code_is_made_in_a_process_that_can_be_stopped():
    from quadrants_lab.errors import QuadrantsRuntimeError
    from quadrants_lab.ir.options import CompileOptions
    from quadrants_lab.ir.parse import parse_kernel

    text = "kernel k() forward {\n  buffer @x: field f32[4]\n  offload range_for bounds {\n    %1: i32 = const 0\n"
    text += "    %2: i32 = const 4\n    yield %1, %2\n  } do (%3: i32 'i') {\n    %4: f32 = const 2.5\n"
    text += "    store @x[%3], %4\n    yield\n  }\n}\n"
    job = Job("metal", "msl", parse_kernel(text), CompileOptions(), "f")
    process = CodeProcess()
    try:
        assert any("x[i] = 2.5f;" in line.text for line in process.make(job).lines)
        first = process._running
        process.make(job)
        assert process._running is first
        first.kill()  # as `stop` does while it works
        first.wait()
        process._process = lambda: first
        with pytest.raises(QuadrantsRuntimeError, match="its process was stopped"):
            process.make(job)
        del process._process
        assert process.make(job).lines
    finally:
        process.stop()


def test_the_widget_says_what_it_waits_for_and_goes_on_meanwhile(monkeypatch):
    pytest.importorskip("anywidget")
    from quadrants_lab.widgets.inspector import Inspector

    may_end, sent = threading.Event(), queue.Queue()

    def maker() -> CodeView:
        may_end.wait(ANSWER)
        return CodeView([Line("made")], [])

    stage = StageView("isa", "amdgpu", maker, language="gas")
    widget = Inspector({}, {}, lambda request: stage.make().lines[0].text if request == "code" else "here")
    monkeypatch.setattr(widget, "send", sent.put)

    def ask(request: str) -> None:
        widget._take(None, {"kind": "ask", "request": request}, [])

    ask("code")
    assert sent.get(timeout=ANSWER) == {"kind": "wait", "request": "code", "text": "making isa of amdgpu"}
    ask("source")
    assert sent.get(timeout=ANSWER) == {"kind": "html", "request": "source", "html": "here", "final": False}
    may_end.set()
    assert sent.get(timeout=ANSWER) == {"kind": "html", "request": "code", "html": "made", "final": False}
    ask("code")
    assert sent.get(timeout=ANSWER)["html"] == "made"


def test_the_widget_passes_a_stop_on():
    pytest.importorskip("anywidget")
    from quadrants_lab.widgets.inspector import Inspector
    stopped = []
    widget = Inspector({}, {}, str, stop=lambda: stopped.append(1))
    widget._take(None, {"kind": "stop", "request": "code"}, [])
    assert stopped == [1]


def test_a_cell_makes_code_on_demand(cell, shell):
    assert cell("%%qdkernel --grad y" + WAVE + "wave()").ok
    (kernel,) = show(shell.user_ns["wave"]).view.kernels
    known = {s.backend for stages in kernel.code.values() for s in stages if s.known is not None}
    assert known == {"cpu"}
    asked = f"0/code/gradient/{len(kernel.code['gradient']) - 1}"
    token = ONLY_READY.set(True)
    try:
        with pytest.raises(NotReady):
            render(CellView("", [kernel]), asked)
    finally:
        ONLY_READY.reset(token)


def test_code_of_several_small_kernels_is_made_with_the_cell():
    """They stopped together at the limit of one, so a saved notebook had no code of the later ones."""
    made = []
    def kernel(name: str, statements: int) -> KernelView:
        stages = [
            StageView(stage, "cpu", lambda: made.append(name) or CodeView([], []), statements=statements)
            for stage in ("llvm", "asm")
        ]
        other = StageView("msl", "metal", lambda: made.append("metal") or CodeView([], []), statements=statements)
        return KernelView(name, "cell", [], code={"forward": [*stages, other]})
    sizes = {"large": collect.MOST_STATEMENTS + 1, "a": 200, "b": 250, "c": 30}
    collect._make_small(CellView("cell", [kernel(name, n) for name, n in sizes.items()]))
    assert made == ["c", "c", "a", "a", "b", "b"]
    made.clear()
    collect._make_small(CellView("cell", [kernel(f"k{n}", 290) for n in range(9)]))
    assert len(made) == 2 * (collect.MOST_OF_CELL // 290)
