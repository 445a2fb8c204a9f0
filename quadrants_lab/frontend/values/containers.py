"""Lowers operations on the lists and dicts that a kernel makes. Their entries are values of the running kernel; the
keys and the number of entries are known at compile time.

They are immutable here, as vectors are: a change makes a new list, which replaces the old one in all locals, and
branches and loops carry its numbers. Two changes are errors. One is a change of the number of entries in code that may
not run, or may run several times. The other is a change of a list that two variables hold: after ``b = a`` Python has
one list with two names, but Quadrants has two lists. After ``if x: b = a`` the lists of a and b may be the same one
(they alias), which `merged` records.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from quadrants_lab.frontend.diagnostics import id_of, name_of, owner_of
from quadrants_lab.frontend.values import PASSED, STATIC_VARIABLE, Container, Dict, Tuple, Value, View
from quadrants_lab.frontend.values.context import Context, Env


def entry_at(cx: Context, value: Container, node: ast.Subscript) -> int:
    """The position, counted from 0, of the list or dict entry to which the subscript ``node`` refers."""
    key = key_of(cx, node)
    try:
        return value.place(key)
    except (LookupError, TypeError):
        raise cx.fail("QL1506", node, index=repr(key), count=len(value.parts)) from None


def key_of(cx: Context, node: ast.Subscript) -> Any:
    """The key between the brackets of a subscript, which must be known at compile time."""
    return cx.known(cx.expr(node.slice), "QL1508", node.slice)


# --- changes ----------------------------------------------------------------------------------------------------


def _holders(value: Value, token: object, in_tuple: bool = False) -> Iterator[bool]:
    """Searches a value, at any depth, for the list with this token (its identity). Yields for each occurrence
    whether it is inside a tuple."""
    if value.token is token:
        yield in_tuple
    for part in value.parts:
        yield from _holders(part, token, in_tuple or value.token is None)


def _found(value: Value, token: object) -> Any:
    """The list with this token in the value; None if there is none."""
    return next((held for held in _lists(value) if held.token is token), None)


def current(cx: Context, value: Value) -> Any:
    """The list in its present state, taken from a local that holds it; ``value`` may be an earlier state."""
    return next((v for held in cx.frame.env.values() if (v := _found(held, value.token)) is not None), value)


def live(cx: Context, value: Value) -> Any:
    """The value, in which each list has its present state; lists may have changed since the value was read. In Python,
    too, an iteration sees changes of its list, and in ``[a, a.pop()]`` the first entry is the list without its last
    entry."""
    if not value.holds:
        return value
    if (renewed := value.renewed()) is not value:
        return renewed
    now = value if value.token is None else current(cx, value)
    old, parts = value.parts, [live(cx, part) for part in now.parts]
    if len(parts) == len(old) and all(p is q for p, q in zip(parts, old, strict=True)):
        return value
    return now.with_parts(parts, depth=value.depth, fixed=value.fixed)


def change(cx: Context, old: Container, new: Container, node: ast.AST, name: str) -> None:
    """Changes a list: in all locals the entries of ``new`` replace those of ``old``. ``name`` is the list's name in the
    program, for messages."""
    env, kind = cx.frame.env, old.kind
    if old.fixed == PASSED:
        raise cx.fail("QL1424", node, name=name, kind=kind, func=cx.frame.source.name)
    held = {n: found for n, v in env.items() if (found := list(_holders(v, old.token)))}
    if not held:
        raise cx.fail("QL1425", node, kind=kind)
    check_unaliased(cx, old, node)
    if cx.depth != old.depth and (old.structure() != new.structure() or any(map(any, held.values()))):
        raise cx.fail("QL1422", node, name=name, kind=kind)
    if any(v.token is not old.token and _may_alias(cx, v.token, old.token) for v in cx.chosen):
        who = f"'{name}' and a {kind} that a condition chose before it in this statement may be the same"
        raise cx.fail("QL1423", node, who=who, kind=kind)
    if any(_may_alias(cx, part.token, old.token) for part in _lists(Tuple(new.parts))):
        raise cx.fail("QL1427", node, name=name, kind=kind)
    for n in held:
        env[n] = _exchanged(env[n], old.token, new)


def check_unaliased(cx: Context, value: Value, node: ast.AST, shared: bool = False) -> None:
    """Raises QL1423 if two locals may hold the list, or if one local may hold it twice. The loop variable of a static
    loop does not count, unless iterations of a parallel loop share the list (``shared``)."""
    found = [
        (n, held) for n, v in cx.frame.env.items() for held in _lists(v)
        if _may_alias(cx, held.token, value.token) and (shared or v.fixed != STATIC_VARIABLE)
    ]  # fmt: skip
    if len(found) > 1:
        kind, ((first, a), (second, b)) = value.kind, found[:2]
        holds = ("holds", "hold") if a.token is b.token else ("may hold", "may hold")
        who = f"'{first}' {holds[0]} the same {kind} twice"
        if first != second:
            who = f"'{first}' and '{second}' {holds[1]} the same {kind}"
        raise cx.fail("QL1423", node, who=who, kind=kind)


def _exchanged(value: Value, token: object, new: Container) -> Value:
    """The value, in which the list with this token, at any depth, has the entries of ``new``; the value itself if it
    does not contain the list."""
    if value.token is token:
        return new.with_parts(new.parts, depth=value.depth, token=token, fixed=value.fixed)  # type: ignore[no-any-return]
    if _found(value, token) is None:
        return value
    return value.with_parts([_exchanged(part, token, new) for part in value.parts])  # type: ignore[no-any-return]


def hand_back(cx: Context, before: Any, after: Any, node: ast.expr) -> None:
    """Changes the caller's list ``before``, which a func took by reference, to the state ``after`` that it has at the
    end of the func."""
    for part in (p for p in before.parts if p.token is not None):
        kept = _found(after, part.token)
        if kept is not None:
            hand_back(cx, part, kept, node)
        elif any(_may_alias(cx, v.token, part.token) for v in _lists(after)):
            check_unaliased(cx, part, node)
    same = len(before.parts) == len(after.parts)
    if not same or any(p is not q for p, q in zip(before.parts, after.parts, strict=True)):
        change(cx, current(cx, before), after, node, name_of(node))


# --- aliases ------------------------------------------------------------------------------------------------------


def _lists(value: Value) -> Iterator[Any]:
    """The lists and dicts in the value, at any depth, beginning with the value itself if it is one."""
    if value.token is not None:
        yield value
    for part in value.parts:
        yield from _lists(part)


def _with_attributes(value: Value, of: Callable[[Container], dict[str, Any]]) -> Any:
    """A copy of the value, in which each list gets the attributes that ``of`` returns for it; ``of`` is called in the
    order of `_lists`. The value itself if nothing changes."""
    own = {} if value.token is None else of(value)  # type: ignore[arg-type]  # lists and dicts have a token
    old = value.parts
    parts = [_with_attributes(part, of) for part in old]
    same = all(p is q for p, q in zip(parts, old, strict=True)) and all(getattr(value, k) == v for k, v in own.items())
    return value if same else value.with_parts(parts, **own)


def _may_alias(cx: Context, a: object, b: object) -> bool:
    return a is b or b in cx.list_aliases.get(a, ())


def _add_alias(cx: Context, a: object, b: object) -> None:
    cx.list_aliases.setdefault(a, set()).add(b)
    cx.list_aliases.setdefault(b, set()).add(a)


def with_tokens(value: Value, tokens: Iterator[object]) -> Any:
    """A copy of the value, whose lists get these tokens, in the order of `_lists`; the value itself if nothing
    changes."""
    return _with_attributes(value, lambda _: {"token": next(tokens)})


def tokens_of(value: Value) -> Iterator[object]:
    return (held.token for held in _lists(value))


def merged(cx: Context, value: Value, incoming: Sequence[Value]) -> Any:
    """The value after a point where control flow merges; ``incoming`` has the value on each path. A list that is not
    the same list on all paths gets a new token, and may alias each of the lists on the paths. Two lists may alias after
    the merge if they may alias on some path."""
    slots = [
        (tokens[0] if all(t is tokens[0] for t in tokens) else object(), tokens)
        for tokens in zip(*map(tokens_of, incoming), strict=True)
    ]
    of_old = [
        (token, other) for token, tokens in slots if token is not tokens[0]
        for one in tokens for other in (one, *cx.list_aliases.get(one, ()))
    ]  # fmt: skip
    _add_aliases(cx, slots)
    for token, other in of_old:
        _add_alias(cx, token, other)
    return with_tokens(value, iter([token for token, _ in slots]))


def _add_aliases(cx: Context, slots: Sequence[tuple[object, tuple[object, ...]]]) -> bool:
    """Records the pairs of new tokens that may alias because their lists may alias on some path. Returns whether a pair
    was not recorded yet. ``slots`` has each new token with the tokens on the paths."""
    changed = [(token, tokens) for token, tokens in slots if any(t is not token for t in tokens)]
    new = [
        (a, b) for a, on_a in changed for b, on_b in slots
        if not _may_alias(cx, a, b) and any(map(partial(_may_alias, cx), on_a, on_b))
    ]  # fmt: skip
    for a, b in new:
        _add_alias(cx, a, b)
    return bool(new)


def _with_lists(env: Env) -> list[str]:
    return [n for n, v in env.items() if v.holds and next(_lists(v), None) is not None]


def merge_locals(cx: Context, incoming: Sequence[Env]) -> None:
    """Applies `merged` to all locals; ``incoming`` has the environment at the end of each path."""
    env = cx.frame.env
    names = _with_lists(env)
    if names and incoming:
        now = merged(cx, Tuple(env[n] for n in names), [Tuple(path[n] for n in names) for path in incoming])
        env.update(zip(names, now, strict=True))


def merge_into_head(cx: Context, head: Env, ends: Sequence[Env]) -> None:
    """Called at the end of a loop's body, with the locals at its ``ends``. Two lists may alias at the start of the
    second iteration although they did not at the ``head`` of the first. Then the pair is recorded, and the loop is
    lowered again."""
    names = _with_lists(head)
    for end in ends:
        slots = [(a, (b,)) for n in names for a, b in zip(tokens_of(head[n]), tokens_of(end[n]), strict=True)]
        cx.lower_again |= _add_aliases(cx, slots)


# --- scopes -------------------------------------------------------------------------------------------------------


def outside(cx: Context, value: Value) -> Value:
    """The value as it is after a condition: lists in it that were made under the condition, or chosen by it, count from
    now on as made at the present depth."""
    cx.chosen += _lists(value)
    return _with_attributes(value, lambda held: {"depth": min(held.depth, cx.depth)})  # type: ignore[no-any-return]


def passed(value: Value) -> Value:
    """The value as an argument that is passed by value: lists in it cannot be changed."""
    return _with_attributes(value, lambda _: {"fixed": PASSED})  # type: ignore[no-any-return]


def handed_out(value: Value, given: Sequence[Value]) -> Any:
    """The value that a func returns, as its caller gets it. A list that the func took by value, and so could not
    change, becomes changeable again if it was changeable among the arguments ``given``."""
    was = {held.token: held.fixed for argument in given for held in _lists(argument)}
    return _with_attributes(value, lambda held: {"fixed": was.get(held.token, held.fixed)})


# --- methods ----------------------------------------------------------------------------------------------------


def _entries(cx: Context, value: Value, node: ast.expr) -> tuple[Value, ...]:
    found = value.entries(cx)
    if found is None:
        raise cx.fail("QL1415", node, what=value.describe())
    return found


def call_method(cx: Context, node: ast.Call, name: str, before: Value, args: Sequence[Value], text: str) -> Value:
    """A call such as ``a.append(x)`` of a method of a list or dict: Python's own method is applied to the entries."""
    old = current(cx, before)
    known, spread = METHODS[old.kind][name]
    given: list[Any] = list(args)
    for k in range(min(known, len(given))):
        given[k] = cx.known(given[k], "QL1508", node.args[k])
    if spread and given:
        same = given[0].kind == old.kind
        given[0] = given[0].copied if same else _entries(cx, given[0], node.args[0])
    items: Any = old.copied
    try:
        result = getattr(items, name)(*given)
    except LookupError:
        raise cx.fail("QL1506", node, index=repr(given[0]) if given else "-1", count=len(items)) from None
    except TypeError as e:
        raise cx.fail("QL1604", node, text=text, what=str(e)) from None
    if name in ("get", "pop") and result is not None:
        found: Value = result
    elif name == "copy":
        found = type(old)(result, cx.depth)
    elif name in ("keys", "values", "items"):
        found = View(partial(_rows, cx, old, name))
    else:
        found = cx.wrap(None, text)
    if name not in _READ:
        if cx.depth != old.depth:  # numbers in the entries may get other dtypes
            raise cx.fail("QL1422", node, name=text.rpartition(".")[0], kind=old.kind)
        new = type(old)(items, old.depth)
        change(cx, old, new, node, name_of(node.func.value) if isinstance(node.func, ast.Attribute) else text)
    return found


def _rows(cx: Context, value: Container, name: str) -> tuple[Value, ...]:
    """The keys, values or items of the dict as it is now."""
    now = current(cx, value)
    rows = zip(now.entries(cx) or (), now.parts, strict=True)
    return tuple(Tuple(row) if name == "items" else row[name == "values"] for row in rows)


_READ = ("get", "keys", "values", "items", "copy")
# the methods that a kernel can call: how many arguments, from the left, must be known at compile time, and whether the
# first argument is a list or dict of entries
METHODS: dict[str, dict[str, tuple[int, bool]]] = {
    "list": {"append": (0, False), "extend": (0, True), "insert": (1, False), "pop": (1, False), "reverse": (0, False),
           "clear": (0, False), "copy": (0, False)},
    "dict": {"get": (1, False), "pop": (1, False), "update": (0, True), "keys": (0, False), "values": (0, False),
           "items": (0, False), "clear": (0, False), "copy": (0, False)},
}  # fmt: skip


def inserted(cx: Context, target: ast.expr, held: Callable[[ast.expr], Value], value: Value) -> bool:
    """If the target is ``d[key]`` and the dict has no such key yet, lowers ``d[key] = value``. Returns whether it
    did."""
    root = owner_of(target)
    named = cx.frame.env.get(id_of(root))
    if not isinstance(target, ast.Subscript) or named is None or named.token is None:
        return False
    old = held(target.value)
    if old.kind != "dict":
        return False
    old, key = current(cx, old), key_of(cx, target)
    if key in old.members:
        return False
    change(cx, old, Dict({**old.members, key: value}, old.depth), target, name_of(target.value))
    return True
