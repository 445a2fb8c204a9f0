"""Lowers arithmetic on numbers and on the elements of matrices, by the language's typing rules."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend.values import List, Lit, Num, Number, Obj, Tuple, Value, matrix
from quadrants_lab.frontend.values.containers import live
from quadrants_lab.frontend.values.context import Context, check_count
from quadrants_lab.ir.types import DType, convert, f16, f32, f64, promote, u1

# AST operator -> (primitive, Python function for compile-time numbers)
BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod), ast.Pow: ("pow", operator.pow), ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_), ast.BitXor: ("xor", operator.xor), ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift),
}  # fmt: skip

_SYMBOL = {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
_MAX_FOLD_BITS = 4096  # larger results of a shift or power of constants are not folded: they fit no dtype


def fold(fn: Callable[..., Any], *args: Any, node: ast.AST) -> Lit | None:
    """Applies the Python function ``fn`` to numbers that are known at compile time. Returns None if an argument is not
    known, or if the result is not a real number."""
    values = [a.constant for a in args]
    if None in values:
        return None
    if fn in (operator.pow, pow, operator.lshift):
        base, by = values
        if isinstance(base, int) and isinstance(by, int) and max(base.bit_length(), 1) * abs(by) > _MAX_FOLD_BITS:
            return None
    try:
        result = fn(*values)
    except (ArithmeticError, ValueError, TypeError):
        return None
    wide = next((a.dtype for a in args if a.dtype is not None), None)
    return Lit(result, node, dtype=wide) if isinstance(result, (bool, int, float)) else None


def binop(cx: Context, node: ast.BinOp) -> Value:
    left, right = cx.expr(node.left), cx.expr(node.right)
    left = left if left.token is None else live(cx, left)  # `[a.pop()]` on the right changes a
    return operate(cx, type(node.op), left, right, node, node.left, node.right)


def operate(
    cx: Context, op: type, left: Value, right: Value, node: ast.AST, lnode: ast.expr, rnode: ast.expr
) -> Value:
    """Lowers ``left op right``: arithmetic on numbers; element by element on matrices, or their product for ``@``;
    concatenation (``+``) or repetition (``*``) of lists and tuples; Python's own result for strings and other
    constants."""
    if left.is_number and right.is_number:
        return binary(cx, op, left.number(cx, lnode), right.number(cx, rnode), node, lnode, rnode)
    if left.captured is not None or right.captured is not None:
        if (constant := _of_constants(cx, op, left, right, node)) is not None:
            return constant
        left, right = _listed(cx, left), _listed(cx, right)
    match left, op, right:
        case Tuple(), ast.Add, Tuple():
            return left.made((*left, *right), cx.depth)
        case (Tuple() as many, ast.Mult, times) | (times, ast.Mult, Tuple() as many) if type(times.constant) is int:
            check_count(cx, len(many) * times.constant, node)
            return many.made(many.parts * times.constant, cx.depth)
    if op is ast.MatMult and (left.shape or right.shape):
        return cx.operations["Matrix.__matmul__"].lower(cx, node, left, right)

    def one(a: Number, b: Number) -> Number:
        return binary(cx, op, a, b, node, lnode, rnode)

    return matrix.elementwise(cx, one, (lnode, rnode), node, left, right)


def _of_constants(cx: Context, op: type, left: Value, right: Value, node: ast.AST) -> Value | None:
    """The result of Python's operator on constants; None if Python raises an error, or if an operand is a vector or
    known only at run time."""
    if left.shape or right.shape:
        return None
    try:
        return cx.wrap(BINARY[op][1](left.python(cx), right.python(cx)), ast.unparse(node), node)
    except (TypeError, KeyError):
        return None


def _listed(cx: Context, value: Value) -> Value:
    """A captured list or tuple as a tuple of values; any other value unchanged."""
    match value.captured:
        case list():
            return List(value.entries(cx) or (), cx.depth)
        case tuple():
            return Tuple(value.entries(cx) or ())
    return value


def binary(
    cx: Context, op: type, left: Number, right: Number, node: ast.AST, lnode: ast.expr, rnode: ast.expr
) -> Number:
    """Lowers ``left op right`` for two numbers, computed in their common dtype; ``/`` casts integers to default_fp."""
    row = BINARY.get(op)
    if row is None:
        raise cx.fail("QL1201", node, what="'@'", cure="write the sums out")
    prim, fn = row
    if (folded := fold(fn, left, right, node=node)) is not None:
        return folded
    if prim in _SYMBOL:
        check_integer(cx, _SYMBOL[prim], left, lnode)
        check_integer(cx, _SYMBOL[prim], right, rnode)
    lt, rt = cx.type_of(left), cx.type_of(right)
    cx.at(node)
    if prim == "pow":
        return power(cx, left, right, lnode, node)
    if prim in ("shl", "shr"):
        t = promote(lt, lt)
    elif prim in ("and", "or", "xor") and lt is u1 and rt is u1:
        t = u1
    else:
        if prim == "div":
            lt, rt = (x if x.is_float else cx.options.default_fp for x in (lt, rt))
        t = promote(lt, rt)
    return emit(cx, prim, t, left, right, node=node)


def emit(cx: Context, prim: str, dtype: DType, *args: Number, node: ast.AST) -> Num:
    """Emits the primitive ``prim`` on the arguments, each cast to ``dtype``."""
    ids = [cx.to(a, dtype) for a in args]
    cx.at(node)
    result = cx.b.op(prim, *ids)
    return Num(result, cx.b.types[result])


_PRECISION = {f16: 11, f32: 24, f64: 53}  # bits of the significand: integers of at most this many bits are exact
_SMALL_POWERS = (2, 3, 4)


def power(cx: Context, base: Number, exponent: Number, base_node: ast.expr, node: ast.AST) -> Num:
    """Lowers ``base ** exponent``. If both are integers, the result has the dtype of the base. For a small constant
    exponent the power is computed by multiplications."""
    t = promote(cx.type_of(base), cx.type_of(exponent))
    whole = None if t.is_float else promote(cx.type_of(base), cx.type_of(base))
    if (n := exponent.constant) is not None:
        if n < 0 and whole is not None:
            text = ast.unparse(base_node)
            raise cx.fail("QL1408", node, dtype=cx.type_of(base), text=text)
        if n in _SMALL_POWERS:
            t = whole or t
            x = cx.to(base, t)
            cx.at(node)
            square = cx.b.op("mul", x, x)
            if n == 2:
                return Num(square, t)
            return Num(cx.b.op("mul", square, x if n == 3 else square), t)
    if whole is None and _rounded(cx, exponent, t):
        return _signed_power(cx, cx.to(base, t), cx.num(exponent), t, node)
    result = emit(cx, "pow", t, base, exponent, node=node)
    return result if whole is None else cx.num(result, whole)  # computed wider, and wrapped: the same bits


def _rounded(cx: Context, exponent: Number, t: DType) -> bool:
    """Whether the exponent is an integer with more bits than the floating-point dtype ``t`` represents exactly."""
    if (known := exponent.constant) is not None:
        return bool(convert(known, t) != known)
    given = cx.type_of(exponent)
    return given.is_int and given.bits > _PRECISION[t]


def _signed_power(cx: Context, x: int, exponent: Num, t: DType, node: ast.AST) -> Num:
    """The real number ``x`` to the power of an integer that may be rounded when it is cast to ``t``. The sign of the
    result is therefore computed from the parity of the integer before the cast."""
    cx.at(node)
    op = cx.b.op
    negative = op("lt", x, cx.const(0, t))
    size = op("pow", op("select", negative, op("neg", x), x), cx.to(exponent, t))
    odd = op("ne", op("and", exponent.id, cx.const(1, exponent.type)), cx.const(0, exponent.type))
    return Num(op("select", op("and", negative, odd), op("neg", size), size), t)


def check_integer(cx: Context, op: str, value: Number, node: ast.expr) -> None:
    """Raises an error unless ``value`` is an integer or truth value."""
    t = cx.type_of(value)
    if t.is_float:
        raise cx.fail("QL1404", node, op=op, dtype=t, text=ast.unparse(node), same=f"i{t.bits}")


def unary(cx: Context, node: ast.UnaryOp) -> Value:
    value = cx.expr(node.operand)
    if value.is_number:
        return _unary(cx, node, value.number(cx, node.operand))
    if type(node.op) is ast.Not:
        if cx.static and isinstance(value, Obj):
            return Lit(not value.value, node)
        if value.token is not None:
            return _unary(cx, node, tested(cx, value, node.operand))
    return matrix.elementwise(cx, lambda v: _unary(cx, node, v), (node.operand,), node, value)


def _unary(cx: Context, node: ast.UnaryOp, value: Number) -> Number:
    op = type(node.op)
    if op is ast.Not:
        if value.constant is not None:
            return Lit(not value.constant, node)
        cond = truth(cx, value, node.operand)
        cx.at(node)
        return Num(cx.b.op("not", cond), u1)
    if (known := value.constant) is not None and not (op is ast.Invert and type(known) is float):
        return Lit(_UNARY[op](known), node, dtype=value.dtype)
    t = promote(cx.type_of(value), cx.type_of(value))
    cx.at(node)
    if op is ast.UAdd:
        return cx.num(value, t)
    if op is ast.Invert:
        check_integer(cx, "~", value, node.operand)
        return emit(cx, "not", t, value, node=node)
    return emit(cx, "neg", t, value, node=node)


_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: lambda v: ~int(v),
}


def tested(cx: Context, value: Value, node: ast.expr) -> Number:
    """The number that a condition tests; for a list or dict, whether it has entries."""
    found: Number = value.number(cx, node) if value.token is None else Lit(len(value.parts) > 0, node)
    return found


def truth(cx: Context, value: Number, node: ast.expr) -> int:
    """The id of a u1 that says whether the number is not 0; real numbers raise an error."""
    t = cx.type_of(value)
    if t.is_float:
        raise cx.fail("QL1405", node, dtype=t, text=ast.unparse(node))
    cx.at(node)
    if value.constant is not None:
        return cx.const(bool(value.constant), u1)
    number = cx.to(value, t)
    return number if t is u1 else cx.b.op("ne", number, cx.const(0, t))


def construct(cx: Context, call: ast.Call, dtype: DType, x: Value) -> Value:
    """The value of ``qd.i64(x)``: a cast; an integer literal must fit the dtype."""
    return matrix.elementwise(cx, lambda n: _construct(cx, call, dtype, n), (call.args or [call])[:1], call, x)


def _construct(cx: Context, call: ast.Call, dtype: DType, x: Value) -> Value:
    number = cx.argument(call, 0, x)
    cx.at(call)
    known = number.constant
    if known is None or dtype is u1:
        return cx.num(number, dtype)
    if dtype.is_int and type(known) is float:
        raise cx.fail("QL1615", call, dtype=dtype, text=known)
    return Num(cx.const(cx.fit(number, dtype, asked=True) if dtype.is_int else known, dtype), dtype)
