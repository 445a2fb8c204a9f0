"""Gradients whose stacks would not fit if every iteration had some of its own: each in a process that may have 2 GB."""

import sys
from pathlib import Path

import pytest
from child import run
from conftest import ROOT
from programs.deep import define

import quadrants_lab as qd

MOST = 2 << 30
STATUS = Path("/proc/self/status")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not STATUS.exists(), reason="memory is measured through /proc")]


def start() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f32, offline_cache=False)


def check_peak() -> None:
    peak = next(s for s in STATUS.read_text().splitlines() if s.startswith("VmHWM"))
    assert int(peak.split()[1]) * 1024 < MOST, peak


def many_threads_with_hundreds_of_stacks(threads: int = 600_000, stacks: int = 240, trips: int = 24) -> None:
    """A slot for each thread would take threads * stacks * trips * 4 bytes: 13.8 GB."""
    start()
    x = qd.field(qd.f32, threads, needs_grad=True)
    y = qd.field(qd.f32, (), needs_grad=True)
    n = qd.field(qd.i32, ())
    names = [f"v{k}" for k in range(stacks)]
    text = "@qd.kernel\ndef k():\n    for i in x:\n"
    text += "".join(f"        {v} = {0.5 + 0.001 * k} * x[i]\n" for k, v in enumerate(names))
    text += "        for _ in range(n[None]):\n" + "".join(f"            {v} = {v} - 0.1 * {v} * {v}\n" for v in names)
    text += f"        y[None] += {' + '.join(names)}\n"
    kernel = define(text, x=x, y=y, n=n)["k"]
    x.fill(0.7)
    y.grad[None] = 1.0
    n[None] = trips
    kernel.grad()
    sizes = kernel.sizes()
    assert len(sizes) == stacks
    assert sizes.bytes == stacks * trips * 4
    want = 0.0
    for k in range(stacks):
        v, d = (0.5 + 0.001 * k) * 0.7, 0.5 + 0.001 * k
        for _ in range(trips):
            v, d = v - 0.1 * v * v, d * (1 - 0.2 * v)
        want += d
    assert x.grad[threads - 1] == pytest.approx(want, rel=1e-4)
    check_peak()


def many_elements(elements: int = 1 << 26, trips: int = 20) -> None:
    """A slot for each element would take elements * trips * 4 bytes: 5.4 GB."""
    start()
    x = qd.field(qd.f32, elements, needs_grad=True)
    y = qd.field(qd.f32, (), needs_grad=True)
    n = qd.field(qd.i32, ())

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = v - 0.1 * v * v
            y[None] += v

    x.fill(0.7)
    y.grad[None] = 1.0
    n[None] = trips
    k.grad()
    v, d = 0.7, 1.0
    for _ in range(trips):
        v, d = v - 0.1 * v * v, d * (1 - 0.2 * v)
    assert x.grad[elements - 1] == pytest.approx(d, rel=1e-4)
    assert x.grad[0] == x.grad[elements // 2]
    check_peak()


@pytest.mark.parametrize("case", [many_threads_with_hundreds_of_stacks, many_elements])
def test_within_2_gb(case) -> None:
    code = f"import test_large; test_large.{case.__name__}()"
    path = f"{ROOT}:{ROOT / 'tests'}:{ROOT / 'tests' / 'adstack'}"
    run(sys.executable, "-c", code, env={"PYTHONPATH": path})
