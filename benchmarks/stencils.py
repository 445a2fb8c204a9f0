"""Measures how many times as long the gradient of a stencil takes as its forward kernel, on one thread."""

from __future__ import annotations

from benchmarks.relaunch import Limit, fastest

LIMITS = tuple(Limit(f"5 points, {n}^2, {t}", 3.0, "") for n in (256, 1024) for t in ("f32", "f64"))
RUNS = 1 << 22  # the number of iterations in a round


def measure() -> dict[str, float]:
    """Runs in a worker process. Returns the ratio by the name of the row."""
    from benchmarks import engine
    from benchmarks.cases.reverse import Stencil

    engine.init(cpu_max_num_threads=1)
    found: list[float] = []
    for n in (256, 1024):
        for t in ("f32", "f64"):
            k = Stencil(n, getattr(engine.qd, t)).kernel
            k()
            k.grad()
            forward, gradient = fastest(k, k.grad, times=RUNS // n**2)
            found.append(gradient / forward)
    return {limit.name: ratio for limit, ratio in zip(LIMITS, found, strict=True)}
