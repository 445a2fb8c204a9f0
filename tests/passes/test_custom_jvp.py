"""A custom_jvp, or a carried, has the value of its first operand and the derivative of its second; no backend ever sees
one."""

import numpy as np
from running import interpret

from quadrants_lab.autodiff.reverse import reverse
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import RENAMED
from quadrants_lab.ir.types import f64, i32
from quadrants_lab.ir.verify import verify
from quadrants_lab.ir.walk import walk
from quadrants_lab.passes.lower_prims import lower_custom_jvp


def kernel():
    """y[i] = carried(custom_jvp(3 x[i], x[i]), x[i] * x[i])."""
    b = Builder(1)
    shape = (4,)
    buffers = {n: N.Buffer(n, "field", f64, 1, shape, grad=f"{n}.grad") for n in "xy"}
    buffers |= {f"{n}.grad": N.Buffer(f"{n}.grad", "field", f64, 1, shape) for n in "xy"}
    with b.block() as bounds:
        b.yield_(b.const(0, i32), b.const(4, i32))
    index = b.param(i32, "i")
    with b.block() as body:
        x = b.load(buffers["x"], (index.id,))
        inner = b.op("custom_jvp", b.op("mul", x, b.const(3.0, f64)), x)
        b.store(buffers["y"], (index.id,), b.op("carried", inner, b.op("mul", x, x)))
        b.yield_()
    task = N.Offload(b.fresh(), "range_for", tuple(bounds), (index,), tuple(body))
    return N.Kernel("custom_jvps", (), buffers, (task,), b.next_id)


def memory():
    x = np.array([1.0, -2.0, 0.5, 3.0])
    return {"x": x, "y": np.zeros(4), "x.grad": np.zeros(4), "y.grad": np.ones(4)}


def prims(k):
    return [s.prim for s in walk(k.body) if isinstance(s, N.Op)]


def test_the_value_is_the_first_operand():
    k = kernel()
    for one in (k, lower_custom_jvp(k)):
        verify(one)
        m = memory()
        interpret(one, {}, m)
        np.testing.assert_array_equal(m["y"], 3 * m["x"])
    assert prims(lower_custom_jvp(k)) == ["mul"], "what was computed for the derivative alone is gone"


def test_the_derivative_is_that_of_the_second():
    k = reverse(kernel())
    for one in (k, lower_custom_jvp(k)):
        verify(one)
        m = memory()
        interpret(one, {}, m)
        np.testing.assert_array_equal(m["x.grad"], 2 * m["x"])
    assert not {*RENAMED} & {*prims(lower_custom_jvp(k))}


def test_a_kernel_without_grafts_is_returned_as_it_is():
    k = lower_custom_jvp(kernel())
    assert lower_custom_jvp(k) is k
