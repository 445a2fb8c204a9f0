"""Lowers assignments to locals, elements and members, with and without an operator."""

import ast
from collections.abc import Callable
from typing import Any

from quadrants_lab.frontend import values as V
from quadrants_lab.frontend.diagnostics import count, entries_of, id_of, name_of, names_in
from quadrants_lab.frontend.values import update as U
from quadrants_lab.frontend.values.arith import operate
from quadrants_lab.frontend.values.containers import change, current, inserted, live
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import Local, indices, locate, variable
from quadrants_lab.frontend.values.struct import annotation, as_annotated
from quadrants_lab.frontend.values.tile import is_place
from quadrants_lab.ir.importing import lazily

# operators of augmented assignments to elements of fields that become atomics; all other operators load, compute and
# store
ATOMIC: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
# operators of augmented assignments to locals that parallel iterations share, which become reductions
_REDUCTIONS: dict[type, str] = {**ATOMIC, ast.Mult: "mul"}
_COMPILE_TIME = "a compile-time value"
_write_tile, _update_tile = (lazily("frontend.syntax.tiles", name) for name in ("write", "update"))


def assign(cx: Context, node: ast.Assign) -> None:
    if _accumulated(cx, node):
        return
    value = cx.expr(node.value)
    for target in node.targets:
        _bind(cx, target, value, node, node.value)


def _accumulated(cx: Context, node: ast.Assign) -> bool:
    """If the statement has the form ``a = a + x`` or ``a = min(a, x)``, and parallel iterations share the local ``a``,
    lowers it as a reduction into ``a``. Returns whether it did."""
    target = node.targets[0]
    name = id_of(target)
    whole = cx.frame.env.get(name)
    if whole is None or not whole.is_shared or len(node.targets) > 1:
        return False
    called: ast.expr | None = None
    match node.value:
        case ast.BinOp(left=first, op=operator, right=second):
            op = _REDUCTIONS.get(type(operator), "")
        case ast.Call(func=called, args=[first, second], keywords=[]):
            op = ""
        case _:
            return False
    if (id_of(first) == name) == (id_of(second) == name) or (op == "sub" and id_of(second) == name):
        return False
    if called is not None:
        known = getattr(cx.expr(called), "value", None)
        op = getattr(known, "__qd_op__", None) or next((f.__name__ for f in (min, max) if known is f), "")
    other = second if id_of(first) == name else first
    if any(n.id == name for n in names_in(other)) or op not in (*_REDUCTIONS.values(), "min", "max"):
        return False
    U.reduce(cx, op, variable(name, whole), cx.expr(other), target, other, node)
    return True


def _bind(cx: Context, target: ast.expr, value: V.Value, node: ast.stmt, source: ast.expr) -> None:
    value = live(cx, value)  # in `a[0], b = b, a` the first target changes the list `a`
    match target:
        case ast.Name():
            set_name(cx, target, value, node, source)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for t in targets:
                if isinstance(t, ast.Starred):
                    raise cx.unsupported(t)
            parts = value.entries(cx)
            if parts is None:
                raise cx.fail("QL1415", source, what=value.describe())
            if len(parts) != len(targets):
                raise cx.fail("QL1412", target, got=count(len(parts), "value"), want=count(len(targets), "name"))
            # every value is read before any name is assigned: a, b = b, a
            for t, part, s in zip(targets, parts, entries_of(source, len(parts)), strict=True):
                _bind(cx, t, part, node, s)
        case _ if not inserted(cx, target, lambda base: locate(cx, base).held(cx, base), value):
            place = locate(cx, target)
            if is_place(place):
                _write_tile(cx, place, value, target, source)
            else:
                U.write(cx, place, value, target, source, node)


def set_name(cx: Context, target: ast.Name, value: V.Value, node: ast.stmt, source: ast.expr) -> None:
    """Assigns ``value`` to a local variable. The first assignment fixes the variable's shape and dtype; later values
    are cast to them. ``source`` is the expression of the value, and ``node`` the whole statement."""
    name, env = target.id, cx.frame.env
    old: Any = env.get(name)
    if old is None:
        if value.tile is not None:
            env[name] = value.owned(cx, source)
        elif source in cx.static_calls:
            env[name] = value if value.constant is None else value.pinned(_COMPILE_TIME, source)
        elif value.token is not None:
            env[name] = _named(value)
        elif value.is_held or getattr(value, "value", 0) is None:
            cx.at(node)
            env[name] = value.numbers(cx, source).map(lambda leaf: cx.new_variable(leaf, source))
            U.name_values(cx, env[name], name)
        elif value.has_items or value.is_alias:
            env[name] = value
        else:
            raise cx.fail("QL1413", source, what=value.describe(), name=name)
        return
    if old.tile is not None:
        _write_tile(cx, old, value, target, source)
        return
    if old.is_memory:  # a parameter by reference
        U.store(cx, old, value, target, source, node)
        return
    if old.token is not None:
        _rebind(cx, target, old, value, source, node)
        return
    if value.constant is not None and old.is_shared and not old.children():
        U.set_flag(cx, old, value, target, source, node)
        return
    _check_assignable(cx, target, old)
    _reassign(cx, target, old, value, source, node)


def _named(value: V.Value) -> Any:
    """Returns the list as the value of an ordinary variable, which can be assigned. Only a list that a func took by
    value still cannot be changed."""
    kept = value.fixed if value.fixed == V.PASSED else ""
    return value.with_parts(value.parts, fixed=kept)


def _rebind(cx: Context, target: ast.Name, old: Any, value: Any, source: ast.expr, node: ast.stmt) -> None:
    """Assigns a list to a variable that already holds one. Within a condition or loop that began after the old list was
    made, both lists must have the same structure (as many entries, of the same kinds)."""
    reference = target.id in cx.frame.references
    if reference or old.fixed == V.STATIC_VARIABLE or value.kind != old.kind:
        what = f"a {old.kind} by reference" if reference else old.fixed or old.describe()
        raise cx.fail("QL1303", target, name=target.id, what=what)
    if cx.depth == old.depth:
        cx.frame.env[target.id] = _named(value)
        return
    if old.structure() != value.structure():
        raise cx.fail("QL1422", target, name=target.id, kind=old.kind)
    _reassign(cx, target, old, value, source, node)


def _check_assignable(cx: Context, target: ast.Name, old: V.Value) -> None:
    """Raises an error unless the name is a local variable that this iteration may assign: not a parameter, compile-time
    value or shared local."""
    U.check_not_shared(cx, old, target, target.id)
    if old.fixed or not old.is_local:
        raise cx.fail("QL1303", target, name=target.id, what=old.fixed or _COMPILE_TIME)


def _reassign(
    cx: Context, target: ast.Name, old: V.Value, value: V.Value, source: ast.expr, node: ast.stmt
) -> None:
    """Assigns a value to an existing local variable, cast to the variable's shape and dtypes."""
    new = U.cast_to_local(cx, old, value, source, node, target.id)
    U.name_values(cx, new, target.id)
    U.assign_local(cx, target.id, new)


def named_expression(cx: Context, node: ast.NamedExpr) -> V.Value:
    """``name := value``: an assignment inside an expression."""
    set_name(cx, node.target, cx.expr(node.value), ast.copy_location(ast.Expr(node), node), node.value)
    return cx.expr(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))


def annotated(cx: Context, node: ast.AnnAssign) -> None:
    """``a: qd.f32 = x``: the value is cast to the dtype or type of the annotation."""
    declared = annotation(cx, node.annotation)
    if declared is None:
        raise cx.fail("QL1410", node.annotation, what=f"'{name_of(node.annotation)}'")
    match node:
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as source):
            value = as_annotated(cx, cx.expr(source), declared, source)
            cx.at(node)
            set_name(cx, target, value, node, source)
        case _:
            raise cx.fail("QL1201", node, what="an annotation without a variable and a value", cure="assign a value")


def augmented(cx: Context, node: ast.AugAssign) -> None:
    """``target op= value``."""
    target, op, env = node.target, type(node.op), cx.frame.env
    match target:
        case ast.Subscript() if _added_to_builder(cx, node, target):
            return
        case ast.Name(id=name) if name not in env or not env[name].is_memory:
            _augment_name(cx, node, target)
            return
    place = locate(cx, target)
    value = cx.expr(node.value)
    if is_place(place):
        _update_tile(cx, place, op, value, node, node.value)
        return
    if place.is_variable:
        if _reduced(cx, node, place, value):
            return
        U.check_not_shared(cx, place.whole, target, place.name)
    elif op in ATOMIC:
        U.atomic(cx, ATOMIC[op], place, value, target, node.value, node)
        return
    old = place.held(cx, target).load(cx, target)
    U.write(cx, place, operate(cx, op, old, value, node, target, node.value), target, node.value, node)


def _added_to_builder(cx: Context, node: ast.AugAssign, target: ast.Subscript) -> bool:
    """If the target is an element ``A[i, j]`` of a sparse matrix builder, lowers ``A[i, j] += x`` as a call of the
    builder's func. Returns whether it did."""
    base = cx.frame.env.get(id_of(target.value))
    add = getattr(getattr(base, "type", None), "__qd_add__", None)
    match node.op:
        case _ if add is None:
            return False
        case ast.Add():
            value = node.value
        case ast.Sub():
            value = ast.UnaryOp(ast.USub(), node.value)
        case _:
            return False
    cx.frame.globals[_ADD] = V.Obj(add, "+=")
    call = ast.Call(ast.Name(_ADD, ast.Load()), [target.value, *indices(target), value], [])
    for n in (call, call.func, value):
        ast.copy_location(n, node)
    cx.expr(call)
    return True


_ADD = "+= of a sparse matrix"  # a name that no program can use


def _reduced(cx: Context, node: ast.AugAssign, place: Local, value: V.Value) -> bool:
    """If the target is a local that parallel iterations share, lowers the statement as a reduction. Returns whether it
    did."""
    op = type(node.op)
    if op not in _REDUCTIONS or not place.whole.is_shared:
        return False
    U.reduce(cx, _REDUCTIONS[op], place, value, node.target, node.value, node)
    return True


def _augment_name(cx: Context, node: ast.AugAssign, target: ast.Name) -> None:
    name = target.id
    old = cx.frame.env.get(name)
    if old is None:
        cx.name(target)  # raises the error about an unknown name, or a name out of scope
        raise cx.fail("QL1305", node, name=name)
    value, op = cx.expr(node.value), type(node.op)
    if old.tile is not None:
        _update_tile(cx, old, op, value, node, node.value)
        return
    if old.is_shared and _reduced(cx, node, variable(name, old), value):
        return
    if old.kind == "list" and op in (ast.Add, ast.Mult):  # in place, as in Python
        if op is ast.Add:
            more = value.entries(cx)
            if more is None:
                raise cx.fail("QL1415", node.value, what=value.describe())
            value = V.List(more, cx.depth)
        now = current(cx, old)  # evaluating the value, such as `a.pop()`, may have changed the list
        made: Any = operate(cx, op, now, value, node, target, node.value)
        change(cx, now, V.List(made, old.depth), node, name)
        return
    _check_assignable(cx, target, old)
    result = operate(cx, op, old, value, node, target, node.value)
    _reassign(cx, target, old, result, node, node)  # type: ignore[arg-type]  # a warning shows the whole statement


STATEMENTS: dict[type, Callable[..., None]] = {
    ast.Assign: assign,
    ast.AnnAssign: annotated,
    ast.AugAssign: augmented,
}
