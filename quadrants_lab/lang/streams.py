"""Implements `qd.Stream` and `qd.Event`, for programs that were written for Quadrants.

A session has one queue, in which launches run in the order in which they are made. Every use of streams and events
permits this order. A stream therefore stands for that queue, and an event needs no work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.config import sync


class _Handle:
    """Base of streams and events. ``handle`` is always 0, the queue of the session."""

    __slots__ = ("handle",)

    def __init__(self, handle: int = 0, prog_ref: Any = None) -> None:
        if handle:
            raise QuadrantsRuntimeError(
                "launches go to the session's own queue, not to one of another library",
                code="QL2130",
                help="leave the stream out: arrays of other libraries are waited for",
            )
        self.handle = handle

    def synchronize(self) -> None:
        """Waits until every launch so far is done."""
        sync()

    def destroy(self) -> None:
        """Does nothing: there is nothing to free."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()


class Stream(_Handle):
    """The queue of the session: ``kernel(..., qd_stream=stream)``."""

    __slots__ = ()


class Event(_Handle):
    """A position in the queue."""

    __slots__ = ()

    def record(self, qd_stream: Stream | None = None) -> None:
        """Does nothing: the event comes after the launches so far."""

    def wait(self, qd_stream: Stream | None = None) -> None:
        """Does nothing: later launches run after the event in any case."""


def create_stream() -> Stream:
    """A stream of the session."""
    return Stream()


def create_event() -> Event:
    """An event of the session."""
    return Event()


@contextmanager
def stream_parallel() -> Iterator[None]:
    """``with qd.stream_parallel():`` around loops of a kernel says that consecutive such blocks are independent of each
    other. Here the blocks run one after the other, and the loops of each block run in parallel."""
    yield


stream_parallel.__qd_section__ = "stream_parallel"  # type: ignore[attr-defined]
