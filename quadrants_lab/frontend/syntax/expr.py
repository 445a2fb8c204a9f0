"""Lowers expressions, by a table with a function for each class of AST node. Here are those of constants, tuples,
lists, dicts and format strings, and of comparisons, ``and``, ``or`` and ``a if c else b``, which evaluate an
operand only if it is needed."""

import ast
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from quadrants_lab.frontend.diagnostics import name_of
from quadrants_lab.frontend.syntax.branch import choose
from quadrants_lab.frontend.syntax.changed import speculate
from quadrants_lab.frontend.syntax.scan import is_cheap
from quadrants_lab.frontend.values import Dict, List, Lit, Num, Number, Obj, Tuple, Value, matrix
from quadrants_lab.frontend.values.arith import binop, emit, fold, tested, truth, unary
from quadrants_lab.frontend.values.containers import live
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import read
from quadrants_lab.ir.importing import lazily
from quadrants_lab.ir.types import promote, u1

_text_parts = lazily("frontend.syntax.printing", "text_parts")  # imported late: few kernels have format strings
_MEMBERSHIP, _IDENTITY, _EQUALITY = {ast.In, ast.NotIn}, {ast.Is, ast.IsNot}, {ast.Eq, ast.NotEq}

COMPARE: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("lt", operator.lt), ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge), ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne),
}  # fmt: skip

_STATIC_ONLY: dict[type, tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Is: ("is", "compare numbers with ==, and objects of Python in qd.static(...)", operator.is_),
    ast.IsNot: ("is not", "compare numbers with !=, and objects of Python in qd.static(...)", operator.is_not),
    ast.In: ("in", "look for a number among numbers, or put it into qd.static(...)", lambda a, b: a in b),
    ast.NotIn: ("not in", "look for a number among numbers, or put it into qd.static(...)", lambda a, b: a not in b),
}


def compare(cx: Context, node: ast.Compare) -> Value:
    """A chain of comparisons such as ``a < b < c``: each operand is evaluated once, from the left, up to the first
    comparison that is false."""
    if any(type(op) in _STATIC_ONLY for op in node.ops):
        values = [cx.expr(n) for n in (node.left, *node.comparators)]
        number, *others = values
        looks = not cx.static and len(others) == 1 and type(node.ops[0]) in _MEMBERSHIP
        parts = others[0].entries(cx) if looks else None
        if number.is_number and parts is not None and all(v.is_number for v in parts):
            return _among(cx, node, number.number(cx, node.left), parts)
        return _static_compare(cx, node, values)
    left = cx.expr(node.left)
    if len(node.ops) == 1:
        right = cx.expr(node.comparators[0])
        known = cx.static or (type(node.ops[0]) in _EQUALITY and _are_known(cx, left, right))
        if known and _are_objects(left, right):
            return _static_compare(cx, node, [left, right])
        nodes = (node.left, node.comparators[0])
        one = partial(_compared, cx, type(node.ops[0]), node)
        return matrix.elementwise(cx, one, nodes, node, left, right)
    operands = [left.number(cx, node.left)]

    def compared(k: int) -> Number:
        operands.append(cx.scalar(node.comparators[k]))
        return _compared(cx, type(node.ops[k]), node, operands[k], operands[k + 1])

    return _first_deciding(cx, node, True, compared, node.comparators)


def _are_objects(left: Value, right: Value) -> bool:
    """Whether two compile-time values are compared as whole Python objects (lists, texts and other constants), and not
    number by number."""
    both = (left, right)
    return all(v.is_object or v.constant is not None for v in both) and not all(v.is_number for v in both)


def _are_known(cx: Context, *values: Value) -> bool:
    """Whether the values are objects of Python, which do not change in the kernel as its own lists and dicts do."""
    try:
        for v in values:
            v.python(cx)
    except TypeError:
        return False
    return all(v.token is None for v in values)


def _frozen(value: Any) -> Any:
    """The constant, in which tuples replace lists, as in the results of `Value.python`."""
    match value:
        case dict():
            return {key: _frozen(v) for key, v in value.items()}
        case list() | tuple():
            return tuple(map(_frozen, value))
    return value


def _compared(cx: Context, op: type, node: ast.AST, left: Number, right: Number) -> Number:
    prim, fn = COMPARE[op]
    folded = fold(fn, left, right, node=node)
    if folded is not None:
        return folded
    return emit(cx, prim, promote(cx.type_of(left), cx.type_of(right)), left, right, node=node)


def _among(cx: Context, node: ast.Compare, number: Number, parts: Sequence[Number]) -> Number:
    """Lowers ``number in parts`` or ``number not in parts``."""
    equal = [_compared(cx, ast.Eq, node, number, part) for part in parts]
    at_run_time = [v for v in equal if v.constant is None]
    sure = any(v.constant for v in equal)
    wanted = type(node.ops[0]) is ast.In
    if sure or not at_run_time:
        return Lit(sure == wanted, node)
    found = reduce(lambda a, b: emit(cx, "or", u1, a, b, node=node), at_run_time)
    return found if wanted else emit(cx, "not", u1, found, node=node)


def _static_compare(cx: Context, node: ast.Compare, values: list[Value]) -> Lit:
    """Python's own comparison of objects that are known at compile time."""
    kinds = {*map(type, node.ops)}
    identity = kinds <= _IDENTITY
    try:
        keys_only = kinds <= _MEMBERSHIP
        values = [cx.wrap(tuple(v.copied), "") if keys_only and v.kind == "dict" else v for v in values]
        known = [v.python(cx) if identity else _frozen(v.python(cx)) for v in values]
    except TypeError:
        # `x is None` for an array argument: it has no Python object at compile time, but it is not None
        found = [v.identity() for v in values]
        known = found if identity and any(v is None for v in found) else []
    if not known or not (cx.static or kinds <= _EQUALITY):
        if not any(type(o) in _STATIC_ONLY for o in node.ops):
            raise cx.fail("QL1606", node, text=ast.unparse(node))
        symbol, cure = next(_STATIC_ONLY[type(o)][:2] for o in node.ops if type(o) in _STATIC_ONLY)
        raise cx.fail("QL1205", node, op=symbol, cure=cure)
    fns = [_STATIC_ONLY[type(o)][2] if type(o) in _STATIC_ONLY else COMPARE[type(o)][1] for o in node.ops]
    try:
        return Lit(all(fn(a, b) for fn, a, b in zip(fns, known, known[1:], strict=False)), node)
    except TypeError as e:
        raise cx.fail("QL1612", node, text=ast.unparse(node), what=str(e)) from None


def boolop(cx: Context, node: ast.BoolOp) -> Value:
    first = cx.expr(node.values[0])
    if first.shape:
        return _elementwise(cx, node, [first, *map(cx.expr, node.values[1:])])
    given = first.number(cx, node.values[0])
    is_and = type(node.op) is ast.And
    return _first_deciding(cx, node, is_and, lambda k: cx.scalar(node.values[k]) if k else given, node.values)


def _elementwise(cx: Context, node: ast.BoolOp, values: list[Value]) -> Value:
    """Lowers ``and`` and ``or`` of vectors and matrices, element by element; all operands are evaluated."""
    prim = "and" if type(node.op) is ast.And else "or"

    def one(*numbers: Number) -> Number:
        truths = [truth(cx, n, at) for n, at in zip(numbers, node.values, strict=True)]
        return Num(reduce(lambda a, b: cx.b.op(prim, a, b), truths), u1)

    return matrix.elementwise(cx, one, node.values, node, *values)


def _first_deciding(
    cx: Context, node: ast.AST, is_and: bool, part: Callable[[int], Number], nodes: Sequence[ast.expr], k: int = 0
) -> Number:
    """The value of ``and`` or ``or`` of the operands from number ``k`` on; ``part`` evaluates an operand. The first
    operand that decides is the result. Later operands are not evaluated, unless evaluation is cheap."""
    first = part(k)
    if k + 1 == len(nodes):
        return first
    if first.constant is not None:
        go_on = bool(first.constant) == is_and
        return _first_deciding(cx, node, is_and, part, nodes, k + 1) if go_on else first
    cond = truth(cx, first, nodes[k])

    def rest() -> Number:
        value = _first_deciding(cx, node, is_and, part, nodes, k + 1)
        t = cx.type_of(value)
        if t.is_float:
            raise cx.fail("QL1405", nodes[k + 1], dtype=t, text=name_of(nodes[k + 1]))
        return value

    if not all(map(is_cheap, nodes[k + 1 :])):
        then, orelse = (rest, lambda: first) if is_and else (lambda: first, rest)
        return choose(cx, cond, then, orelse, node)  # type: ignore[return-value]  # a number, as both arms are
    second = rest()
    types = cx.type_of(first), cx.type_of(second)
    if types == (u1, u1):
        return emit(cx, "and" if is_and else "or", u1, first, second, node=node)
    t = promote(*types)
    a, b = cx.to(second if is_and else first, t), cx.to(first if is_and else second, t)
    cx.at(node)
    return Num(cx.b.op("select", cond, a, b), t)


def conditional(cx: Context, node: ast.IfExp) -> Value:
    """Lowers ``a if c else b``: only the chosen one of a and b is evaluated. If one of them is a matrix and the
    other a number, the number is broadcast."""
    chosen = cx.expr(node.test)
    if chosen.shape:  # element by element; both arms are evaluated
        nodes = (node.test, node.body, node.orelse)
        call = ast.copy_location(ast.Call(node.test, list(nodes), []), node)

        def one(c: Number, a: Number, b: Number) -> Value:
            return cx.operations["select"].lower(cx, call, c, a, b)

        return matrix.elementwise(cx, one, nodes, node, chosen, cx.expr(node.body), cx.expr(node.orelse))
    test = tested(cx, chosen, node.test)
    if test.constant is not None:
        taken, other = (node.body, node.orelse) if test.constant else (node.orelse, node.body)
        asked = cx.static > 0 or node.test in cx.static_calls
        return cx.expr(taken) if asked else _static_choice(cx, cx.expr(taken), other, node)
    cond = truth(cx, test, node.test)
    if is_cheap(node.body) and is_cheap(node.orelse):
        left: Any = cx.expr(node.body)
        right: Any = cx.expr(node.orelse)
        if not left.is_number or not right.is_number:
            return choose(cx, cond, lambda: left, lambda: right, node)
        t = cx.common_dtype(left, right)
        a, b = cx.to(left, t), cx.to(right, t)
        cx.at(node)
        return Num(cx.b.op("select", cond, a, b), t)
    return choose(cx, cond, lambda: cx.expr(node.body), lambda: cx.expr(node.orelse), node)


def _static_choice(cx: Context, value: Value, other: ast.expr, node: ast.IfExp) -> Value:
    """The value of ``a if c else b`` for a condition that is known at compile time: ``value``, cast to the common dtype
    of both arms, as at run time. It is not cast if lowering the ``other`` arm raises an error, or if both arms are
    literals."""
    leaves = list(value.leaves())
    if cx.speculating not in (None, cx.frame) or not all(leaf.is_number for leaf in leaves):
        return value
    others = speculate(cx, lambda: list(cx.expr(other).leaves()))
    both = [*leaves, *others]
    if not others or not all(leaf.is_number for leaf in others) or all(leaf.constant is not None for leaf in both):
        return value
    t = cx.common_dtype(*both)
    cx.at(node)
    met: Value = value.map(lambda leaf: leaf if cx.type_of(leaf) is t else cx.num(leaf, t))
    return met


def _format_string(cx: Context, node: ast.JoinedStr) -> Value:
    """The text of a format string, which must be known at compile time."""
    with cx.setting(static=cx.static + 1):
        parts = _text_parts(cx, node)
    if any(p.id is not None for p in parts):
        raise cx.fail("QL1207", node)
    return Obj("".join(p.text for p in parts))


def _dict(cx: Context, node: ast.Dict) -> Value:
    """Lowers ``{key: value}``, whose keys are known at compile time."""
    members: dict[Any, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:  # **other
            other: Any = cx.expr(value)
            if other.kind != "dict":
                raise cx.fail("QL1415", value, what=other.describe())
            members.update(other.members)
        else:
            members[cx.known(cx.expr(key), "QL1508", key)] = cx.expr(value)
    return live(cx, Dict(members, cx.depth))  # type: ignore[no-any-return]


EXPRS: dict[type, Callable[..., Value]] = {
    ast.Constant: lambda cx, n: Lit(n.value, n) if type(n.value) in (bool, int, float) else Obj(n.value),
    ast.Name: Context.name,
    ast.Tuple: lambda cx, node: live(cx, Tuple(map(cx.expr, node.elts))),
    ast.List: lambda cx, node: live(cx, List(map(cx.expr, node.elts), cx.depth)),
    ast.Dict: _dict,
    ast.JoinedStr: _format_string,
    ast.Attribute: read,
    ast.Subscript: read,
    ast.BinOp: binop,
    ast.UnaryOp: unary,
    ast.Compare: compare,
    ast.BoolOp: boolop,
    ast.IfExp: conditional,
}
