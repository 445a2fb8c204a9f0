"""Bounds the work that a device has been given and has not done. Ctrl-C ends the wait for it but not the work itself,
so a launch waits when `MOST` launches are under way, or fewer where they are known to take long."""

from __future__ import annotations

from collections.abc import Collection

PART = 75_000_000  # nanoseconds of launches that are marked, and waited for, together; two parts may be on their way
MOST = 128  # launches of a part
LEAST = PART // MOST


class Cost:
    """What the launches of a frame take: ``ns``, nanoseconds of the last ones, within what makes a difference."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = PART // 2  # before the first measurement


def learn(costs: Collection[Cost], took: int, at_most: bool = False) -> None:
    """Launches with these costs took so many nanoseconds together, or no more than that. One that was expected to take
    twice as long as another is taken to have done so."""
    expected = sum(c.ns for c in costs)
    if not costs or (at_most and took > expected):
        return
    for c in set(costs):
        c.ns = min(max(c.ns * took // expected, LEAST), PART)
