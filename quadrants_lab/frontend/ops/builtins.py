"""Lowers functions of numbers, casts, random numbers and atomics: rows of the table of operations."""

import ast
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any

from quadrants_lab.frontend.diagnostics import id_of
from quadrants_lab.frontend.op_table import Builtin, Lower
from quadrants_lab.frontend.source import note_unknown
from quadrants_lab.frontend.values import Element, Lit, Num, Number, Value, arith, matrix
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.lvalue import Place, given_index, place_of
from quadrants_lab.frontend.values.update import atomic, in_memory, reduce, write_local
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f32, f64, i64, promote, u1, u64


def _common(cx: Context, numbers: Sequence[Number]) -> DType:
    """The promoted dtype of the numbers, in which arithmetic on them is done."""
    t = cx.common_dtype(*numbers)
    return promote(t, t)


def _primitive(prim: str, meaning: Callable[..., Any] | None = None) -> Lower:
    """An operation that is one primitive. Arguments are cast to their common dtype, or as the rule of the primitive in
    `PRIMS` demands: "float" casts integers to default_fp, "int" and "count" reject real numbers. More than two
    arguments are combined from the left. ``meaning`` is the Python function that folds compile-time numbers."""
    rule, unary = PRIMS[prim].rule, PRIMS[prim].arity == 1

    def lower(cx: Context, call: ast.Call, *args: Value) -> Value:
        result, *others = numbers = [cx.argument(call, k, a) for k, a in enumerate(args)]
        if rule in ("int", "count"):
            for k, n in enumerate(numbers):
                arith.check_integer(cx, prim, n, argument_node(call, k))
        if meaning is not None and (unary or others):
            folded = arith.fold(meaning, *numbers, node=call)
            if folded is not None:
                return folded
        t = _common(cx, numbers[:1] if rule == "int" else numbers)
        if rule == "test" and not t.is_float:
            return Lit(False, call)
        if rule == "float" and not t.is_float:
            t = cx.options.default_fp
        if unary:
            return arith.emit(cx, prim, t, result, node=call)
        for n in others:
            result = arith.emit(cx, prim, t, result, n, node=call)
        return result

    return lower


def _extreme(prim: str, meaning: Callable[..., Any]) -> Lower:
    """The operation min or max. Several arguments are compared element by element; of a single argument, a list, tuple
    or vector, the result is the extreme of its entries, as in Python."""
    of_numbers = _primitive(prim, meaning)

    def lower(cx: Context, call: ast.Call, *args: Value) -> Value:
        parts = args[0].entries(cx) if len(args) == 1 else args
        if parts == ():
            raise cx.fail("QL1604", call, text=ast.unparse(call), what=f"{prim} of nothing")
        nodes = [argument_node(call, k if len(args) > 1 else 0) for k in range(len(parts or args))]
        return matrix.elementwise(cx, lambda *numbers: of_numbers(cx, call, *numbers), nodes, call, *(parts or args))

    return lower


def _rounding(prim: str) -> Lower:
    """The operation floor, ceil or round. The result is a real number, cast to the argument ``dtype`` if that is
    given."""

    def lower(cx: Context, call: ast.Call, x: Value, dtype: Value | None) -> Value:
        number = cx.argument(call, 0, x)
        if number.constant is None and not cx.type_of(number).is_float:
            node = argument_node(call, 0)
            raise cx.fail("QL1403", node, op=prim, dtype=cx.type_of(number), text=ast.unparse(node))
        result = _primitive(prim)(cx, call, number)
        return result if dtype is None else cx.num(result, cx.dtype(dtype, call))  # type: ignore[arg-type]  # a number

    return lower


def _sign(cx: Context, call: ast.Call, x: Value) -> Value:
    number = cx.argument(call, 0, x)
    t = _common(cx, [number])
    value, zero = cx.num(number, t), Num(cx.const(0, t), t)
    cx.at(call)
    one = cx.const(1, t)
    below = zero.id
    if t.kind != "u":
        below = cx.b.op("select", cx.b.op("lt", value.id, zero.id), cx.b.op("neg", one), zero.id)
    return Num(cx.b.op("select", cx.b.op("gt", value.id, zero.id), one, below), t)


def _cast(cx: Context, call: ast.Call, x: Value, dtype: Value) -> Value:
    t = cx.dtype(dtype, call)
    number = cx.argument(call, 0, x)
    cx.at(call)
    return cx.num(number, t)


def _bit_cast(cx: Context, call: ast.Call, x: Value, dtype: Value) -> Value:
    number, t = cx.num(cx.argument(call, 0, x)), cx.dtype(dtype, call)
    if number.type.bits != t.bits:
        raise cx.fail("QL1407", call, source=number.type, a=number.type.bits, target=t, b=t.bits)
    cx.at(call)
    return Num(cx.b.op("bitcast", number.id, type=t), t)


def _python_number(dtype: Callable[[Context], DType], meaning: Callable[[Any], Any]) -> Lower:
    """The operation int(x), float(x) or bool(x). A string such as "inf" is converted when the kernel is compiled."""

    def lower(cx: Context, call: ast.Call, x: Value) -> Value:
        if x.string is not None and meaning is not bool:
            with suppress(ValueError):
                return Lit(meaning(x.string), call)
        number = cx.argument(call, 0, x)
        folded = arith.fold(meaning, number, node=call)
        if folded is not None:
            return folded
        cx.at(call)
        return cx.num(number, dtype(cx))

    return lower


def _select(cx: Context, call: ast.Call, cond: Value, x1: Value, x2: Value) -> Value:
    c, a, b = (cx.argument(call, k, v) for k, v in enumerate((cond, x1, x2)))
    t = cx.common_dtype(a, b)
    test = arith.truth(cx, c, argument_node(call, 0))
    left, right = cx.to(a, t), cx.to(b, t)
    cx.at(call)
    return Num(cx.b.op("select", test, left, right), t)


def _pow(cx: Context, call: ast.Call, base: Value, exponent: Value) -> Value:
    a, b = cx.argument(call, 0, base), cx.argument(call, 1, exponent)
    nodes = (*call.args, call, call)
    return arith.binary(cx, ast.Pow, a, b, call, nodes[0], nodes[1])


def _random(cx: Context, call: ast.Call, dtype: Value | None) -> Value:
    t = cx.options.default_fp if dtype is None else cx.dtype(dtype, call)
    if not t.is_int and t not in (f32, f64):
        raise cx.fail("QL1414", call, dtype=t)
    cx.random_sites += 1
    cx.at(call)
    return Num(cx.b.add(N.Random(cx.b.fresh(), t, cx.random_sites - 1)), t)


def _clock(cx: Context, call: ast.Call) -> Value:
    cx.at(call)
    return Num(cx.b.add(N.Builtin(cx.b.fresh(), i64, "clock")), i64)


def _address(cx: Context, call: ast.Call, f: Value, indices: Value) -> Value:
    """The address of an element of a field in bytes: the address of the field's first element, a constant of the
    kernel, plus the offset of this element."""
    mem: Any = f.fields[0] if f.fields else None
    found = None if mem is None else cx.bindings.get(mem.buffer.name)
    node = getattr(found, "snode", None)
    if found is None or len(f.fields) != 1 or (node is not None and node.sparse is not None):
        what = "a field in a sparse layout" if node is not None else f.describe()
        raise cx.fail("QL1725", argument_node(call, 0), what=what)
    note_unknown()  # the address differs between processes
    ids = [cx.to(k, u64) for k in given_index(cx, call, indices, mem.ndim, "f, indices")]
    cx.at(call)
    at = cx.const(0, u64)
    for k, i in enumerate(ids):
        first = cx.const(mem.offset[k] if mem.offset else 0, u64)
        step = cx.const(mem.buffer.shape[k], u64)
        at = cx.b.op("add", cx.b.op("mul", at, step), cx.b.op("sub", i, first))
    size = cx.const(mem.buffer.dtype.nbytes * prod(mem.element_shape), u64)
    return Num(cx.b.op("add", cx.const(found.address, u64), cx.b.op("mul", at, size)), u64)


_OPERATORS: dict[str, type] = {prim: op for op, (prim, _) in arith.BINARY.items()}


def _on_local(cx: Context, op: str, a: Number, b: Number, call: ast.Call) -> Number:
    """The value of a local variable after ``op``. No other thread sees a local, so this needs no atomic operation."""
    if op in _OPERATORS:
        return arith.binary(cx, _OPERATORS[op], a, b, call, call, call)
    return b if op == "exchange" else arith.emit(cx, op, _common(cx, [a, b]), a, b, node=call)


def _atomic(op: str) -> Lower:
    """The atomic operation ``x[i] op= y``, which returns the old value. On a local variable it is an ordinary
    operation."""

    def lower(cx: Context, call: ast.Call, target: Value, y: Value) -> Value:
        node, source = argument_node(call, 0), argument_node(call, 1)
        place = _target(cx, node, f"qd.atomic_{op}")
        if not place.is_variable:
            return atomic(cx, op, place, y, node, source, call)
        if place.whole.is_shared:
            return reduce(cx, op, place, y, node, source, call)
        old: Value = place.held(cx, node)
        result = matrix.elementwise(cx, lambda a, b: _on_local(cx, op, a, b, call), (node, source), call, old, y)
        write_local(cx, place, result, node, source, call)
        return old

    return lower


def _target(cx: Context, node: ast.expr, op: str) -> Place:
    """The place (an element or a local) that is the first argument of an atomic; raises QL1607 for an argument that is
    no place."""
    place = place_of(cx, node)
    if place is None or (id_of(node) and not (place.is_variable or place.is_memory)):
        raise cx.fail("QL1607", node, op=op)
    return place


def _compare_and_swap(cx: Context, call: ast.Call, x: Value, expected: Value, desired: Value) -> Value:
    """Stores ``desired`` if ``x`` equals ``expected``; returns the old value. On an element of a field or array this is
    an atomic, on a local variable a select."""
    node, *sources = (*call.args, *(k.value for k in call.keywords))
    place: Any = _target(cx, node, "qd.atomic_cas")
    target: Any = place.held(cx, node) if place.is_variable else in_memory(cx, place, node)
    if target.shape or type(target) not in (Num, Element):
        raise cx.fail("QL1607", node, op="qd.atomic_cas")
    t: DType = target.mem.buffer.dtype if target.is_memory else target.type
    if target.is_memory and target.mem.packed is not None:
        what = target.mem.packed.field.dtype
        raise cx.fail("QL1411", call, op="cas", dtype=what, cure="a quantised number takes += and the other atomics")
    if not t.is_int:
        raise cx.fail("QL1411", call, op="cas", dtype=t, cure="compare and swap bits: qd.bit_cast(...) in an i32 field")
    old, new = (cx.to(v.number(cx, n), t) for v, n in zip((expected, desired), sources, strict=True))
    cx.at(call)
    if target.is_memory:
        index = (*target.index, *target.at)
        return Num(cx.b.add(N.Atomic(cx.b.fresh(), t, target.mem.buffer.name, index, new, "cas", expected=old)), t)
    swapped = cx.b.op("select", cx.b.op("eq", target.id, old), new, target.id)
    write_local(cx, place, Num(swapped, t), node, call, call)
    return target  # type: ignore[no-any-return]  # the local's value


def _volatile_load(cx: Context, call: ast.Call, x: Value) -> Value:
    """Loads an element by an atomic that changes nothing, so that the compiler cannot use the result of an earlier load
    instead."""
    node = argument_node(call, 0)
    place = _target(cx, node, "qd.volatile_load")
    if place.is_variable:
        return place.held(cx, node)  # type: ignore[no-any-return]
    t: DType = next(iter(in_memory(cx, place, node).leaves())).mem.buffer.dtype
    op, nothing = ("add", -0.0) if t.is_float else ("or", 0)
    return atomic(cx, op, place, Lit(nothing, call, dtype=t), node, call, call)


_FLOAT_DOCS = {
    "sin": "Sine of x (radians).",
    "cos": "Cosine of x (radians).",
    "tan": "Tangent of x (radians).",
    "asin": "Arc sine of x, in [-pi/2, pi/2].",
    "acos": "Arc cosine of x, in [0, pi].",
    "tanh": "Hyperbolic tangent of x.",
    "exp": "e to the power of x.",
    "log": "Natural logarithm of x.",
    "log1p": "Natural logarithm of 1 + x, accurate where x is small.",
    "sqrt": "Square root of x.",
    "rsqrt": "One over the square root of x.",
}
_ATOMIC_DOCS = {
    "add": "x += y",
    "sub": "x -= y",
    "mul": "x *= y",
    "min": "x = min(x, y)",
    "max": "x = max(x, y)",
    "and": "x &= y",
    "or": "x |= y",
    "xor": "x ^= y",
    "exchange": "x = y",
}

_ELEMENTWISE: tuple[Builtin, ...] = (
    *(Builtin(n, ("x",), _primitive(n), d) for n, d in _FLOAT_DOCS.items()),
    Builtin("atan2", ("x1", "x2"), _primitive("atan2"), "Angle of the point (x2, x1), in (-pi, pi]."),
    Builtin("floor", ("x", "dtype="), _rounding("floor"), "Greatest integer not above x, real unless dtype is given."),
    Builtin("ceil", ("x", "dtype="), _rounding("ceil"), "Least integer not below x, real unless dtype is given."),
    Builtin("round", ("x", "dtype="), _rounding("round"), "Nearest integer, ties away from 0; real without dtype."),
    Builtin("abs", ("x",), _primitive("abs", abs), "Absolute value."),
    Builtin("pow", ("base", "exponent"), _pow, "base ** exponent."),
    Builtin("raw_div", ("x1", "x2"), _primitive("raw_div"), "Division; of integers, truncated towards zero."),
    Builtin("raw_mod", ("x1", "x2"), _primitive("raw_mod"), "Remainder of raw_div: it has the sign of x1."),
    Builtin("bit_shr", ("x1", "x2"), _primitive("lshr"), "x1 shifted right by x2 bits, zeros shifted in."),
    Builtin("popcnt", ("x",), _primitive("popcnt"), "Number of set bits.", home="math"),
    Builtin("clz", ("x",), _primitive("clz"), "Number of leading zero bits.", home="math"),
    Builtin("isnan", ("x",), _primitive("isnan"), "Whether x is not a number.", home="math"),
    Builtin("isinf", ("x",), _primitive("isinf"), "Whether x is infinite.", home="math"),
    Builtin("sign", ("x",), _sign, "-1, 0 or 1 as x is negative, zero or positive, in the dtype of x.", home="math"),
    Builtin("select", ("cond", "x1", "x2"), _select, "x1 where cond holds, else x2; both are evaluated."),
    Builtin("cast", ("obj", "dtype"), _cast, "obj as dtype; real to integer truncates."),
    Builtin("bit_cast", ("obj", "dtype"), _bit_cast, "The bits of obj read as dtype, of the same width."),
    Builtin("int", ("x",), _python_number(lambda cx: cx.options.default_ip, int), ""),
    Builtin("float", ("x",), _python_number(lambda cx: cx.options.default_fp, float), ""),
    Builtin("bool", ("x",), _python_number(lambda cx: u1, bool), ""),
)  # fmt: skip

ROWS: tuple[Builtin, ...] = (
    *(replace(r, elementwise=True) for r in _ELEMENTWISE),
    Builtin("min", ("*args",), _extreme("min", min), "Least of its arguments, or of a list's, at their common dtype."),
    Builtin("max", ("*args",), _extreme("max", max), "Greatest of its arguments, or of a list's."),
    Builtin("random", ("dtype=",), _random, "Uniform in [0, 1) for real dtypes, all bits random for integers."),
    *(Builtin(f"atomic_{n}", ("x", "y"), _atomic(n), f"Atomically {d}; returns the old value of x.", 1)
      for n, d in _ATOMIC_DOCS.items()),
    Builtin("clock_counter", (), _clock, "Ticks of the device's clock; 0 on Vulkan and Metal."),
    Builtin("get_addr", ("f", "indices"), _address, "The address of an element of a field on its device, a u64."),
    Builtin("volatile_load", ("target",), _volatile_load,
            "The element, read from memory at this point, where others may have changed it.", 1),
    Builtin("atomic_cas", ("x", "expected", "desired"), _compare_and_swap,
            "Atomically x = desired where x is expected; returns the old value of x. Of integers.", 1),
)  # fmt: skip
