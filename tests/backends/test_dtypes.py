"""Operations on every dtype, with and without fast math, plainly, in loops with carried values and under divergent
branches, and their gradients; casts, atomics and reductions of every dtype: on every backend, against numpy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from programs.deep import define
from rigs.calls import llvm_misfits, ptx_misfits
from sessions import ALL_AT_ONCE, EVERYWHERE, NIGHT, by_night, ended

import quadrants_lab as qd
from quadrants_lab.backends import cpu
from quadrants_lab.backends._llvm.ops import library
from quadrants_lab.backends._llvm.text import Module
from quadrants_lab.backends.amdgpu import gcn
from quadrants_lab.backends.cuda import listings, nvptx, toolkit
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS, RENAMED
from quadrants_lab.ir.types import DTYPES
from quadrants_lab.ir.walk import walk

__all__ = ["ended"]
pytestmark = pytest.mark.filterwarnings("ignore:.*QL1901")  # in some kernels f16 and f32 are mixed on purpose

COUNT = 40  # elements of a row: more than a warp has
TOGETHER = {"vulkan": 10}  # rows of a kernel; llvmpipe takes many times as long for twice as many
FLOATS = tuple(name for name, t in DTYPES.items() if t.is_float)
WHOLE = tuple(name for name, t in DTYPES.items() if t.is_int)
BY_DAY = (*FLOATS, "i8", "u16", "i32", "u64")  # by day test_conformance has the rest, without loops and branches
FEW = np.arange(COUNT) % 3  # the trips of a loop, or which arm is taken
RUNTIME = (Path(cpu.__file__).parent / "runtime" / "runtime.ll").read_text()
Values = np.ndarray[Any, Any]
Binary = Callable[[Any, Any], Any]

# --- operations on a and b, as text that kernels and numpy read; T is their dtype ---------------------------------

BOTH = (
    "a + b", "a - b", "a * b", "a // b", "a % b", "-a", "abs(a)", "min(a, b)", "max(a, b)", "a ** b",
    "qd.raw_div(a, b)", "qd.raw_mod(a, b)", "qd.select(a < b, a, b)",
    *(f"qd.cast(a {r} b, T)" for r in ("<", "<=", ">", ">=", "==", "!=")),
)  # fmt: skip
REAL = (
    *BOTH, "a / b", "qd.atan2(a, b)", "qd.cast(qd.math.isnan(a), T)", "qd.cast(qd.math.isinf(a), T)",
    *(f"qd.{f}(a)" for f in "sqrt rsqrt sin cos tan asin acos tanh exp log log1p floor ceil round".split()),
)  # fmt: skip
BITS = (
    *BOTH, "a & b", "a | b", "a ^ b", "~a", "a << b", "a >> b", "qd.bit_shr(a, b)", "qd.cast(qd.math.popcnt(a), T)",
    "qd.cast(qd.math.clz(a), T)",
)  # fmt: skip
# what the text of an operation has in it -> between which numbers its operands are
BETWEEN = {"asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "tan(": (-1.2, 1.2), "log1p": (-0.8, 4.0)}
BETWEEN |= dict.fromkeys(("**", "log(", "sqrt("), (0.1, 4.0))
# the error of a result, at most, beside numbers of size 1: plainly, and of gradients and of what a loop adds up
CLOSE = {"f16": (3e-3, 2e-2), "f32": (4e-6, 4e-5), "f64": (1e-13, 1e-9)}


def evaluated(prim: str) -> Callable[..., Values]:
    """A primitive of integers by its evaluator."""
    def values(*args: Values) -> Values:
        t = args[0].dtype
        return np.array([PRIMS[prim].evaluate(named(t), *xs) for xs in zip(*args, strict=True)], t)
    return values


def named(t: Any) -> Any:
    return next(d for d in DTYPES.values() if d.numpy is t.type)


FUNCTIONS = {f: getattr(np, f) for f in "sqrt sin cos tan tanh exp log log1p floor ceil isnan isinf".split()}
FUNCTIONS |= {"asin": np.arcsin, "acos": np.arccos, "atan2": np.arctan2, "rsqrt": lambda x: 1 / np.sqrt(x)}
FUNCTIONS |= {"round": lambda x: np.copysign(np.floor(abs(x) + 0.5), x), "raw_mod": np.fmod, "raw_div": np.divide}
FUNCTIONS |= {"select": np.where, "cast": lambda x, t: x.astype(t)}
OF_WHOLE = {f: evaluated(prim) for f, prim in (("raw_div",) * 2, ("bit_shr", "lshr"), ("popcnt",) * 2, ("clz",) * 2)}


def meaning(op: str, t: Any) -> Binary:
    """The operation on arrays of dtype ``t``."""
    functions = FUNCTIONS if np.dtype(t).kind == "f" else FUNCTIONS | OF_WHOLE
    space = SimpleNamespace(**functions, math=SimpleNamespace(**functions))
    names = {"qd": space, "T": t, "min": np.minimum, "max": np.maximum}
    value: Binary = eval(f"lambda a, b: {op}", names)
    return value


# --- where an operation stands: its lines in a kernel, and what comes out -----------------------------------------

def plain(f: Binary, a: Any, b: Any) -> Any:
    return f(a, b)


def looped(f: Binary, a: Any, b: Any) -> Any:
    s, half = b, 1 if a.dtype.kind != "f" else 0.5
    for j in range(FEW.max()):
        s = np.where(j < FEW, s * half + f(*((a, b) if j % 2 == 0 else (b, a))), s)
    return s


def branched(f: Binary, a: Any, b: Any) -> Any:
    return np.where(FEW == 0, f(a, b), np.where(FEW == 1, f(b, a), 0 * a))


LINES = {
    plain: "y[K, i] = OP",
    looped: """\
s = b
for j in range(few[i]):
    s = HALVED
    s = s + (OP)
    a, b = b, a
y[K, i] = s""",
    branched: """\
if few[i] == 0:
    y[K, i] = OP
elif few[i] == 1:
    a, b = b, a
    y[K, i] = OP""",
}


def text_of(place: Binary, ops: tuple[str, ...], halved: str) -> str:
    text = f"@qd.kernel\ndef k():\n    for i in range({COUNT}):\n"
    for n, op in enumerate(ops):
        body = LINES[place].replace("HALVED", halved).replace("OP", op).replace("K", str(n))
        text += "".join(f"        {line}\n" for line in (f"a, b = x[{n}, i], w[{n}, i]", *body.splitlines()))
    return text


# --- operands -----------------------------------------------------------------------------------------------------

def slopes(g: Binary, a: Any, b: Any) -> tuple[Any, Any]:
    """Derivatives by differences, with errors of about 1e-11."""
    h = np.longdouble(1e-7)
    return (g(a + h, b) - g(a - h, b)) / (2 * h), (g(a, b + h) - g(a, b - h)) / (2 * h)


def steady(f: Binary, a: Any, b: Any) -> Any:
    """Whether neither rounding nor approximations decide the result, and no number is large."""
    def results(f: Binary, a: Any, b: Any) -> list[Any]:
        return [*(r for x, y in ((a, b), (b, a)) for r in (f(x, y), *slopes(f, x, y)))]
    here = results(f, a, b)
    good = np.all([abs(r) < 50 for r in here], axis=0)
    for da, db in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        there = results(f, a * (1 + da / 128), b * (1 + db / 128))
        good &= np.all([np.isclose(x, y, 0.2, 0.2) for x, y in zip(here, there, strict=True)], axis=0)
    return good


@cache
def operands(op: str, name: str) -> tuple[Values, Values]:
    rng = np.random.default_rng(len(op))
    t = DTYPES[name]
    if t.is_float:
        low, high = next((ends for part, ends in BETWEEN.items() if part in op), (-4.0, 4.0))
        a, b = rng.uniform(low, high, (2, 30 * COUNT)).astype(t.numpy)
        good = steady(meaning(op, np.longdouble), a.astype(np.longdouble), b.astype(np.longdouble))
        assert good.sum() >= COUNT, op
        return a[good][:COUNT], b[good][:COUNT]
    low, high = t.limits
    if "**" in op or "<<" in op or ">>" in op or "shr" in op:
        a, b = rng.integers(0, 6 if "**" in op else t.bits, (2, COUNT)).astype(t.numpy)
        return a, b
    a, b = rng.integers(low, high, (2, COUNT), t.numpy, endpoint=True)
    near = rng.integers(max(low, -3), 4, COUNT).astype(t.numpy)
    a[:4], b[:4] = (low, high, 0, 1), near[:4]
    b[::3] = near[::3]
    return a, b


# --- the tests ----------------------------------------------------------------------------------------------------

def everywhere(*names: str, fast_math: bool) -> list[Any]:
    """Sessions, dtypes and options. Metal has no f64. By day f16 with fast math, which no two devices have in the
    same way, is tried on all of them at once, and all else on the CPU and one more in turn."""
    options, word = {"fast_math": fast_math}, "fast" if fast_math else "exact"
    of = lambda name: ALL_AT_ONCE if name == "f16" and fast_math else EVERYWHERE
    pairs = [(w, name) for name in names for w in of(name) if (w.id, name) != ("metal", "f64")]
    return [pytest.param(*w.values, name, options, id=f"{w.id}-{name}-{word}", marks=w.marks) for w, name in pairs]


def check_calls(arch: str, *kernels: Any) -> None:
    """Whether calls fit their functions in what the kernels were compiled to on the CPU; and in what they are, or where
    a stand-in runs them would be, compiled to on CUDA, and beside that on an AMD GPU."""
    for kernel in kernels if arch == "cpu" else ():
        assert not llvm_misfits(kernel.code("llvm") + RUNTIME)
    for plan in (kernel.dispatcher.last for kernel in kernels) if arch == "cuda" else ():
        text = "\n".join(gcn.emitted(plan.kernel, plan.compiled.options, "gfx90a").lines()[0])
        llvm.parse_assembly(text).verify()
        assert not llvm_misfits(text)
        if not toolkit.missing_libdevice():
            text = listings.ptx_of(plan.kernel, plan.compiled.options, 90)
            assert not ptx_misfits(text)
            if toolkit.tool("ptxas") and ".f16" in text:
                listings.assembled(text, 90)


@pytest.mark.parametrize(("session", "name", "options"), [
    *everywhere(*BY_DAY, fast_math=True), *everywhere("f16", fast_math=False),
    *by_night(everywhere("u8", "i16", "u32", "i64", fast_math=True)),
    *by_night(everywhere("f32", "f64", *WHOLE, fast_math=False)),
])
def test_operations(session: Any, name: str, options: Any) -> None:
    qd.init(**session, **options)
    ops, size = REAL if name in FLOATS else BITS, TOGETHER.get(session["arch"], 20)
    for n in range(0, len(ops), size):
        launch_and_compare(ops[n : n + size], name, session["arch"])


def launch_and_compare(ops: tuple[str, ...], name: str, arch: str) -> None:
    """Launches all of these operations on all numbers, and compares."""
    t = DTYPES[name]
    x, w, y = (qd.field(getattr(qd, name), (len(ops), COUNT), needs_grad=t.is_float) for _ in range(3))
    few = qd.field(qd.i32, COUNT)
    few.from_numpy(FEW.astype(np.int32))
    x.from_numpy(np.array([operands(op, name)[0] for op in ops]))
    w.from_numpy(np.array([operands(op, name)[1] for op in ops]))
    for place in LINES:
        text = text_of(place, ops, "s * 0.5" if t.is_float else "s")
        k = define(text, x=x, w=w, y=y, few=few, T=getattr(qd, name))["k"]
        y.fill(0)
        k()
        got = [y.to_numpy()]
        if t.is_float:
            for g in (x, w):
                g.grad.fill(0)
            y.grad.fill(1)
            k.grad()
            got += [x.grad.to_numpy(), w.grad.to_numpy()]
        for n, op in enumerate(ops):
            wrong = compared(op, name, place, [g[n] for g in got])
            assert not wrong, f"{op} of {name}, {place.__name__}: {wrong}"
        if NIGHT or place is plain:  # the functions that are called are the same at every place
            check_calls(arch, k, *([k.grad] if t.is_float else []))


def test_the_table_has_every_primitive() -> None:
    """Left out are primitives that users cannot name, and bitcasts, whose table is in test_conformance."""
    qd.init(arch=qd.cpu, offline_cache=False)
    found: set[str] = set()
    for ops, t in ((REAL, qd.f32), (BITS, qd.i32)):
        x, w, y = (qd.field(t, (len(ops), COUNT)) for _ in range(3))
        k = define(text_of(plain, ops, ""), x=x, w=w, y=y, T=t)["k"]
        k()
        found |= {s.prim for s in walk(k.dispatcher.last.kernel.body) if isinstance(s, N.Op)}
    inner = {p.name for p in PRIMS.values() if p.rule in ("machine", "unit", "fptoint", "isqrt")}
    assert set(PRIMS) - found == inner | {"trunc", "bitcast", *RENAMED}


@cache
def wanted(op: str, name: str, place: Binary) -> Values:
    """The right values and, for floats, the right slopes."""
    a, b = operands(op, name)
    if not DTYPES[name].is_float:
        with np.errstate(all="ignore"):
            return place(meaning(op, a.dtype), a, b)[None]
    f = meaning(op, np.longdouble)
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    return np.stack([place(f, a, b), *slopes(lambda a, b: place(f, a, b), a, b)]).astype(np.float64)


def compared(op: str, name: str, place: Binary, got: list[Values]) -> str:
    """Describes in words what differs; "" if nothing does."""
    near, far = CLOSE.get(name, (0, 0))
    for n, (g, e) in enumerate(zip(got, wanted(op, name, place), strict=True)):
        room = far if n or place is looped else near
        bad = ~(abs(g - e) <= room * np.maximum(1, abs(e))) if room else g != e
        if bad.any():
            at = [v[bad][:3] for v in (*operands(op, name), g, e)]
            return f"{('value', 'slope of a', 'slope of b')[n]} at a, b = {at[0]}, {at[1]}: {at[2]} for {at[3]}"
    return ""


# --- casts --------------------------------------------------------------------------------------------------------

CAST = """\
        y_UU[0, i] = qd.cast(x[i], qd.UU)
        s_UU = qd.cast(x[i], qd.UU)
        for j in range(few[i]):
            s_UU = qd.cast(qd.cast(s_UU, qd.TT), qd.UU)
        y_UU[1, i] = s_UU
        if few[i] == 0:
            y_UU[2, i] = qd.cast(x[i], qd.UU)
        elif few[i] == 1:
            y_UU[2, i] = qd.cast(x[LAST - i], qd.UU)
"""


def numbers(name: str) -> Values:
    """Numbers for tests, some of which other dtypes cannot represent."""
    rng, t = np.random.default_rng(3), DTYPES[name]
    if t.is_float:
        x = rng.normal(size=COUNT) * 10.0 ** rng.integers(-3, 12 if t.bits > 16 else 4, COUNT)
        return np.where(np.arange(COUNT) < 4, (0.0, 1.0, -0.5, 255.5) * (COUNT // 4), x).astype(t.numpy)
    if t.kind == "b":
        return rng.integers(0, 2, COUNT).astype(np.bool_)
    low, high = t.limits
    x = rng.integers(low, high, COUNT, t.numpy, endpoint=True)
    x[:8] = low, high, 0, 1, *rng.integers(0, 100, 4)
    return x


@pytest.mark.parametrize(("session", "name", "options"), everywhere(*DTYPES, fast_math=True))
def test_casts(session: Any, name: str, options: Any) -> None:
    qd.init(**session, **options)
    targets = [u for u in DTYPES if (session["arch"], u) != ("metal", "f64")]
    x = qd.field(getattr(qd, name), COUNT, needs_grad=name in FLOATS)
    ys = {f"y_{u}": qd.field(getattr(qd, u), (3, COUNT), needs_grad=u in FLOATS) for u in targets}
    few = qd.field(qd.i32, COUNT)
    few.from_numpy(FEW.astype(np.int32))
    x.from_numpy(numbers(name))
    text = f"@qd.kernel\ndef k():\n    for i in range({COUNT}):\n"
    for u in targets:
        text += CAST.replace("UU", u).replace("TT", name).replace("LAST", str(COUNT - 1))
    k = define(text, x=x, few=few, **ys)["k"]
    k()
    for u in targets:
        got, (direct, again, mirrored) = ys[f"y_{u}"].to_numpy(), cast_thrice(name, u)
        np.testing.assert_array_equal(got[0], direct, f"{name} to {u}")
        np.testing.assert_array_equal(got[1], again, f"{name} to {u} in a loop")
        np.testing.assert_array_equal(got[2], mirrored, f"{name} to {u} in a branch")
    if name in FLOATS:
        reals = [u for u in targets if u in FLOATS]
        for u in reals:
            ys[f"y_{u}"].grad.fill(1)
        k.grad()
        np.testing.assert_array_equal(x.grad.to_numpy(), len(reals) * (2 + (FEW == 0) + (FEW == 1)[::-1]))
    check_calls(session["arch"], k, *([k.grad] if name in FLOATS else []))


def cast_thrice(name: str, to: str) -> tuple[Values, Values, Values]:
    def cast(x: Values, t: Any) -> Values:
        return np.array([PRIMS["cast"].evaluate(t, v) for v in x], t.numpy)
    x, t, u = numbers(name), DTYPES[name], DTYPES[to]
    direct = again = cast(x, u)
    for j in range(FEW.max()):
        again = np.where(j < FEW, cast(cast(again, t), u), again)
    return direct, again, np.where(FEW == 0, direct, np.where(FEW == 1, direct[::-1], u.numpy(0)))


# --- atomics ------------------------------------------------------------------------------------------------------

ATOMICS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
ATOMICS |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
SOME = np.arange(COUNT) % 7  # elements that iterations share


@pytest.mark.parametrize(("session", "name", "options"), everywhere(*FLOATS, *WHOLE, fast_math=True))
def test_atomics_and_reductions(session: Any, name: str, options: Any) -> None:
    qd.init(**session, **options)
    t = DTYPES[name]
    for ops in (("add", "sub"), ("mul", "min", "max", *(("and", "or", "xor") if t.is_int else ()))):
        grads = t.is_float and "add" in ops
        x, old = qd.field(getattr(qd, name), COUNT, needs_grad=grads), qd.field(getattr(qd, name), (len(ops), COUNT))
        whole = {f"r_{op}": qd.field(getattr(qd, name), (), needs_grad=grads) for op in ops}
        parts = {f"{part}_{op}": qd.field(getattr(qd, name), COUNT, needs_grad=grads) for part in "sblo" for op in ops}
        few = qd.field(qd.i32, COUNT)
        few.from_numpy(FEW.astype(np.int32))
        values = whole_numbers(name, "mul" in ops)
        x.from_numpy(values)
        for field in (*whole.values(), *parts.values()):
            field.fill(1)
        head = f"    for i in range({COUNT}):\n"
        text = "@qd.kernel\ndef k():\n" + head
        text += "".join(f"        qd.atomic_{op}(r_{op}[None], x[i])\n" for op in ops) + head
        for n, op in enumerate(ops):
            text += f"""\
        qd.atomic_{op}(s_{op}[i % 7], x[i])
        if few[i] == 1:
            qd.atomic_{op}(b_{op}[0], x[i])
        for j in range(few[i]):
            qd.atomic_{op}(l_{op}[i % 7], x[i])
        old[{n}, i] = qd.atomic_{op}(o_{op}[i], x[i])
"""
        k = define(text, x=x, few=few, old=old, **whole, **parts)["k"]
        k()
        for n, op in enumerate(ops):
            f = ATOMICS[op]
            got = [whole[f"r_{op}"][None], *(parts[f"{part}_{op}"].to_numpy() for part in "sblo"), old.to_numpy()[n]]
            assert got[0] == folded(f, values), op
            np.testing.assert_array_equal(got[1][:7], [folded(f, values[SOME == j]) for j in range(7)], op)
            assert got[2][0] == folded(f, values[FEW == 1]), op
            repeated = np.repeat(values, FEW), np.repeat(SOME, FEW)
            np.testing.assert_array_equal(got[3][:7], [folded(f, repeated[0][repeated[1] == j]) for j in range(7)], op)
            np.testing.assert_array_equal(got[4], f(t.numpy(1), values), op)
            np.testing.assert_array_equal(got[5], 1, op)
        if grads:
            for field, seed in ((f, 1 if "add" in name else 0.25) for name, f in {**whole, **parts}.items()):
                field.grad.fill(seed)
            k.grad()
            np.testing.assert_array_equal(x.grad.to_numpy(), 0.75 * (3 + (FEW == 1) + FEW))
        check_calls(session["arch"], k, *([k.grad] if grads else []))


def whole_numbers(name: str, factors: bool) -> Values:
    """Values whose sums, or whose products, are exact."""
    rng, t = np.random.default_rng(4), DTYPES[name]
    if t.is_int:
        return rng.integers(*t.limits, COUNT, t.numpy, endpoint=True)
    if factors:
        return rng.permutation(np.resize([1.0, -1.0, 2.0, 0.5, 1.0], COUNT)).astype(t.numpy)
    return rng.integers(-8, 9, COUNT).astype(t.numpy)


def folded(f: Any, values: Values) -> Any:
    with np.errstate(all="ignore"):
        return f.reduce(np.array([1, *values], values.dtype), dtype=values.dtype)


# --- calls that do not fit ----------------------------------------------------------------------------------------

def test_a_call_that_does_not_fit_is_an_error_which_names_the_function() -> None:
    fn = Module("", "").function("f", "define internal <2 x i8> @f(float %x, ptr addrspace(3) %p) noinline")
    fn.call("<2 x i8>", "f", ("float", "0.0"), ("ptr addrspace(3)", "null"))
    fn.call("float", "sinf", ("float", "0.0"))
    for what, *args in (("half @sinf(float)", "half", "sinf", ("float", "0.0")),
                        ("float @sinf(half)", "float", "sinf", ("half", "0.0")),
                        ("<2 x i8> @f(float, ptr)", "<2 x i8>", "f", ("float", "0.0"), ("ptr", "null"))):  # fmt: skip
        with pytest.raises(TypeError, match=re.escape(f"{args[1]} is called as {what}, but it is ")):
            fn.call(*args)
    with pytest.raises(TypeError, match="no library has sin of f16"):
        library("sin", DTYPES["f16"])


@pytest.mark.skipif(bool(toolkit.missing_libdevice()), reason="libdevice is not here")
def test_a_function_of_the_library_that_is_called_with_other_types_is_an_error() -> None:
    text = "declare half @__nv_sinf(half)\n"
    text += "define half @f(half %x) {\n%y = call half @__nv_sinf(half %x)\nret half %y\n}"
    with pytest.raises(TypeError, match=r"__nv_sinf is called as half \(half\), but the library's is float \(float\)"):
        nvptx.optimised(text, 90, ["__nv_sinf"])
    assert llvm_misfits(text.replace("half @__nv_sinf(half)", "float @__nv_sinf(float)", 1))
    assert not llvm_misfits(text)


def test_ptx_with_a_call_that_does_not_fit_is_found() -> None:
    text = """.func (.param .b32 r) f(.param .b32 f_param_0, .param .align 8 .b8 f_param_1[16])
{ // callseq 0, 0
.param .b32 param0;
.param .align 8 .b8 param1[16];
.param .b32 retval0;
call.uni (retval0), f, (param0, param1);
} // callseq 0"""
    assert not ptx_misfits(text)
    for change in (("[16];", "[8];"), (".b32 retval0", ".b16 retval0"), ("param0, param1)", "param0)"), (" f,", " g,")):
        assert ptx_misfits(text.replace(*change)), change
