"""Sizes that range over array elements are computed by kernels, which give what the host's evaluation gives."""

from typing import Any

import numpy as np
import pytest
from rigs import cuda_rig
from sessions import sessions

import quadrants_lab as qd
from quadrants_lab.adstack.device_reduction import device_reduction, sizing_kernel
from quadrants_lab.adstack.evaluate_sizes import LiveData, evaluate, evaluated
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.types import i32, i64, u8
from quadrants_lab.ir.verify import verify
from quadrants_lab.runtime.launch import stacks

C, V, Op = S.SizeConst, S.SizeVar, S.SizeOp
K, J, ZERO = V(90, "k"), V(91, "j"), C(0)


def n(*index: S.SizeExpr) -> S.SizeExpr:
    return S.SizeLoad("n", index)


def m(*index: S.SizeExpr) -> S.SizeExpr:
    return S.SizeLoad("m", index)


def over(op: str, body: S.SizeExpr, end: S.SizeExpr, var: S.SizeVar = K) -> S.SizeExpr:
    return S.SizeRange(op, var, ZERO, end, body)


ROWS = S.SizeShape("m", 0)
SIZES = {
    "greatest": over("max", n(K), C(200)),
    "sum": over("sum", n(K), C(200)),
    "outside": over("max", Op("sub", n(Op("sub", K, C(150))), C(3)), C(400)),
    "empty": over("max", n(K), C(0)),
    "negative": over("max", Op("sub", n(K), C(10**6)), C(200)),
    "of a product": over("max", Op("mul", n(K), n(Op("add", K, C(1)))), Op("sub", C(200), C(1))),
    "nested": over("max", over("sum", m(K, J), n(K), J), ROWS),
    "triangle": over("sum", over("max", Op("add", m(K, J), K), K, J), ROWS),
    "with arguments": Op("add", over("max", Op("mul", n(K), S.SizeArg("k")), S.SizeArg("k")), C(7)),
    "an index from an array": over("max", m(Op("mod", n(K), C(5)), Op("floordiv", K, C(7))), C(200)),
    "beyond 64 bits": over("max", Op("mul", Op("mul", n(K), C(1 << 40)), C(1 << 40)), C(200)),
    "a sum beyond 64 bits": over("sum", Op("add", n(K), C((1 << 62) - 1)), C(200)),
    "two, one of them twice": Op(
        "max", Op("add", over("max", n(K), C(50)), over("sum", n(K), C(9))), over("max", n(K), C(50))
    ),
    "below a minimum": Op("min", over("max", n(K), C(200)), C(5)),
}  # fmt: skip


def kernel() -> N.Kernel:
    buffers = {
        "n": N.Buffer("n", "field", i32, 1, (200,)),
        "m": N.Buffer("m", "ndarray", u8, 2, None),
        "other": N.Buffer("other", "field", i64, 0, ()),
    }
    return N.Kernel("k", (N.Arg("k", i32),), buffers, (), 1000, "reverse")


@pytest.mark.parametrize("name", SIZES)
def test_device_sizes_equal_those_of_the_host(name):
    size = SIZES[name]
    rng = np.random.default_rng(7)
    arrays = {"n": rng.integers(1, 60, 200).astype(np.int32), "m": rng.integers(0, 250, (40, 30)).astype(np.uint8)}
    args = {"k": 60}
    live = LiveData(args, arrays)
    work = device_reduction([size])
    assert work is not None
    made = sizing_kernel(kernel(), work)
    verify(made)
    assert "other" not in made.buffers
    given = {name: evaluated(e, live) for name, e in work.given.items()}
    ran = cuda_rig.run(made, {x: a for x, a in arrays.items() if x in made.buffers}, args | given)
    found = {-1 - k: ran.ret(f"size{k}") for k in range(len(work.ranges))}
    for k, e in enumerate(work.ranges):
        if e.op == "sum" and ran.ret(f"rough{k}") >= (1 << 63) - 1:
            found[-1 - k] = (1 << 63) - 1
    assert evaluate(work.sizes[0], live, found) == evaluate(size, live)


@pytest.mark.parametrize("size", [C(5), n(C(3)), over("sum", K, C(9)), over("max", Op("isqrt", n(K), C(2)), C(9)), n()])
def test_sizes_that_stay_on_the_host(size):
    assert device_reduction([size]) is None


@pytest.mark.parametrize("options", sessions("cuda"))
def test_gradients_are_sized_without_copying_the_array(options, monkeypatch):
    monkeypatch.setattr(stacks, "LEAST_BYTES", 0)
    qd.init(**options)
    x, y = (qd.field(qd.f32, shape=300, needs_grad=True) for _ in range(2))
    trips = qd.field(qd.i32, shape=300)
    x.fill(1.0)

    @qd.kernel
    def power(by: qd.i32, extra: qd.types.ndarray()):
        for i in x:
            v = x[i]
            for _ in range(trips[i] * by + extra[i]):
                v = v * x[i]
            y[i] = v

    extra = qd.ndarray(qd.i32, shape=(300,))
    extra.fill(2)
    copied: list[Any] = []
    kind = type(trips._memory.on_device)
    read_into = kind.read_into
    for last, by in ((3, 1), (9, 1), (9, 4)):
        trips.fill(1)
        trips[299] = last
        y.grad.fill(1)
        x.grad.fill(0)
        power(by, extra)
        with monkeypatch.context() as m:
            m.setattr(kind, "read_into", lambda self, out: (copied.append(self), read_into(self, out)))
            power.grad(by, extra)
            power.grad(by, extra)
        want = [float(by + 3)] * 299 + [float(last * by + 3)]
        assert x.grad.to_numpy().tolist() == want
        assert [row.depth for row in power.sizes()] == [last * by + 2]
    assert trips._memory.on_device not in copied
    assert extra._memory.on_device not in copied
