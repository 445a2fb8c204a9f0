"""Work that a thread does while the program goes on, until its result is needed."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

from quadrants_lab.backends import forks

T = TypeVar("T")


class Later(Generic[T]):
    """Begins ``work`` on a thread called ``name``. ``seconds``: how long it took, once it is done."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self.seconds = 0.0
        self._work = work
        self._made: list[T] = []
        self._failed: list[BaseException] = []
        self._thread = forks.start(self._run, name=name)

    def _run(self) -> None:
        start = perf_counter()
        try:
            self._made.append(self._work())
        except BaseException as e:
            self._failed.append(e)
        self.seconds = perf_counter() - start

    def result(self) -> T:
        """Waits for what ``work`` returns, or raises what it raised; then the next call does the work again. Ctrl-C
        ends the wait, not the work."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.1)
        if not (self._made or self._failed):  # it failed before, no thread could be had, or a fork did not wait
            self._run()
        if self._failed:
            raise self._failed.pop()
        return self._made[0]
