"""Lowers operations on numbers that take several primitives, and `qd.stop_grad`."""

import ast

from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.values import Num, Number, Obj, Tuple, Value
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.ir.types import DType, f16, f32, f64, i32, i64


def _filled(number: int) -> Lower:
    """The operation `qd.zero` or `qd.one`: the constant ``number`` in the dtype and shape of the argument."""

    def lower(cx: Context, call: ast.Call, x: Value) -> Value:
        t = cx.type_of(x.number(cx, argument_node(call, 0)))
        cx.at(call)
        return Num(cx.const(number, t), t)

    return lower


def _stop_grad(cx: Context, call: ast.Call, x: Value) -> Value:
    if x.fields:
        cx.stop_grads |= {mem.buffer.name for mem in x.fields}
        return Obj(None)

    def stop(value: Value) -> Number:
        leaf: Number = value.number(cx, argument_node(call, 0))
        t = cx.type_of(leaf)
        if leaf.constant is not None or not t.is_float:
            return leaf
        cx.at(call)
        return Num(cx.b.op("custom_jvp", cx.to(leaf, t), cx.const(0, t)), t)

    return x.load(cx, call).map(stop)  # type: ignore[no-any-return]


# the layout of real numbers: (integer of the same width, digits after the point, bias of the exponent)
_LAYOUT: dict[DType, tuple[DType, int, int]] = {f32: (i32, 23, 127), f64: (i64, 52, 1023)}


def _frexp(cx: Context, call: ast.Call, x: Value) -> Value:
    """(mantissa, exponent) of x. The exponent is read from the bits of x. The mantissa is x times a power of two, which
    is put together from bits; the multiplication takes two steps, because the power itself may overflow. Zeros,
    denormals, infinities and NaN are their own mantissa, with exponent 0."""
    node = argument_node(call, 0)
    number = x.number(cx, node)
    given = cx.type_of(number)
    if number.constant is None and not given.is_float:
        raise cx.fail("QL1403", node, op="frexp", dtype=given, text=ast.unparse(node))
    t = f64 if given is f64 or (not given.is_float and cx.options.default_fp is f64) else f32
    word, digits, bias = _LAYOUT[t]
    value = cx.to(number, t)
    cx.at(call)
    b = cx.b

    def const(k: int) -> int:
        return cx.const(k, word)

    top = 2 * bias + 1
    biased = b.op("and", b.op("shr", b.op("bitcast", value, type=word), const(digits)), const(top))
    normal = b.op("and", b.op("gt", biased, const(0)), b.op("lt", biased, const(top)))
    power = b.op("bitcast", b.op("shl", b.op("sub", const(top), biased), const(digits)), type=t)
    scaled = b.op("mul", b.op("mul", value, cx.const(0.25, t)), power)
    mantissa = b.op("select", normal, scaled, value)
    exponent = b.op("select", normal, b.op("sub", biased, const(bias - 1)), const(0))
    small = Num(b.cast(mantissa, f16), f16) if given is f16 else Num(mantissa, t)
    return Tuple((small, Num(b.cast(exponent, i32), i32)))


ROWS: tuple[Builtin, ...] = (
    Builtin("stop_grad", ("x",), _stop_grad,
            "x without its derivative. Of a field, as a statement: no derivative flows from what the parallel loop "
            "around it reads from x; outside of a loop, from what the kernel reads."),
    Builtin("zero", ("x",), _filled(0), "0 in the dtype of x.", elementwise=True),
    Builtin("one", ("x",), _filled(1), "1 in the dtype of x.", elementwise=True),
    Builtin("frexp", ("x",), _frexp, "(m, e) with x = m * 2**e and 0.5 <= |m| < 1; (x, 0) where there are none."),
    Builtin("assume_in_range", ("val", "base", "low", "high"), lambda cx, call, val, *range: val,
            "val, which lies in [base + low, base + high)."),
)  # fmt: skip
