"""The depth that is worked out for a stack is the depth that it reaches: over nests of loops of every bound shape,
launched with growing, shrinking, zero and negative trips."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from running import WAYS, Arrays, Bench, Interpreted, Job, define, f64, interpreted

from quadrants_lab.ir.types import DType
from quadrants_lab.runtime.backend import backend

HEAD = (
    "def k(a: qd.types.ndarray(dtype=qd.i32, ndim=1), b: qd.types.ndarray(dtype=qd.i32, ndim=2), s: qd.i32):\n"
    "    for i in x:\n        v = x[i]\n        c = i + 1\n"
)
TAIL = "        y[None] += v\n"
BOUNDS = (
    "0", "3", "n[None]", "s", "m[2]", "m[i]", "lim[1, 2]", "lim[i, {j} % 4]", "lim[i, i] + n[None]", "m[m[i] % 4]",
    "a.shape[0]", "b.shape[1]", "a[3]", "a[{j} % 4]", "a[i] * 2", "b[i, {j} % 3]", "b[i, 2] + b[2, i % 3]",
    "a[m[i] % 4]", "b[m[i] % 4, a[{j} % 4] % 3]", "{j}", "{j} + 1", "-{j}", "i", "s - i", "n[None] - {j}",
    "{j} - m[i]", "4 - {j} // 2", "n[None] // 2", "m[i] // ({j} + 1)", "s // n[None]", "(s + 7) % 3", "min(s, 4)",
    "max(n[None], m[i])", "max({j}, a[i]) - 1", "min(m[i], a[{j} % 4])", "max(min({j}, 3), b[1, 1])",
    "qd.cast(v * 4.0, qd.i32)", "c", "c - {j}", "a[c % 4]", "m[qd.cast(qd.abs(v) * 3.0, qd.i32) % 4]",
)  # fmt: skip
DIVIDES = ("m[i] // ({j} + 1)", "s // n[None]")  # by zero sometimes
RANGES = (
    "range({b})", "range({b}, {e})", "range({b}, {e}, 2)", "range({e}, {b}, -1)", "range({e}, {b}, -3)",
    "range(-1, {b})",
)  # fmt: skip
LAUNCHES = tuple(
    {"n": n, "m": m, "a": a, "lim": lim, "s": s}
    for n, m, a, lim, s in (
        (2, [1, 2, 0, 3], [2, 1, 3, 0], 1, 3), (4, [3, 0, 4, 2], [0, 4, 1, 2], 3, 2),
        (0, [0, 0, 0, 0], [0, 0, 0, 0], 0, 0), (-3, [-1, 2, -2, 1], [1, -4, 2, 0], -2, -1),
        (3, [2, 2, 2, 2], [3, 3, 3, 3], 2, 5),
    )
)  # fmt: skip

MARK = "qd.loop_config(checkpoint=True)"


@st.composite
def nests(draw, marks: bool = False) -> tuple[str, bool]:
    """(kernel, whether its stacks reach their sizes). ``marks``: some loops are checkpointed, and no bound divides by
    0, which the oracle does not do."""
    lines: list[str] = ["        w = z[i]"]
    exact = True
    names = iter("jklpqrtudefgho" if marks else "jklpqrtu")

    def bound(around: list[str]) -> str:
        bounds = [b for b in BOUNDS if b not in DIVIDES] if marks else BOUNDS
        return draw(st.sampled_from(bounds)).format(j=draw(st.sampled_from(around)))

    def block(indent: int, around: list[str], level: int) -> None:
        nonlocal exact
        pad = "    " * indent
        for _ in range(draw(st.integers(1, 2))):
            kind = draw(st.integers(0, 9)) if level < 3 else 9
            if kind <= 6:
                j = next(names, None)
                if j is None:
                    continue
                if kind == 6:
                    lines.append(f"{pad}{j} = 0")
                    exact &= not marks  # a segment in it may have room for trips that it never gets to
                if marks and draw(st.booleans()):
                    lines.append(f"{pad}{MARK}")
                if kind == 6:
                    lines.append(f"{pad}while {j} < {bound(around)}{' and v < 2.0' * marks}:\n{pad}    {j} += 1")
                else:
                    over = draw(st.sampled_from(RANGES)).format(b=bound(around), e=bound(around))
                    lines.append(f"{pad}for {j} in {over}:")
                block(indent + 1, [*around, j], level + 1)
                if kind < 6 and draw(st.integers(0, 4)) == 0:
                    exact &= not marks
                    lines.append(f"{pad}    if v > 0.9:\n{pad}        break")
            elif kind == 7:
                exact = False
                lines.append(f"{pad}if v > 0.3:")
                block(indent + 1, around, level + 1)
                if draw(st.booleans()):
                    lines.append(f"{pad}else:")
                    block(indent + 1, around, level + 1)
            elif kind == 8:
                lines.append(f"{pad}c = (c * 3 + {draw(st.sampled_from(around))}) % 4\n{pad}v = v * x[c]")
            else:
                lines.append(f"{pad}v = qd.sin(v) + 0.3 * {draw(st.sampled_from(['z[i]', 'w', '1.0']))}")
        lines.append(f"{pad}w = 0.5 * w + 0.1 * v\n{pad}v = 0.6 * v * z[i] + 0.3 * qd.sin(v * w)")

    if not marks and draw(st.integers(0, 2)) == 0:
        exact = False
        gate = draw(st.sampled_from(("x[i] > 0.2", "m[i] > 1 and i != 2", "not z[i] > 0.5 or a[i] > 2")))
        lines.append(f"        if {gate}:")
        block(3, ["i"], 0)
        if draw(st.booleans()):
            lines.append("            y[None] += v * v\n        else:")
            block(3, ["i"], 2)
    else:
        block(2, ["i"], 0)
    return HEAD + "\n".join(lines) + "\n" + TAIL, exact


def job(text: str, launch: dict) -> Job:
    floats = {"x": np.array([0.3, 0.8, -0.5, 0.1]), "z": np.array([0.9, 0.7, -0.6, 0.4]), "y": np.array(0.0)}
    seeds = {"x": np.zeros(4), "z": np.zeros(4), "y": np.array(1.0)}
    ints = {name: np.asarray(launch[name], np.int32) for name in ("n", "m", "a")}
    ints["lim"] = np.arange(16, dtype=np.int32).reshape(4, 4) % 3 + launch["lim"]
    ints["b"] = np.arange(12, dtype=np.int32).reshape(4, 3) * 5 % 4 + launch["lim"] - 1
    return Job(define(text)["k"], (), floats, ints, ("x", "z", "y"), seeds, ("a", "b"), {"s": launch["s"]})


def reached(run: Interpreted) -> tuple[dict[int, int], dict[int, int], Arrays]:
    """(depth reached, capacity) of each stack, and the buffers."""
    arrays, result, caps = run.run_reverse(run.reverse[-1].kernel)
    assert result.overflow is None
    return {stack: result.depth.get(stack, 0) for stack in caps}, caps, arrays


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("arch", "fp"), WAYS)
def test_depths_are_those_reached(arch, fp) -> None:
    """Some of the CPU's in f64 in the other ways."""
    examples = (20 if (arch, fp) == ("cpu", f64) else 2) * (10 if os.environ.get("QL_NIGHTLY") else 1)
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )  # fmt: skip
    @given(nests())
    def check(nest: tuple[str, bool]) -> None:
        compare(*nest, arch, fp)
    check()


def compare(text: str, exact: bool, arch: str, fp: DType) -> None:
    checked = backend(arch).CAPABILITIES.checks_bounds  # the checks of indices are in the slice that counts, too
    run = interpreted(job(text, LAUNCHES[0]), fp, check_out_of_bound=checked)
    bench = Bench(fp, arch, ad_stack_sparse_threshold_bytes=0)
    fn = run.job.fn
    for launch in LAUNCHES:
        now = job(text, launch)
        now.fn = fn
        run = run.of(now)
        depth, caps, want = reached(run)
        if exact:
            assert depth == caps, text
        else:
            assert all(depth[s] <= caps[s] for s in caps), text
        got, _ = bench.run(now)  # an overflow would be an error
        assert sorted(row.depth for row in bench.kernels[fn, False].sizes()) == sorted(caps.values()), text
        for name in ("x.grad", "z.grad"):
            np.testing.assert_allclose(got[name], want[name], rtol=1e-9 if fp is f64 else 1e-3, atol=1e-5, err_msg=text)
