"""Writing to places: locals as new values, memory by stores and atomics, shared locals by reductions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from quadrants_lab.errors import Label
from quadrants_lab.frontend.values import matrix
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.leaves import describe, leaf_names, leaves, name_of, refilled
from quadrants_lab.frontend.values.lvalue import At, Local, Part, Place, Step, all_cells, candidates
from quadrants_lab.frontend.values.sparse import activated
from quadrants_lab.frontend.values.values import Element, Lit, Matrix, Mem, Num, Number, Struct, Temp, Value
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, convert, promote, u1


def pairs(cx: Context, old: Value, new: Value, node: ast.expr) -> Iterator[tuple[Any, Number]]:
    """Each number of ``old`` with the one of ``new`` that takes its place; a number fills a matrix. An error where the
    shapes differ."""
    if isinstance(old, Element) and old.shape:
        old = all_cells(cx, old, node)
    if isinstance(old, Matrix):
        value = matrix.shaped(cx, new, node)
        if isinstance(value, Matrix) and value.shape != old.shape:
            raise cx.fail("QL1417", node, what=describe(value), target=describe(old))
        for k, leaf in enumerate(old.elements):
            yield leaf, value.elements[k] if isinstance(value, Matrix) else value  # type: ignore[misc]  # it is read
    elif isinstance(old, Struct):
        if not isinstance(new, Struct) or list(new.members) != list(old.members):
            raise cx.fail("QL1417", node, what=describe(new), target=describe(old))
        for name, member in old.members.items():
            yield from pairs(cx, member, new.members[name], node)
    elif isinstance(old, (Num, Lit, Temp, Element)):
        if isinstance(new, (Matrix, Struct)):
            raise cx.fail("QL1417", node, what=describe(new), target="a number")
        yield old, cx.number(new, node)
    elif not _same_binding(old, new):
        raise cx.fail("QL1417", node, what=describe(new), target=describe(old))


def _same_binding(old: Value, new: Value) -> bool:
    """Whether a member that is no number stays what it is."""
    if isinstance(old, Mem) and isinstance(new, Mem):
        return old.buffer is new.buffer
    return old is new or (hasattr(old, "value") and getattr(old, "value", 0) is getattr(new, "value", 1))


def fitted(cx: Context, old: Value, new: Value, node: ast.expr, stmt: ast.AST, name: str) -> Value:
    """``new`` in the shape and dtypes of the local ``old``, which it replaces."""
    if isinstance(old, Num) and isinstance(new, (Num, Lit)):
        warn_loss(cx, "QL1901", new, old.type, name, node)
        cx.at(stmt)
        return Num(cx.to(new, old.type), old.type)
    numbers = []
    warned = False
    for leaf, number in pairs(cx, old, new, node):
        warned = warned or warn_loss(cx, "QL1901", number, leaf.type, name, node)
        cx.at(stmt)
        numbers.append(cx.num(number, leaf.type))
    return refilled(old, (Num(n.id, n.type) for n in numbers))  # type: ignore[no-any-return]


def put(cx: Context, place: Local, value: Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Assigns a local, or a part of it."""
    whole = cx.frame.env[place.name]
    check_own(cx, whole, node, place.name)
    _check_seen(cx, place, node)
    keep(cx, place.name, _replaced(cx, whole, place.steps, value, source, stmt, place.name))


def keep(cx: Context, name: str, value: Value) -> None:
    """Makes it the value of a local, and of the parameters by reference that turn out to be the same place."""
    env = cx.frame.env
    env[name] = value
    for other, same in cx.frame.twins.get(name, {}).items():
        old = env[other]
        assert isinstance(value, Num)
        assert isinstance(old, Num)
        env[other] = Num(cx.b.op("select", same, value.id, old.id), old.type)


def write(cx: Context, place: Place, value: Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Assigns a local or a part of it, or stores to memory."""
    if isinstance(place, Local):
        put(cx, place, value, node, source, stmt)
    else:
        store(cx, place, value, node, source, stmt)


def _replaced(
    cx: Context, old: Value, steps: tuple[Step, ...], new: Value, node: ast.expr, stmt: ast.AST, name: str
) -> Value:
    """``old`` with the part that the steps lead to replaced."""
    if not steps:
        return fitted(cx, old, new, node, stmt, name)
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        assert isinstance(old, Struct)
        member = _replaced(cx, old.members[step], rest, new, node, stmt, f"{name}.{step}")
        return Struct(old.type, {**old.members, step: member})
    assert isinstance(old, Matrix)
    elements: list[Any] = list(old.elements)
    if isinstance(step, Part):
        picked: Value = elements[step.positions[0]]
        if step.shape:
            picked = Matrix(step.shape, tuple(elements[p] for p in step.positions))
        after = _replaced(cx, picked, rest, new, node, stmt, name)
        for p, e in zip(step.positions, leaves(after), strict=True):
            elements[p] = e
        return Matrix(old.shape, tuple(elements))
    t: DType = elements[0].type
    number = fitted(cx, elements[0], new, node, stmt, name)
    assert isinstance(number, Num)
    for p, cond in candidates(cx, old.shape, step):
        elements[p] = Num(cx.b.op("select", cond(), number.id, elements[p].id), t)
    return Matrix(old.shape, tuple(elements))


def check_own(cx: Context, value: Value, node: ast.expr, name: str) -> None:
    """An error where the local is shared by the iterations of a parallel loop."""
    if not isinstance(value, Num) and any(isinstance(leaf, Temp) for leaf in leaves(value)):
        raise cx.fail("QL1704", node, name=name)


def _check_seen(cx: Context, place: Local, node: ast.expr) -> None:
    """An error where a part of an argument of a plain Python function changes: Python's caller would see it."""
    frame, name = cx.frame, place.name
    copied = not frame.source.typed and name in frame.source.parameters and name not in frame.references
    if copied and isinstance(frame.env[name], (Matrix, Struct)):
        raise cx.fail("QL1616", node, name=name, func=frame.source.name)


def is_shared(cx: Context, place: Place) -> bool:
    """Whether the place is, or belongs to, a local that iterations share."""
    return isinstance(place, Local) and any(isinstance(leaf, Temp) for leaf in leaves(cx.frame.env[place.name]))


def in_memory(cx: Context, place: Place, node: ast.expr) -> Value:
    """The place, which has to be in memory: an element of a field or ndarray, or several."""
    if isinstance(place, (Element, Matrix, Struct)):
        inner = list(leaves(place))
        if inner and all(isinstance(e, Element) for e in inner):
            return place
    if isinstance(node, ast.Attribute) and not isinstance(place, (Num, Matrix, Struct)):
        raise cx.fail("QL1201", node, what="assignment to an attribute", cure="assign to an element of a field")
    root = node
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        root = root.value
    name = name_of(root)
    if not isinstance(root, ast.Name):
        raise cx.fail("QL1303", root, name=name, what="a value")
    value = cx.frame.env.get(name)
    if value is None:
        raise cx.fail("QL1305", node, name=name)
    raise cx.fail("QL1303", node, name=name, what=getattr(value, "fixed", "") or describe(value))


def store(cx: Context, place: Place, value: Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Stores to memory."""
    warned = False
    for cell, number in pairs(cx, in_memory(cx, place, node), value, source):
        buffer = cell.mem.buffer
        warned = warned or _warn_store(cx, number, buffer.dtype, cell.mem.text, node)
        cx.at(stmt)
        cx.b.store(buffer, (*cell.index, *cell.at), cx.to(number, buffer.dtype))
    _activated(cx, place)


def _activated(cx: Context, place: Any) -> None:
    """What was written to is active, each element of a field once."""
    cells = {(id(cell.mem.buffer), *cell.index): cell for cell in leaves(place) if isinstance(cell, Element)}
    for cell in cells.values():
        activated(cx, cell.mem, cell.index)


def atomic(cx: Context, op: str, place: Place, value: Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> Value:
    """``place op= value`` on memory, an atomic for each number; the old value."""
    old = []
    warned = False
    target = in_memory(cx, place, node)
    for cell, number in pairs(cx, target, value, source):
        t = cell.mem.buffer.dtype
        check_atomic(cx, op, t, stmt)
        warned = warned or _warn_store(cx, number, t, cell.mem.text, node)
        cx.at(stmt)
        index = (*cell.index, *cell.at)
        old.append(Num(cx.b.atomic(op, cell.mem.buffer, index, cx.to(number, t)), t))
    _activated(cx, target)
    if isinstance(target, Element) and target.shape:
        return Matrix(target.shape, tuple(old))
    return refilled(target, old)  # type: ignore[no-any-return]


def differ(before: Value, after: Value) -> bool:
    """Whether a func has changed numbers of an argument that it took by reference."""
    return any(a.id != b.id for a, b in zip(leaves(before), leaves(after), strict=True))


def write_back(cx: Context, place: Place, before: Value, after: Value, node: ast.expr, stmt: ast.AST) -> None:
    """Writes back an argument that a func took by reference: the numbers that the func changed go to their place.
    A value without a place is dropped."""
    if isinstance(place, Local):
        put(cx, place, after, node, node, stmt)
    elif isinstance(place, (Element, Matrix, Struct)) and all(isinstance(e, Element) for e in leaves(place)):
        for (cell, number), was in zip(pairs(cx, place, after, node), leaves(before), strict=True):
            if number.id != was.id:  # type: ignore[union-attr]  # a variable of the func: it holds no literals
                cx.at(stmt)
                cx.b.store(cell.mem.buffer, (*cell.index, *cell.at), cx.to(number, cell.mem.buffer.dtype))
                activated(cx, cell.mem, cell.index)


def reduce(cx: Context, op: str, place: Local, value: Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> Value:
    """Accumulates into a local of the kernel that all iterations share; the old value."""
    if place.steps:
        _check_seen(cx, place, node)
    if place.value is not None:
        old = []
        for temp, number in pairs(cx, place.value, value, source):
            amount = _amount(cx, op, temp, number, source, stmt)
            old.append(_reduce(cx, op, temp, amount, node, stmt))
        return refilled(place.value, old)  # type: ignore[no-any-return]
    whole: Any = place.whole
    for step in place.steps[:-1]:
        whole = whole.members[step] if isinstance(step, str) else whole
    last = place.steps[-1]
    if op not in _NEUTRAL or not isinstance(last, At) or not isinstance(whole, Matrix):
        raise cx.fail("QL1508", node)
    first: Any = whole.elements[0]
    t: DType = first.buffer.dtype
    amount = _amount(cx, op, first, cx.number(value, source), source, stmt)
    nothing = cx.const(convert(_NEUTRAL[op], t), t)
    asked, found = isinstance(stmt, ast.Call), nothing  # the value of a statement like += is not
    for p, cond in candidates(cx, whole.shape, last):
        here = cond()
        was = _reduce(cx, op, whole.elements[p], cx.b.op("select", here, amount, nothing), node, stmt)
        found = cx.b.op("select", here, was.id, found) if asked else found
    return Num(found, t)


_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "and": -1, "mul": 1}  # with which an element stays what it is


def _amount(cx: Context, op: str, temp: Any, number: Number, source: ast.expr, stmt: ast.AST) -> int:
    """What is accumulated in the dtype of the local, which it is cast to before the operation; an error where that is
    not what the operation and a cast would give, and a warning where the operation and a cast lose something."""
    t, given = temp.buffer.dtype, cx.type_of(number)
    check_atomic(cx, op, t, stmt)
    kept = isinstance(number, Lit) and (t.is_float or not given.is_float) and convert(number.value, t) == number.value
    if given is not t and promote(t, given) is not t and not kept:
        exact = (t.is_float and given.is_float) or (t.is_int and given.is_int and t is not u1)
        allowed = op in ("add", "sub", "exchange") or (exact and (t.is_float or op not in ("min", "max")))
        if not allowed:
            value = 10.0 if given.is_float else f"qd.{given}(10)"
            raise cx.fail("QL1709", source, name=temp.name, target=t, source=given, op=op, value=value)
        warn_loss(cx, "QL1901", number, t, temp.name, source)
    cx.at(stmt)
    return cx.to(number, t)


def _reduce(cx: Context, op: str, temp: Any, value: int, node: ast.expr, stmt: ast.AST) -> Num:
    family = "add" if op == "sub" else op
    temp.reduced = temp.reduced or (family, cx.span(stmt))
    first, where = temp.reduced
    if first != family:
        also = (Label(where, f"accumulated by another operation: {first} here, {family} there"),)
        raise cx.fail("QL1705", node, name=temp.name, also=also)
    return Num(cx.b.atomic(op, temp.buffer, (), value), temp.buffer.dtype)


# --- checks -----------------------------------------------------------------------------------------------------


def check_atomic(cx: Context, op: str, dtype: DType, node: ast.AST) -> None:
    """An error if there is no such atomic on the dtype."""
    if op in ("and", "or", "xor") and dtype.is_float:
        raise cx.fail("QL1411", node, op=op, dtype=dtype, cure="bits of real numbers cannot be combined")
    if dtype is u1 and op not in ("and", "or", "xor", "exchange"):
        raise cx.fail("QL1411", node, op=op, dtype=dtype, cure="use |=, &= or ^=, or an i32 field")


def _warn_store(cx: Context, number: Number, target: DType, name: str, node: ast.AST) -> bool:
    """Warns where an integer buffer gets a real number, or a constant that its dtype does not have."""
    suspect = not target.is_float and (isinstance(number, Lit) or cx.type_of(number).is_float)
    return suspect and warn_loss(cx, "QL1903", number, target, name, node)


def warn_loss(cx: Context, code: str, value: Number, target: DType, name: str, node: ast.AST) -> bool:
    """Warns if ``value`` does not survive the cast to ``target``; whether it did."""
    source = cx.type_of(value)
    if source is target:
        return False
    if isinstance(value, Lit):
        kept = convert(value.value, target)
        loss = "" if target.is_float or kept == value.value else f"cut to {kept}"
    else:
        loss = loss_of(source, target)
    if loss:
        shown = value.value if isinstance(value, Lit) else source
        cx.warn(code, node, source=shown, target=target, name=name, loss=loss)
    return bool(loss)


def loss_of(source: DType, target: DType) -> str:
    """What a cast does to a value that it cannot keep; empty where it keeps it."""
    if target is u1:
        return "tested against zero"
    if source.is_float and not target.is_float:
        return "truncated"
    if source.is_float and target.bits < source.bits:
        return "rounded"
    return "wrapped" if target.is_int and target.bits < source.bits else ""


def named(cx: Context, value: Value, name: str) -> None:
    """Gives the statements that have just computed the numbers of the local ``name`` their names."""
    names = leaf_names(value, name)
    if isinstance(value, Num) and cx.b.stmts and not isinstance(cx.b.stmts[-1], N.If):
        last = cx.b.stmts[-1]
        if isinstance(last, N.Value) and last.id == value.id and not last.name:
            last.name = next(names)
        return
    wanted = {leaf.id: name for leaf, name in zip(leaves(value), names, strict=True) if isinstance(leaf, Num)}
    for last in reversed(cx.b.stmts[-3 * len(wanted) :] if len(wanted) > 1 else cx.b.stmts[-1:]):
        if isinstance(last, N.Value) and last.id in wanted and not last.name:
            last.name = wanted[last.id]
        elif isinstance(last, N.If):
            for r in last.results:
                if r.id in wanted and not r.name:
                    r.name = wanted[r.id]
