"""Checkpointed loops: the same gradients with stacks of about sqrt(trips), whatever stands in the loop."""

import itertools
import math
import os

import numpy as np
import pytest
from adstack.test_depths import LAUNCHES, MARK, job, nests, reached
from hypothesis import HealthCheck, given, settings
from oracle.sines import slopes
from programs.deep import define
from running import Bench, differences, f64, interpreted
from sessions import session_of, sessions, skips

import quadrants_lab as qd


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=300 if os.environ.get("QL_NIGHTLY") else 10, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(nests(marks=True))
def test_gradients_and_depths_of_nests(nest):
    text, exact = nest
    bench = Bench(f64)
    run = interpreted(job(text, LAUNCHES[0]))
    fn = run.job.fn
    for launch in LAUNCHES:
        now = job(text, launch)
        now.fn = fn
        run = run.of(now)
        depth, caps, arrays = reached(run)
        assert (depth == caps) if exact else all(depth[s] <= caps[s] for s in caps), text
        want = now.oracle()
        for got in (arrays, bench.run(now)[0]):
            assert not differences(now, want, got, 1e-9, True), text
        assert sorted(row.depth for row in bench.kernels[fn, False].sizes()) == sorted(caps.values()), text


session = session_of(sessions("cpu"), default_fp=qd.f64)


def fields(n=3):
    x, y, trips = qd.field(qd.f64, n, needs_grad=True), qd.field(qd.f64, (), needs_grad=True), qd.field(qd.i32, ())
    x.from_numpy(np.linspace(0.2, 0.9, n))
    y.grad[None] = 1
    return x, y, trips


def gradient(kernel, x) -> np.ndarray:
    x.grad.fill(0)
    kernel.grad()
    return x.grad.to_numpy()


def test_bytes_are_twice_the_square_root_of_the_trips() -> None:
    x, y, trips = fields()

    @qd.kernel
    def plain():
        for i in x:
            v = x[i]
            for _ in range(trips[None]):
                v = qd.sin(v) + 0.1 * x[i]
            y[None] += v

    @qd.kernel
    def kept():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for _ in range(trips[None]):
                v = qd.sin(v) + 0.1 * x[i]
            y[None] += v

    for n in (0, 1, 2, 3, 4, 10, 1000, 10_000, 123_456):
        trips[None] = n
        np.testing.assert_allclose(gradient(kept, x), gradient(plain, x), rtol=1e-12)
        size = math.isqrt(n - 1) + 1 if n else 0
        segment, starts = kept.sizes()
        assert (segment.depth, starts.depth) == (size, -(-n // size) if n else 0)
        assert kept.sizes().bytes <= 8 * (2 * math.sqrt(n) + 1)
        assert kept.sizes().bytes_before in (8 * n, None)
    assert "start of each segment of the checkpointed loop" in str(kept.sizes())


def test_nested_checkpoints_and_values_kept_around_them() -> None:
    x, y, trips = fields()
    trips[None] = 30

    def make(outer: bool, inner: bool):
        @qd.kernel
        def k():
            for i in x:
                v, w = x[i], 0.3
                qd.loop_config(checkpoint=outer)
                for j in range(trips[None]):
                    u = qd.exp(-v) + w
                    qd.loop_config(checkpoint=inner)
                    for m in range(j, trips[None]):
                        if w > 0.2:
                            w = qd.sin(w * u) + 0.01 * m
                        else:
                            w = w * u + 0.1
                    v = v * w + 0.1 * u * x[j % 3]
                y[None] += v * w

        return k

    ways = {(o, i): make(o, i) for o in (False, True) for i in (False, True)}
    want = gradient(ways[False, False], x)
    bytes_ = {}
    for way, k in ways.items():
        np.testing.assert_allclose(gradient(k, x), want, rtol=1e-12)
        bytes_[way] = k.sizes().bytes
    assert bytes_[True, True] < bytes_[True, False] < bytes_[False, False]
    assert bytes_[False, True] < bytes_[False, False]


def test_a_serial_loop_at_the_top() -> None:
    x, y, trips = fields()
    trips[None] = 50
    @qd.kernel
    def k():
        v = x[0]
        qd.loop_config(serialize=True, checkpoint=True)
        for _ in range(trips[None]):
            v = v - 0.1 * v * v
        y[None] += v
    got = gradient(k, x)
    v, d = 0.2, 1.0
    for _ in range(50):
        v, d = v - 0.1 * v * v, d * (1 - 0.2 * v)
    assert got.tolist() == pytest.approx([d, 0, 0])
    assert [row.depth for row in k.sizes()] == [8, 7]


@pytest.mark.parametrize("step", [-1, -2, 2])
def test_loops_downwards_and_with_steps(step) -> None:
    x, y, _ = fields(8)
    begin, end = (7, -1) if step < 0 else (0, 8)

    def make(mark: bool):
        @qd.kernel
        def k():
            for i in x:
                v = x[i]
                qd.loop_config(checkpoint=mark)
                for j in range(begin, end, step):
                    v = qd.sin(v) * x[j] + 0.2 * j
                y[None] += v

        return k

    def value(a):
        total = 0.0
        for i in range(8):
            v = a[i]
            for j in range(begin, end, step):
                v = np.sin(v) * a[j] + 0.2 * j
            total += v
        return total

    a = x.to_numpy()
    want = [(value(a + 1e-6 * e) - value(a - 1e-6 * e)) / 2e-6 for e in np.eye(8)]
    for mark in (False, True):
        np.testing.assert_allclose(gradient(make(mark), x), want, atol=1e-8)


def test_a_forced_size_that_is_too_small_for_a_segment_is_an_error() -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False, ad_stack_size=5)
    x, y, trips = fields()

    @qd.kernel
    def k():
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            for _ in range(trips[None]):
                v = qd.sin(v)
            y[None] += v

    trips[None] = 25
    k.grad()
    trips[None] = 30
    with pytest.raises(qd.QuadrantsAssertionError, match="holds 5, 6 were needed"):
        k.grad()
    trips[None] = 16
    np.testing.assert_allclose(gradient(k, x), slopes(x.to_numpy(), 16), rtol=1e-12)


ANY_LOOP = """
@qd.kernel
def k():
    for i in x:
        v, w = x[i], 0.3
        {0}
        for j in range(trips[None]):
            t = v * w
            {1}
            while t > 0.1:
                v = v * 0.7 + 0.2 * t * t
                t = t * 0.6
            {2}
            for m in range(100):
                w = qd.sin(w * v) + 0.1
                if w * m > v * j:
                    break
            if v > 5.0:
                break
        y[None] += v * w
"""


def any_loop(way, x, y, trips):
    text = ANY_LOOP.format(*(MARK if mark else "pass" for mark in way))
    return define(text, x=x, y=y, trips=trips)["k"]


def test_loops_with_data_dependent_trip_counts() -> None:
    x, y, trips = fields()
    ways = {way: any_loop(way, x, y, trips) for way in itertools.product((False, True), repeat=3)}
    for n in (0, 1, 9, 60, 4):
        trips[None] = n
        want = gradient(ways[False, False, False], x)
        used = {}
        for way, k in ways.items():
            np.testing.assert_allclose(gradient(k, x), want, rtol=1e-11)
            used[way] = k.sizes().bytes
        if n == 60:
            assert used[True, True, True] < used[False, True, True] < used[False, False, False]
            assert used[True, False, False] < used[False, False, False] / 2


def test_a_while_takes_the_square_root_of_its_trips() -> None:
    x, y, trips = fields(1)
    trips[None] = 1

    @qd.kernel
    def k(least: qd.f64):
        for i in x:
            v = x[i]
            qd.loop_config(checkpoint=True)
            while v > least:
                v = v - 0.1 * v * v
            y[None] += v

    for least, n in ((0.19, 3), (0.01, 952), (0.5, 0)):
        x.grad.fill(0)
        k.grad(least)
        v, d, count = 0.2, 1.0, 0
        while v > least:
            v, d, count = v - 0.1 * v * v, d * (1 - 0.2 * v), count + 1
        size = math.isqrt(count - 1) + 1 if count else 0
        assert abs(count - n) < 10
        assert x.grad[0] == pytest.approx(d, rel=1e-12)
        assert [r.depth for r in k.sizes()] == [size, -(-count // size) if count else 0]


@pytest.mark.parametrize("arch", [pytest.param(a, marks=skips(a)) for a in ("vulkan", "metal", "cuda", "wasm")])
def test_counted_segments_on_gpus(arch) -> None:
    found = {}
    for where in ("cpu", arch):
        qd.init(arch=getattr(qd, where), offline_cache=False, enable_fallback=False, simulate=True)
        x, y = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
        trips = qd.field(qd.i32, ())
        x.from_numpy(np.linspace(0.2, 0.9, 4, dtype=np.float32))
        y.grad[None] = 1
        k = any_loop((True, True, True), x, y, trips)
        for n in (3, 12, 0):
            trips[None] = n
            found[where, n] = gradient(k, x), [r.depth for r in k.sizes()]
    qd.reset()
    for n in (3, 12, 0):
        np.testing.assert_allclose(found[arch, n][0], found["cpu", n][0], rtol=1e-4)
        assert found[arch, n][1] == found["cpu", n][1]
