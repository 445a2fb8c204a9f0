"""Shows the progress of a long cell or export on one line, which is kept up to date."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TextIO


class Progress(AbstractContextManager["Progress"]):
    """A thread that polls the attribute ``now``, a text such as "compiling: kernel 3", and keeps a line with this text
    up to date. The line is on standard output, or on ``out`` if that is a terminal or notebook. The line appears after
    ``patience`` seconds; ``now`` is polled every ``pause`` seconds."""

    def __init__(self, patience: float = 1.0, pause: float = 0.25, out: TextIO | None = None) -> None:
        self.patience, self.pause, self.out = patience, pause, out
        self.seen = out is None or out.isatty() or "ipykernel" in sys.modules
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
        while not self._over.wait(self.pause):
            now = self.now
            name = now.partition(":")[0]
            if name != what:
                if shown:
                    self._end(what, since, len(shown))
                what, since, shown = name, perf_counter(), ""
            took = perf_counter() - since
            if what and self.seen and took >= self.patience:
                line = f"{now}, {took:.0f} s (interrupt to stop)"
                self._write("\r" + line.ljust(len(shown)))
                shown = line
        if shown:
            self._end(what, since, len(shown))

    def _end(self, what: str, since: float, width: int) -> None:
        self._write("\r" + f"{what}: {perf_counter() - since:.1f} s".ljust(width) + "\n")

    def _write(self, text: str) -> None:
        out = self.out or sys.stdout
        out.write(text)
        out.flush()
