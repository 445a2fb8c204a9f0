"""A thread that looks at the clock for recordings."""

from __future__ import annotations

from threading import Event, Lock, Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from quadrants_lab.runtime.record.recorder import Recorder

EACH = 0.02  # it looks once in so many seconds


class Timer:
    """A thread that tells closures when a stretch should end. If a closure looked at the clock in each launch, that
    would take as long as everything else that it does to note a launch. The thread watches one recorder, the last one
    that called `watch`. It is started once, and sleeps while there is no recorder to watch."""

    def __init__(self) -> None:
        self._recorder: ref[Recorder] | None = None
        self._lock = Lock()
        self._wanted = Event()
        self._thread: Thread | None = None

    def watch(self, recorder: Recorder) -> None:
        if self._recorder is not None and self._recorder() is recorder and self._wanted.is_set():
            return
        with self._lock:
            self._recorder = ref(recorder)
            self._wanted.set()
            if self._thread is None or not self._thread.is_alive():  # in the child of a fork the thread is gone
                self._thread = Thread(target=self._run, name="recorder", daemon=True)
                self._thread.start()

    def look(self) -> None:
        """Ends a stretch that is due. Stops watching if the recorder is gone, or if no closure notes launches."""
        with self._lock:
            recorder = None if self._recorder is None else self._recorder()
            stretch = None if recorder is None else recorder.now
            if recorder is None or recorder.took:
                self._wanted.clear()
            elif stretch is not None and perf_counter() > stretch.due:
                stretch.late.append(True)

    def _run(self) -> None:
        while self._wanted.wait():
            sleep(EACH)
            self.look()


TIMER = Timer()
