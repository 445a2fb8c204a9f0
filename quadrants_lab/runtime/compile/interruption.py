"""Lets Ctrl-C interrupt a compilation.

A compiler written in C notices no signal before it is done, which may take a minute. So it runs on another thread while
the main thread waits. On Ctrl-C the main thread continues at once, and the other thread's result is dropped.
"""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from quadrants_lab.backends import forks

T = TypeVar("T")
_one = forks.lock()  # held by the thread that compiles: the compiler is not reentrant


def interruptible(work: Callable[[], T]) -> T:
    """Runs ``work`` on another thread; returns or raises what it does. If the main thread is interrupted meanwhile,
    raises KeyboardInterrupt at once. ``work`` must not need a lock that the caller holds."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: list[T] = []
    failed: list[BaseException] = []
    dropped = threading.Event()
    context = copy_context()

    def run() -> None:
        with _one:
            try:
                if not dropped.is_set():
                    found.append(context.run(work))
            except BaseException as e:
                failed.append(e)

    thread = forks.start(run, name="compiler")
    if thread is None:
        return work()
    try:
        while thread.is_alive():
            thread.join(0.1)
    except BaseException:
        dropped.set()
        raise
    if failed:
        # popped, because an error held by a local variable would form a circle: its traceback refers to this frame
        raise failed.pop()
    return found[0]
