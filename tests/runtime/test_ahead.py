"""Under a Tape, threads make the code of gradients while launches go on: LLVM on the CPU, a GPU's driver there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sessions import session_of, sessions

import quadrants_lab as qd
from quadrants_lab.backends import later
from quadrants_lab.backends.cpu import jit
from quadrants_lab.runtime.session import current

N = 8
session = session_of(sessions("cpu", "cuda"))


class Program:
    def __init__(self) -> None:
        self.x, self.loss = x, loss = qd.field(qd.f32, N, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

        @qd.kernel
        def square():
            for i in x:
                loss[None] += x[i] * x[i]

        self.square = square
        x.fill(3.0)
        square()
        loss[None] = 0.0

    def differentiate(self, then: Callable[[], None] = lambda: None) -> None:
        with qd.ad.Tape(self.loss):
            self.square()
            then()

    def right(self) -> bool:
        return bool(self.x.grad.to_numpy().tolist() == [6.0] * N)

    def differentiate_by_hand(self) -> None:
        self.x.grad.fill(0.0)
        self.loss.grad[None] = 1.0
        self.square.grad()


@pytest.fixture
def compiler(session: str) -> tuple[Any, str]:
    """The function that makes code on a thread, as an object and the name of its attribute."""
    return (jit, "compiled") if session == "cpu" else (type(current().device.driver), "load")


@pytest.fixture
def may(compiler: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event for which the compiler waits."""
    made, event = getattr(*compiler), threading.Event()

    def waiting(*args: Any) -> Any:
        event.wait(60)
        return made(*args)

    event.set()
    monkeypatch.setattr(*compiler, waiting)
    yield event
    event.set()


def test_launches_do_not_wait_for_the_code_of_gradients(may: threading.Event) -> None:
    program = Program()
    may.clear()

    def then() -> None:
        assert program.loss[None] == 9.0 * N
        may.set()

    program.differentiate(then)
    assert program.right()


def test_an_interrupted_wait_loses_nothing(may: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    may.clear()
    wait = threading.Thread.join

    def pressed(thread: threading.Thread, timeout: float | None = None) -> None:
        signal.raise_signal(signal.SIGINT)
        wait(thread, timeout)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        program.differentiate(lambda: patched.setattr(threading.Thread, "join", pressed))
    may.set()
    for _ in range(2):  # the second launch is the fast one
        program.differentiate_by_hand()
        assert program.right()


def test_what_fails_on_the_thread_is_raised_where_the_code_is_needed(
    compiler: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next launch makes it again."""
    program = Program()
    made, errors = getattr(*compiler), [MemoryError("no memory for the code")]

    def failing(*args: Any) -> Any:
        if errors:
            raise errors.pop()
        return made(*args)

    monkeypatch.setattr(*compiler, failing)
    with pytest.raises(MemoryError, match="no memory for the code"):
        program.differentiate()
    program.differentiate_by_hand()
    assert program.right()


def test_work_is_done_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later.forks, "start", lambda *args, name: None)
    assert later.Later(lambda: 3, "work").result() == 3
