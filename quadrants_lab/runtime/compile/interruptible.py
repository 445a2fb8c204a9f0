"""Machine code generation that Ctrl-C can interrupt.

A compiler written in C notices no signal before it is done, which may take a minute. So it runs on another thread while
the main thread waits. On Ctrl-C the main thread goes on at once, and the other thread's result is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from quadrants_lab.backends import forks
from quadrants_lab.backends.later import Later

T = TypeVar("T")
_one = forks.lock()  # held by the thread that compiles: the compiler is not reentrant


def interruptible(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises; KeyboardInterrupt as soon as the main thread is interrupted. ``work`` must take
    no lock that the caller holds."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    dropped = threading.Event()
    context = copy_context()

    def run() -> T:
        with _one:
            if dropped.is_set():
                raise InterruptedError
            return context.run(work)

    try:
        return Later(run, "compiler").result()
    except BaseException:
        dropped.set()
        raise
