"""``python -m benchmarks.stepper``: how long the stepper takes to open a large launch and a long loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import quadrants_lab as qd
from quadrants_lab.notebook.stepping import steps_view
from quadrants_lab.runtime.record.records import recording
from quadrants_lab.widgets.model import KernelView
from quadrants_lab.widgets.steps import pane

ELEMENTS, TRIPS = 1 << 26, 100_000


def opened(launch: Callable[[], None], kernel: Any, *requests: str) -> None:
    """Prints the seconds from the record of the kernel's gradient to the pane's answer to each request."""
    with recording() as recorder:
        launch()
    records = {r.mode: r for r in recorder.records() if r.kernel == kernel.name}
    for request in requests:
        start, spent = time.perf_counter(), time.process_time()
        view = KernelView(kernel.name, kernel.source.file, [])
        view.steps = steps_view(records, kernel.source.file, recorder.past)
        answer = pane(view, "0/steps", request.split("/") if request else [])
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
        assert "error[" not in answer, answer
        size = f"{len(answer) / 1024:8.0f} KB"
        print(f"{kernel.name:<8} {request or 'the pane':<24} {seconds:8.3f} s, of the processor {spent:6.3f} s {size}")


def large() -> None:
    """Two loops over as many elements: the second reads, on the way back, what the first one wrote."""
    x, b = (qd.field(qd.f32, ELEMENTS, needs_grad=True) for _ in range(2))
    y = qd.field(qd.f32, (), needs_grad=True)
    x.fill(0.3)

    @qd.kernel
    def large():
        for i in x:
            b[i] = qd.sin(x[i]) * x[i]
        for i in b:
            y[None] += b[i] * x[i]

    def launch() -> None:
        large()
        y.grad[None] = 1
        large.grad()

    opened(launch, large, "", f"1/0/{ELEMENTS - 1}", f"1/1/{ELEMENTS // 3}")


def long() -> None:
    """One loop, whose gradient goes back over as many trips."""
    x, y, n = qd.field(qd.f64, 4, needs_grad=True), qd.field(qd.f64, (), needs_grad=True), qd.field(qd.i32, ())
    x.fill(0.3)
    n[None] = TRIPS

    @qd.kernel
    def long():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v) + 0.1
            y[None] += v

    def launch() -> None:
        long()
        y.grad[None] = 1
        long.grad()

    opened(launch, long, "", "1/0/1/turn", "1/0/1/last")


if __name__ == "__main__":
    qd.init(arch=qd.cpu)
    print(f"large: {ELEMENTS:,} elements; long: {TRIPS:,} trips")
    large()
    long()
