"""The depth that is worked out for a stack is the depth that it reaches: over nests of loops of every bound shape,
launched with growing, shrinking, zero and negative trips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Bench, Interpreted, Job, define, f64, interpreted

HEAD = "def k(a: qd.types.ndarray(dtype=qd.i32, ndim=1), s: qd.i32):\n    for i in x:\n        v = x[i]\n"
TAIL = "        y[None] += v\n"
BOUNDS = (
    "3", "n[None]", "s", "m[i]", "a.shape[0]", "a[{j} % 4]", "lim[i, {j} % 4]", "{j}", "{j} + 1", "n[None] - {j}",
    "max(n[None], m[i])", "min(s, 4)", "n[None] // 2", "m[m[i] % 4]", "i", "s - i", "a[i] * 2", "lim[i, i] + n[None]",
)  # fmt: skip
RANGES = ("range({b})", "range({b}, {e})", "range({b}, {e}, 2)", "range({e}, {b}, -1)", "range(-1, {b})")
LAUNCHES = tuple(
    {"n": n, "m": m, "a": a, "lim": lim, "s": s}
    for n, m, a, lim, s in (
        (2, [1, 2, 0, 3], [2, 1, 3, 0], 1, 3), (4, [3, 0, 4, 2], [0, 4, 1, 2], 3, 2),
        (0, [0, 0, 0, 0], [0, 0, 0, 0], 0, 0), (-3, [-1, 2, -2, 1], [1, -4, 2, 0], -2, -1),
        (3, [2, 2, 2, 2], [3, 3, 3, 3], 2, 5),
    )
)  # fmt: skip


@st.composite
def nests(draw) -> tuple[str, bool]:
    """(kernel, whether no push lies under a condition that depends on data)."""
    lines: list[str] = []
    exact = True
    names = iter("jklpqrtuw")

    def bound(around: list[str]) -> str:
        return draw(st.sampled_from(BOUNDS)).format(j=draw(st.sampled_from(around)))

    def block(indent: int, around: list[str], level: int) -> None:
        nonlocal exact
        pad = "    " * indent
        for _ in range(draw(st.integers(1, 2))):
            kind = draw(st.integers(0, 9)) if level < 3 else 9
            if kind <= 5:
                j = next(names, None)
                if j is None:
                    continue
                over = draw(st.sampled_from(RANGES)).format(b=bound(around), e=bound(around))
                lines.append(f"{pad}for {j} in {over}:")
                block(indent + 1, [*around, j], level + 1)
                if draw(st.integers(0, 5)) == 0:
                    lines.append(f"{pad}    if v > 0.9:\n{pad}        break")
            elif kind == 6:
                j = next(names, None)
                if j is None:
                    continue
                lines.append(f"{pad}{j} = 0\n{pad}while {j} < {bound(around)}:\n{pad}    {j} += 1")
                block(indent + 1, [*around, j], level + 1)
            elif kind == 7:
                exact = False
                lines.append(f"{pad}if v > 0.3:")
                block(indent + 1, around, level + 1)
                if draw(st.booleans()):
                    lines.append(f"{pad}else:")
                    block(indent + 1, around, level + 1)
            else:
                lines.append(f"{pad}v = qd.sin(v) + 0.3")
        lines.append(f"{pad}v = v * z[i] + 0.2 * v * v")

    block(2, ["i"], 0)
    return HEAD + "\n".join(lines) + "\n" + TAIL, exact


def job(text: str, launch: dict) -> Job:
    floats = {"x": np.array([0.3, 0.8, -0.5, 0.1]), "z": np.array([0.9, 0.7, -0.6, 0.4]), "y": np.array(0.0)}
    seeds = {"x": np.zeros(4), "z": np.zeros(4), "y": np.array(1.0)}
    ints = {name: np.asarray(launch[name], np.int32) for name in ("n", "m", "a")}
    ints["lim"] = np.arange(16, dtype=np.int32).reshape(4, 4) % 3 + launch["lim"]
    return Job(define(text)["k"], (), floats, ints, ("x", "z", "y"), seeds, ("a",), {"s": launch["s"]})


def reached(run: Interpreted) -> tuple[dict[int, int], dict[int, int]]:
    """(depth reached, capacity) of each stack."""
    _, result, caps = run.run_reverse(run.reverse[-1].kernel)
    assert result.overflow is None
    return {stack: result.depth.get(stack, 0) for stack in caps}, caps


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(nests())
def test_depths_are_those_reached(nest):
    text, exact = nest
    run = interpreted(job(text, LAUNCHES[0]))
    bench = Bench(f64)
    fn = run.job.fn
    for launch in LAUNCHES:
        now = job(text, launch)
        now.fn = run.job.fn = fn
        run.job = now
        depth, caps = reached(run)
        if exact:
            assert depth == caps, text
        else:
            assert all(depth[s] <= caps[s] for s in caps), text
        bench.run(now)  # an overflow would be an error
        assert sorted(row.depth for row in bench.kernels[fn, False].sizes()) == sorted(caps.values()), text
