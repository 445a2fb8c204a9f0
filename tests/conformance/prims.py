"""Every row of the primitives table, on every dtype it takes, against its evaluator: on every backend.

A backend's test file imports these tests and gives them its ``rig`` (`cpu_rig`, `vulkan_rig`).
"""

from functools import cache
from typing import Any

import numpy as np
import pytest
from rigs import parallel

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS, Prim
from quadrants_lab.ir.types import DTYPES, DType, i32, u1

_RULES = {
    "num": "fiu",
    "float": "f",
    "int": "iu",
    "cmp": "bfiu",
    "select": "bfiu",
    "test": "f",
    "count": "iu",
}
_BITS_OF_TRUTH = ("and", "or", "xor", "not")


def values(t: DType, n: int, seed: int) -> np.ndarray[Any, Any]:
    """Edge values, then random ones; denormals, which a launch flushes, are left out."""
    rng = np.random.default_rng(seed)
    if t is u1:
        return rng.integers(0, 2, n).astype(np.bool_)
    if t.is_float:
        info = np.finfo(t.numpy)
        powers = [127, 128, 255, 256, 32767, 32768, 2**31, -(2**31), 2**32, 2**63, -(2**63), 2**64]
        edge = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny,
                info.eps, 1e3, -1e3, *powers]  # fmt: skip
        scale = 10.0 ** rng.integers(-3, 4, n - len(edge))
        with np.errstate(over="ignore"):
            return np.concatenate([np.array(edge), rng.normal(size=n - len(edge)) * scale]).astype(t.numpy)
    info = np.iinfo(t.numpy)
    edge = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, t.bits, t.bits - 1]
    edge += [-1, -2, -3, -7] if t.kind == "i" else []
    wide = rng.integers(info.min, info.max, (n - len(edge)) // 2, dtype=t.numpy, endpoint=True)
    near = rng.integers(-9 if t.kind == "i" else 0, 10, n - len(edge) - len(wide)).astype(t.numpy)
    return np.concatenate([np.array(edge, dtype=t.numpy), wide, near])


def pairs(t: DType, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All pairs of 45 values."""
    a = values(t, 45, seed)
    return np.repeat(a, len(a)), np.tile(a, len(a))


def elementwise(rows: list[tuple[str, DType, tuple[DType, ...]]], count: int) -> N.Kernel:
    """out_k[i] = row_k(in0[i], ...): one buffer a row; operands of one dtype come from buffers named by dtype."""
    b = Builder(1)
    buffers: dict[str, N.Buffer] = {}

    def buffer(name: str, t: DType) -> N.Buffer:
        return buffers.setdefault(name, N.Buffer(name, "field", t, 1, (count,)))

    with b.block() as bounds:
        b.yield_(b.const(0, i32), b.const(count, i32))
    index = b.param(i32, "i")
    with b.block() as body:
        for k, (prim, out, ins) in enumerate(rows):
            args = [b.load(buffer(f"in{n}_{t}", t), (index.id,)) for n, t in enumerate(ins)]
            result = b.op(prim, *args, type=out)
            b.store(buffer(f"out{k}", out), (index.id,), result)
        b.yield_()
    task = N.Offload(b.fresh(), "range_for", tuple(bounds), (index,), tuple(body))
    return N.Kernel("rows", (), buffers, (task,), b.next_id)


def typed_rows(t: DType, math: bool) -> list[tuple[str, DType, tuple[DType, ...]]]:
    out: list[tuple[str, DType, tuple[DType, ...]]] = []
    for p in PRIMS.values():
        kinds = _RULES.get(p.rule, "") + ("b" if p.name in _BITS_OF_TRUTH else "")
        if t.kind not in kinds or is_math(p, t) != math:
            continue
        result = {"cmp": u1, "test": u1, "count": i32}.get(p.rule, t)
        ins = (u1, t, t) if p.rule == "select" else (t,) * p.arity
        out.append((p.name, result, ins))
    return out


def is_math(p: Prim, t: DType) -> bool:
    return t.is_float and p.llvm[0] in ("@math", "frem")


def check(
    rig: Any,
    rows: list[tuple[str, DType, tuple[DType, ...]]],
    a: Any,
    b: Any,
    ulps: float,
    options: Any = None,
) -> None:
    count = len(a)
    kernel = elementwise(rows, count)
    arrays: dict[str, Any] = {}
    truth = np.random.default_rng(5).integers(0, 2, count).astype(np.bool_)
    for name, buf in kernel.buffers.items():
        if name.startswith("out"):
            arrays[name] = np.zeros(count, buf.dtype.numpy)
        elif buf.dtype is u1 and a.dtype != np.bool_:
            arrays[name] = truth
        else:
            arrays[name] = np.array(b if name[2] == "1" else a)
    rig.run(kernel, arrays, options=options or rig.EXACT)
    for k, (prim, out, ins) in enumerate(rows):
        got = arrays[f"out{k}"]
        columns = [arrays[f"in{n}_{t}"] for n, t in enumerate(ins)]
        compare(f"{prim}: {ins} -> {out}", got, wanted(prim, out, columns), columns, ulps)


def wanted(prim: str, out: DType, columns: list[Any]) -> np.ndarray[Any, Any]:
    """What the evaluator of a primitive says of each row of operands: once for all backends."""
    return _wanted(prim, out, tuple((a.dtype.str, a.tobytes()) for a in columns))


@cache
def _wanted(prim: str, out: DType, columns: tuple[tuple[str, bytes], ...]) -> np.ndarray[Any, Any]:
    operands = zip(*(np.frombuffer(data, t) for t, data in columns), strict=True)
    return np.array([PRIMS[prim].evaluate(out, *xs) for xs in operands], dtype=out.numpy)


def compare(what: str, got: Any, want: Any, columns: list[Any], ulps: float) -> None:
    if got.dtype.kind == "f":
        tiny = np.finfo(got.dtype).tiny if got.dtype != np.float16 else 0
        both_nan = np.isnan(got) & np.isnan(want)
        flushed = (np.abs(got) <= tiny) & (np.abs(want) <= tiny)
        with np.errstate(all="ignore"):
            gap = np.abs(got.astype(np.float64) - want.astype(np.float64))
            room = ulps * np.maximum(np.spacing(np.abs(want)), tiny).astype(np.float64)
        bad = ~((got == want) | both_nan | flushed | (gap <= room))
    else:
        bad = got != want
    if what.startswith(("floordiv", "mod")) and got.dtype.kind == "f":  # a launch flushes a denormal quotient
        with np.errstate(all="ignore"):
            q = np.abs(columns[0] / columns[1])
        bad &= ~((q > 0) & (q < tiny))
    at = np.flatnonzero(bad)
    if len(at):
        shown = [(tuple(c[i] for c in columns), got[i], want[i]) for i in at[:5]]
        pytest.fail(f"{what}: {len(at)} differ; (operands, got, want): {shown}")


@pytest.mark.parametrize("name", DTYPES)
def test_rows(rig: Any, name: str) -> None:
    t = DTYPES[name]
    check(rig, typed_rows(t, math=False), *pairs(t, 1), ulps=0)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_math_rows(rig: Any, name: str) -> None:
    t = DTYPES[name]
    a, b = values(t, 400, 2), values(t, 400, 3)
    rng = np.random.default_rng(4)
    b = rng.permutation(b)
    check(rig, typed_rows(t, math=True), a, b, ulps=4)
    check(rig, [("pow", t, (t, t))], *pairs(t, 5), ulps=4)


@pytest.mark.parametrize("name", DTYPES)
def test_casts(rig: Any, name: str) -> None:
    t = DTYPES[name]
    a = values(t, 200, 6)
    rows = [("cast", u, (t,)) for u in rig.TYPES]
    check(rig, rows, a, a, ulps=0)


@pytest.mark.parametrize(("a", "b"), [("f16", "i16"), ("f32", "u32"), ("f64", "i64"), ("i32", "f32"), ("u64", "f64")])
def test_bitcasts(rig: Any, a: str, b: str) -> None:
    t = DTYPES[a]
    x = values(t, 200, 7)
    check(rig, [("bitcast", DTYPES[b], (t,))], x, x, ulps=0)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_fast_math_keeps_nan_and_infinity(rig: Any, name: str) -> None:
    t = DTYPES[name]
    rows = [r for r in typed_rows(t, math=False) if r[0] in ("isnan", "isinf", "add", "min", "max", "lt", "eq", "abs")]
    check(rig, rows, *pairs(t, 8), ulps=0, options=rig.FAST)


def check_one_over_a_root(rig: Any, name: str) -> None:
    """With fast math at 0 and infinity as well, where an estimate and a step of Newton's give NaN."""
    rows = ("rsqrt %4", "div %5, %6", "div %4, %6", "div %5, %8", "div %5, %11")
    body = f"""%4: {name} = load @x[%3]
        %5: {name} = const 1.0
        %6: {name} = sqrt %4
        %7: {name} = mul %6, %6
        %8: {name} = mul %7, %6
        %9: {name} = mul %4, %4
        %10: {name} = add %9, %5
        %11: {name} = sqrt %10
        """
    buffers = f"buffer @x: field {name}[64]"
    for n, row in enumerate(rows):
        body += f"%{12 + n}: {name} = {row}\nstore @y{n}[%3], %{12 + n}\n"
        buffers += f"\nbuffer @y{n}: field {name}[64]"
    dtype = DTYPES[name].numpy
    x = np.resize(np.array([0.0, np.inf, 4.0, np.nan, -1.0, 0.25, 100.0], dtype), 64)
    arrays = {f"y{n}": np.zeros(64, dtype) for n in range(len(rows))} | {"x": x}
    rig.run(parallel("const 64", body, buffers), arrays, options=rig.FAST)
    with np.errstate(all="ignore"):
        root = np.sqrt(x)
        wants = (1 / root, 1 / root, x / root, 1 / root**3, 1 / np.sqrt(x * x + 1))
    for n, (row, want) in enumerate(zip(rows, wants, strict=True)):
        assert np.allclose(arrays[f"y{n}"], want, rtol=1e-6, atol=0, equal_nan=True), row


@pytest.mark.parametrize("t", ["f16", "f32", "i8", "i16", "u64"])
def test_a_converted_number_is_kept_in_a_variable(rig: Any, t: str) -> None:
    source = parallel(
        "const 64",
        f"""%4: f32 = load @x[%3]
        %5: {t} = cast %4
        %6: {t} = add %5, %5
        store @y[%3], %5
        store @z[%3], %6""",
        f"buffer @x: field f32[64]\nbuffer @y: field {t}[64]\nbuffer @z: field {t}[64]",
    )
    dtype = DTYPES[t].numpy
    x, y, z = np.arange(64, dtype=np.float32) * np.float32(0.7), np.zeros(64, dtype), np.zeros(64, dtype)
    rig.run(source, {"x": x, "y": y, "z": z})
    assert np.array_equal(y, x.astype(dtype))
    assert np.array_equal(z, 2 * x.astype(dtype))


@pytest.mark.parametrize("name", DTYPES)
def test_rows_with_a_constant(rig: Any, name: str) -> None:
    """Each operand is also a constant in turn, because a driver's compiler has rules of its own for constants."""
    t = DTYPES[name]
    rows = [r for r in typed_rows(t, math=False) if len(r[2]) == 2]
    x = values(t, 60, 9)
    for k in constants(t):
        b = Builder(1)
        buffers = {"x": N.Buffer("x", "field", t, 1, x.shape)}
        with b.block() as bounds:
            b.yield_(b.const(0, i32), b.const(len(x), i32))
        index = b.param(i32, "i")
        with b.block() as body:
            a, c = b.load(buffers["x"], (index.id,)), b.const(k, t)
            for prim, out, _ in rows:
                for side, args in (("left", (a, c)), ("right", (c, a))):
                    into = buffers[f"{prim} {side}"] = N.Buffer(f"{prim} {side}", "field", out, 1, x.shape)
                    b.store(into, (index.id,), b.op(prim, *args, type=out))
            b.yield_()
        task = N.Offload(b.fresh(), "range_for", tuple(bounds), (index,), tuple(body))
        kernel = N.Kernel("constants", (), buffers, (task,), b.next_id)
        arrays = {n: np.zeros(x.shape, buf.dtype.numpy) for n, buf in buffers.items()} | {"x": x}
        rig.run(kernel, arrays, options=rig.EXACT)
        for prim, out, _ in rows:
            for side in ("left", "right"):
                columns = [x, np.full(len(x), k, t.numpy)][:: 1 if side == "left" else -1]
                want = wanted(prim, out, columns)
                compare(f"{prim} with {k}: {out}", arrays[f"{prim} {side}"], want, columns, ulps=0)


def constants(t: DType) -> list[Any]:
    if t is u1:
        return [False, True]
    if t.is_float:
        return [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("nan"), float(np.finfo(t.numpy).max)]
    info = np.iinfo(t.numpy)
    return [0, 1, 2, 7, 8, info.max, info.min, info.max // 2 + 1] + ([-1, -2] if t.kind == "i" else [])
