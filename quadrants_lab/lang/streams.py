"""`qd.Stream` and `qd.Event`: queues of launches that Quadrants' programs ask for.

A session has one queue, in which launches run one after the other, as they were made. That is an order which any use of
streams and events allows, so a stream is that queue by another name, and an event is reached when what it waits for is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.lang.config import sync


class _Handle:
    """What streams and events share; ``handle``: 0, the queue of the session."""

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
        """Does nothing: there is nothing to give back."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()


class Stream(_Handle):
    """A queue of launches, ``kernel(..., qd_stream=stream)``: that of the session."""

    __slots__ = ()


class Event(_Handle):
    """A place in a queue."""

    __slots__ = ()

    def record(self, qd_stream: Stream | None = None) -> None:
        """Puts the event behind the launches so far."""

    def wait(self, qd_stream: Stream | None = None) -> None:
        """Lets later launches of the stream wait for the event; they come later in any case."""


def create_stream() -> Stream:
    """A stream of the session."""
    return Stream()


def create_event() -> Event:
    """An event of the session."""
    return Event()


@contextmanager
def stream_parallel() -> Iterator[None]:
    """In a kernel, ``with qd.stream_parallel():`` around loops: loops of several such blocks in a row may run at the
    same time. They run one after the other, each of them in parallel."""
    yield


stream_parallel.__qd_section__ = "stream_parallel"  # type: ignore[attr-defined]
