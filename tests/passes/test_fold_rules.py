"""Every rule of `fold`, on every dtype, at the values where algebra goes wrong."""

import numpy as np
import pytest
from programs.random_ir import SPECIAL, TYPES
from sessions import NIGHT

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import f16, f32, f64, i32, u1
from quadrants_lab.passes.fold import fold
from quadrants_lab.passes.fold_rules import RULES
from quadrants_lab.passes.pipeline import run
from quadrants_lab.runtime.interpret.interpreter import interpret

KINDS = {"num": "iuf", "float": "f", "int": "iu", "cmp": "iufb", "test": "f", "count": "iu"}


def values(t):
    def exact(v):
        return {"low": -(1 << (t.bits - 1)), "high": (1 << (t.bits - (t.kind == "i"))) - 1}.get(v, v)

    extra = (float("inf"), 1e-3, 65504.0, 2.0**-14, 4.0) if t.is_float else () if t is u1 else (t.bits - 1, 8)
    return [exact(v) for v in (*SPECIAL[t.kind], *extra)]


class Bench:
    """Collects results of expressions over loaded values, and compares them before and after `fold`."""

    def __init__(self, *types):
        self.b = Builder(0)
        self.out = {}
        self.body = []
        self.given = {f"in_{t}": np.array(values(t), t.numpy) for t in types}
        with self.b.block() as self.body:
            self.x = {t: [self.load(t, n) for n in range(len(values(t)))] for t in types}

    def load(self, t, n):
        return self.b.add(N.Load(self.b.fresh(), t, f"in_{t}", (self.b.const(n, i32),)))

    def keep(self, v):
        t = self.b.types[v]
        n = self.out[t] = self.out.get(t, 0) + 1
        self.b.add(N.Store(self.b.fresh(), f"out_{t}", (self.b.const(n - 1, i32),), v))

    def compare(self, rtol=0.0, at_least=1):
        buffers = {n: N.Buffer(n, "field", t, 1, (len(values(t)),)) for t in self.x for n in [f"in_{t}"]}
        for t, n in self.out.items():
            buffers[f"out_{t}"] = N.Buffer(f"out_{t}", "field", t, 1, (n,))
        kernel = N.Kernel("k", (), buffers, tuple(self.body), self.b.next_id)
        folded = run(kernel, (fold,), verify=True)
        assert folded is not kernel or at_least == 0
        results = []
        for k in (kernel, folded):
            memory = {**self.given, **{f"out_{t}": np.zeros(n, t.numpy) for t, n in self.out.items()}}
            interpret(k, {}, memory)
            results.append(memory)
        for t in self.out:
            a, b = (m[f"out_{t}"] for m in results)
            np.testing.assert_allclose(b, a, rtol=rtol, atol=0, err_msg=str(t))
            if t.is_float and rtol == 0:
                numbers = ~np.isnan(a)
                np.testing.assert_array_equal(np.signbit(a[numbers]), np.signbit(b[numbers]))


ROWS = [p for p in PRIMS.values() if p.rule in KINDS and p.name != "pow"]


@pytest.mark.parametrize("n", range(len(ROWS)), ids=lambda n: ROWS[n].name)
def test_rules_keep_every_bit(n):
    """By day each primitive is tried on every second dtype."""
    prim = ROWS[n]
    for t in TYPES if NIGHT else TYPES[n % 2 :: 2]:
        truth = t is u1 and prim.name in ("and", "or", "xor", "not")
        if t.kind not in KINDS[prim.rule] and not truth:
            continue
        bench = Bench(t)
        b = bench.b
        with b.block() as more:
            for x, y in zip(bench.x[t], bench.x[t][1:] + bench.x[t][:1], strict=True):
                if prim.arity == 1:
                    again = b.op(prim.name, x)
                    bench.keep(again)
                    if b.types[again] is t:
                        bench.keep(b.op(prim.name, again))
                    if t is not u1:
                        bench.keep(b.op(prim.name, b.op("neg", x)))
                    continue
                bench.keep(b.op(prim.name, x, x))
                if t is not u1:
                    minus = b.op("neg", x)
                    bench.keep(b.op(prim.name, x, minus))
                    bench.keep(b.op(prim.name, minus, x))
                    bench.keep(b.op(prim.name, minus, minus))
                    bench.keep(b.op(prim.name, minus, y))
                    bench.keep(b.op(prim.name, y, minus))
                for c in values(t):
                    k = b.const(c, t)
                    bench.keep(b.op(prim.name, x, k))
                    bench.keep(b.op(prim.name, k, x))
                    if b.types[b.op(prim.name, x, k)] is t:
                        bench.keep(b.op(prim.name, b.op(prim.name, x, k), b.const(values(t)[3 % len(values(t))], t)))
        bench.body += more
        bench.compare(at_least=0)


def test_sums_of_integer_constants():
    for t in [t for t in TYPES if t.is_int][:: 1 if NIGHT else 2]:
        bench = Bench(t)
        b = bench.b
        with b.block() as more:
            for x in bench.x[t]:
                for first in ("add", "sub"):
                    for second in ("add", "sub"):
                        for c in values(t):
                            for d in values(t)[:5]:
                                inner = b.op(first, x, b.const(c, t))
                                bench.keep(b.op(second, inner, b.const(d, t)))
        bench.body += more
        bench.compare()


def test_casts_of_casts():
    for t in TYPES:
        bench = Bench(t)
        b = bench.b
        with b.block() as more:
            for x in bench.x[t]:
                for middle in TYPES:
                    m = b.cast(x, middle)
                    for last in TYPES:
                        c = b.op("cast", m, type=last)
                        bench.keep(c)
                        if last.is_float:
                            bench.keep(b.op("floor", c))
                    if middle is not u1:
                        zero = b.const(0, middle)
                        bench.keep(b.op("eq", m, zero))
                        bench.keep(b.op("ne", zero, m))
        bench.body += more
        bench.compare()


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_selects_and_negated_conditions(t):
    bench = Bench(t, u1)
    b = bench.b
    xs = bench.x[t]
    with b.block() as more:
        for c in (*bench.x[u1], b.op("lt", xs[0], xs[1]), b.op("le", xs[-1], xs[0]), b.const(True, u1)):
            no = b.op("not", c)
            bench.keep(no)
            for x, y in zip(xs, [*xs[1:], b.const(1, t)], strict=True):
                s = b.op("select", c, x, y)
                bench.keep(b.op("select", no, x, y))
                bench.keep(b.op("select", c, s, x))
                bench.keep(b.op("select", c, y, s))
                bench.keep(b.op("select", c, x, x))
            for v in (True, False):
                k = b.const(v, u1)
                bench.keep(b.op("select", c, k, no))
                bench.keep(b.op("select", c, no, k))
                bench.keep(b.op("eq", c, k))
                bench.keep(b.op("ne", k, c))
        for x in xs:
            for y in xs:
                for compare in ("lt", "le", "gt", "ge", "eq", "ne"):
                    bench.keep(b.op("not", b.op(compare, x, y)))
    bench.body += more
    bench.compare()


@pytest.mark.parametrize(("t", "rtol"), [(f16, 2e-3), (f32, 1e-6), (f64, 1e-15), (i32, 0.0)], ids=str)
def test_small_powers(t, rtol):
    bench = Bench(t)
    b = bench.b
    with b.block() as more:
        for x in bench.x[t]:
            for n in range(-2, 10):
                bench.keep(b.op("pow", x, b.const(n, t)))
            if t.is_float:
                bench.keep(b.op("pow", x, b.const(0.5, t)))
    bench.body += more
    bench.compare(rtol)


def test_the_table_names_primitives():
    assert set(RULES) <= set(PRIMS)
