"""The text form prints and parses back; what is no IR is an error with a caret."""

import math

import pytest
from hypothesis import given, strategies as st
from programs.random_ir import random_kernel

from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.parse import ParseError, parse_kernel
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.text import print_kernel, statement_lines
from quadrants_lab.ir.types import f16, f32, f64, i32, i64, u1, u32, u64
from quadrants_lab.ir.verify import verify
from quadrants_lab.ir.walk import walk

WAYS = [(spans, links) for spans in (False, True) for links in (False, True)]


def sample():
    """A reverse task with every kind of statement that random IR has not."""
    b = Builder(5)
    b.span = Span("k.py", 3, 4, 3, 17)
    y = N.Buffer("y", "field", f32, 0, (), "y.grad")
    dy = N.Buffer("y.grad", "field", f32, 0, ())
    temp, ret = N.Buffer("v.temp", "temp", i32, 0, ()), N.Buffer("ret0", "ret", f64, 0, ())
    array = N.Buffer("a", "ndarray", u1, 2, None)
    flat = N.Buffer("b", "ndarray", f16, 0, None)
    heap, local = N.Buffer("v$4", "heap", f32, 2, None), N.Buffer("v$4.count", "local", u32, 0, ())
    with b.block() as bounds:
        b.yield_()
    with b.block() as body:
        j = S.SizeVar(99, "j")
        end = S.SizeLoad("n", (S.SizeConst(-1),))
        size = S.SizeRange("sum", j, S.SizeConst(0), end, S.SizeOp("mul", j, S.SizeArg("n")))
        a = b.add(N.AdStackAlloca(b.fresh(), f32, name="v", primal=3, reason='said "so"\n\\ früh', size=size))
        flags = b.add(N.AdStackAlloca(b.fresh(), u1, count_only=True, reason=""))
        v = b.load(y, ())
        b.add(N.AdStackPush(b.fresh(), a, v))
        at = b.const(1, i32)
        w = b.add(N.Element(b.fresh(), f32, (at, at), (1, 2), (v, v), clamped=True, name="w"))
        changed = b.param(f32, "w[0]"), b.param(f32)
        b.add(N.WithElement(b.fresh(), (at,), (2,), (v, w), v, changed))
        b.add(N.AdStackPush(b.fresh(), flags, b.const(True, u1)))
        b.adjoint_of = 3
        with b.block() as reverse:
            top = b.add(N.AdStackLoadTop(b.fresh(), f32, a, name="v"))
            b.add(N.AdStackDepth(b.fresh(), i64, a))
            b.add(N.AdStackPop(b.fresh(), a))
            g = b.atomic("add", dy, (), top)
            b.add(N.Atomic(b.fresh(), f32, "y.grad", (), g, "add", private=True))
            b.add(N.Atomic(b.fresh(), f32, "y.grad", (), g, "add", distance=3, fission=2))
            b.yield_()
        b.adjoint_of = N.NO_ID
        b.add(N.AdStackGuard(b.fresh(), tuple(reverse)))
        ok = b.op("isnan", v)
        b.add(N.Print(b.fresh(), ("v = ", v, "  // no comment !1:2-3:4\n")))
        b.add(N.Print(b.fresh(), ()))
        b.add(N.Print(b.fresh(), (v, "a", v), ("", '>8".3f')))
        b.add(N.Assert(b.fresh(), ok, "{} is a number", (v,), kind="bounds"))
        b.add(N.ShapeOf(b.fresh(), i32, "a", 1))
        b.add(N.Barrier(b.fresh()))
        b.add(N.Random(b.fresh(), f64, 7))
        b.add(N.Builtin(b.fresh(), u64, "seed"))
        b.add(N.Call(b.fresh(), f64, "half.f64", (b.const(1.0, f64),)))
        b.add(N.Op(b.fresh(), i32, "add", (b.const(1, i32), b.const(2, i32)), range=(-3, 3)))
        lane = b.add(N.Lane(b.fresh(), u32))
        b.add(N.Overflow(b.fresh(), lane, b.add(N.GroupReduce(b.fresh(), b.types[v], "add", v))))
        b.add(N.GroupSame(b.fresh(), u1, lane, threads=32))
        b.add(N.ThreadExit(b.fresh()))
        for value, t in ((math.nan, f32), (-math.inf, f64), (0.1, f16), (1e-30, f32), (-0.0, f64), (1e300, f64)):
            b.const(value, t)
        b.yield_()
    schedule = {
        "lanes": 8, "colour_rows": 2, "fission": 3, "shares": (("y", "add"), ("a", "max")), "copies": ("y", "a"),
        "sums": "versioned", "aggregate": 32, "moves": True, "grain": 100, "timed": True, "vectorise": True,
        "unroll": True, "brief": True, "in_step": 4, "why": "8 lanes: sin",
    }  # fmt: skip
    task = N.Offload(b.fresh(), "serial", tuple(bounds), (), tuple(body), span=b.span, **schedule)
    buffers = {x.name: x for x in (y, dy, temp, ret, array, flat, heap, local)}
    h = Builder(0)
    a = h.param(f64, "a")
    with h.block() as half:
        h.yield_(h.op("mul", a.id, h.const(0.5, f64)))
    functions = {"half.f64": N.Function("half.f64", (a,), f64, tuple(half))}
    args = N.Arg("n", i32), N.Arg("s", f64)
    return N.Kernel("k.<locals>.f", args, buffers, (task,), b.next_id, "reverse", b.span, functions)


@pytest.mark.parametrize(("spans", "links"), WAYS)
def test_every_statement_comes_back(spans, links):
    text = print_kernel(sample(), spans, links)
    back = parse_kernel(text, "k.py")
    assert print_kernel(back, spans, links) == text
    if spans and links:
        assert repr(back) == repr(sample())  # the NaN in it keeps == from holding


@given(st.integers(0, 2**32))
def test_random_kernels_come_back(seed):
    kernel = random_kernel(seed, exact=False, draws=True)
    verify(kernel)
    for spans, links in WAYS:
        text = print_kernel(kernel, spans, links)
        assert print_kernel(parse_kernel(text), spans, links) == text
    assert repr(parse_kernel(print_kernel(kernel, links=True))) == repr(kernel)
    verify(parse_kernel(print_kernel(kernel)))


def test_all_statements_are_covered():
    kinds = {type(s) for n in range(40) for s in walk(random_kernel(n, draws=True).body)} | {
        type(s) for s in walk(sample().body)
    }
    with_text = {c for c in vars(N).values() if "form" in getattr(c, "__dict__", {})}
    assert kinds == set(N.STATEMENTS) == with_text - {N.Stmt}


def test_statement_lines_are_the_text():
    kernel = sample()
    assert "".join(line + "\n" for line, _ in statement_lines(kernel)) == print_kernel(kernel)


GOOD = """\
kernel k(n: i32) forward next %9 {
  buffer @y: field f32[4] first -2
  %0: i32 = const 0
  %1: f32 'v' = load @y[%0]
  if %2 { #3
    yield %1
  } else {
    yield %1
  } -> (%4: f32)
}
"""


def test_ids_that_are_left_out_are_filled_in():
    text = "kernel k() forward {\n  // a comment\n\n  %1: i32 = const 3\n  print %1\n  print\n}"
    kernel = parse_kernel(text)
    assert [s.id for s in kernel.body] == [1, 0, 2]
    assert kernel.next_id == 3


@pytest.mark.parametrize(("old", "new", "message", "caret"), [
    ("kernel k", "kernle k", "expected 'kernel'", 0),
    ("n: i32", "n: int", "expected a dtype", 12),
    ("next %9 {", "next %9", "expected '{'", 32),
    ("f32[4]", "f32[4x]", "expected the shape in brackets", 22),
    ("const 0", "const 0.5", "expected a constant of i32", 18),
    ("const 0", "constant 0", "expected a primitive", 12),
    ("@y[%0]", "@y[%0", "expected ']'", 26),
    ("@y[%0]", "@y[%0] %1", "unexpected text after the statement", 28),
    ("@y[%0]", "@y[\u00a7]", "cannot read this", 24),
    ("  if %2", "  iff %2", "expected a statement", 2),
    ("} else {", "}", "expected 'else'", 3),
    ("-> (%4: f32)", "-> (%4)", "expected ':'", 10),
    ("  } -> (%4: f32)\n}\n", "", "expected '}', found the end of the text", 0),
    ("  } -> (%4: f32)\n}\n", "  }\n}\nmore", "unexpected text after the kernel", 0),
])
def test_errors_show_the_place(old, new, message, caret):
    assert old in GOOD
    with pytest.raises(ParseError) as e:
        parse_kernel(GOOD.replace(old, new))
    assert message in str(e.value)
    _, shown, marked = str(e.value).split("\n")
    assert e.value.col == caret
    assert marked.index("^") == shown.index("|") + 2 + caret
