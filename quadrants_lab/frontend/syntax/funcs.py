"""Funcs are inlined where they are called; what they return, and where they may."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from quadrants_lab.frontend.diagnostics import count, error
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.syntax.branch import branch
from quadrants_lab.frontend.syntax.byref import check_no_alias, is_template, run_time_aliases
from quadrants_lab.frontend.syntax.changed import snapshot
from quadrants_lab.frontend.syntax.returns import lower_early_returns
from quadrants_lab.frontend.syntax.scan import always_returns, first_return
from quadrants_lab.frontend.syntax.unroll import static_truth
from quadrants_lab.frontend.values import matrix
from quadrants_lab.frontend.values.arith import truth
from quadrants_lab.frontend.values.context import Context, Frame
from quadrants_lab.frontend.values.leaves import describe, map_leaves, name_of
from quadrants_lab.frontend.values.lvalue import Place
from quadrants_lab.frontend.values.struct import annotation, as_type, bound
from quadrants_lab.frontend.values.update import differ, write_back
from quadrants_lab.frontend.values.values import Lit, Matrix, Mem, Num, Obj, Struct, Value
from quadrants_lab.ir.room import need

_DEEPEST = 1000  # calls of a func within itself, as many as Python's own limit
_SHOWN = 6  # funcs that a message names
_NOWHERE: Mapping[str, tuple[Place, ast.expr]] = {}


def parameters(source: FunctionSource) -> list[ast.arg]:
    """The parameters of a kernel or func, all of them named."""
    a = source.node.args
    for extra in (a.vararg, a.kwarg):
        if extra is not None:
            raise error("QL1103", source.span(extra), name=source.name, what="any number of values")
    return [*a.posonlyargs, *a.args, *a.kwonlyargs]


def returned_types(cx: Context) -> tuple[Any, ...] | None:
    """The dtypes and types of the function's ``->``; None if it has none. A tuple stands for several values."""
    node = cx.frame.source.node.returns
    if node is None or not cx.frame.source.typed or (isinstance(node, ast.Constant) and node.value is None):
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = _reparsed(node, node.value)
    parts = return_parts(node) or [node]
    given = cx.frame.source.fn.__annotations__.get("return")
    several = given if isinstance(given, tuple) else get_args(given)
    evaluated = several if len(several) == len(parts) else (given,) * len(parts)
    types = [annotation(cx, p, t) for p, t in zip(parts, evaluated, strict=True)]
    for p, t in zip(parts, types, strict=True):
        if t is None:
            raise cx.fail("QL1806", p, what=name_of(p))
    return tuple(types)


def return_parts(node: ast.expr | None) -> list[ast.expr] | None:
    """The annotations of several returned values, ``(a, b)`` or ``tuple[a, b]``; None for those of one."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] in ("tuple", "Tuple"):
        node = node.slice
        return node.elts if isinstance(node, ast.Tuple) else [node]
    return node.elts if isinstance(node, ast.Tuple) else None


def _reparsed(node: ast.Constant, text: str) -> ast.expr:
    """An annotation that was written as a string, at the place of the string."""
    tree = ast.parse(text, mode="eval").body
    for n in ast.walk(tree):
        ast.copy_location(n, node)
    return tree


def inline(
    cx: Context, node: ast.Call, source: FunctionSource, args: list[Value], keywords: dict[str, Value],
    procedure: bool = False, hidden: bool = False, references: Mapping[str, tuple[Place, ast.expr]] = _NOWHERE,
) -> Value:  # fmt: skip
    """The body of the func in the place of its call; numbers are passed by value, everything else as it is.

    ``procedure``: the call is a statement of the kernel, so the outermost loops of the func are parallel as the
    kernel's own are; a func that is called for its value runs its loops in order. ``references``: parameters that are
    taken by reference, each with its place and the expression that names it.
    """
    hidden = hidden or cx.frame.hidden
    env = _bind(cx, node, source, args, keywords, references)
    known = tuple(map(_known, env.values()))
    _check_end(cx, node, source, known, env)
    need(source.depth)
    same = run_time_aliases(cx, references)
    outer, top, static, serialize = cx.frame, cx.top, cx.static, cx.serialize
    cx.frame = Frame(source, env, call=cx.span(node), hidden=hidden, aliases=same)
    cx.top, cx.static, cx.serialize = procedure, 0, False
    cx.inlining.append((source, known))
    cx.frame.returns = None if hidden else returned_types(cx)
    cx.frame.references = tuple(references)
    given = [cx.frame.env[name] for name in references]
    values = _run(cx, _ending(cx, source)) or ()
    values, changed = values[: len(values) - len(given)], values[len(values) - len(given) :]
    values = _as_declared(cx, values)
    cx.inlining.pop()
    cx.frame, cx.top, cx.static, cx.serialize = outer, top, static, serialize
    for (name, (place, at)), before, after in zip(references.items(), given, changed, strict=True):
        if differ(before, after):
            check_no_alias(cx, name, references, same.get(name, ()), source.name)
            write_back(cx, place, before, after, at, node)
    if len(values) == 1:
        return values[0]
    return tuple(values) if values else Obj(None, source.name)


def _check_end(
    cx: Context, node: ast.Call, source: FunctionSource, known: tuple[Any, ...], env: Mapping[str, Value]
) -> None:
    """An error for a recursive call with the same compile-time values, or for too many recursive calls."""
    again = [n for n, (s, _) in enumerate(cx.inlining) if s is source]
    if any(cx.inlining[n][1] == known for n in again):
        way = [f"'{s.name}'" for s, _ in cx.inlining[again[-1] + 1 :]]
        if len(way) > _SHOWN:
            way[2:-1] = [f"... ({len(way) - 3} more)"]
        raise cx.fail("QL1603", node, name=source.name, through=f" through {', '.join(way)}" if way else "")
    if len(again) >= _DEEPEST:
        given = ", ".join(f"{name} = {v.value}" for name, v in env.items() if isinstance(v, Lit))
        raise cx.fail("QL1613", node, name=source.name, n=len(again), given=f"with {given}" if given else "once more")


def _known(value: Value) -> Any:
    """What is known of an argument at compile time. A func may call itself with other such values, on which qd.static
    decides; with the same ones the recursion would not end."""
    if isinstance(value, Lit):
        return value.value
    if isinstance(value, Obj):
        return id(value.raw)
    if isinstance(value, Mem):
        return value.buffer.name, value.entry
    if isinstance(value, tuple):
        return tuple(map(_known, value))
    return getattr(value, "shape", None)


def _ending(cx: Context, source: FunctionSource) -> Sequence[ast.stmt]:
    """The body of a func, with a return at its end where returns hand back what was taken by reference."""
    body = source.node.body
    if not cx.frame.references or always_returns(body):
        return body
    return [*body, ast.copy_location(ast.Return(None), body[-1])]


def _bind(
    cx: Context, node: ast.Call, source: FunctionSource, args: list[Value], keywords: dict[str, Value],
    references: Mapping[str, Any],
) -> dict[str, Value]:  # fmt: skip
    params = parameters(source)
    names = [p.arg for p in params]
    positional = len(names) - len(source.node.args.kwonlyargs)
    defaults = source.fn.__defaults__ or ()
    optional = dict(zip(names[positional - len(defaults) : positional], defaults, strict=True))
    optional.update(source.fn.__kwdefaults__ or {})
    given = bound(cx, node, source.name, names, args, keywords, optional, positional)
    env: dict[str, Value] = {}
    for p in params:
        value = given[p.arg] if p.arg in given else cx.wrap(optional[p.arg], p.arg)
        env[p.arg] = _passed(cx, node, source, p, value, p.arg in references)
    return env


def _passed(
    cx: Context, node: ast.Call, source: FunctionSource, param: ast.arg, value: Value, reference: bool
) -> Value:
    """An argument as the func sees it: cast to its annotation, by value unless it is a template."""
    note = param.annotation
    if is_template(source, param) and not reference:
        if isinstance(value, (Num, Lit, Matrix, Struct)):
            fixed = "a template argument"
            return Lit(value.value, node, fixed, value.dtype) if isinstance(value, Lit) else replace(value, fixed=fixed)
        return value
    outer, cx.frame = cx.frame, Frame(source)
    template = is_template(source, param)
    declared = None if template or not source.typed else annotation(cx, note, source.fn.__annotations__.get(param.arg))
    cx.frame = outer
    if declared is not None:
        value = as_type(cx, value, declared, node)
    cx.at(node)
    return map_leaves(value, cx.own)  # type: ignore[no-any-return]


# --- return -----------------------------------------------------------------------------------------------------


def return_values(cx: Context, node: ast.Return) -> tuple[Value, ...]:
    """What a return statement returns, a tuple is several values; and what was taken by reference, as it is now."""
    only = first_return(cx.frame.source.node.body) is node
    values = _values(cx, node, only)
    return (*values, *(cx.frame.env[name] for name in cx.frame.references))


def _values(cx: Context, node: ast.Return, only: bool) -> tuple[Value, ...]:
    """``only``: no other return can be meant, so that lists of vectors stay lists and need not be merged."""
    if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
        return ()
    value = cx.expr(node.value)
    if isinstance(node.value, ast.List):
        return (_returned(cx, value, node.value, only and cx.frame.returns is None),)
    if isinstance(value, tuple):
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(value)
        return tuple(_returned(cx, v, n, only) for v, n in zip(value, parts, strict=True))
    if isinstance(value, Obj):
        raise cx.fail("QL1406", node.value, what=describe(value))
    return (_returned(cx, value, node.value, only),)


def _returned(cx: Context, value: Value, node: ast.expr, only: bool) -> Value:
    if isinstance(value, tuple):
        if only and any(isinstance(v, Matrix) for v in value):
            return tuple(_returned(cx, v, node, only) for v in value)
        value = matrix.as_matrix(cx, value, node) or value
    return value if isinstance(value, (Matrix, Struct)) else cx.number(value, node)


def _as_declared(cx: Context, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Returned values as the types of the signature, where it has some."""
    want = cx.frame.returns
    if want is None:
        return values
    node = cx.frame.source.node
    if len(want) != len(values):
        if not values:
            raise cx.fail("QL1803", node.returns, name=cx.frame.source.name)
        raise cx.fail("QL1804", node.returns, got=count(len(values), "value"), want=len(want))
    assert node.returns is not None
    return tuple(as_type(cx, v, t, node.returns) for v, t in zip(values, want, strict=True))


def _run(cx: Context, body: Sequence[ast.stmt]) -> tuple[Value, ...] | None:
    """Lowers the body of a func; what it returns, None where it runs off its end."""
    for k, s in enumerate(body):
        if isinstance(s, ast.Return):
            return return_values(cx, s)
        found = first_return([s])
        if found is None:
            cx.stmts([s])
        elif not isinstance(s, ast.If):
            return lower_early_returns(cx, body[k:], found)
        elif (values := _if(cx, s, body[k + 1 :], found)) is not None:
            return values
    return None


def _if(cx: Context, s: ast.If, rest: Sequence[ast.stmt], found: ast.Return) -> tuple[Value, ...] | None:
    """An if with a return in it: what follows goes into the arm that goes on."""
    then, orelse = always_returns(s.body), always_returns(s.orelse)
    back = snapshot(cx) if not then and not orelse else None
    test = cx.expr(s.test)
    if s.test in cx.static_calls:
        chosen = s.body if static_truth(cx, test, s.test) else s.orelse
        after = rest if first_return(chosen) and not always_returns(chosen) else []
        with cx.scope(s, "if"):
            return _run(cx, [*chosen, *after])
    if back is not None:
        back()
        return lower_early_returns(cx, [s, *rest], found)
    cond = truth(cx, cx.number(test, s.test), s.test)
    sizes: list[int] = []

    def arm(body: Sequence[ast.stmt]) -> tuple[Value, ...]:
        values = _run(cx, body) or ()
        sizes.append(len(values))
        if sizes[0] != len(values):
            raise cx.fail("QL1805", found, why=f"one way returns {count(sizes[0], 'value')}, another {len(values)}")
        return values

    return branch(
        cx, cond, lambda: arm(s.body if then else [*s.body, *rest]),
        lambda: arm(s.orelse if orelse else [*s.orelse, *rest]), s, merge=False,
    )  # fmt: skip
