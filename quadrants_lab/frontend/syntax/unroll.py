"""Lowers iteration at compile time: loops over `qd.static(...)`, list and dict comprehensions, and `*` in calls."""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeVar

from quadrants_lab.errors import QuadrantsRuntimeError
from quadrants_lab.frontend import values as V
from quadrants_lab.frontend.diagnostics import count, name_of, names_in
from quadrants_lab.frontend.values.containers import live
from quadrants_lab.frontend.values.context import MOST_ENTRIES, Context, Env, Loop, check_count

T = TypeVar("T")


def unroll(cx: Context, node: ast.For, value: V.Value) -> None:
    """Lowers ``for i in qd.static(...)``: the body once for each entry, with the loop variable a constant."""
    outer = cx.frame.loop
    loop = Loop("static", (), cx.depth, outer=outer)
    trips, most = 0, cx.options.unrolling_limit
    for item in _live_entries(cx, value, node.iter):
        trips += 1
        cx.frame.loop = loop
        loop.left = ""
        with _shadowing(cx, node.target), cx.scope(node, "loop"):
            bind(cx, node.target, item)
            cx.stmts(node.body)
        if loop.left:
            cx.exited = False
        if loop.left == "break" or cx.exited:
            break
    if 0 < most < trips:
        cx.warn("QL1907", node.iter, n=trips, most=most)
    cx.frame.loop = outer


@contextmanager
def _shadowing(cx: Context, target: ast.expr) -> Iterator[None]:
    """Makes a context in which the names that ``target`` assigns are new variables, which hide variables of the
    same names outside."""
    frame, outer = cx.frame, cx.frame.hiding
    own = {n.id for n in names_in(target)}
    hidden = {n: v for n, v in frame.env.items() if n in own}
    frame.env, frame.hiding = _without(frame.env, own), {**hidden, **outer}
    yield
    frame.env, frame.hiding = {**_without(frame.env, own), **hidden}, outer


def _without(env: Env, names: set[str]) -> Env:
    return {n: v for n, v in env.items() if n not in names}


def _live_entries(cx: Context, value: V.Value, node: ast.expr) -> Iterator[V.Value]:
    """Iterates over the entries of a value. If the body of the loop changes the list, later entries are those of the
    changed list, as in Python."""
    items, held, k = iterate(cx, value, node), _held(cx), 0
    while True:
        now = _held(cx)
        if value.holds and [*map(id, now)] != [*map(id, held)]:
            before, items, held = len(items), iterate(cx, live(cx, value), node), now
            if len(items) > before or (len(items) < before and k < before):
                raise cx.fail("QL1426", node)
        if k >= len(items):
            return
        yield items[k]
        k += 1


def _held(cx: Context) -> list[V.Value]:
    """The lists, dicts and tuples in locals. They are immutable, so if the objects are the same as before, no list has
    changed."""
    return [v for v in cx.frame.env.values() if v.holds]


def iterate(cx: Context, value: V.Value, node: ast.expr) -> tuple[V.Value, ...]:
    """The entries of a value that can be iterated over at compile time. Raises QL1701 or QL1726 for any other value."""
    if isinstance(value, V.Grouped):
        points = [p if isinstance(p, tuple) else (p,) for p in _python(cx, value.space, node)]
        return tuple(V.Matrix((len(p),), tuple(V.Lit(k) for k in p), V.STATIC_VARIABLE) for p in points)
    if (found := value.entries(cx)) is not None:
        return found
    try:
        known = _python(cx, value, node)
        text = name_of(node)
        return tuple(cx.wrap(v, f"{text}[{k}]", node) for k, v in enumerate(known))
    except (TypeError, QuadrantsRuntimeError):  # QuadrantsRuntimeError: only kernels iterate over fields
        later = value.is_alias and value.tile is None
        raise cx.fail("QL1726" if later else "QL1701", node, what=value.describe()) from None


def _python(cx: Context, value: V.Value, node: ast.expr) -> Any:
    """The Python object that the value stands for. Raises QL1212 if it has too many entries to be unrolled."""
    n = prod(max(0, e.python(cx) - b.python(cx)) for b, e in value.axes)
    known = value.python(cx) if n <= MOST_ENTRIES else range(n)
    if isinstance(known, range):  # may have more entries than `len` can count
        check_count(cx, (known.stop - known.start) // known.step, node)
    return known


def unpacked(cx: Context, value: V.Value, node: ast.expr) -> tuple[V.Value, ...]:
    """The arguments that ``*value`` stands for in a call."""
    if isinstance(value, (V.Tuple, V.Shape, V.Matrix, V.Obj, V.Range)):
        return iterate(cx, value, node)
    raise cx.fail("QL1415", node, what=value.describe())


def bind(cx: Context, target: ast.expr, value: V.Value) -> None:
    """Binds a static loop variable, or unpacks the value into several."""
    if isinstance(target, ast.Name):
        if value.token is not None:
            kept = V.PASSED if value.fixed == V.PASSED else V.STATIC_VARIABLE
            value = value.with_parts(value.parts, fixed=kept)
        elif value.is_number:
            value = value.pinned(V.STATIC_VARIABLE, target)
        cx.frame.env[target.id] = value
        return
    parts = value.entries(cx)
    targets = getattr(target, "elts", [])
    if parts is None or len(parts) != len(targets):
        got = count(1 if parts is None else len(parts), "value")
        raise cx.fail("QL1412", target, got=got, want=count(len(targets) or 1, "name"))
    for t, p in zip(targets, parts, strict=True):
        bind(cx, t, p)


def list_comprehension(cx: Context, node: ast.ListComp) -> V.Value:
    """Lowers ``[... for i in ... if ...]``."""
    found = _comprehended(cx, node.generators, lambda: cx.expr(node.elt))
    return live(cx, V.List(found, cx.depth))  # type: ignore[no-any-return]


def dict_comprehension(cx: Context, node: ast.DictComp) -> V.Value:
    """Lowers ``{key: ... for i in ... if ...}``; keys must be known at compile time."""

    def entry() -> tuple[Any, V.Value]:
        return cx.known(cx.expr(node.key), "QL1508", node.key), cx.expr(node.value)

    found = _comprehended(cx, node.generators, entry)
    return live(cx, V.Dict(dict(found), cx.depth))  # type: ignore[no-any-return]


def _comprehended(cx: Context, loops: Sequence[ast.comprehension], entry: Callable[[], T]) -> list[T]:
    """The list of what ``entry`` returns in each iteration of the ``loops`` of a comprehension. Their ranges and
    conditions must be known at compile time."""
    found: list[T] = []

    def rest(k: int) -> None:
        if k == len(loops):
            found.append(entry())
            return
        loop = loops[k]
        for item in _live_entries(cx, cx.expr(loop.iter), loop.iter):
            with _shadowing(cx, loop.target):  # other changes by the entry stay, such as `a.pop()` and `s := ...`
                bind(cx, loop.target, item)
                if all(static_truth(cx, cx.expr(test), test) for test in loop.ifs):
                    rest(k + 1)

    rest(0)
    return found


def static_truth(cx: Context, value: V.Value, test: ast.expr) -> bool:
    """Whether a test, which must be known at compile time, is true. A list or dict is true if it has entries."""
    if value.token is not None:
        return len(value.parts) > 0
    try:
        return bool(_python(cx, value, test))
    except TypeError:
        raise cx.fail("QL1606", test, text=ast.unparse(test)) from None


# Python's own functions on values with entries, applied to the entries
STRUCTURAL: dict[Any, Callable[..., tuple[Any, ...]]] = {
    enumerate: lambda a, first=0: tuple(V.Tuple((V.Lit(k), v)) for k, v in enumerate(a, first)),
    zip: lambda *a: tuple(map(V.Tuple, zip(*a, strict=False))),
    reversed: lambda a: tuple(reversed(a)),
    tuple: lambda a: a,
}
