"""Functions, operations, what is static, and small applications; see `programs`."""

# ruff: noqa: F821
from __future__ import annotations

from programs import N_CASES, X_N_Y, F, I, program

# --- functions of the language

def sigmoid(t):
    return 1.0 / (1.0 + qd.exp(-t))

def leaky(t, slope):
    r = t
    if t < 0.0:
        r = t * slope
    return r

def iterate(t, count):
    r = t
    for q in range(count):
        r = leaky(qd.sin(r) - 0.3, 0.1) + sigmoid(r)
    return r

def accumulate(i, t):
    y[None] += t * x[i]

@program(X_N_Y, funcs=(leaky, sigmoid, iterate, accumulate), cases=N_CASES[:3])
def funcs_with_branches_and_loops():
    for i in x:
        v = iterate(x[i], n[None])
        accumulate(i, v)
        accumulate(7 - i, iterate(v, 2))

def adds_and_returns(i, t):
    y[None] += t * t
    z[i] += qd.sin(t)
    return t + 0.5

@program({"x": F((8,)), "z": F((8,)), "y": F()}, funcs=(adds_and_returns,))
def augmented_by_a_func_that_changes_the_target():
    for i in x:
        y[None] += adds_and_returns(i, x[i]) * 2.0
        z[i] -= adds_and_returns(i, x[7 - i]) * adds_and_returns(i, 0.3)

def relaxed(i):
    c[i] = 0.6 * c[i] * c[i] * x[i] + 0.1 * x[i]
    return c[i]

@program({"x": F((6,), 0.5, 0.9), "c": F((6,), 0.9, 1.2), "y": F((6,))}, funcs=(relaxed,))
def a_loop_whose_test_changes_what_it_looks_at():
    for i in x:
        v = x[i]
        while relaxed(i) > 0.2:
            v = v * c[i]
        k = 0
        while k < 2 and relaxed(i) < 5.0:
            v = v * c[i]
            k += 1
        y[i] = v + c[i]

# --- the table of operations

@program({"x": F((4,)), "z": F((4,)), "y": F()}, cases=({"x": 0.5, "z": 0.5},), exact=True)
def min_max_ties():
    for i in x:
        y[None] += qd.max(x[i], z[i]) * 2.0 + qd.min(x[i], z[i]) * 3.0 + qd.max(qd.min(x[i], 0.5), z[i])

@program({"x": F((4,)), "y": F((4,))}, cases=({"x": [-1.0, 0.0, 0.0, 2.0]},), exact=True)
def absolute_value_at_zero():
    for i in x:
        y[i] = qd.abs(x[i]) * 2.0 + abs(x[i] * 3.0)

@program({"x": F((8,), 0.3, 2.0), "e": F((8,), -2.0, 2.0), "y": F()})
def powers():
    for i in x:
        y[None] += x[i] ** e[i] + x[i] ** 3 + qd.pow(x[i], 0.5) + 2.0 ** e[i] + (x[i] - 1.1) ** 2

@program({"x": F((4,)), "y": F((4,))}, cases=({"x": [0.0, -2.0, 0.0, 3.0]},), exact=True)
def powers_at_the_edge():
    for i in x:
        y[i] = x[i] ** 2 + x[i] ** 1 + x[i] ** 0 + x[i] ** 2.0

@program({"x": F((8,), -0.8, 0.8), "y": F((8,))})
def trigonometry():
    for i in x:
        v = x[i]
        y[i] = qd.sin(v) + qd.cos(v) * 2.0 + qd.tan(v) * 3.0 + qd.asin(v) + qd.acos(v) * 0.5 + qd.tanh(v)

@program({"x": F((8,), -4.0, 4.0), "z": F((8,), 0.5, 2.0), "y": F((8,)), "w": F((8,))})
def rounding():
    for i in x:
        y[i] = qd.floor(x[i]) + qd.ceil(x[i]) * 2.0 + qd.round(x[i]) * 3.0 + x[i]
        w[i] = x[i] % z[i] + x[i] // z[i]

@program({"a": I((8,), -20, 20), "b": I((8,), -4, -1), "r": I((8, 12), 0, 0)}, grad=False)
def integer_arithmetic():
    for i in a:
        p = a[i]
        q = b[i] if i % 2 == 0 else -b[i]
        r[i, 0] = p // q
        r[i, 1] = p % q
        r[i, 2] = p * q - p
        r[i, 3] = (p & q) | (p ^ 21)
        r[i, 4] = ~p
        r[i, 5] = p << 3
        r[i, 6] = p >> 2
        r[i, 7] = -p
        r[i, 8] = abs(p) + min(p, q) * max(p, q)
        r[i, 9] = q**3
        r[i, 10] = p > q
        r[i, 11] = int(p / q) + qd.cast(p * 0.5, qd.i32)

# --- static, arguments, returns

@program({"x": F((8,)), "y": F()}, scalars={"a": 0.7, "m": 3}, cases=({}, {"m": 0}, {"a": -1.5, "m": 6}))
def scalar_arguments(a: float, m: int):
    for i in x:
        v = x[i]
        for j in range(m):
            v = qd.sin(a * v)
        y[None] += v * a

@program({"a": F((7,), arg=True), "b": F((7,), arg=True), "y": F((), arg=False)})
def ndarray_arguments(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in range(a.shape[0]):
        b[i] = qd.sin(a[i])
        for j in range(i):
            y[None] += a[j] * a[i]

@program({"a": F((3, 5), arg=True), "n": I((5,), 0, 4, arg=True), "y": F()})
def trip_counts_from_an_ndarray(a: qd.types.ndarray(), n: qd.types.ndarray()):
    for i, j in a:
        v = a[i, j]
        for k in range(n[j]):
            v = qd.cos(v) * 0.9
        y[None] += v * v

@program({"x": F((8,))}, grad=False)
def returns_a_value() -> float:
    s = 0.0
    for i in x:
        s += x[i]
    return s * 2.0

@program({n: F(s, grad=False) for n, s in (("x", (8,)), ("loss", ()), ("x.grad", (8,)), ("loss.grad", ()))}, grad=False)
def writes_a_gradient_by_hand():
    for i in x:
        x.grad[i] += loss.grad[None] * 2.0 * x[i]
