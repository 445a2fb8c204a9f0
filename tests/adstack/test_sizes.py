"""SizeExpr: algebra, evaluation against brute force, and the analysis that builds it."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sessions import NIGHT

from quadrants_lab.adstack.evaluate_sizes import evaluate, reads
from quadrants_lab.analysis.algebra import INT64_MAX, TWO, binary, over_range, trips
from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.parse import parse_size
from quadrants_lab.ir.sizeexpr import print_size

DATA = {
    "n": np.array(7, np.int32),
    "m": np.array([3, 0, -2, 9], np.int32),
    "p": np.array([[1, 2, 3], [2, 0, 1]], np.int32),
}
ARGS = {"a": 5, "b": -3}


class Live:
    def arg(self, name: str) -> int:
        return ARGS[name]

    def shape(self, buffer: str, axis: int) -> int:
        return DATA[buffer].shape[axis]

    def array(self, buffer: str) -> np.ndarray:
        return DATA[buffer]


def brute(e: S.SizeExpr, env: dict[int, int]) -> int:
    match e:
        case S.SizeConst(value):
            return value
        case S.SizeArg(arg):
            return ARGS[arg]
        case S.SizeShape(buffer, axis):
            return DATA[buffer].shape[axis]
        case S.SizeVar(id, _):
            return env[id]
        case S.SizeLoad(buffer, index):
            at = tuple(brute(i, env) for i in index)
            ok = all(0 <= i < n for i, n in zip(at, DATA[buffer].shape, strict=True))
            return int(DATA[buffer][at]) if ok else 0
        case S.SizeOp(op, a, b):
            x, y = brute(a, env), brute(b, env)
            return {
                "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "min": lambda: min(x, y),
                "max": lambda: max(x, y), "floordiv": lambda: x // y if y else 0, "mod": lambda: x % y if y else 0,
                "isqrt": lambda: math.isqrt(x - 1) + 1 if x > 0 else 0,
            }[op]()
        case S.SizeRange(op, var, begin, end, body):
            values = [brute(body, {**env, var.id: k}) for k in range(brute(begin, env), brute(end, env))]
            return sum(values) if op == "sum" else max([0, *values])
    raise AssertionError


def exprs(bound: tuple[int, ...] = ()) -> st.SearchStrategy[S.SizeExpr]:
    leaves = [
        st.integers(-4, 9).map(S.SizeConst),
        st.sampled_from(sorted(ARGS)).map(S.SizeArg),
        st.just(S.SizeShape("p", 1)),
        st.just(S.SizeLoad("n", ())),
    ]
    if bound:
        leaves.append(st.sampled_from(bound).map(lambda i: S.SizeVar(i, "k")))

    def grow(inner: st.SearchStrategy[S.SizeExpr]) -> st.SearchStrategy[S.SizeExpr]:
        choices = [
            st.builds(S.SizeOp, st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "mod"]), inner, inner),
            inner.map(lambda e: S.SizeOp("isqrt", e, TWO)),
            inner.map(lambda e: S.SizeLoad("m", (e,))),
            st.tuples(inner, inner).map(lambda p: S.SizeLoad("p", p)),
        ]
        return st.one_of(choices)

    flat = st.recursive(st.one_of(leaves), grow, max_leaves=5)
    if len(bound) >= 2:
        return flat
    var = S.SizeVar(100 + len(bound), "k")
    body = st.deferred(lambda: exprs((*bound, var.id)))
    loops = st.builds(S.SizeRange, st.sampled_from(["sum", "max"]), st.just(var), flat, flat, body)
    return st.one_of(flat, loops)


@settings(max_examples=1000 if NIGHT else 100, deadline=None)
@given(exprs())
def test_evaluation_agrees_with_brute_force(e: S.SizeExpr) -> None:
    assert evaluate(e, Live()) == max(0, brute(e, {}))


@settings(max_examples=1000 if NIGHT else 100, deadline=None)
@given(exprs())
def test_text_round_trip(e: S.SizeExpr) -> None:
    assert parse_size(print_size(e)) == e


def test_constructors_fold() -> None:
    n, k = S.SizeLoad("n", ()), S.SizeVar(1, "k")
    assert binary("mul", S.SizeConst(3), S.SizeConst(4)) == S.SizeConst(12)
    assert binary("mul", S.SizeConst(INT64_MAX), S.SizeConst(2)) == S.SizeConst(INT64_MAX)
    assert over_range("sum", k, S.SizeConst(0), n, S.SizeConst(1)) == trips(S.SizeConst(0), n)
    assert over_range("max", k, S.SizeConst(0), n, n) == n
    assert print_size(over_range("sum", k, S.SizeConst(0), n, k)) == "sum(k%1 in 0..@n[]: k%1)"


def test_reads_lists_arguments_shapes_and_buffers() -> None:
    e = parse_size("max(i%1 in 0..@p.shape[1]: @m[i%1] + arg a)")
    assert reads(e) == (frozenset({"a"}), frozenset({"p"}), frozenset({"m"}))


@pytest.mark.parametrize("text", ["@p[{i} - 1, 0]", "@p[0, {i} - 1]", "@p[{i}, 2]", "@p[1, {i} + 2]"])
def test_reads_beside_a_buffer_are_0(text: str) -> None:
    values = [brute(parse_size(text.format(i=i)), {}) for i in range(3)]
    assert evaluate(parse_size(f"max(i%1 in 0..3: {text.format(i='i%1')})"), Live()) == max(values)
    assert evaluate(parse_size(f"sum(i%1 in 0..3: {text.format(i='i%1')})"), Live()) == sum(values)


def test_large_ranges_are_evaluated_in_chunks() -> None:
    e = parse_size("max(i%1 in 0..1000000: (i%1 % 1000) * 3)")
    assert evaluate(e, Live()) == 2997


@pytest.mark.parametrize("text", ["@n[", "1 +", "foo(1, 2", "max(1)", "1 2", "?"])
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size expression"):
        parse_size(text)


@pytest.mark.parametrize(("text", "want"), [
    ("sum(k%1 in 0..arg a: max(k%1, 0))", lambda n: n * (n - 1) // 2),
    ("sum(k%1 in 0..arg a: max(arg a - k%1, 0))", lambda n: n * (n + 1) // 2),
    ("sum(k%1 in 0..arg a: max(k%1 * 3 - 7, 0))", lambda n: sum(max(3 * k - 7, 0) for k in range(min(n, 3)))
     + (n * (n - 1) // 2 - 3) * 3 - 7 * (n - 3)),
    ("sum(k%1 in 0..arg a: max(5 - k%1, 0))", lambda n: 15),
    ("sum(k%1 in 0..arg a: sum(j%2 in 0..5: max(j%2 * k%1, 0)))", lambda n: 10 * (n * (n - 1) // 2)),
])  # fmt: skip
def test_arithmetic_series_have_a_closed_form(text: str, want: Callable[[int], int], monkeypatch) -> None:
    e = parse_size(text)
    for n in (5, 1000, 100_000, *((1 << 31) - 1 for _ in range("sum(j" not in text))):
        monkeypatch.setitem(ARGS, "a", n)
        assert evaluate(e, Live()) == want(n)


def test_sums_saturate(monkeypatch) -> None:
    monkeypatch.setitem(ARGS, "a", INT64_MAX)
    for text in ("sum(k%1 in 0..arg a: k%1)", "sum(k%1 in 0..2: max(k%1 * arg a * 2, 0))"):
        assert evaluate(parse_size(text), Live()) == INT64_MAX
    nested = parse_size("sum(j%2 in 0..3: sum(k%1 in 0..arg a * j%2: max(k%1, 0)))")
    assert evaluate(nested, Live()) == INT64_MAX
