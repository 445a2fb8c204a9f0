"""Iterations that push run in a kernel of their own: the two kernels against the one, interpreted. The counting slice
of a gradient writes nothing but its counts."""

import numpy as np
import pytest
from adstack.test_depths import HEAD, TAIL, job
from programs import PROGRAMS
from programs.seeded import SEEDED
from running import each, interpreted, job_of
from sessions import sessions

import quadrants_lab as qd
from quadrants_lab.adstack.counting import counting_kernel
from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate
from quadrants_lab.adstack.sparse_iterations import (
    ACTIVE_COUNT,
    ROWS,
    is_cheap,
    may_be_sparse,
    sparse_iterations,
)
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.dce import dce
from quadrants_lab.pipelines.derivatives import COUNTING
from quadrants_lab.runtime.interpret.interpreter import interpret

LAUNCH = {"n": 3, "m": [1, 2, 0, 3], "a": [2, 1, 3, 0], "lim": 1, "s": 4}
LOOP = "for j in range({}):\n{}    v = qd.sin(v) * z[i]\n"
BODIES = {
    "one": "        if m[i] > 1:\n            " + LOOP.format("s", " " * 12),
    "nested": "        if m[i] > 0:\n            if x[i] > 0.0:\n                " + LOOP.format("n[None]", " " * 16)
    + "            v = v * v\n",
    "both arms": "        if m[i] > 1:\n            " + LOOP.format("5", " " * 12)
    + "        else:\n            if a[i] > 2:\n                " + LOOP.format("s", " " * 16),
    "two": "        if m[i] > 2:\n            " + LOOP.format("s", " " * 12) + "        v = v * z[i]\n"
    + "        if a[i] > 2:\n            " + LOOP.format("3", " " * 12),
}  # fmt: skip
ALWAYS = {
    "no condition": "        " + LOOP.format("s", " " * 8),
    "a loop behind": BODIES["one"] + "        " + LOOP.format("2", " " * 8),
}


def ready(kernel):
    for p in COUNTING:
        kernel = p(kernel)
    return kernel


def reverse_of(body: str, first: int = 0):
    head = HEAD.replace("for i in x:", f"for i in range({first}, 4):")
    run = interpreted(job(head + body + TAIL, LAUNCH))
    return run, run.reverse[-1].kernel


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_two_parts_do_what_the_one_does(body, first) -> None:
    run, kernel = reverse_of(body, first)
    want, _, caps = run.run_reverse(kernel)
    assert may_be_sparse(kernel)
    found = sparse_iterations(kernel)
    lists, split = ready(found.lists), ready(found.split)
    assert is_cheap(lists)
    arrays, _ = run.run_forward(run.forward[-1].kernel)
    named = run._named(arrays)
    live = LiveData(dict(run.job.scalars), named)
    (box,) = (evaluate(size, live) for size in found.boxes.values())
    assert box == 4 - first
    rows = np.zeros(box, np.int32)
    listed = interpret(lists, run.job.scalars, {**named, f"{ROWS}0": rows}).rets[f"{ACTIVE_COUNT}0"]
    assert 0 < listed < 4
    result = interpret(split, run.job.scalars, {**named, f"{ROWS}0": rows[:listed]}, caps=caps)
    assert result.overflow is None
    for name in ("x.grad", "z.grad", "y.grad"):
        np.testing.assert_allclose(arrays[name], want[name], rtol=1e-12)


@pytest.mark.parametrize("body", ALWAYS.values(), ids=ALWAYS)
def test_kernels_that_always_push_stay_one_kernel(body) -> None:
    _, kernel = reverse_of(body)
    assert not may_be_sparse(kernel)
    assert sparse_iterations(kernel) is None


@qd.kernel
def few(a: qd.i32, b: qd.i32, x: qd.template(), y: qd.template(), n: qd.template()):
    for i, j in qd.ndrange(a, b):
        v = x[0]
        if i + j < 1:
            for _ in range(n[None]):
                v = qd.sin(v)
            y[None] += v


@pytest.mark.parametrize("options", sessions("cuda", "vulkan", "metal"))
def test_more_iterations_than_a_list_has_numbers_for(options) -> None:
    """An error before anything runs; the next launch is right."""
    qd.init(**options, ad_stack_sparse_threshold_bytes=1)
    x, y = qd.field(qd.f32, shape=1, needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)
    n = qd.field(qd.i32, shape=())
    x[0], n[None], y.grad[None] = 0.5, 1, 1.0
    for _ in range(2):
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2101.* which of 2147483648 iterations"):
            few.grad(2**16, 2**15, x, y, n)
        x.grad.fill(0.0)
        few(2, 2, x, y, n)
        few.grad(2, 2, x, y, n)
        assert x.grad[0] == pytest.approx(np.cos(0.5), rel=1e-5)


ALL = [*(p for p in PROGRAMS.values() if p.grad), *SEEDED.values()]


def written(kernel: N.Kernel) -> set[str]:
    return {s.buffer for s in walk(dce(kernel).body) if isinstance(s, (N.Store, N.Atomic))}


@pytest.mark.filterwarnings("ignore")
@each(ALL, every=2)
def test_only_counts_are_written(program) -> None:
    reverse = interpreted(job_of(program, program.cases[0])).reverse[-1].kernel
    for counter in (counting_kernel(reverse), (found := sparse_iterations(reverse)) and found.lists):
        if counter is not None:
            kinds = {name: counter.buffers[name].kind for name in written(counter) if not name.startswith(ROWS)}
            put_back = {name for name in kinds if any(b.startswith(f"{name}.kept") for b in counter.buffers)}
            assert {kind for name, kind in kinds.items() if name not in put_back} <= {"temp", "ret", "scratch"}, kinds
