"""Limits on the launches that are in flight. Ctrl-C ends the host's wait but not the work of the device, so a launch
blocks while `MOST` launches are in flight, or fewer where they are known to take long."""

from collections.abc import Collection

PART = 75_000_000  # nanoseconds of launches that are waited for together; two such parts may be in flight
MOST = 128  # launches of a part
LEAST = PART // MOST


class Cost:
    """The estimated nanoseconds of one launch of a frame, clamped to `LEAST` .. `PART`."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = PART // 2  # before the first measurement


def learn(costs: Collection[Cost], took: int, at_most: bool = False) -> None:
    """Scales the estimates of launches that took ``took`` nanoseconds together, or at most that long."""
    expected = sum(c.ns for c in costs)
    if not costs or (at_most and took > expected):
        return
    for c in set(costs):
        c.ns = min(max(c.ns * took // expected, LEAST), PART)
