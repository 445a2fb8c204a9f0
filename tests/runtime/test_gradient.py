"""Gradient launches: sizes follow live data, reports, overflow, tapes."""

import numpy as np
import pytest
from oracle.sines import slopes

import quadrants_lab as qd
from quadrants_lab.pipelines import derivatives
from quadrants_lab.runtime.compile import specialisation

Array = qd.types.ndarray(dtype=qd.f64, ndim=1)
Ints = qd.types.ndarray(dtype=qd.i32, ndim=1)


@pytest.fixture(autouse=True)
def session():
    start()
    yield
    qd.reset()


def start(**options) -> None:
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False, **options)


@qd.kernel
def by_field(x: qd.template(), n: qd.template(), y: qd.template()):
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = qd.sin(v) + 0.1
        y[None] += v

@qd.kernel
def by_array(x: Array, counts: Ints, y: qd.template()):
    for i in x:
        v = x[i]
        for _ in range(counts[i]):
            v = qd.sin(v) + 0.1
        y[None] += v

@qd.kernel
def until(x: qd.template(), limit: qd.template(), y: qd.template()):
    for i in x:
        v = x[i]
        while v < limit[None]:
            v = v * v + 1.0
        y[None] += v


def make(n=4):
    x = qd.field(qd.f64, n, needs_grad=True, name="x")
    y = qd.field(qd.f64, (), needs_grad=True, name="y")
    x.from_numpy(np.linspace(0.1, 1, n))
    y.grad[None] = 1
    return x, y


def test_sizes_follow_a_field() -> None:
    x, y = make()
    n = qd.field(qd.i32, ())
    for count in (1, 20, 512, 0, 3):
        n[None] = count
        x.grad.fill(0)
        by_field.grad(x, n, y)
        assert [row.depth for row in by_field.sizes()] == [count]
        np.testing.assert_allclose(x.grad.to_numpy(), slopes(x.to_numpy(), count, plus=0.1), atol=1e-12)


def test_sizes_are_evaluated_again_only_when_something_changed(monkeypatch) -> None:
    x, y = make()
    n = qd.field(qd.i32, ())
    n[None] = 3
    by_field.grad(x, n, y)
    plan = by_field.grad.dispatcher.last
    monkeypatch.setattr(plan.stacks, "resize", lambda args: pytest.fail("evaluated again"))
    by_field.grad(x, n, y)
    x.fill(0.5)
    by_field.grad(x, n, y)
    monkeypatch.undo()
    n[None] = 5
    by_field.grad(x, n, y)
    assert by_field.sizes()[0].depth == 5


def test_a_gradient_goes_to_the_arrays_of_its_own_call() -> None:
    _, y = make()
    arrays = [qd.ndarray(qd.f64, 3, needs_grad=True) for _ in range(2)]
    counts = qd.ndarray(qd.i32, 3)
    counts.fill(2)
    for n, x in enumerate(arrays):
        x.from_numpy(np.array([0.1, 0.4, 0.9]) + n)
    for x in (arrays[0], arrays[0], arrays[1], arrays[0]):
        for other in arrays:
            other.grad.fill(0)
        by_array.grad(x, counts, y)
        for other in arrays:
            want = slopes(other.to_numpy(), 2, plus=0.1) if other is x else 0
            np.testing.assert_allclose(other.grad.to_numpy(), want, atol=1e-12)


def test_the_report_compares_with_naive_stacks_and_suggests_cures() -> None:
    x, y = make()
    n = qd.field(qd.i32, ())

    @qd.kernel
    def wandering():
        for i in x:
            v, k = x[i], 0
            for _ in range(n[None]):
                if v > 0.2:
                    v = qd.sin(v) * qd.cos(v)
                k = (k + 3) % 4
                v = v * x[k]
            y[None] += v

    n[None] = 10
    wandering.grad()
    sizes = wandering.sizes()
    assert sizes.bytes == 10 * 8 * 2 + 10 == sum(row.bytes_per_lane for row in sizes)
    # v at the top and before the product, sine, cosine, the flag; k as i32
    assert sizes.bytes_before == 10 * (4 * 8 + 1 + 8 + 4)
    assert f"{sizes.bytes}; without recomputation: {sizes.bytes_before}" in str(sizes)
    cures = {row.name: row.cure for row in sizes}
    assert "loop indices" in cures["k"]
    assert "sums" in cures["v"]
    lines = [line for line in str(sizes).splitlines() if line.startswith("to avoid the stack of k (line ")]
    assert any(line.endswith(cures["k"]) for line in lines)


def test_a_bound_written_after_the_launch_is_warned_about_once() -> None:
    x, y = make()
    n = qd.field(qd.i32, (), name="n")
    n[None] = 3
    by_field.grad(x, n, y)  # without a launch there is nothing to compare with
    by_field(x, n, y)
    by_field.grad(x, n, y)
    n[None] = 4
    with pytest.warns(qd.QuadrantsWarning, match="QL0410.*n was written in between"):
        by_field.grad(x, n, y)
    by_field.grad(x, n, y)
    by_field(x, n, y)
    by_field.grad(x, n, y)
    x.fill(0.5)  # no bound
    by_field.grad(x, n, y)


def test_an_array_of_bounds_written_after_the_launch_is_warned_about() -> None:
    _, y = make()
    x = qd.ndarray(qd.f64, 2, needs_grad=True)
    a, b = qd.ndarray(qd.i32, 2), qd.ndarray(qd.i32, 2)
    by_array(x, a, y)
    by_array.grad(x, b, y)  # another array: asked for
    by_array(x, np.ones(2, np.int32), y)
    by_array.grad(x, np.zeros(2, np.int32), y)
    by_array(x, a, y)
    a[1] = 3
    with pytest.warns(qd.QuadrantsWarning, match="counts was written in between"):
        by_array.grad(x, a, y)


def test_bounds_in_an_array_of_numpy_written_after_the_launch_are_warned_about() -> None:
    _, y = make()
    x = qd.ndarray(qd.f64, 2, needs_grad=True)
    whole = np.array([1, 2, 3, 4], np.int32)
    for counts in (np.array([1, 2], np.int32), whole[2:]):
        by_array(x, counts, y)
        by_array.grad(x, counts, y)
        by_array(x, counts, y)
        counts[:] = counts[::-1].copy()  # the same elements elsewhere
        with pytest.warns(qd.QuadrantsWarning, match="QL0410.*counts was written in between"):
            by_array.grad(x, counts, y)
        by_array.grad(x, counts, y)
        by_array(x, counts, y)
        counts[0], counts[0] = 9, counts[0]
        by_array.grad(x, counts, y)
    by_array(x, whole[:2], y)
    by_array.grad(x, whole[:2], y)
    by_array.grad(x, whole[1:3], y)  # others: asked for
    whole[0] = 7
    with pytest.raises(TypeError, match="C-contiguous"):
        by_array(x, whole[::2], y)


def test_bounds_that_others_wrote_after_the_launch_are_warned_about() -> None:
    torch = pytest.importorskip("torch")
    _, y = make()
    x = qd.ndarray(qd.f64, 2, needs_grad=True)
    counts = torch.tensor([1, 2], dtype=torch.int32)
    for _ in range(2):
        by_array(x, counts, y)
        by_array.grad(x, counts, y)
        by_array(x, counts, y)
        counts[1] += 3
        with pytest.warns(qd.QuadrantsWarning, match="counts was written in between"):
            by_array.grad(x, counts, y)
    n = qd.field(qd.i32, ())
    x, y = make()
    by_field(x, n, y)
    shared = torch.from_dlpack(n)
    for _ in range(2):
        by_field(x, n, y)
        by_field.grad(x, n, y)
        shared += 1
        with pytest.warns(qd.QuadrantsWarning, match="n was written in between"):
            by_field.grad(x, n, y)


def test_foreign_arrays_are_read_before_every_launch() -> None:
    _, y = make()
    x = qd.ndarray(qd.f64, 3, needs_grad=True)
    x.from_numpy(np.array([0.1, 0.4, 0.9]))
    counts = np.array([1, 2, 3], np.int32)
    for _ in range(3):
        x.grad.fill(0)
        by_array.grad(x, counts, y)
        assert by_array.sizes()[0].depth == counts.max()
        want = slopes(x.to_numpy(), counts, plus=0.1)
        np.testing.assert_allclose(x.grad.to_numpy(), want, atol=1e-12)
        counts[1] += 10


def test_ndarrays_are_followed_by_version_and_identity() -> None:
    _, y = make()
    x = qd.ndarray(qd.f64, 2, needs_grad=True)
    a, b = qd.ndarray(qd.i32, 2), qd.ndarray(qd.i32, 2)
    a.fill(2)
    b.fill(9)
    for counts, depth in ((a, 2), (b, 9), (a, 2)):
        by_array.grad(x, counts, y)
        assert by_array.sizes()[0].depth == depth
    a[1] = 30
    by_array.grad(x, a, y)
    assert by_array.sizes()[0].depth == 30

    @qd.kernel
    def more(counts: Ints):
        for i in counts:
            counts[i] += 10

    more(a)
    by_array.grad(x, a, y)
    assert by_array.sizes()[0].depth == 40


def test_a_while_loop_is_counted() -> None:
    x, y = make()
    limit = qd.field(qd.f64, ())
    for bound in (0.5, 2.0, 1e6, -1.0):
        limit[None] = bound
        x.grad.fill(0)
        until.grad(x, limit, y)
        want, depth = [], 0
        for v in x.to_numpy():
            d, steps = 1.0, 0
            while v < bound:
                v, d, steps = v * v + 1.0, d * 2 * v, steps + 1
            want.append(d)
            depth = max(depth, steps)
        np.testing.assert_allclose(x.grad.to_numpy(), want, rtol=1e-12)
        assert max((row.depth for row in until.sizes()), default=0) == depth


def test_gradients_accumulate_and_do_not_run_the_kernel() -> None:
    x, y = make()
    n = qd.field(qd.i32, ())
    n[None] = 2
    by_field.grad(x, n, y)
    once = x.grad.to_numpy()
    by_field.grad(x, n, y)
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * once)
    assert y[None] == 0
    assert y.grad[None] == 1


def test_a_forced_size_that_is_too_small_is_an_error_that_names_everything() -> None:
    start(ad_stack_size=4)
    x, y = make()
    n = qd.field(qd.i32, ())
    n[None] = 4
    by_field.grad(x, n, y)
    assert by_field.sizes()[0].how == "forced by ad_stack_size"
    n[None] = 9
    with pytest.raises(
        qd.QuadrantsAssertionError, match=r"kernel by_field: the stack of 'v' holds 4, 9 were needed"
    ) as e:
        by_field.grad(x, n, y)
    assert ".grad is partial" in str(e.value)
    assert "ad_stack_size=4" in str(e.value)
    n[None] = 3
    x.grad.fill(0)
    by_field.grad(x, n, y)
    np.testing.assert_allclose(x.grad.to_numpy(), slopes(x.to_numpy(), 3, plus=0.1), atol=1e-12)


def test_under_debug_an_overflow_names_the_push() -> None:
    """Each of two stacks of one variable is pushed in one place; the message shows that of the one that overflowed."""
    start(ad_stack_size=4, debug=True)
    x, y = make()
    n = qd.field(qd.i32, ())

    @qd.kernel
    def two():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = qd.sin(v)
                if v > 0.01:
                    v = qd.exp(v) - 1.0
                v = v * v
            y[None] += v

    n[None] = 4
    two.grad()
    pushed = {row.line for row in two.sizes()}
    assert len(pushed) > 1
    n[None] = 5
    with pytest.raises(qd.QuadrantsAssertionError, match="holds 4, 5 were needed") as e:
        two.grad()
    assert any(f"line {line}" in str(e.value) for line in pushed)


def test_sizes_before_the_first_gradient() -> None:
    @qd.kernel
    def fresh():
        pass
    with pytest.raises(qd.QuadrantsRuntimeError, match="not launched yet"):
        fresh.sizes()


def test_value_and_grad_compiles_what_it_launches(monkeypatch) -> None:
    """One sweep without the gradient by itself; two launches without the sweep."""
    made: list[str] = []
    load = specialisation.load_cached
    noted = lambda kernel, *more: made.append(kernel.mode) or load(kernel, *more)
    monkeypatch.setattr(specialisation, "load_cached", noted)
    gradient, runs = derivatives.gradient, []
    monkeypatch.setattr(derivatives, "gradient", lambda *keeps: runs.append(keeps) or gradient(*keeps))
    x, y = qd.field(qd.f64, 3, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def square():
        for i in x:
            y[None] += x[i] * x[i]

    @qd.kernel
    def square_in_place():
        for i in x:
            x[i] = x[i] * x[i]

    y.grad[None] = 1.0
    square.value_and_grad()
    assert (made, runs) == (["both"], [])
    made.clear()
    x.grad.fill(1.0)
    square_in_place.value_and_grad()
    assert (made, len(runs)) == (["forward", "reverse"], 1)


def test_value_and_grad_of_a_kernel_that_does_nothing() -> None:
    x = qd.field(qd.f64, 3, needs_grad=True)

    @qd.kernel
    def nothing():
        for i in x:
            _ = i + 1

    nothing.value_and_grad()


# --- tapes

@qd.kernel
def total(a: qd.template(), loss: qd.template()):
    for i in a:
        loss[None] += a[i]


def test_no_gradient_runs_after_an_exception() -> None:
    x, loss = make()
    def fail() -> None:
        with qd.ad.Tape(loss):
            total(x, loss)
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        fail()
    assert x.grad.to_numpy().tolist() == [0] * 4
    with qd.ad.Tape(loss):
        total(x, loss)
    assert x.grad.to_numpy().tolist() == [1] * 4


# --- random draws

@qd.kernel
def noisy(x: qd.template(), y: qd.template()):
    for i in x:
        w = qd.random()
        for _ in range(3):
            w = w * x[i]
        y[None] += w


def test_a_gradient_replays_the_draws_of_its_launch() -> None:
    start(random_seed=7)
    x, y = make(3)
    x.fill(1.0)
    y[None] = 0
    noisy(x, y)
    first = y[None]
    noisy.grad(x, y)  # d/dx of r x^3 at 1 is 3 r
    assert x.grad.to_numpy().sum() == pytest.approx(3 * first, rel=1e-12)
    noisy(x, y)
    second = y[None] - first
    assert second != first
    x.grad.fill(0)
    noisy.grad(x, y)
    assert x.grad.to_numpy().sum() == pytest.approx(3 * second, rel=1e-12)


def test_the_seed_settles_the_draws() -> None:
    seen = []
    for seed in (3, 3, 4):
        start(random_seed=seed)
        x, y = make(3)
        noisy(x, y)
        seen.append(y[None])
    assert seen[0] == seen[1] != seen[2]
