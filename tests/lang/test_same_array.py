"""One array passed for several arguments that a kernel, or its gradient, adds to: nothing is lost on any backend,
although the code adds to different arrays without atomics."""

import numpy as np
import pytest
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk

session = session_of(EVERYWHERE)
COUNT = 40


@qd.kernel
def stencil(u: qd.types.ndarray(), v: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(1, COUNT - 1):
        y[i] += u[i - 1] * v[i + 1] + 2.0 * u[i]

@qd.kernel
def elements(u: qd.types.ndarray(), v: qd.types.ndarray(), y: qd.types.ndarray()):
    for i in range(COUNT):
        y[i] += qd.sin(u[i]) * v[i]


def arrays(count):
    found = [qd.ndarray(qd.f32, COUNT, needs_grad=True) for _ in range(count)]
    for n, array in enumerate(found):
        array.from_numpy(np.linspace(0.5, 1.5 + n, COUNT, dtype=np.float32))
    return found


def gradient(kernel, u, v):
    y = qd.ndarray(qd.f32, COUNT, needs_grad=True)
    for array in (u, v):
        array.grad.fill(0.25)  # which is added to
    y.grad.from_numpy(np.linspace(1, 2, COUNT, dtype=np.float32))
    kernel(u, v, y)
    kernel.grad(u, v, y)
    return u.grad.to_numpy() - 0.25, v.grad.to_numpy() - 0.25


@pytest.mark.parametrize("kernel", [stencil, elements])
def test_gradients_of_both_arguments_come_to_one_array(kernel) -> None:
    u, v = arrays(2)
    v.from_numpy(u.to_numpy())
    both = sum(gradient(kernel, u, v))
    for _ in range(2):  # each launch finds out anew
        np.testing.assert_allclose(gradient(kernel, u, u)[0], both, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(sum(gradient(kernel, u, v)), both, rtol=1e-5, atol=1e-6)


def test_one_array_under_a_tape() -> None:
    u, v = arrays(2)
    v.from_numpy(u.to_numpy())
    loss = qd.ndarray(qd.f32, (), needs_grad=True)
    y = qd.ndarray(qd.f32, COUNT, needs_grad=True)

    @qd.kernel
    def total(y: qd.types.ndarray(), loss: qd.types.ndarray()):
        for i in range(COUNT):
            loss[None] += y[i] * y[i]

    found = []
    for pair in ((u, v), (u, u), (u, v)):
        y.fill(0)
        with qd.ad.Tape(loss):
            stencil(*pair, y)
            elements(*pair, y)
            total(y, loss)
        found.append(u.grad.to_numpy() + (v.grad.to_numpy() if pair[1] is v else 0))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize(("kernel", "mark"), [(stencil, "distance"), (elements, "private")])
def test_arrays_are_added_to_as_fields_are(kernel, mark) -> None:
    gradient(kernel, *arrays(2))
    made = kernel._variants.default[0].gradient.last.kernel
    sums = [s for s in walk(made.body) if isinstance(s, N.Atomic)]
    assert len(sums) > 1
    assert all(s.private if mark == "private" else s.distance >= 0 for s in sums)


@qd.kernel
def reversed_sums(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in range(COUNT):
        a[i] += 1.0
        b[COUNT - 1 - i] += 2.0

@qd.kernel
def own_sums(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in range(COUNT):
        a[i] += 1.0
        b[i] += 2.0


def test_sums_into_one_array() -> None:
    a, b = arrays(2)
    for _ in range(2):
        for array in (a, b):
            array.fill(0)
        reversed_sums(a, b)
        assert a.to_numpy().tolist() == [1.0] * COUNT
        assert b.to_numpy().tolist() == [2.0] * COUNT
        reversed_sums(a, a)
        assert a.to_numpy().tolist() == [4.0] * COUNT


def test_overlapping_numpy_arrays(session) -> None:
    x = np.zeros(COUNT + 1, np.float32)
    own_sums(np.zeros(COUNT, np.float32), x[1:])
    if session in ("cpu", "c"):
        own_sums(x[:-1], x[1:])
        assert x.tolist() == [1.0, *[5.0] * (COUNT - 1), 4.0]
        return
    with pytest.raises(ValueError, match=r"QL2053.*'b' and 'a' of kernel own_sums overlap"):
        own_sums(x[:-1], x[1:])
    assert x.tolist() == [0.0, *[2.0] * COUNT]  # and the next launch is right
    own_sums(x[:-1].copy(), x[1:])
    assert x.tolist() == [0.0, *[4.0] * COUNT]


def test_a_view_of_another_dtype() -> None:
    @qd.kernel
    def doubled(x: qd.types.ndarray(), bits: qd.types.ndarray(), out: qd.types.ndarray()):
        for _ in range(1):
            for j in range(4):
                out[j] = int(x[0])
                bits[0] += 1 << 23  # the exponent of x[0]
    x, out = np.ones(1, np.float32), np.zeros(4, np.int32)
    doubled(x, x.view(np.int32), out)
    assert out.tolist() == [1, 2, 4, 8]


def test_different_arrays_are_added_to_without_atomics() -> None:
    own_sums(*arrays(2))
    sums = [s for s in walk(own_sums._variants.default[0].last.kernel.body) if isinstance(s, N.Atomic)]
    assert len(sums) == 2
    assert all(s.private for s in sums)


@qd.kernel
def words(a: qd.types.ndarray(), b: qd.types.ndarray(), seen: qd.types.ndarray()):
    for _ in range(1):
        before, b[0] = a[0], 7
        after, bits = a[0], b[1]
        a[1] = 2.0
        seen[0], seen[1], seen[2], seen[3] = before, after, bits, b[1]


def test_one_array_as_two_dtypes() -> None:
    x, seen = np.ones(4, np.float32), np.zeros(4, np.float32)
    bits = x.view(np.int32)
    words(np.zeros(4, np.float32), np.zeros(4, np.int32), seen)
    words(x, bits, seen)
    one, two = np.array([1.0, 2.0], np.float32).view(np.int32)
    assert seen.tolist() == [1.0, x[0], one, two]
    assert bits[:2].tolist() == [7, two]


@qd.kernel
def with_its_gradient(x: qd.types.ndarray(needs_grad=True), y: qd.types.ndarray()):
    for _ in range(1):
        x.grad[0] = 1.0
        y[0] = 5.0
        x.grad[1] = x.grad[0]
    for i in range(2, COUNT - 1):
        x.grad[i] += 1.0
        y[i + 1] += 2.0


def test_an_array_and_its_gradient() -> None:
    x, y = arrays(2)
    for _ in range(2):
        with_its_gradient(x, y)
        x.grad.fill(0)
        with_its_gradient(x, x.grad)
        assert x.grad.to_numpy().tolist() == [5.0, 5.0, 1.0, *[3.0] * (COUNT - 4), 2.0]


@CPU_ALONE
@pytest.mark.parametrize("fast", [False, True])
def test_a_field_and_an_array_over_its_memory(fast: bool) -> None:
    f = qd.field(qd.f32, COUNT, needs_grad=True)
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def both(a: qd.types.ndarray()):
        for _ in range(1):
            f[0] = 1.0
            a[0] = 5.0
            f[1] = f[0]
        for i in range(2, COUNT - 1):
            f[i] += 1.0
            a[i + 1] += 2.0

    if fast:  # from its second launch on Python checks nothing
        both(np.zeros(COUNT, np.float32))
        assert f.to_numpy().tolist() == [1.0, 1.0, *[1.0] * (COUNT - 3), 0.0]
        f.fill(0)
    view = f.to_numpy(copy=False)
    for _ in range(2):
        view[:] = 0
        both(view)
        assert view.tolist() == [5.0, 5.0, 1.0, *[3.0] * (COUNT - 4), 2.0]
        both(np.zeros(COUNT, np.float32))
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QL2074.*'a' and 'f' of kernel both are the same memory"):
        both.grad(view)
    both.grad(np.zeros(COUNT, np.float32))

    @qd.kernel
    def sums(x: qd.types.ndarray()):
        for i in range(1, COUNT):
            loss[None] += 3.0 * f[i] + 2.0 * x[i - 1]

    torch = pytest.importorskip("torch")
    x = torch.ones(COUNT, requires_grad=True)
    x.grad = f.grad.to_torch(copy=False)
    f.grad.fill(0)
    loss.grad[None] = 1.0
    sums(x)
    sums.grad(x)
    assert f.grad.to_numpy().tolist() == [2.0, *[5.0] * (COUNT - 2), 3.0]


MANY = "abcdefghijkm"


@qd.kernel
def twelve(a: qd.types.ndarray(), b: qd.types.ndarray(), c: qd.types.ndarray(), d: qd.types.ndarray(),
           e: qd.types.ndarray(), f: qd.types.ndarray(), g: qd.types.ndarray(), h: qd.types.ndarray(),
           i: qd.types.ndarray(), j: qd.types.ndarray(), k: qd.types.ndarray(), m: qd.types.ndarray()):
    for at in range(COUNT):
        a[at] += 1.0
        g[at] += a[at] + b[at] + c[at] + d[at] + e[at] + f[at] + h[at] + i[at] + j[at] + k[at]
        m[at] += g[at]


@pytest.mark.parametrize("one", ["a", "ag", "gm", "bk", "am"])
@pytest.mark.parametrize("numpy", [False, True])
def test_two_of_many_arrays_are_one(one, numpy) -> None:
    for _ in range(2):
        values = {name: np.full(COUNT, n, np.float32) for n, name in enumerate(MANY)}
        values |= dict.fromkeys(one, values[one[0]])
        given = {name: x.copy() for name, x in values.items()}
        if not numpy:
            given = {name: qd.ndarray(qd.f32, COUNT) for name in MANY}
            for name, x in given.items():
                x.from_numpy(values[name])
        given |= dict.fromkeys(one, given[one[0]])
        twelve(*given.values())
        values["a"] += 1
        values["g"] += sum(values[name] for name in "abcdefhijk")
        values["m"] += values["g"]
        for name, x in given.items():
            np.testing.assert_array_equal(x if numpy else x.to_numpy(), values[name], name)
