"""Finds arguments by reference that share memory. Parameters of funcs that are annotated `qd.template()` are passed
by reference.

A func gets the value of a local, and `funcs.inline` writes the final value back to the place of the argument. If
two arguments share memory, one would overwrite the other.
"""

import ast
from collections.abc import Iterable
from functools import partial, reduce
from itertools import combinations
from typing import Any

from quadrants_lab.frontend.diagnostics import name_of
from quadrants_lab.frontend.source import FunctionSource, attribute
from quadrants_lab.frontend.values import Value
from quadrants_lab.frontend.values.compound import computed
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import Place, place_of
from quadrants_lab.frontend.values.number import id_of
from quadrants_lab.ir.deep_recursion import syntax_tree
from quadrants_lab.ir.types import i64

References = dict[str, tuple[Place, ast.expr]]  # by parameter: place and expression of its argument


def templates(source: FunctionSource) -> dict[str, int]:
    """The template parameters of a func, with their positions."""
    if source.templates is None:
        a = source.node.args
        every = enumerate([*a.posonlyargs, *a.args, *a.kwonlyargs])
        written = source.fn.__annotations__
        found = {p.arg: k for k, p in every if p.annotation is not None and is_template(source, written.get(p.arg))}
        if any(isinstance(given, str) for given in written.values()):
            return found  # not cached, because the lookups must be recorded for each kernel
        source.templates = found
    return source.templates


def is_template(source: FunctionSource, given: Any) -> bool:
    """Whether ``given``, an annotation of the function or the text of one, is `qd.template` or `qd.ref`."""
    if isinstance(given, str):  # an annotation that Python did not evaluate
        try:
            given = _named(source, syntax_tree(given, "eval").body)
        except (SyntaxError, KeyError, AttributeError):  # a local of the function around it
            return str(given).lower().rstrip("()").endswith("template")
    return getattr(given, "__qd_template__", False) is True


def _named(source: FunctionSource, node: ast.expr) -> Any:
    """The object that a name or attribute stands for; for a call, the object that is called."""
    match node:
        case ast.Attribute():
            return attribute(_named(source, node.value), node.attr)
        case ast.Call():
            return _named(source, node.func)
        case ast.Name():
            return source.lookup(node.id)
    return None


def check_no_alias(cx: Context, name: str, references: References, aliases: Iterable[str], func: str) -> None:
    """Raises QL1617 if the parameter ``name``, which the func has changed, stands for the same variable or element
    as another parameter by reference. The other parameter does not see the change, and writing it back would
    overwrite the change. ``aliases`` has parameters that do see the change."""
    place, _ = references[name]
    for other, (second, at) in references.items():
        if other != name and other not in aliases and _overlap(place, second):
            raise cx.fail("QL1617", at, text=name_of(at), func=func, name=name, other=other)


def _overlap(a: Place, b: Place) -> bool:
    """Whether two places may have a number in common."""
    if not (a.is_variable and b.is_variable):
        return False
    if a.whole.token is not None and b.whole.token is not None:
        if a.whole.token is not b.whole.token:  # one list may be an entry of the other
            return bool(a.name.partition("[")[0] == b.name.partition("[")[0])
    elif a.name != b.name:
        return False
    for p, q in zip(a.steps, b.steps, strict=False):
        if not p.meets(q):
            return False
        if p.cells:  # parts of these elements are not compared
            return True
    return True


def run_time_aliases(cx: Context, references: References) -> dict[str, dict[str, int]]:
    """For each parameter by reference, lists the other parameters that stand for the same variable of the caller if
    some indices are equal at run time, each with the id of this condition."""
    found: dict[str, dict[str, int]] = {}
    for (one, (a, node)), (other, (b, _)) in combinations(references.items(), 2):
        cx.at(node)
        same = _same_place(cx, a, b)
        if same is not None:
            found.setdefault(one, {})[other] = found.setdefault(other, {})[one] = same
    return found


def _same_place(cx: Context, a: Place, b: Place) -> int | None:
    """Emits the condition (u1) that both places are the same number of a local variable; returns None if compile time
    decides it."""
    if not (a.is_variable and b.is_variable):
        return None
    if a.name != b.name:  # parameters by reference of the calling func
        return None if a.steps or b.steps else cx.frame.aliases.get(a.name, {}).get(b.name)
    if a.steps[:-1] != b.steps[:-1] or not a.base.shape:
        return None
    tests = []
    ends = [p.steps[-1].index if p.steps else () for p in (a, b)]
    for p, q in zip(*ends, strict=False):
        if computed((p, q)):
            ids = (cx.b.cast(id_of(cx, k, i64), i64) for k in (p, q))
            tests.append(cx.b.op("eq", *ids))
        elif p != q:
            return None
    return reduce(partial(cx.b.op, "and"), tests) if tests else None


def refer(cx: Context, node: ast.expr, parameter: str, references: References) -> Value:
    """The value of the argument ``node`` for a template parameter. If the argument is a local variable of the caller,
    it is added to ``references``, so that the func's last value is written back. An element of a field or ndarray is
    passed as a place in memory, which the func writes directly."""
    place = place_of(cx, node)
    if place is None:
        return cx.expr(node)
    value: Value = place.held(cx, node)
    if value.token is not None or (place.is_variable and value.is_held and value.constant is None):
        if value.is_shared:
            return value.load(cx, node)
        references[parameter] = (place, node)
    elif value.is_memory:
        return value
    return value.load(cx, node)
