"""The elementary functions that lowered kernels call, interpreted, against numpy."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from quadrants_lab.backends.lower import functions
from quadrants_lab.backends.lower.functions import FUNCTIONS, NEAR, function
from quadrants_lab.backends.lower.math import CIRCULAR
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f32, f64, u64
from quadrants_lab.runtime.interpret.interpreter import interpret

NUMPY = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan2": np.arctan2,
    "tanh": np.tanh, "exp": np.exp, "log": np.log, "log1p": np.log1p, "pow": np.power, "raw_mod": np.fmod,
}  # fmt: skip
ULPS = {f32: 4.0, f64: 4.0}


# --- numbers ----------------------------------------------------------------------------------------------------

PI = Fraction(functions._pi(200), 1 << 200)
LN2 = sum((Fraction(2, (2 * k + 1) * 3 ** (2 * k + 1)) for k in range(100)), Fraction(0))  # 2 artanh(1/3)
DIGITS = {f32: 24, f64: 53}


def arctan(c: Fraction) -> Fraction:
    """The arctangent of a number from 0 to 1."""
    series = (Fraction((-1) ** k, 2 * k + 1) * c ** (2 * k + 1) for k in range(200))
    return PI / 4 if c == 1 else sum(series, Fraction(0))


def parts(x: Fraction, *bits: int) -> tuple[float, ...]:
    """``x`` as a sum of floats of so many bits each."""
    out = []
    for n in bits:
        scale = 1
        while abs(x) * scale < 1 << (n - 1):
            scale *= 2
        part = Fraction(round(x * scale), scale)
        out.append(float(part))
        x -= part
    return tuple(out)


def half_turn(n: int) -> tuple[float, ...]:
    """The polynomial through n points of the series of (sin r - r) / r**3 over r**2."""
    width = Fraction(float(PI / 2) ** 2)  # where exactly the nodes lie does not matter
    nodes = [width * Fraction((1 + round(math.cos((k + 0.5) * float(PI) / n), 3)) / 2) for k in range(n)]
    table = [sum(Fraction((-1) ** m, math.factorial(2 * m + 1)) * z ** (m - 1) for m in range(1, 18)) for z in nodes]
    for order in range(1, n):  # Newton's divided differences
        for k in range(n - 1, order - 1, -1):
            table[k] = (table[k] - table[k - 1]) / (nodes[k] - nodes[k - order])
    coefficients = [Fraction(0)] * n
    for k in range(n - 1, -1, -1):
        coefficients = [table[k] - nodes[k] * coefficients[0]] + [
            below - nodes[k] * here for below, here in pairwise(coefficients)
        ]
    return tuple(float(c) for c in coefficients)


@pytest.mark.parametrize("t", [f32, f64], ids=str)
def test_numbers_are_what_they_are_called(t: DType) -> None:
    bits = {f32: (16, 16, 24), f64: (33, 33, 53)}[t]
    assert functions.HALF_PI[t] == parts(PI / 2, *bits)
    assert functions.LN2[t] == parts(LN2, {f32: 15, f64: 40}[t], DIGITS[t])
    assert functions.ARCTAN[t] == tuple(parts(arctan(Fraction(n, 4)), *[DIGITS[t]] * 2) for n in range(1, 5))
    assert functions.HALF_TURN[t] == half_turn({f32: 4, f64: 8}[t])
    assert functions.TURN == parts(2 * PI, 12, 24)
    assert (functions.INVERSE_PI, functions.INVERSE_LN2) == (float(1 / PI), float(1 / LN2))


def compute(made: N.Function, *args: Any) -> Any:
    """Calls the function in a kernel, and returns its value."""
    b = Builder(0)
    ret = N.Buffer("ret0", "ret", made.type, 0, ())
    operands = tuple(b.add(N.ArgLoad(b.fresh(), p.type, p.name)) for p in made.params)
    value = b.add(N.Call(b.fresh(), made.type, made.name, operands))
    b.store(ret, (), value)
    given = tuple(N.Arg(p.name, p.type) for p in made.params)
    kernel = N.Kernel("call", given, {"ret0": ret}, tuple(b.stmts), b.next_id, functions={made.name: made})
    return interpret(kernel, dict(zip("abc", args)), {}).rets["ret0"]  # noqa: B905


def arguments(t: DType, name: str) -> list[Any]:
    info = np.finfo(t.numpy)
    edge = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, info.eps, -2.5]
    rng = np.random.default_rng(7)
    some = rng.normal(size=16) * 10.0 ** rng.integers(-3, 4, 16)
    if name in ("asin", "acos"):
        some = rng.uniform(-1, 1, 16)
    with np.errstate(all="ignore"):
        return list(np.concatenate([edge, some]).astype(t.numpy))


@pytest.mark.parametrize("t", [f32, f64], ids=str)
@pytest.mark.parametrize(("name", "wide"), [*((name, True) for name in NUMPY), *((name, False) for name in CIRCULAR)])
def test_accuracy(name: str, wide: bool, t: DType) -> None:
    made = function(name, t, wide)
    xs = [x for x in arguments(t, name) if wide or not NEAR[t] <= abs(x) < np.inf]
    cases = [(a, b) for a in xs for b in xs[::2]] if FUNCTIONS[name][1] == 2 else [(a,) for a in xs]
    tiny = np.finfo(t.numpy).tiny
    for case in cases:
        if name == "pow" and case[0] == -np.inf and case[1] == 0.5:
            continue  # numpy takes the square root, which C does not
        got = compute(made, *case)
        with np.errstate(all="ignore"):
            want = NUMPY[name](*(np.float64(x) for x in case)) if t is f32 else NUMPY[name](*case)
            near = t.numpy(want)
        if got == near or (np.isnan(got) and np.isnan(near)) or max(abs(got), abs(near)) <= tiny:
            continue
        assert abs(np.float64(got) - want) <= ULPS[t] * np.spacing(max(abs(near), tiny)), (case, got, want)


def test_integers() -> None:
    power = function("pow", u64)
    for a in (0, 1, 2, 3, 7, 2**63 - 1, 2**64 - 1):
        for b in (0, 1, 2, 5, 63, 64, 2**64 - 1):
            want = PRIMS["pow"].evaluate(u64, u64.numpy(a), u64.numpy(b))
            assert compute(power, u64.numpy(a), u64.numpy(b)) == want, (a, b)


def test_far_reduction_agrees_with_near() -> None:
    """On arguments for which both hold, `sin` for near arguments agrees with `sin` for arguments of any size."""
    for t in (f32, f64):
        near, far = function("sin", t, False), function("sin", t, True)
        for x in (0.3, -7.25, 123.456, 399.0):
            assert abs(compute(near, t.numpy(x)) - compute(far, t.numpy(x))) < 4 * np.finfo(t.numpy).eps


@pytest.mark.parametrize("t", [f32, f64], ids=str)
@pytest.mark.parametrize(("name", "exact"), [("sin", np.sin), ("cos", np.cos), ("tan", np.tan)])
def test_near_form_of_large_arguments(t: DType, name: str, exact: np.ufunc) -> None:
    """That of a number within half a unit in the last place; where units are halves or more, that of 0."""
    near, most = function(name, t, False), 2.0 ** (22 if t is f32 else 51)
    for x in (1.1e5, -3.3e6, 0.99 * most, 3.7e8, -1e12):
        if abs(x) < most and name != "tan":
            given = t.numpy(x)
            got = compute(near, given)
            assert abs(float(got) - exact(float(given))) <= 0.51 * float(np.spacing(abs(given))) + 1e-6, x
            assert abs(got) <= 1
    for x in (most, -1e20, float(np.finfo(t.numpy).max)):
        assert compute(near, t.numpy(x)) == (name == "cos"), x
    assert np.isnan(compute(near, t.numpy("inf")))
