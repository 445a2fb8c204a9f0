"""Operations on integers that give reals, and on operands of two dtypes: which dtype they are computed in."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from programs.deep import define

import quadrants_lab as qd

f32, f64 = np.float32, np.float64
THIRD = {fp: float(fp(7) / fp(3)) for fp in (f32, f64)}

Two = qd.types.vector(2, qd.i64)
Pair = qd.types.struct(v=Two)

# (default_fp, expression of p and q, dtype and value of p, of q, the result as f64)
ROWS: list[tuple[str, str, Any, Any, float]] = [
    ("f64", "p / q", ("i32", 7), ("i32", 3), THIRD[f64]),
    ("f32", "p / q", ("i32", 7), ("i64", 3), THIRD[f32]),
    ("f64", "p / q", ("i32", 7), ("f32", 3), THIRD[f64]),
    ("f64", "q / p", ("u8", 3), ("f32", 7), THIRD[f64]),
    ("f32", "p / q", ("i64", 7), ("f64", 3), THIRD[f64]),
    ("f32", "p / q", ("i32", 2**24 + 1), ("f64", 1), 2**24 + 1),
    ("f64", "p / 3", ("f32", 7), ("i32", 0), THIRD[f64]),
    ("f64", "p / 3.0", ("f32", 7), ("i32", 0), THIRD[f64]),
    ("f32", "p / 3", ("f32", 7), ("i32", 0), THIRD[f32]),
    ("f64", "qd.Vector([p, q]).x / 3", ("f32", 7), ("i32", 0), THIRD[f64]),
    ("f64", "(qd.Vector([p, p]) / q).y", ("i32", 7), ("f32", 3), THIRD[f64]),
    # a dtype that is given is that of each element, not of what they have in common
    ("f64", "qd.Vector([p, q], dt=qd.i64)[1]", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.Matrix([[p, 1], [q, 1]], dt=qd.i64)[1, 0]", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.Matrix([[p, q], [1, qd.i64(2)]])[0, 1]", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.Matrix([qd.Vector([p, p]), [q, qd.i64(2)]])[1, 0]", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.math.vec2(p, q).y", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.math.vec3([p, q], 1).y", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.types.vector(n=2, dtype=qd.i64)([p, q])[1]", ("u32", 5), ("i32", -3), -3),
    ("f64", "qd.types.matrix(1, 2, qd.f64)(p, q)[0, 0]", ("i32", 2**24 + 1), ("f32", 1), 2**24 + 1),
    ("f64", "Pair([p, q]).v[1]", ("u32", 5), ("i32", -3), -3),
    ("f64", "p ** q", ("u8", 7), ("i32", 3), 343 % 256),
    ("f64", "p ** 3", ("u8", 7), ("i32", 0), 343 % 256),
    ("f64", "p ** 5", ("u8", 7), ("i32", 0), 7**5 % 256),
    ("f64", "p ** q", ("i32", 3), ("i64", 40), 3**40 % 2**32),
    ("f64", "p ** q", ("i64", 3), ("i32", 30), 3**30),
    ("f64", "p ** q", ("i64", 3), ("u8", 30), 3**30),
    ("f64", "2 ** q", ("i32", 0), ("i64", 40), 0),
    ("f64", "qd.pow(p, q)", ("i32", 3), ("u32", 4), 81),
    ("f64", "p ** q", ("u1", 1), ("i32", 3), 1),
    ("f64", "p ** q", ("i32", 7), ("f32", 0.5), f64(np.sqrt(f32(7)))),
    ("f64", "p ** 0.5", ("i32", 7), ("i32", 0), math.sqrt(7)),
    ("f32", "qd.pow(p, 0.5)", ("i64", 7), ("i32", 0), f32(math.sqrt(7))),
    *(
        (fp, f"qd.{op}(p)", (dtype, value), ("i32", 0), getattr(np, op)(float(value)))
        for op, value in (("exp", 7), ("log", 7), ("sqrt", 7), ("sin", 7), ("cos", 7), ("tan", 7), ("tanh", 1))
        for fp, dtype in (("f64", "i32"), ("f32", "i64"), ("f64", "u8"))
    ),
    ("f64", "qd.exp(p)", ("u1", 1), ("i32", 0), math.e),
    ("f64", "qd.exp(qd.Vector([p, q])).y", ("i32", 0), ("i32", 2), math.exp(2)),
    ("f64", "qd.rsqrt(p)", ("i32", 7), ("i32", 0), 1 / math.sqrt(7)),
    ("f64", "qd.asin(p)", ("i32", 1), ("i32", 0), math.pi / 2),
    ("f64", "qd.acos(p)", ("i32", -1), ("i32", 0), math.pi),
    ("f64", "qd.atan2(p, q)", ("i32", 7), ("i32", 3), math.atan2(7, 3)),
    ("f64", "qd.atan2(p, q)", ("i32", 7), ("f64", 3), math.atan2(7, 3)),
    ("f64", "qd.atan2(p, q)", ("i32", 7), ("f32", 3), f64(np.arctan2(f32(7), f32(3)))),
    # a choice that is made when the kernel is compiled has the dtype of one that is made later, but under qd.static
    ("f64", "(p if 65535 else q) * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "(q if not 1 else p) * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "(p if 1 else (q if 0 else p)) * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "(7 if 1 else q) * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "((p, p)[0] if 1 else qd.sin(q)) * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "(qd.Vector([p, p]) if 1 else qd.Vector([q, q])).x * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "(qd.Vector([p, p]) if 1 else q).x * 1000000000", ("i32", 7), ("f64", 3), 7e9),
    ("f64", "(p if qd.static(True) else q) * 1000000000", ("i32", 7), ("f64", 3), 7 * 10**9 - 2 * 2**32),
    ("f64", "(p if 1 else nothing[0]) * 1000000000", ("i32", 7), ("f64", 3), 7 * 10**9 - 2 * 2**32),
    ("f64", "qd.math.log2(p)", ("i32", 7), ("i32", 0), math.log2(7)),
]
IDS = [f"{fp}-{e}-{p[0]}-{q[0]}" for fp, e, p, q, _ in ROWS]


@pytest.mark.parametrize("fp, expression, p, q, want", ROWS, ids=IDS)
def test_value(fp: str, expression: str, p: Any, q: Any, want: float) -> None:
    qd.init(arch=qd.cpu, default_fp=getattr(qd, fp), offline_cache=False)
    a, b, y = qd.field(getattr(qd, p[0]), ()), qd.field(getattr(qd, q[0]), ()), qd.field(qd.f64, ())
    a[None], b[None] = p[1], q[1]
    text = f"def k():\n    p = a[None]\n    q = b[None]\n    y[None] = {expression}\n"
    qd.kernel(define(text, a=a, b=b, y=y, Pair=Pair)["k"])()
    real = 2e-7 if fp == "f32" and expression != "p / q" else 1e-14
    assert y[None] == pytest.approx(want, rel=real if isinstance(want, float) else 0)


def test_each_number_of_a_list_is_cast_to_what_its_target_holds() -> None:
    """It is not cast to the common dtype of the list first: -3 as the u32 of its neighbour would be 4294967293."""
    qd.init(arch=qd.cpu, offline_cache=False)
    a, b = qd.field(qd.u32, ()), qd.field(qd.i32, ())
    v, m, y = qd.Vector.field(2, qd.i64, 2), qd.Matrix.field(2, 2, qd.i64, 2), qd.field(qd.i64, 8)
    a[None], b[None] = 5, -3

    @qd.kernel
    def assign() -> None:
        p, q = a[None], b[None]
        v[0] = [p, q]
        v[1] += [p, q]
        m[0] = [[p, q], [p, p]]
        w, s = qd.Vector([0, 0], dt=qd.i64), Pair(0)
        w = [p, q]
        s.v = [p, q]
        y[0], y[1], y[2], y[3], y[4] = w[1], s.v[1], v[0][1], v[1][1], m[0][0, 1]

    assign()
    assert y.to_numpy().tolist() == [-3] * 5 + [0] * 3


def test_each_return_is_cast_to_what_the_signature_says() -> None:
    """It is not cast to the common dtype of all returns first."""
    qd.init(arch=qd.cpu, offline_cache=False)
    a, b, y = qd.field(qd.u32, ()), qd.field(qd.i32, ()), qd.field(qd.i64, 4)
    a[None], b[None] = 5, -3

    @qd.func
    def branching(n: qd.i32) -> qd.i64:
        if n == 0:
            return a[None]
        return b[None]

    @qd.func
    def looping(n: qd.i32) -> qd.i64:
        for k in range(3):
            if k == n:
                return a[None]
        return b[None]

    @qd.func
    def listed() -> Two:
        return [a[None], b[None]]

    @qd.kernel
    def both() -> Two:
        y[0], y[1], y[2] = branching(1), looping(7), listed()[1]
        return [a[None], b[None]]

    assert both().to_list() == [5, -3]
    assert y.to_numpy().tolist() == [-3, -3, -3, 0]


@pytest.mark.parametrize("op, dtype, old, value, given, want", [
    ("min", "u8", 200, 300, "i32", 200),
    ("max", "u8", 200, -1, "i32", 200),
    ("max", "u8", 200, 300, "i32", 255),
    ("min", "u32", 7, 2**53 + 1, "i64", 7),
    ("max", "u64", 7, -1, "i8", 7),
    ("max", "i32", -5, 2**32 - 1, "u32", 2**31 - 1),
    ("min", "i16", -5, -40000, "i32", -(2**15)),
    ("max", "i64", -5, 2**63, "u64", 2**63 - 1),
    ("min", "i8", 100, 7.9, "f32", 7),
])
def test_an_extreme_beyond_the_range_of_the_element(
    op: str, dtype: str, old: int, value: Any, given: str, want: int
) -> None:
    """Cast like other values it would wrap to the other end of the range, and win where it must not."""
    qd.init(arch=qd.cpu, offline_cache=False)
    x, v = qd.field(getattr(qd, dtype), 2), qd.field(getattr(qd, given), ())
    x.fill(old)
    v[None] = value
    literal = f"qd.{given}({value})"
    text = f"def k():\n    qd.atomic_{op}(x[0], v[None])\n    qd.atomic_{op}(x[1], {literal})\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a float is truncated
        qd.kernel(define(text, x=x, v=v)["k"])()
    assert x.to_numpy().tolist() == [want, want]


@pytest.mark.parametrize("fp, ip", [("f32", "i32"), ("f32", "u32"), ("f32", "i64"), ("f64", "i64"), ("f16", "u16")])
def test_sign_of_a_power_whose_exponent_is_rounded(fp: str, ip: str) -> None:
    """Whether it is odd is a property of the integer, which the real number that it becomes need not have."""
    qd.init(arch=qd.cpu, default_fp=getattr(qd, fp), offline_cache=False)
    real = getattr(qd, fp)
    x, y = (qd.field(real, 8, needs_grad=True) for _ in range(2))
    n = qd.field(getattr(qd, ip), 8)
    whole = 2 ** {"f16": 11, "f32": 24, "f64": 53}[fp]
    cases = (-1, whole + 1), (-1, whole + 2), (-1, whole + 3), (-2, 3), (-2, 0), (0, 1), (0, 2), (1, whole + 1)
    for i, (base, exponent) in enumerate(cases):
        x[i], n[i] = base, exponent

    @qd.kernel
    def power() -> None:
        for i in x:
            y[i] = x[i] ** n[i]

    @qd.kernel
    def literal() -> None:
        y[0] = x[0] ** 16777217

    power()
    y.grad.fill(1.0)
    power.grad()
    assert y.to_numpy().tolist() == [-1, 1, -1, -8, 1, 0, 0, 1]
    rounded = [getattr(np, {"f16": "float16", "f32": "float32", "f64": "float64"}[fp])(n[i]) for i in range(8)]
    want = [rounded[0], -rounded[1], rounded[2], 12, 0, 1, 0, rounded[7]]
    np.testing.assert_allclose(x.grad.to_numpy(), want)
    literal()
    assert y[0] == -1
