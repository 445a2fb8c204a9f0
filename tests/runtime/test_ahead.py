"""Under a Tape, LLVM makes the code of gradients on threads while launches go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import quadrants_lab as qd
from quadrants_lab.backends import later
from quadrants_lab.backends.cpu import jit

N = 8


@pytest.fixture
def program() -> Iterator[Any]:
    """(x, loss, a kernel); LLVM waits for the event ``may`` before it makes the code of gradients."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x, loss = qd.field(qd.f32, N, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] * x[i]

    x.fill(3.0)
    yield x, loss, square
    qd.reset()


@pytest.fixture
def may(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    made, event = jit.compiled, threading.Event()

    def compiled(text: str, vectorise: bool) -> bytes:
        event.wait(60)
        return made(text, vectorise)

    monkeypatch.setattr(jit, "compiled", compiled)
    yield event
    event.set()


def test_launches_do_not_wait_for_the_code_of_gradients(program: Any, request: pytest.FixtureRequest) -> None:
    x, loss, square = program
    square()
    loss[None] = 0.0
    with qd.ad.Tape(loss):
        may = request.getfixturevalue("may")
        square()
        assert loss[None] == 9.0 * N
        may.set()
    assert x.grad.to_numpy().tolist() == [6.0] * N


def differentiate(loss: Any, square: Any, then: Callable[[], None]) -> None:
    with qd.ad.Tape(loss):
        square()
        then()


def test_an_interrupted_wait_loses_nothing(
    program: Any, may: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, loss, square = program
    may.set()
    square()
    may.clear()
    loss[None] = 0.0
    wait = threading.Thread.join

    def pressed(thread: threading.Thread, timeout: float | None = None) -> None:
        signal.raise_signal(signal.SIGINT)
        wait(thread, timeout)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        differentiate(loss, square, lambda: patched.setattr(threading.Thread, "join", pressed))
    may.set()
    for _ in range(2):  # the second launch is the fast one
        x.grad.fill(0.0)
        loss.grad[None] = 1.0
        square.grad()
        assert x.grad.to_numpy().tolist() == [6.0] * N


def test_what_fails_on_the_thread_is_raised_where_the_code_is_needed(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next launch makes it again."""
    x, loss, square = program
    square()
    made, errors = jit.compiled, [MemoryError("no memory for the code")]

    def failing(text: str, vectorise: bool) -> bytes:
        if errors:
            raise errors.pop()
        return made(text, vectorise)

    monkeypatch.setattr(jit, "compiled", failing)
    with pytest.raises(MemoryError, match="no memory for the code"):
        differentiate(loss, square, lambda: None)
    x.grad.fill(0.0)
    loss.grad[None] = 1.0
    square.grad()
    assert x.grad.to_numpy().tolist() == [6.0] * N


def test_work_is_done_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later.forks, "start", lambda *args, name: None)
    assert later.Later(lambda: 3, "work").result() == 3
