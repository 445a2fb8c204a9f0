"""Quantised fields: values, memory, loops, atomics and gradients on every device, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sessions import CPU_ALONE, EVERYWHERE, session_of

import quadrants_lab as qd
from quadrants_lab.errors import QuadrantsError

quant = qd.types.quant
session = session_of(EVERYWHERE)


def packed(n: Any, *fields: Any) -> None:
    """Places fields in one word for each of the cells."""
    group = qd.BitpackedFields(max_num_bits=32)
    group.place(*fields)
    qd.root.dense(qd.ij[: len(n)], n).place(group)


@qd.kernel
def write(a: qd.template(), x: qd.types.ndarray(ndim=1)):
    for i in a:
        a[i] = x[i]


def test_values_of_each_type() -> None:
    """Expected by hand: two's complement, multiples of the scale, a sign, 5 bits of exponent and 9 of fraction."""
    whole, counted = qd.field(quant.int(5)), qd.field(quant.int(6, signed=False, compute=qd.u32))
    fixed, steps = qd.field(quant.fixed(10, max_value=2.0)), qd.field(quant.fixed(8, signed=False, scale=0.25))
    short = qd.field(quant.float(exp=5, frac=10))
    packed((5,), whole, counted, fixed, steps)
    packed((5,), short)
    given = np.array([-1.99, 0.3, 1.0, -0.001, 100.0], np.float32)

    @qd.kernel
    def write(x: qd.types.ndarray(qd.f32, 1)):
        for i in whole:
            whole[i] = i * 7 - 9
            counted[i] = 62 + i
            fixed[i] = x[i]
            steps[i] = x[i]
            short[i] = x[i]

    write(given)
    assert whole.to_numpy().tolist() == [-9, -2, 5, 12, -13]  # 19 is 10011
    assert counted.to_numpy().tolist() == [62, 63, 0, 1, 2]
    assert fixed.to_numpy().tolist() == [-509 / 256, 77 / 256, 1, 0, 511 / 256]
    assert steps.to_numpy().tolist() == [0, 0.25, 1, 0, 63.75]
    assert short.to_numpy().tolist() == [-1.990234375, 0.2998046875, 1, -0.00099945068359375, 100]
    assert [fixed[i] for i in range(5)] == fixed.to_numpy().tolist()

    @qd.kernel
    def read(y: qd.types.ndarray(qd.f32, 2)):
        for i in whole:
            y[0, i] = whole[i] / 2
            y[1, i] = counted[i]
            y[2, i] = fixed[i] * 2
            y[3, i] = steps[i]
            y[4, i] = short[i]

    y = np.zeros((5, 5), np.float32)
    read(y)
    rows = [whole.to_numpy() / 2, counted.to_numpy(), fixed.to_numpy() * 2, steps.to_numpy(), short.to_numpy()]
    assert y.tolist() == np.array(rows, np.float32).tolist()


def test_python_and_kernels_round_alike() -> None:
    draw = np.random.default_rng(4)
    values = (draw.normal(size=64) * 10.0 ** draw.integers(-6, 6, 64)).astype(np.float32)
    for type_ in (quant.float(5, 10), quant.float(6, 13, signed=False), quant.float(8, 24), quant.fixed(12)):
        a, b = qd.field(type_), qd.field(type_)
        packed((64,), a)
        packed((64,), b)

        write(a, values)
        b.from_numpy(values)
        assert (a.to_numpy() == b.to_numpy()).all(), type_
        b[3] = values[5]
        assert b[3] == a[5]


def test_the_last_fixed_numbers_of_many_bits() -> None:
    """f32 has no whole numbers of 25 bits and more that lie just below a power of two, and sums of its numbers with a
    half are rounded from 2**23 on."""
    for bits, signed, compute in ((24, False, qd.f32), (25, False, qd.f32), (32, True, qd.f32), (32, False, qd.f32)):
        type_ = quant.fixed(bits, signed=signed, scale=1.0, compute=compute)
        low, high = type_.limits
        values = np.array([2.0**40, 2.0**bits, -(2.0**40), 8388609.0, 8388610.0, 1.5, -2.5, 0.49999997], np.float32)
        a, b = qd.field(type_), qd.field(type_)
        packed(values.shape, a)
        packed(values.shape, b)

        write(a, values)
        b.from_numpy(values)
        most = float(np.float32(high))
        least = [-3.0] if signed else [0.0]
        want = [most, most, float(low), 8388609.0, 8388610.0, 2.0, *least, 0.0]
        assert a.to_numpy().tolist() == b.to_numpy().tolist() == want, type_
        words = [[int(bits) for bits in x.words.to_numpy().view(np.uint32).reshape(-1)[:1]] for x in (a, b)]
        assert words[0] == words[1] == [high], type_


@CPU_ALONE
def test_python_rounds_a_number_of_f64_just_below_a_half_as_kernels_do() -> None:
    """The sum of that number and a half is 1 once it is rounded."""
    a, b = (qd.field(quant.fixed(8, scale=1.0, compute=qd.f64)) for _ in range(2))
    packed((4,), a, b)
    below = np.nextafter(0.5, 0.0)
    values = np.array([below, -below, 0.5, -1.5])

    write(a, values)
    b.from_numpy(values)
    assert a.to_numpy().tolist() == b.to_numpy().tolist() == [0.0, 0.0, 1.0, -2.0]


@CPU_ALONE
@given(st.integers(2, 8), st.integers(2, 24), st.floats(-(2.0**100), 2.0**100, width=32))
def test_a_short_float_is_the_nearest(exp: int, frac: int, value: float) -> None:
    """The error is within half a unit of the last place, in the range of the exponents."""
    type_ = quant.float(exp, frac)
    least, most = 2.0 ** (1 - type_.bias), 2.0 ** ((1 << exp) - 2 - type_.bias)
    found = float(type_.decoded(type_.encoded(np.array([value], np.float32)))[0])
    if least <= abs(value) <= most:
        assert abs(found - value) <= abs(value) * 2.0 ** -(type_.fraction + 1) * (1 + 1e-6)
    elif abs(value) < least / 2:
        assert found == 0


def test_elements_that_share_a_word() -> None:
    """Iterations write different bits of one word at the same time."""
    x = qd.field(quant.int(4))
    qd.root.dense(qd.i, 16).quant_array(qd.i, 8, max_num_bits=32).place(x)
    flags = qd.field(quant.int(1, signed=False))
    qd.root.dense(qd.ij, (4, 2)).quant_array(qd.ij, (4, 8), max_num_bits=32).place(flags)

    @qd.kernel
    def write():
        for i in x:
            x[i] = i % 16 - 8
        for i, j in flags:
            flags[i, j] = (i + j) % 3 == 0

    @qd.kernel
    def total() -> qd.i32:
        s = 0
        for i in x:
            s += x[i]
        for at in qd.grouped(flags):
            s += 1000 * flags[at]
        return s

    write()
    right = np.arange(128) % 16 - 8
    ones = np.add.outer(np.arange(16), np.arange(16)) % 3 == 0
    assert x.shape == (128,)
    assert x.words is not None
    assert x.words.shape == (16,)  # 64 bytes for 128 numbers
    assert (x.to_numpy() == right).all()
    assert (flags.to_numpy() == ones).all()
    assert total() == right.sum() + 1000 * ones.sum()
    x[77] = 3
    right[77] = 3
    assert (x.to_numpy() == right).all()


def test_atomics() -> None:
    """Many iterations change one number, beside others in its word that must stay."""
    n, best, beside = qd.field(quant.int(12)), qd.field(quant.fixed(12, max_value=64.0)), qd.field(quant.int(8))
    packed((1,), n, best, beside)
    beside[0] = -77

    @qd.kernel
    def k():
        for i in range(500):
            n[0] += 3
            qd.atomic_max(best[0], i * 0.1)

    k()
    assert (n[0], best[0], beside[0]) == (1500, 49.90625, -77)

    @qd.kernel
    def old() -> qd.i32:
        return qd.atomic_sub(n[0], 500)

    assert (old(), n[0]) == (1500, 1000)


def test_vectors_and_templates() -> None:
    v = qd.Vector.field(3, quant.fixed(10, max_value=2.0))
    packed((2, 2), v)

    @qd.kernel
    def write(x: qd.template()):
        for i, j in x:
            x[i, j] = qd.Vector([0.5 * i, 0.25 * j, -1.0])
            x[i, j][1] += 0.125

    write(v)
    assert v.to_numpy()[1, 1].tolist() == [0.5, 0.375, -1]
    assert v[1, 0].to_list() == [0.5, 0.125, -1]
    v[0, 0] = [1, 1.5, -2]
    assert v.to_numpy()[0, 0].tolist() == [1, 1.5, -2]


def test_gradients_are_those_of_real_numbers() -> None:
    """sum of x^2 with x = 2 w rounded: its derivative at the rounded x."""
    x = qd.field(quant.fixed(10, max_value=4.0), needs_grad=True)
    packed((3,), x)
    w, y = qd.field(qd.f32, shape=3, needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)
    w.from_numpy(np.array([0.501, 1.0, 1.5], np.float32))

    @qd.kernel
    def scale():
        for i in w:
            x[i] = 2 * w[i]

    @qd.kernel
    def add():
        for i in w:
            x[i] += w[i] * 0.5

    @qd.kernel
    def square():
        for i in x:
            y[None] += x[i] * x[i]

    with qd.ad.Tape(y):
        scale()
        add()
        square()
    rounded = x.to_numpy()
    assert y[None] == pytest.approx((rounded**2).sum())
    assert w.grad.to_numpy() == pytest.approx(2 * rounded * 2.5)
    square.grad()
    assert x.grad.to_numpy() == pytest.approx(2 * rounded)


@CPU_ALONE
@pytest.mark.parametrize("kind", [quant.fixed(20, max_value=8.0), quant.float(6, 20)])
def test_second_derivatives_are_those_of_real_numbers(kind: Any) -> None:
    """The loss is the sum of (3 x x) ** 2, by way of a number that is packed: its rounding has the slope 1."""
    p = qd.field(kind, needs_grad=True)
    packed((3,), p)
    qd.root.lazy_grad()
    x, loss = qd.field(qd.f32, 3, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)
    x.from_numpy(np.array([0.5, -1.0, 1.5], np.float32))

    @qd.kernel
    def write():
        for i in x:
            p[i] = 3.0 * x[i] * x[i]

    @qd.kernel
    def read():
        for i in x:
            loss[None] += p[i] ** 2

    def program():
        write()
        read()

    found = qd.ad.hessian_vector(program, loss, x, [1.0, 0.5, 2.0])
    at = x.to_numpy()
    assert x.grad.to_numpy() == pytest.approx(36 * at**3, rel=1e-4)
    assert found == pytest.approx(108 * at**2 * [1.0, 0.5, 2.0], rel=1e-4)


@CPU_ALONE
def test_what_is_refused() -> None:
    group = qd.BitpackedFields(max_num_bits=32)
    x = qd.field(quant.int(20))
    group.place(x)
    for wrong in (
        lambda: qd.field(quant.int(5), shape=4),
        lambda: qd.ndarray(quant.int(5), shape=4),
        lambda: qd.BitpackedFields(max_num_bits=16),
        lambda: quant.int(40),
        lambda: quant.float(9, 10),
        lambda: quant.int(5, compute=qd.f32),
        lambda: group.place(qd.field(quant.int(13))),
        lambda: group.place(qd.field(quant.int(3)), shared_exponent=True),
        lambda: group.place(qd.field(qd.i32)),
        lambda: qd.root.pointer(qd.i, 4).place(group),
        lambda: qd.root.quant_array(qd.i, 9, max_num_bits=32).place(qd.field(quant.int(4))),
    ):
        with pytest.raises(QuadrantsError, match="QL2028"):
            wrong()
    with pytest.raises(QuadrantsError, match="QL2018"):
        qd.field(quant.int(5), needs_grad=True)
    with pytest.raises(QuadrantsError, match="QL2022"):
        x[0]
    with pytest.raises(QuadrantsError, match="QL2059"):
        x.grad[0]

    @qd.kernel
    def k():
        qd.atomic_cas(x[0], 1, 2)

    qd.root.dense(qd.i, 2).place(group)
    with pytest.raises(QuadrantsError, match="QL1411"):
        k()
    with pytest.raises(ValueError, match="share words"):
        x.to_numpy(copy=False)
