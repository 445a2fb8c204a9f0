"""Large kernels whose machine code LLVM made in a time that grew with the square of their size, or worse."""

import sys
from pathlib import Path
from typing import Any

import pytest
from child import run
from programs.deep import define

import quadrants_lab as qd
from quadrants_lab.backends.cpu import tasks
from quadrants_lab.backends.cpu.schedule import CpuSchedule

N = 64
HEAD = "def k(x: qd.template(), loss: qd.template()):\n    for i in x:\n        v = x[i]\n"
END = "        loss[None] += v\n"


def kernel(body: list[str]) -> Any:
    return qd.kernel(define(HEAD + "".join(f"        {line}\n" for line in body) + END)["k"])


def pairs(n: int) -> list[str]:
    return [
        line
        for k in range(n)
        for line in (f"if v > {0.1 * k}:", f"    v = v * 1.01 + {k % 7}.0", "else:", f"    v = qd.sin(v) + {k % 5}.5")
    ]


def ifs(n: int) -> list[str]:
    return [line for k in range(n) for line in (f"if v > {0.01 * k}:", "    v = v * 1.001 + 0.25")]


@pytest.mark.parametrize("body", [pairs(60), pairs(100), ifs(120)], ids=["pairs of if and else", "large", "ifs"])
def test_rows_of_ifs_compute_what_python_does(body: list[str]) -> None:
    """Value and gradient are right in float64; the gradient is compared with differences."""
    from math import sin

    def reference(v: float) -> float:
        space = {"v": v, "qd": type("qd", (), {"sin": staticmethod(sin)})}
        exec("\n".join(body), space)
        return float(space["v"])

    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False)
    x, loss = qd.field(qd.f64, N, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    at = [0.37 + 0.05 * n for n in range(N)]
    for n in range(N):
        x[n] = at[n]
    k = kernel(body)
    k(x, loss)
    assert loss[None] == pytest.approx(sum(map(reference, at)), rel=1e-12)
    loss.grad[None] = 1.0
    k.grad(x, loss)
    h = 1e-7
    for n in range(0, N, 7):
        assert x.grad[n] == pytest.approx((reference(at[n] + h) - reference(at[n] - h)) / (2 * h), rel=1e-5)


@pytest.mark.parametrize(("n", "hoists"), [(20, True), (100, False)])
def test_llvm_hoists_nothing_out_of_a_large_loop(n: int, hoists: bool) -> None:
    """LLVM spent half its time on choosing registers for the constants of 600 pairs."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x, loss = qd.field(qd.f32, N), qd.field(qd.f32, ())
    k = kernel(pairs(n))
    k(x, loss)
    first = next(line for line in k.code("llvm").splitlines() if "%group" in line and "br" in line)
    assert first.lstrip().startswith("br label") is hoists


@pytest.mark.parametrize(
    ("statements", "size", "yes"),
    [(20, 4096, True), (400, 4096, False), (20, N, False)],
    ids=["short", "takes 30 s for 8,000 statements", "runs for a microsecond"],
)
def test_which_loops_are_for_the_vectoriser_of_llvm(statements: int, size: int, yes: bool) -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    x, loss = qd.field(qd.f32, size), qd.field(qd.f32, ())
    k = kernel(ifs(statements) if statements > 20 else ["v = v * v + 0.5"] * statements)
    k(x, loss)
    made = CpuSchedule(width=0)(k.dispatcher.last.kernel)
    assert tasks.loop_passes(made)[0] is yes


_EXTREMES = """
import quadrants_lab as qd
qd.init(arch=qd.cpu, offline_cache=False)
count, x, least, sums = qd.field(qd.i32, 1000), qd.field(qd.f16, 1000), qd.field(qd.f16, ()), qd.field(qd.f32, 1000)
@qd.kernel
def carried():
    for i in range(1000):
        low = qd.f16(9.0)
        for j in range(min(count[i], 5)):
            low = min(low, qd.cast(j, qd.f16))
        x[i] = low
@qd.kernel
def shared():
    for i in range(1000):
        for j in range(count[i] % 4):
            qd.atomic_min(least[None], qd.cast(-i - j, qd.f16))
    for i in range(1000):
        sums[i] += 1.0
@qd.kernel
def several() -> qd.f64:
    low, high = qd.f32(0.0), qd.f64(0.0)
    for i in range(1000):
        qd.atomic_min(low, sums[i] - qd.cast(i, qd.f32))
        qd.atomic_max(high, qd.cast(count[i], qd.f64))
    return low + high
@qd.kernel
def of_functions():
    for i, j in qd.ndrange(1000, 4):
        high = 0.0
        for k in range(count[i]):
            high = max(high, qd.cos(qd.cos(sums[k])))
        highs[i, j] = high
    for i in sums:
        sums[i] += 1.0
@qd.kernel
def beside_lanes():
    for i in x:
        high, w = 0.0, highs[i, 0]
        for k in range(count[0]):
            high = max(high, qd.cos(qd.cos(sums[k])))
        for _ in range(6):
            w = qd.sin(w) * high
        highs[i, 1] = w
    for i in sums:
        sums[i] += 1.0
highs = qd.field(qd.f32, (1000, 4))
count.fill(3)
carried()
shared()
both = several()
sums.fill(0.0)
of_functions()
beside_lanes()
print(x[7], least[None], both, round(highs[7, 2], 3))
"""


def test_extremes_of_f16_of_several_floats_or_of_functions_do_not_end_the_process(tmp_path: Path) -> None:
    (tmp_path / "extremes.py").write_text(_EXTREMES)
    assert run(sys.executable, tmp_path / "extremes.py").stdout == "0.0 -1001.0 -995.0 0.54\n"
