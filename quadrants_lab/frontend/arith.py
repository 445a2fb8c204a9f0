"""Arithmetic, comparison and logic, with the language's typing."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from quadrants_lab.frontend import matrix
from quadrants_lab.frontend.branch import choose
from quadrants_lab.frontend.context import Context
from quadrants_lab.frontend.scan import harmless
from quadrants_lab.frontend.values import Lit, Matrix, Num, Obj, Value, name_of
from quadrants_lab.ir.types import DType, promote, u1

Number = Num | Lit

# AST operator: (primitive, meaning on compile-time numbers)
BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor),
    ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift),
}

COMPARE: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
}

_STATIC_ONLY: dict[type, tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Is: ("is", "compare numbers with ==", operator.is_),
    ast.IsNot: ("is not", "compare numbers with !=", operator.is_not),
    ast.In: ("in", "compare with each value, or put it into qd.static(...)", lambda a, b: a in b),
    ast.NotIn: ("not in", "compare with each value, or put it into qd.static(...)", lambda a, b: a not in b),
}

_SYMBOL = {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
_MAX_FOLD_BITS = 4096  # a shift or power of constants beyond this is left alone; it does not fit any dtype


def fold(fn: Callable[..., Any], *args: Number, node: ast.AST) -> Lit | None:
    """The operation on compile-time numbers as Python has it; None where Python has no real number for it."""
    values = [a.value for a in args if isinstance(a, Lit)]
    if len(values) != len(args):
        return None
    if fn in (operator.pow, pow, operator.lshift):
        base, by = values
        if isinstance(base, int) and isinstance(by, int) and max(base.bit_length(), 1) * abs(by) > _MAX_FOLD_BITS:
            return None
    try:
        result = fn(*values)
    except (ArithmeticError, ValueError, TypeError):
        return None
    wide = next((a.dtype for a in args if isinstance(a, Lit) and a.dtype is not None), None)
    return Lit(result, node, dtype=wide) if isinstance(result, (bool, int, float)) else None


def binop(cx: Context, node: ast.BinOp) -> Value:
    left, right = cx.expr(node.left), cx.expr(node.right)
    return operate(cx, type(node.op), left, right, node, node.left, node.right)


def operate(
    cx: Context, op: type, left: Value, right: Value, node: ast.AST, lnode: ast.expr, rnode: ast.expr
) -> Value:
    """``left op right`` of numbers, or of the elements of matrices; ``@`` is the product of matrices. Lists and tuples
    are put together by ``+``, and repeated by ``*``."""
    if isinstance(left, (Num, Lit)) and isinstance(right, (Num, Lit)):
        return binary(cx, op, left, right, node, lnode, rnode)
    if isinstance(left, tuple) and isinstance(right, tuple) and op is ast.Add:
        return left + right
    many, times = (left, right) if isinstance(left, tuple) else (right, left)
    if isinstance(many, tuple) and isinstance(times, Lit) and type(times.value) is int and op is ast.Mult:
        return many * times.value
    if op is ast.MatMult and _MATMUL in cx.operations and (isinstance(left, Matrix) or isinstance(right, Matrix)):
        return cx.operations[_MATMUL].lower(cx, node, left, right)

    def one(a: Number, b: Number) -> Number:
        return binary(cx, op, a, b, node, lnode, rnode)

    return matrix.each(cx, one, (lnode, rnode), node, left, right)


_MATMUL = "Matrix.__matmul__"


def binary(
    cx: Context, op: type, left: Number, right: Number, node: ast.AST, lnode: ast.expr, rnode: ast.expr
) -> Number:
    """``left op right``; operands meet at their common dtype, of ``/`` after integers became default_fp."""
    row = BINARY.get(op)
    if row is None:
        raise cx.fail("QL1201", node, what="'@'", cure="write the sums out")
    prim, fn = row
    if isinstance(left, Lit) and isinstance(right, Lit):
        folded = fold(fn, left, right, node=node)
        if folded is not None:
            return folded
    if prim in _SYMBOL:
        integer(cx, _SYMBOL[prim], left, lnode)
        integer(cx, _SYMBOL[prim], right, rnode)
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
    """``prim`` of the arguments, each cast to ``dtype``."""
    ids = [cx.to(a, dtype) for a in args]
    cx.at(node)
    result = cx.b.op(prim, *ids)
    return Num(result, cx.b.types[result])


_SMALL_POWERS = (2, 3, 4)


def power(cx: Context, base: Number, exponent: Number, base_node: ast.expr, node: ast.AST) -> Num:
    """``base ** exponent``; of integers in the dtype of the base. Small constant exponents become products."""
    t = promote(cx.type_of(base), cx.type_of(exponent))
    whole = None if t.is_float else promote(cx.type_of(base), cx.type_of(base))
    if isinstance(exponent, Lit):
        n = exponent.value
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
    result = emit(cx, "pow", t, base, exponent, node=node)
    return result if whole is None else cx.num(result, whole)  # the wider power wraps to the same bits


def integer(cx: Context, op: str, value: Number, node: ast.expr) -> None:
    """An error unless ``value`` is an integer or truth value."""
    t = cx.type_of(value)
    if t.is_float:
        raise cx.fail("QL1404", node, op=op, dtype=t, text=ast.unparse(node), same=f"i{t.bits}")


def unary(cx: Context, node: ast.UnaryOp) -> Value:
    value = cx.expr(node.operand)
    if isinstance(value, (Num, Lit)):
        return _unary(cx, node, value)
    return matrix.each(cx, lambda v: _unary(cx, node, v), (node.operand,), node, value)


def _unary(cx: Context, node: ast.UnaryOp, value: Number) -> Number:
    op = type(node.op)
    if op is ast.Not:
        return negate(cx, value, node)
    if isinstance(value, Lit) and not (op is ast.Invert and isinstance(value.value, float)):
        return Lit(_UNARY[op](value.value), node, dtype=value.dtype)
    t = promote(cx.type_of(value), cx.type_of(value))
    cx.at(node)
    if op is ast.UAdd:
        return cx.num(value, t)
    if op is ast.Invert:
        integer(cx, "~", value, node.operand)
        return emit(cx, "not", t, value, node=node)
    return emit(cx, "neg", t, value, node=node)


_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: lambda v: ~int(v),
}


def negate(cx: Context, value: Number, node: ast.UnaryOp) -> Number:
    if isinstance(value, Lit):
        return Lit(not value.value, node)
    cond = truth(cx, value, node.operand)
    cx.at(node)
    return Num(cx.b.op("not", cond), u1)


def truth(cx: Context, value: Number, node: ast.expr) -> int:
    """Id of the number as a condition; real numbers are none."""
    t = cx.type_of(value)
    if t.is_float:
        raise cx.fail("QL1405", node, dtype=t, text=ast.unparse(node))
    cx.at(node)
    if isinstance(value, Lit):
        return cx.const(bool(value.value), u1)
    if t is u1:
        return value.id
    zero = cx.const(0, t)
    return cx.b.op("ne", value.id, zero)


def compare(cx: Context, node: ast.Compare) -> Value:
    """A chain of comparisons: every operand is evaluated at most once, from the left, as long as all holds."""
    if any(type(op) in _STATIC_ONLY for op in node.ops):
        return _static_compare(cx, node, [cx.expr(n) for n in (node.left, *node.comparators)])
    left = cx.expr(node.left)
    if len(node.ops) == 1:
        right = cx.expr(node.comparators[0])
        if cx.static and isinstance(left, Obj) and isinstance(right, (Obj, Lit)):
            return _static_compare(cx, node, [left, right])
        nodes = (node.left, node.comparators[0])
        return matrix.each(cx, lambda a, b: _compared(cx, type(node.ops[0]), a, b, node), nodes, node, left, right)
    return _chain(cx, node, cx.number(left, node.left), node.left, 0)


def _chain(cx: Context, node: ast.Compare, left: Number, left_node: ast.expr, k: int) -> Number:
    right = cx.scalar(node.comparators[k])
    first = _compared(cx, type(node.ops[k]), left, right, node)
    if k + 1 == len(node.ops):
        return first
    if isinstance(first, Lit) and not first.value:
        return first

    def rest() -> Number:
        return _chain(cx, node, right, node.comparators[k], k + 1)

    if isinstance(first, Lit):
        return rest()
    return _short_circuit(cx, True, first, first.id, rest, all(harmless(c) for c in node.comparators[k + 1 :]), node)


def _compared(cx: Context, op: type, left: Number, right: Number, node: ast.AST) -> Number:
    prim, fn = COMPARE[op]
    folded = fold(fn, left, right, node=node)
    if folded is not None:
        return folded
    return emit(cx, prim, promote(cx.type_of(left), cx.type_of(right)), left, right, node=node)


def _static_compare(cx: Context, node: ast.Compare, values: list[Value]) -> Lit:
    """As Python has it, between objects that are known at compile time."""
    try:
        known = [cx.python(v) for v in values]
    except TypeError:
        # an array argument is no Python object, but surely not None
        none = any(isinstance(v, Obj) and v.value is None for v in values)
        identity = all(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops)
        known = [v.value if isinstance(v, Obj) else v for v in values] if none and identity else []
    if not known or not cx.static:
        symbol, cure = next(_STATIC_ONLY[type(o)][:2] for o in node.ops if type(o) in _STATIC_ONLY)
        raise cx.fail("QL1205", node, op=symbol, cure=cure)
    fns = [_STATIC_ONLY[type(o)][2] if type(o) in _STATIC_ONLY else COMPARE[type(o)][1] for o in node.ops]
    try:
        return Lit(all(fn(a, b) for fn, a, b in zip(fns, known, known[1:], strict=False)), node)
    except TypeError as e:
        raise cx.fail("QL1612", node, text=ast.unparse(node), what=str(e)) from None


def boolop(cx: Context, node: ast.BoolOp) -> Value:
    return _boolop(cx, node, node.values)


def _boolop(cx: Context, node: ast.BoolOp, values: Sequence[ast.expr]) -> Number:
    """``and`` and ``or``: the value of the operand that decides; what follows it is not evaluated."""
    is_and = isinstance(node.op, ast.And)
    first = cx.scalar(values[0])
    if len(values) == 1:
        return first
    if isinstance(first, Lit):
        return _boolop(cx, node, values[1:]) if bool(first.value) == is_and else first
    cond = truth(cx, first, values[0])

    def rest() -> Number:
        value = _boolop(cx, node, values[1:])
        t = cx.type_of(value)
        if t.is_float:
            raise cx.fail("QL1405", values[1], dtype=t, text=name_of(values[1]))
        return value

    return _short_circuit(cx, is_and, first, cond, rest, all(harmless(v) for v in values[1:]), node)


def _short_circuit(
    cx: Context, is_and: bool, first: Num, cond: int, rest: Callable[[], Number], cheap: bool, node: ast.AST
) -> Num:
    """``first and rest()`` (or ``or``), where ``cond`` is the truth of ``first``."""
    if not cheap:
        arms = (rest, lambda: first) if is_and else (lambda: first, rest)
        chosen = choose(cx, cond, arms[0], arms[1], node)
        assert isinstance(chosen, Num)
        return chosen
    second = rest()
    if first.type is u1 and cx.type_of(second) is u1:
        return emit(cx, "and" if is_and else "or", u1, first, second, node=node)
    t = promote(first.type, cx.type_of(second))
    a, b = cx.to(second if is_and else first, t), cx.to(first if is_and else second, t)
    cx.at(node)
    return Num(cx.b.op("select", cond, a, b), t)


def conditional(cx: Context, node: ast.IfExp) -> Value:
    """``a if c else b``: only the arm that is taken is evaluated."""
    test = cx.scalar(node.test)
    if isinstance(test, Lit):
        return cx.expr(node.body if test.value else node.orelse)
    cond = truth(cx, test, node.test)
    if harmless(node.body) and harmless(node.orelse):
        left, right = cx.expr(node.body), cx.expr(node.orelse)
        if not isinstance(left, (Num, Lit)) or not isinstance(right, (Num, Lit)):
            return choose(cx, cond, lambda: left, lambda: right, node)
        t = common(cx, left, right)
        a, b = cx.to(left, t), cx.to(right, t)
        cx.at(node)
        return Num(cx.b.op("select", cond, a, b), t)
    return choose(cx, cond, lambda: cx.expr(node.body), lambda: cx.expr(node.orelse), node)


def common(cx: Context, left: Number, right: Number) -> DType:
    """The dtype at which two alternatives meet: that of both, else the promoted one."""
    lt, rt = cx.type_of(left), cx.type_of(right)
    return lt if lt is rt else promote(lt, rt)
