"""Inlines funcs where they are called: their parameters, bodies and returned values."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from quadrants_lab.frontend.diagnostics import count, entries_of, error, is_none, name_of
from quadrants_lab.frontend.source import FunctionSource
from quadrants_lab.frontend.syntax.branch import branch
from quadrants_lab.frontend.syntax.byref import (
    References,
    check_no_alias,
    is_template,
    run_time_aliases,
    templates,
)
from quadrants_lab.frontend.syntax.changed import snapshot
from quadrants_lab.frontend.syntax.returns import lower_early_returns
from quadrants_lab.frontend.syntax.scan import always_returns, first_return
from quadrants_lab.frontend.syntax.unroll import static_truth
from quadrants_lab.frontend.values import Container, Obj, Tuple, Value, matrix
from quadrants_lab.frontend.values.arith import truth
from quadrants_lab.frontend.values.containers import handed_out, passed
from quadrants_lab.frontend.values.context import Context, Frame
from quadrants_lab.frontend.values.struct import annotation, as_annotated, as_type, bound
from quadrants_lab.frontend.values.update import differ, write_back
from quadrants_lab.ir.deep_recursion import check_depth, syntax_tree

_MAX_RECURSION = 1000  # the most nested calls of a func within itself; the same as Python's own limit
_SHOWN = 6  # the most funcs that a message names


def parameters(source: FunctionSource) -> list[ast.arg]:
    """The parameters of a kernel or func; QL1103 for ``*args`` and ``**kwargs``."""
    a = source.node.args
    for extra in (a.vararg, a.kwarg):
        if extra is not None:
            raise error("QL1103", source.span(extra), name=source.name, what="any number of values")
    return [*a.posonlyargs, *a.args, *a.kwonlyargs]


def returned_types(cx: Context) -> tuple[Any, ...] | None:
    """The return annotation of the function as dtypes and types, one for each value that it returns; None without
    annotation, or for a func that returns a template."""
    node = cx.frame.source.node.returns
    if node is None or not cx.frame.source.typed or is_none(node):
        return None
    match node:
        case ast.Constant(value=str() as text):
            node = _reparsed(node, text)
    parts = return_parts(node) or [node]
    given = cx.frame.source.fn.__annotations__.get("return")
    if cx.frame.call is not None and is_template(cx.frame.source, given):
        return None
    several = given if isinstance(given, tuple) else get_args(given)
    evaluated = several if len(several) == len(parts) else (given,) * len(parts)
    types = [annotation(cx, p, t) for p, t in zip(parts, evaluated, strict=True)]
    for p, t in zip(parts, types, strict=True):
        if t is None:
            raise cx.fail("QL1806", p, what=name_of(p))
    return tuple(types)


def return_parts(node: ast.expr | None) -> list[ast.expr] | None:
    """The parts a and b of a return annotation ``(a, b)`` or ``tuple[a, b]`` for several values; None for the
    annotation of a single value."""
    match node:
        case ast.Subscript() if ast.unparse(node.value).rpartition(".")[2] in ("tuple", "Tuple"):
            return entries_of(node.slice)
        case ast.Tuple():
            return node.elts
    return None


def _reparsed(node: ast.Constant, text: str) -> ast.expr:
    """The expression in an annotation that is a string, located at the string."""
    tree: ast.expr = syntax_tree(text, "eval").body
    for n in ast.walk(tree):
        ast.copy_location(n, node)
    return tree


def inline(
    cx: Context, node: ast.Call, source: FunctionSource, args: list[Value], keywords: dict[str, Value],
    procedure: bool = False, hidden: bool = False, references: References | None = None,
) -> Value:  # fmt: skip
    """Lowers the body of the func in place of its call. Returns the value or tuple of values that the func returns.
    Numbers are passed by value.

    ``procedure``: the call is a statement of the kernel, so the outermost loops of the func are parallel; a func that
    is called for its value runs its loops in order. ``hidden``: the func is the library's, so errors are located at the
    call. ``references``: the parameters by reference, with the place and the expression of their arguments.
    """
    hidden, references = hidden or cx.frame.hidden, references or {}
    env = _bind(cx, node, source, args, keywords, references)
    known = tuple(value.static_key for value in env.values())
    _check_recursion(cx, node, source, known, env)
    check_depth(source.depth)
    same = run_time_aliases(cx, references)
    given = [env[name] for name in references]
    body: Sequence[ast.stmt] = source.node.body
    if references and not always_returns(body):  # each return also returns the parameters by reference
        body = [*body, ast.copy_location(ast.Return(None), body[-1])]
    frame = Frame(source, env, call=cx.span(node), references=tuple(references), hidden=hidden, aliases=same)
    inlining = [*cx.inlining, (source, known)]
    config = replace(cx.config, serialize=False)
    with cx.setting(frame=frame, top=procedure, static=0, config=config, inlining=inlining):
        frame.returns = None if hidden else returned_types(cx)
        values: tuple[Value, ...] = handed_out(Tuple(_run(cx, body) or ()), [*args, *keywords.values()])
        values, changed = values[: len(values) - len(given)], values[len(values) - len(given) :]
        if frame.returns is not None and not values:
            raise cx.fail("QL1803", source.node.returns, name=source.name)
    for (name, (place, at)), before, after in zip(references.items(), given, changed, strict=True):
        if differ(before, after):
            check_no_alias(cx, name, references, same.get(name, ()), source.name)
            write_back(cx, place, before, after, at, node)
    if len(values) == 1:
        return values[0]
    return Tuple(values) if values else Obj(None, source.name)


def _check_recursion(
    cx: Context, node: ast.Call, source: FunctionSource, known: tuple[Any, ...], env: Mapping[str, Value]
) -> None:
    """Raises an error for a recursive call with the same compile-time values, or for too many nested calls."""
    again = [n for n, (s, _) in enumerate(cx.inlining) if s is source]
    if any(cx.inlining[n][1] == known for n in again):
        way = [f"'{s.name}'" for s, _ in cx.inlining[again[-1] + 1 :]]
        if len(way) > _SHOWN:
            way[2:-1] = [f"... ({len(way) - 3} more)"]
        raise cx.fail("QL1603", node, name=source.name, through=f" through {', '.join(way)}" if way else "")
    if len(again) >= _MAX_RECURSION:
        given = ", ".join(f"{name} = {v.constant}" for name, v in env.items() if v.constant is not None)
        raise cx.fail("QL1613", node, name=source.name, n=len(again), given=f"with {given}" if given else "once more")


def _bind(
    cx: Context, node: ast.Call, source: FunctionSource, args: list[Value], keywords: dict[str, Value],
    references: References,
) -> dict[str, Value]:  # fmt: skip
    """The environment in which the func's body is lowered: the values of its parameters, by name."""
    params = parameters(source)
    names = [p.arg for p in params]
    positional = len(names) - len(source.node.args.kwonlyargs)
    defaults = source.fn.__defaults__ or ()
    optional = dict(zip(names[positional - len(defaults) : positional], defaults, strict=True))
    optional.update(source.fn.__kwdefaults__ or {})
    given = bound(cx, node, names, args, keywords, optional, positional, text=source.name)
    env: dict[str, Value] = {}
    for p in params:
        value = given[p.arg] if p.arg in given else cx.wrap(optional[p.arg], p.arg)
        env[p.arg] = _parameter(cx, node, source, p, value, p.arg in references)
    return env


def _parameter(
    cx: Context, node: ast.Call, source: FunctionSource, param: ast.arg, value: Value, reference: bool
) -> Value:
    """The value of a parameter inside the func: a copy of the argument, cast to the annotation; for a template
    parameter the argument itself."""
    template = param.arg in templates(source)
    if template and not reference:
        return passed(value).pinned("a template argument", node)  # type: ignore[no-any-return]
    if not template and source.typed:
        with cx.setting(frame=Frame(source)):
            declared = annotation(cx, param.annotation, source.fn.__annotations__.get(param.arg))
        if declared is not None:
            value = as_annotated(cx, value, declared, node)
    cx.at(node)
    if value.holds:
        return value if reference else passed(value)
    return value.owned(cx, node)  # type: ignore[no-any-return]


def return_values(cx: Context, node: ast.Return) -> tuple[Value, ...]:
    """The values of a return statement, then the current values of the parameters by reference."""
    return (*_as_declared(cx, _values(cx, node), node), *(cx.frame.env[name] for name in cx.frame.references))


def _values(cx: Context, node: ast.Return) -> tuple[Value, ...]:
    only = first_return(cx.frame.source.node.body) is node  # nothing to merge: a list of vectors stays a list
    if node.value is None or is_none(node.value):
        return ()
    value = cx.expr(node.value)
    if isinstance(value, Tuple) and (value.token is None or len(cx.frame.returns or ()) > 1):
        parts = zip(value, entries_of(node.value, len(value)), strict=True)
        return tuple(_returned(cx, v, n, only) for v, n in parts)
    if isinstance(value, Obj) and (cx.frame.call is None or value.raw is None):
        raise cx.fail("QL1406", node.value, what=value.describe())
    return (_returned(cx, value, node.value, only and cx.frame.returns is None),)


def _returned(cx: Context, value: Value, node: ast.expr, only: bool) -> Value:
    if cx.frame.call is not None and cx.frame.returns is None and value.is_alias:
        return value
    if isinstance(value, Container if cx.frame.returns is None else Tuple):
        return value  # `_as_declared` casts the numbers of a list
    if value.holds and value.token is None:
        if only and any(v.shape for v in value.parts):
            return Tuple(_returned(cx, v, node, only) for v in value.parts)
        value = matrix.as_matrix(cx, value, node) or value
    return value.numbers(cx, node)  # type: ignore[no-any-return]


def _as_declared(cx: Context, values: tuple[Value, ...], node: ast.Return) -> tuple[Value, ...]:
    """The values of one return, cast to the types of the return annotation, if there is one. Each return casts its own
    values, so they do not pass through the common dtype of all returns."""
    want = cx.frame.returns
    if want is None or not values:
        return values
    if len(want) != len(values):
        raise cx.fail("QL1804", node, got=count(len(values), "value"), want=len(want))
    assert node.value is not None
    cast = as_type if cx.frame.call is None else as_annotated
    return tuple(cast(cx, v, t, node.value) for v, t in zip(values, want, strict=True))


def _run(cx: Context, body: Sequence[ast.stmt]) -> tuple[Value, ...] | None:
    """Lowers the body of a func. Returns the values that the func returns, or None if the body ends without a
    return."""
    for k, s in enumerate(body):
        found = first_return([s])
        match s:
            case ast.Return():
                return return_values(cx, s)
            case _ if found is None:
                cx.stmts([s])
            case ast.If():
                if (values := _if(cx, s, body[k + 1 :], found)) is not None:
                    return values
            case _:
                return lower_early_returns(cx, body[k:], found)
    return None


def _if(cx: Context, s: ast.If, rest: Sequence[ast.stmt], found: ast.Return) -> tuple[Value, ...] | None:
    """Lowers an ``if`` with a return in it. ``rest`` are the statements after the ``if``; they are lowered inside the
    arm that does not return."""
    then, orelse = always_returns(s.body), always_returns(s.orelse)
    undo = snapshot(cx) if not then and not orelse else None
    test = cx.expr(s.test)
    if s.test in cx.static_calls or test.token is not None:
        chosen = s.body if static_truth(cx, test, s.test) else s.orelse
        after = rest if first_return(chosen) and not always_returns(chosen) else []
        with cx.scope(s, "if"):
            return _run(cx, [*chosen, *after])
    if undo is not None:
        undo()
        return lower_early_returns(cx, [s, *rest], found)
    cond = truth(cx, test.number(cx, s.test), s.test)
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
