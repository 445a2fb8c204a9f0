"""Threads of a driver that runs kernels on the processor.

The scheduler may let a thread that is woken take the core from the one that woke it: a launch would return when its
kernel is done."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def started() -> Iterator[set[int]]:
    """Fills the set, at the end, with the threads that were started inside, other than Python's."""
    before, made = _threads(), set[int]()
    yield made
    made |= _threads() - before - {t.native_id for t in threading.enumerate() if t.native_id is not None}


def step_back(threads: set[int]) -> None:
    """Lets who wakes them go on: they run on another core, or when it waits or its time is over."""
    if sys.platform == "linux":
        for thread in threads:
            with contextlib.suppress(OSError):  # it may have ended
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def _threads() -> set[int]:
    with contextlib.suppress(OSError):
        return {int(name) for name in os.listdir("/proc/self/task")}
    return set()
