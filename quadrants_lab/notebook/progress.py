"""Shows progress of what takes longer than a second: what is compiled or checked, in which pass, for how long."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager
from time import perf_counter

PATIENCE, PAUSE = 1.0, 0.25  # seconds until progress is shown, and between two updates


class Progress(AbstractContextManager["Progress"]):
    """Polls ``now`` ("what: part of it") in a thread and keeps one line on standard output up to date."""

    def __init__(self) -> None:
        self.now = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def tell(self, now: str) -> None:
        self.now = now

    def checks(self, what: str) -> None:
        self.now = f"checking {what}"

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        what, since, shown = "", perf_counter(), ""
        while not self._over.wait(PAUSE):
            now = self.now
            name = now.partition(":")[0]
            if name != what:
                if shown:
                    self._end(what, since, len(shown))
                what, since, shown = name, perf_counter(), ""
            took = perf_counter() - since
            if what and took >= PATIENCE:
                line = f"{now}, {took:.0f} s (interrupt to stop)"
                sys.stdout.write("\r" + line.ljust(len(shown)))
                sys.stdout.flush()
                shown = line
        if shown:
            self._end(what, since, len(shown))

    def _end(self, what: str, since: float, width: int) -> None:
        sys.stdout.write("\r" + f"{what}: {perf_counter() - since:.1f} s".ljust(width) + "\n")
        sys.stdout.flush()
