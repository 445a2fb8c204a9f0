"""Bytes of adstacks that one parallel iteration in flight takes: ours as the launch reported them, the peer's by the
formula of its user guide (it reports none): two values of the dtype a slot, trip count + 2 slots a carried variable."""

from __future__ import annotations

from dataclasses import dataclass

TRIPS = 64
VARIABLES = {"linear": 1, "sin": 1, "8 carried": 8}
SIZES = {"f32": 4, "f64": 8}


@dataclass(frozen=True)
class StackRow:
    """``loop`` and ``dtype`` name the case; bytes an iteration."""

    loop: str
    dtype: str
    ours: int
    peer: int


def peer_bytes(loop: str, dtype: str) -> int:
    return VARIABLES[loop] * (TRIPS + 2) * 2 * SIZES[dtype]


def measure() -> dict[str, int]:
    """Ours, by "loop, dtype"; in a worker of quadrants_lab."""
    from benchmarks import engine
    from benchmarks.cases.loops import LOOPS

    engine.init()
    found = {}
    for name, make in LOOPS.items():
        for dtype in SIZES:
            loop = make(16, TRIPS, getattr(engine.qd, dtype))
            loop.kernel()
            loop.kernel.grad()
            found[f"{name}, {dtype}"] = sum(row.bytes_per_lane for row in loop.kernel.sizes())
    return found


def rows(measured: dict[str, int]) -> list[StackRow]:
    pairs = [key.rsplit(", ", 1) for key in measured]
    return [StackRow(a, b, measured[f"{a}, {b}"], peer_bytes(a, b)) for a, b in pairs]
