"""Threads that launch, compile and differentiate at the same time, each with its own data; see `programs.threads`."""

import ast
import gc
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child import together
from conftest import ROOT
from programs.threads import SIZE, field, near, number, powers, run_together, scale, total, values
from rigs.apart import start
from sessions import CPU_ALONE, NIGHT, ended, in_turn, session_of, sessions, skips

import quadrants_lab as qd
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.runtime.session import current

__all__ = ["ended"]
DEVICES = "c", "cuda", "vulkan", "metal", "amdgpu", "wasm"
EVERYWHERE = in_turn([*sessions("cpu", *DEVICES), pytest.param("apart", marks=skips("vulkan"))], DEVICES)


@pytest.mark.parametrize("how", EVERYWHERE)
def test_eight_threads(how: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if how != "apart" and how["arch"] != "cpu":  # elsewhere code comes from the disk, to save time
        how = {**how, "offline_cache": True, "offline_cache_file_path": str(tmp_path)}
    start(how, monkeypatch)
    assert not run_together(8, 50 if NIGHT else 20)


@pytest.mark.parametrize("how", sessions("cpu", "c", "vulkan", "metal", "amdgpu", "wasm"))
def test_a_launch_that_waits_for_the_session_while_it_ends(how: Any) -> None:
    """Threads wait in each way into a plan; a thread may call a closure long after it got it."""
    qd.init(**how)
    x = qd.field(qd.f32, SIZE, needs_grad=True)

    @qd.kernel
    def add(a: qd.u64):
        for i in x:
            x[i] += qd.f32(a) * x[i]

    x.grad.fill(1)
    for launch in (add, add.grad):
        launch(1)
    now, said = current(), list[str]()
    dispatchers = add.dispatcher, add.grad.dispatcher
    ways: list[Callable[[int], Any]] = [add, add.grad]
    ways += [way for of in dispatchers for way in (of.call, of.last.fast, of.last.slowly)]

    def locked(plan: Any, n: int) -> Any:
        with now.lock:
            return plan.call(n)

    ways += [partial(locked, of.last) for of in dispatchers]

    def work(way: Callable[[int], Any]) -> None:
        try:
            said.append(f"launched: {way(1)}")
        except qd.QuadrantsRuntimeError as e:
            said.append(str(e))

    waiting = [threading.Thread(target=work, args=[way]) for way in ways]
    with now.lock:
        for thread in waiting:
            thread.start()
        threading.Event().wait(0.05)
        now.end()
    for thread in waiting:
        thread.join(60)
    for way in ways:
        work(way)
    assert len(said) == 2 * len(ways)
    assert all("QL2001" in words for words in said), said
    assert all("call the kernel again" in words for words in said), "nothing can be made again"


def test_a_tape_sees_its_launches_though_another_thread_was_about_to_take_the_fast_path() -> None:
    qd.init(arch=qd.cpu)
    (a, loss), others = ([qd.ndarray(qd.f32, n, needs_grad=True) for n in (3, 1)] for _ in range(2))

    @qd.kernel
    def square(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            y[0] += x[i] * x[i]

    for _ in range(3):
        a.fill(2.0)
        with qd.ad.Tape(loss):  # which suspends the path
            square(a, loss)
        tape, thread = qd.ad.Tape(loss), threading.Thread(target=square, args=others)
        with current().lock:
            thread.start()
            threading.Event().wait(0.05)  # it waits for the lock
            tape.__enter__()
        thread.join(60)
        square(a, loss)
        tape.__exit__(None, None, None)
        assert a.grad.to_numpy().tolist() == [4.0] * 3
        square(a, loss)


@pytest.mark.parametrize("how", EVERYWHERE)
def test_a_session_that_ends_while_threads_launch(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start(how, monkeypatch)
    began, said, made = threading.Semaphore(0), list[str](), threading.Barrier(4)

    def work() -> None:
        x, y = field(values(1)), qd.ndarray(qd.f32, SIZE)
        made.wait(60)  # the session must not end before each thread has its data
        try:
            while True:
                powers(x, x, 1)
                scale(y, y, 2.0)
                y.fill(x[3])
                began.release()
        except qd.QuadrantsRuntimeError as e:
            said.append(str(e))

    def end() -> None:
        for _ in range(3 * 4):
            began.acquire()
        start(how, monkeypatch)

    together(end, *[work] * 4)
    assert len(said) == 4
    assert all("QL2001" in words and "ended it" in words for words in said), said
    x, y = field(values(2)), qd.field(qd.f32, SIZE)
    powers(x, y, 0)
    near(y.to_numpy(), values(2) ** (1 + np.arange(SIZE) % 3))


# --- what is refused ------------------------------------------------------------------------------------------------


@qd.kernel
def squared(x: qd.types.ndarray(qd.f32)):
    for i in range(x.shape[0]):
        x[i] = x[i] * x[i]


@qd.kernel
def drawn(x: qd.types.ndarray(qd.f32), y: qd.types.ndarray(qd.f32)):
    for i in range(x.shape[0]):
        y[i] = x[i] * qd.random(qd.f32)


def array() -> Any:
    return qd.ndarray(qd.f32, SIZE, needs_grad=True)


def a_tape_over_what_another_tape_uses() -> None:
    x, loss, mine = field(values(1), needs_grad=True), number(), number()

    def beside() -> None:
        with qd.ad.Tape(mine):
            total(x, mine)

    with qd.ad.Tape(loss):
        total(x, loss)
        together(beside)


def a_gradient_by_hand_after_another_launch() -> None:
    x, y = array(), array()
    squared(x)
    together(lambda: squared(y))
    squared.grad(x)


def a_gradient_by_hand_after_other_draws() -> None:
    x, y = array(), array()
    drawn(x, y)
    together(lambda: drawn(y, x))
    y.grad.fill(1)
    drawn.grad(x, y)


def a_launch_under_another_tape() -> None:
    x, loss = field(values(1), needs_grad=True), number()
    with qd.ad.Tape(loss):
        total(x, loss)
        together(lambda: powers(x, x, 1))
        total(x, loss)


REFUSED: dict[Callable[[], None], str] = {
    a_tape_over_what_another_tape_uses: "QL2092.*a Tape of another thread is open and uses x",
    a_gradient_by_hand_after_another_launch: "QL0416.*its last launch was one with other arguments",
    a_gradient_by_hand_after_other_draws: "QL0416.*repeats the random numbers of its last launch, which",
    a_launch_under_another_tape: "QL2094.*x was written under a Tape by a launch that the Tape did not see",
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
@pytest.mark.parametrize("session", sessions("cpu", "vulkan"), indirect=True)
def test_what_is_refused(program: Callable[[], None], session: str) -> None:
    with pytest.raises(qd.QuadrantsRuntimeError, match=REFUSED[program]):
        program()


session = session_of(sessions("cpu"), autouse=False)


# --- what threads share ---------------------------------------------------------------------------------------------


class _Cycle:
    """An object that only the garbage collector frees, which then runs Python."""

    def __init__(self) -> None:
        self.me = self
        weakref.finalize(self, sum, range(50))


def test_syntax_trees_are_made_in_several_threads() -> None:
    text = "\n".join(f"x = x * {n} + (x + 1) * (x + 2 * (3 + x))" for n in range(60))
    whole, before = len(list(ast.walk(syntax_tree(text)))), gc.get_threshold()

    def work() -> None:
        for _ in range(20):
            _Cycle()
            assert len(list(ast.walk(syntax_tree(text)))) == whole

    gc.set_threshold(50)
    try:
        together(*[work] * 6)
    finally:
        gc.set_threshold(*before)


def test_trees_are_made_in_one_place() -> None:
    """`ast.parse` is not for several threads, in Python 3.11."""
    for folder in ("quadrants_lab", "backends", "widgets", "kernels"):
        for path in (ROOT / folder).rglob("*.py"):
            assert "ast.parse(" not in path.read_text(), path


@CPU_ALONE
def test_what_another_thread_prints_meanwhile(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A func with early returns is lowered twice, and Python that it calls prints once."""

    def loud() -> int:
        print("compiled")
        together(lambda: print("beside"))
        return 3

    @qd.func
    def chosen(n: qd.i32):
        for i in range(n):
            if i == loud():
                return i
        return -1

    @qd.kernel
    def run(n: qd.i32) -> qd.i32:
        return chosen(n)

    assert run(5) == 3
    words = capsys.readouterr().out.split()
    assert words.count("compiled") < words.count("beside")
