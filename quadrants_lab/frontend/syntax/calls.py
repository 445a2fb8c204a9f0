"""Lowers calls: of operations of the language, types, funcs and Python functions."""

import ast
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from quadrants_lab.frontend import values as V
from quadrants_lab.frontend.diagnostics import name_of
from quadrants_lab.frontend.fingerprint import is_pure
from quadrants_lab.frontend.op_table import ALL, PYTHON, Builtin
from quadrants_lab.frontend.source import FunctionSource, note_unknown
from quadrants_lab.frontend.syntax import funcs, plain
from quadrants_lab.frontend.syntax.byref import References, refer, templates
from quadrants_lab.frontend.syntax.unroll import STRUCTURAL, iterate, unpacked
from quadrants_lab.frontend.values import matrix
from quadrants_lab.frontend.values.arith import construct
from quadrants_lab.frontend.values.containers import call_method, live
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.struct import bound, instance
from quadrants_lab.ir.types import DType, from_numpy

Keywords = dict[str, V.Value]


def call(cx: Context, node: ast.Call) -> V.Value:
    cx.static_calls.discard(node)
    procedure, cx.as_statement = cx.as_statement, False
    target = cx.expr(node.func)
    lower = _CALLED.get(type(target))
    if lower is None:
        raise cx.fail("QL1604", node, text=name_of(node.func), what=f"it is {target.describe()}")
    return lower(cx, node, target, procedure)


def _object(cx: Context, node: ast.Call, target: V.Obj, procedure: bool) -> V.Value:
    """A call of an operation, a func, a type or a Python function."""
    fn = target.raw
    name = getattr(fn, "__qd_op__", None) or (PYTHON.get(fn) if isinstance(fn, (type, BuiltinFunctionType)) else None)
    if isinstance(name, str):
        row = cx.operations.get(name)
        if row is None:
            raise cx.fail("QL1605", node, name=name)
        of_class = row.params[:1] == ("self",) and bool(node.args)
        return _operation(cx, node, row, *([_self_of_class(cx, node.args[0])] if of_class else []))
    method: Any = getattr(type(fn), "__call__", None)  # noqa: B004  # not whether it can be called
    if getattr(method, "__qd_func__", False) is True:
        func, owner, text = method, fn, target.text
    else:
        func, owner = getattr(fn, "__qd_bound__", None) or (fn, None)
        text = target.text.rpartition(".")[0]
    if getattr(func, "__qd_func__", False) is True:
        if getattr(func, "requires_top_level", False) is True and not procedure:
            raise cx.fail("QL1619", node, name=func.source.name)
        first = () if owner is None else (V.Obj(owner, text),)
        return _func(cx, node, func.source, first, procedure, {})
    if not isinstance(fn, (FunctionType, MethodType)):
        fn = target.value
    if not cx.static and (by_reference := plain.with_references(cx, node, fn, target.text)) is not None:
        return _func(cx, node, by_reference.source, by_reference.first, procedure, {})
    args, keywords = _arguments(cx, node, node.args)
    if isinstance(fn, type) and fn.__module__ == "numpy":
        fn = from_numpy(fn) or fn
    if isinstance(fn, DType):
        if len(args) != 1 or keywords:
            raise cx.fail("QL1602", node, text=str(fn), what="takes one value", params="x")
        return construct(cx, node, fn, args[0])
    if isinstance(getattr(fn, "__qd_type__", None), str):
        return instance(cx, node, fn, args, keywords)
    return _python(cx, node, fn, args, keywords, procedure)


def _method(cx: Context, node: ast.Call, target: V.BoundMethod, procedure: bool) -> V.Value:
    """A call of a method: an operation or func whose first argument is the value that it is called on."""
    func: Any = node.func  # an attribute
    if target.self.token is not None:
        args, keywords = _arguments(cx, node, node.args)
        if keywords:
            raise cx.fail("QL1604", node, text=target.text, what="it takes no keywords")
        return call_method(cx, node, target.operation, target.self, args, target.text)
    if target.func is None:
        whole = ast.Call(func, [func.value, *node.args], node.keywords)
        return _operation(cx, ast.copy_location(whole, node), cx.operations[target.operation], target.self)
    source = target.func.source
    own: References = {funcs.parameters(source)[0].arg: (target.place, func.value)}
    return _func(cx, node, source, (target.self,), procedure, own)


_CALLED: dict[type, Callable[..., V.Value]] = {V.BoundMethod: _method, V.Obj: _object}


def _self_of_class(cx: Context, node: ast.expr) -> V.Matrix:
    """The first argument of a method that is called by its class, as in ``qd.Vector.norm(v)``."""
    value = cx.expr(node)
    found = matrix.as_matrix(cx, value, node)
    if found is None:
        raise cx.fail("QL1419", node, what=value.describe())
    return found


def _func(
    cx: Context, node: ast.Call, source: FunctionSource, first: tuple[V.Value, ...], procedure: bool,
    references: References,
) -> V.Value:  # fmt: skip
    """A call of a func. ``first`` are its first arguments, already evaluated. Template parameters are passed by
    reference: ``references`` gets their places."""
    by_name = templates(source)
    names: dict[int | str, str] = {k: name for name, k in by_name.items()} | {name: name for name in by_name}

    def value(place: int | str, a: ast.expr) -> V.Value:
        return refer(cx, a, names[place], references) if place in names else cx.expr(a)

    args, keywords = _arguments(cx, node, node.args, first, value)
    return funcs.inline(cx, node, source, args, keywords, procedure, references=references)


def _arguments(
    cx: Context, node: ast.Call, args: Sequence[ast.expr], first: Sequence[V.Value] = (),
    value: Callable[[int | str, ast.expr], V.Value] | None = None,
) -> tuple[list[V.Value], Keywords]:  # fmt: skip
    """Evaluates the arguments of a call. Returns the positional ones (``first``, then the values of the expressions
    ``args``) and the keyword arguments by name. ``value``, if given, evaluates one expression, given the argument's
    position or name."""
    found, value = list(first), value or (lambda place, a: cx.expr(a))
    for a in args:
        if isinstance(a, ast.Starred):
            found += unpacked(cx, cx.expr(a.value), a.value)
        else:
            found.append(value(len(found), a))
    for kw in node.keywords:
        if kw.arg is None:
            raise cx.fail("QL1608", kw.value)
    named = {str(kw.arg): value(str(kw.arg), kw.value) for kw in node.keywords}
    return [live(cx, v) for v in found], {name: live(cx, v) for name, v in named.items()}


def _operation(cx: Context, node: ast.Call, row: Builtin, *given: V.Value) -> V.Value:
    """A call of an operation of the language. ``given`` are the values of the first arguments, if they are evaluated
    already."""
    if row.raw == ALL:
        return row.lower(cx, node, *(V.Obj(None) for _ in node.args))
    for raw in node.args[: row.raw]:
        if isinstance(raw, ast.Starred):
            raise cx.fail("QL1608", raw)

    def value(place: int | str, a: ast.expr) -> V.Value:
        return V.Obj(None) if place in range(row.raw) else cx.expr(a)

    with cx.setting(static=cx.static + (row.name == "static")):
        args, keywords = _arguments(cx, node, node.args[len(given) :], given, value)
    if row.variadic:
        optional = [p.rstrip("=") for p in row.params[1:]]
        if not (args or optional) or not {*keywords} <= {*optional}:
            params = ", ".join(row.params).rstrip("=")
            raise cx.fail("QL1602", node, text=name_of(node.func), what="takes one or more values", params=params)
        return row.lower(cx, node, *args, **keywords) if keywords else _lowered(cx, node, row, args)
    names = [p.rstrip("=") for p in row.params]
    optional = [p.rstrip("=") for p in row.params if p.endswith("=")]
    by_name = bound(cx, node, names, args, keywords, optional)
    return _lowered(cx, node, row, [by_name.get(name) for name in names])


def _lowered(cx: Context, node: ast.Call, row: Builtin, args: Sequence[Any]) -> V.Value:
    """Lowers the operation for its arguments: for an elementwise operation with a matrix among them, once for each
    element."""
    if not row.elementwise or not any(a is not None and a.shape for a in args):
        return row.lower(cx, node, *args)
    spread = [k for k, a in enumerate(args) if isinstance(a, (V.Num, V.Lit, V.Matrix, V.Tuple))]
    nodes = [argument_node(node, k) for k in spread]

    def one(*numbers: V.Value) -> V.Value:
        full = list(args)
        for k, n in zip(spread, numbers, strict=True):
            full[k] = n
        return row.lower(cx, node, *full)

    return matrix.elementwise(cx, one, nodes, node, *(args[k] for k in spread))


def _python(
    cx: Context, node: ast.Call, fn: Any, args: list[V.Value], keywords: Keywords, procedure: bool
) -> V.Value:
    """A call of a Python function. If all arguments are known at compile time, Python calls it now. The function is
    inlined otherwise, and also if it turns out to access a field: Python would do that only once, and not in each
    launch."""
    text = name_of(node.func)
    if not callable(fn):
        raise cx.fail("QL1604", node, text=text, what=f"it is {V.Obj(fn, text).describe()}")
    if getattr(fn, "__qd_kernel__", False) is True:
        raise cx.fail("QL1618", node, text=text)
    values = (*args, *keywords.values())
    if fn is super and not values:
        return _super(cx, node)
    known = all(_is_known(cx, a) for a in values)
    if getattr(fn, "__qd_compile_time__", False) is True and known:
        with cx.setting(static=cx.static + 1):
            return _at_compile_time(cx, node, fn, args, keywords, text)
    if (getattr(fn, "__module__", None) or "").startswith("quadrants_lab."):
        raise cx.fail("QL1605", node, name=text.removeprefix("qd."))
    inlined = None if cx.static else plain.inlined(cx, fn, text)

    def inline() -> V.Value:
        assert inlined is not None
        given = {**inlined.keywords, **keywords}
        return funcs.inline(cx, node, inlined.source, [*inlined.first, *args], given, procedure)

    memory = any(a.fields for a in values)
    if inlined is not None and (memory or not known or plain.touches_kernels(inlined.source)):
        return inline()
    if fn is list and not keywords and len(args) < 2:
        return V.List(iterate(cx, args[0], node.args[0]) if args else (), cx.depth)
    if fn is dict and len(args) < 2:
        base = args[0].copied if args and args[0].kind == "dict" else {}
        if len(base) or not args:
            return V.Dict({**base, **keywords}, cx.depth)
    structural = STRUCTURAL.get(fn) if isinstance(fn, type) and args else None
    if fn is enumerate and len(args) + len(keywords) == 2 and {*keywords} <= {"start"}:
        first = cx.known([*args, *keywords.values()][1], "QL1508", node)
        structural, args, keywords = partial(STRUCTURAL[fn], first=first), args[:1], {}
    structural = None if keywords else structural
    if structural is not None and all(a.entries(cx) is not None for a in args):
        made = V.View(lambda: structural(*(live(cx, a).entries(cx) for a in args)))
        return V.Tuple(made) if fn is tuple else made
    for a, given in zip(args, node.args, strict=False):
        if structural is not None and a.fields:
            raise cx.fail("QL1421", node, op=text, what=a.describe(), text=name_of(given))
    if cx.static or known:
        before = len(cx.messages)
        try:
            return _at_compile_time(cx, node, fn, args, keywords, text)
        except plain.UsesFields:
            del cx.messages[before:]
            if inlined is not None:
                return inline()
            cure = "read the field in the kernel, or call it inside qd.static(...) if once is meant"
            raise cx.fail("QL1601", node, text=text, what="it uses a field", cure=cure) from None
    short = getattr(fn, "__name__", text)
    if short in cx.operations and (getattr(math, short, None) is fn or fn is round or type(fn).__name__ == "ufunc"):
        cure = f"use qd.{short}"
    else:
        cure = "call it inside qd.static(...) with constants, or from Python and pass the result in"
    what = "called with values that exist only at run time"
    raise cx.fail("QL1601", node, text=text, what=what, cure=cure)


def _super(cx: Context, node: ast.Call) -> V.Value:
    """``super()`` in a method: Python finds the class and the object in the frame of the call."""
    source = cx.frame.source
    parameters = source.node.args.args
    note_unknown()
    try:
        cls, owner = source.lookup("__class__"), cx.frame.env[parameters[0].arg].python(cx)
        return cx.wrap(super(cls, owner), "super()", node)
    except (KeyError, IndexError, TypeError):
        what = "it is used outside of a method of a class of Python"
        raise cx.fail("QL1604", node, text="super", what=what) from None


def _at_compile_time(
    cx: Context, node: ast.Call, fn: Any, args: list[V.Value], keywords: Keywords, text: str
) -> V.Value:
    """Calls the Python function now and returns its result. A warning says that the function runs only once, unless the
    call stands inside qd.static or the function is ``round`` or one of ``math``, for which it makes no difference."""
    if not is_pure(fn):
        note_unknown()
    numbers = not keywords and all(a.constant is not None for a in args)
    if not cx.static and not (numbers and (getattr(fn, "__module__", "") == "math" or fn is round)):
        cx.warn("QL1904", node, text=text)
    given = {k: v.python(cx) for k, v in keywords.items()}
    try:
        result = plain.without_fields(cx, lambda: fn(*(a.python(cx) for a in args), **given))
    except TypeError as e:
        if any(a.is_number and a.constant is None for a in args):
            raise cx.fail("QL1606", node, text=ast.unparse(node)) from None
        raise cx.fail("QL1604", node, text=text, what=str(e)) from e
    except Exception as e:
        raise cx.fail("QL1604", node, text=text, what=f"it raised {type(e).__name__}: {e}") from e
    return cx.wrap(result, text, node)


def _is_known(cx: Context, value: V.Value) -> bool:
    try:
        value.python(cx)
    except TypeError:
        return False
    return True
