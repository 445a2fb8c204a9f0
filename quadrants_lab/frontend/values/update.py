"""Writes to places: assigns locals, stores to memory or updates it atomically, and reduces into locals that parallel
iterations share."""

import ast
from dataclasses import replace
from typing import Any

from quadrants_lab.errors import Label
from quadrants_lab.frontend import values as V
from quadrants_lab.frontend.diagnostics import id_of, name_of, owner_of
from quadrants_lab.frontend.values import containers
from quadrants_lab.frontend.values.active_cells import activate_element
from quadrants_lab.frontend.values.compound import are_private, tests
from quadrants_lab.frontend.values.context import Context
from quadrants_lab.frontend.values.lvalue import Local, Place
from quadrants_lab.frontend.values.matrix import swizzle
from quadrants_lab.frontend.values.steps import Step
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, convert, promote, u1


def cast_to_local(cx: Context, old: V.Value, new: V.Value, node: ast.expr, stmt: ast.AST, name: str) -> V.Value:
    """The value ``new`` that is assigned to a local with the value ``old``, cast to the shape and dtypes of the local.
    Warns if the cast may change numbers."""
    numbers = []
    warned = False
    for leaf, number in old.pairs(cx, new, node):
        t = cx.type_of(leaf)
        warned = warned or warn_loss(cx, "QL1901", number, t, name, node)
        cx.at(stmt)
        numbers.append(V.Num(cx.to(number, t), t))
    return containers.with_tokens(old.with_leaves(numbers), containers.tokens_of(new))  # type: ignore[no-any-return]


def write_local(cx: Context, place: Local, value: V.Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Assigns a local, or a part of it."""
    _check_named_once(cx, place, node)
    if place.whole.token is not None:
        held = containers.current(cx, place.whole)
        check_not_shared(cx, held, node, place.name)
        replaced: Any = _replaced(cx, held, place.steps, value, source, stmt, place.name)
        containers.change(cx, held, replaced, node, place.name)
        return
    whole = cx.frame.env[place.name]
    if whole.is_shared and _store_private(cx, place, value, node, source, stmt):
        return
    check_not_shared(cx, whole, node, place.name)
    _check_not_copy(cx, place, node)
    assign_local(cx, place.name, _replaced(cx, whole, place.steps, value, source, stmt, place.name))


def assign_local(cx: Context, name: str, value: Any) -> None:
    """Assigns a local. Parameters by reference that may be the same variable at run time get the value, too, if they
    are."""
    env = cx.frame.env
    env[name] = value
    for other, same in cx.frame.aliases.get(name, {}).items():
        old: Any = env[other]
        env[other] = V.Num(cx.b.op("select", same, value.id, old.id), old.type)


def write(cx: Context, place: Place, value: V.Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Assigns a local or a part of it, or stores to memory. ``node`` is the target, ``source`` the expression of the
    value, ``stmt`` the whole statement."""
    if place.is_variable:
        write_local(cx, place, value, node, source, stmt)
    else:
        store(cx, place, value, node, source, stmt)


def _replaced(
    cx: Context, old: V.Value, steps: tuple[Step, ...], new: V.Value, node: ast.expr, stmt: ast.AST, name: str
) -> V.Value:
    """Returns ``old``, in which ``new`` replaces the part to which the steps lead."""
    if not steps:
        if old.token is not None and cx.depth == old.depth:
            return new
        return cast_to_local(cx, old, new, node, stmt, name)
    step, rest = steps[0], steps[1:]

    def changed(part: V.Value, suffix: str) -> V.Value:
        if old.token is not None:
            fits = part.structure() == new.structure() or (new.is_number and len(part.shape) > 0)
            if not rest and not fits:
                return new
            part = part if part.token is not None else part.map(cx.num)
        return _replaced(cx, part, rest, new, node, stmt, f"{name}{suffix}")

    return step.put(cx, old, node, changed)  # type: ignore[no-any-return]


def _store_private(cx: Context, place: Local, value: V.Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> bool:
    """Assigns an element of a shared vector or matrix at an index that contains all indices of the parallel loop, so
    that no other iteration accesses the element. Returns False, without effect, if the place is no such element, or if
    the loop changes the local in another way."""
    base: Any = place.base
    step = place.steps[-1] if place.steps else None
    if step is None or not step.is_dynamic:
        return False
    temps: Any = base.elements
    if not are_private(temps, step.cells[0], cx.span(stmt)):
        return False
    t = temps[0].buffer.dtype
    numbers = []
    for cell, (_, number) in zip(step.cells, step.filled(temps[0]).pairs(cx, value, source), strict=True):
        warn_loss(cx, "QL1901", number, t, place.name, node)
        cx.at(stmt)
        new = cx.to(number, t)
        numbers.append(V.Num(new, t))
        for p, here in tests(cx, base.shape, cell):
            with cx.b.block() as then:
                cx.b.store(temps[p].buffer, (), new)
                cx.b.yield_()
            cx.b.add(N.If(cx.b.fresh(), here, tuple(then), cx.b.nothing(), ()))
    if copy := temps[0].private_copy:
        env = cx.frame.env
        env[copy] = step.put(cx, env[copy], node, lambda part, suffix: part.with_leaves(numbers))
    return True


def check_not_shared(cx: Context, value: V.Value, node: ast.expr, name: str) -> None:
    """Raises QL1704 if the local is shared by the iterations of a parallel loop."""
    if value.is_shared:
        raise cx.fail("QL1704", node, name=name)


def _check_not_copy(cx: Context, place: Local, node: ast.expr) -> None:
    """Raises QL1616 if a plain Python function changes a part of its argument: in Python its caller would see the
    change, but here the argument is a copy."""
    frame, name = cx.frame, place.name
    copied = not frame.source.typed and name in frame.source.parameters and name not in frame.references
    if copied and frame.env[name].children():
        raise cx.fail("QL1616", node, name=name, func=frame.source.name)


def _check_named_once(cx: Context, place: Place, node: ast.expr) -> None:
    """Raises QL1514 if letters such as ``xx`` name an element of the target twice: only one of the values would stay.
    """
    named: list[tuple[Any, ...]] = []
    if isinstance(place, Local):
        named = [step.cells for step in place.steps]
    elif isinstance(place, V.Matrix) and isinstance(node, ast.Attribute):  # some letters of an element of memory
        named = [swizzle(node.attr) or ()]
    if any(len({*cells}) < len(cells) for cells in named):
        raise cx.fail("QL1514", node, text=name_of(node))


def in_memory(cx: Context, place: Place, node: ast.expr) -> Place:
    """The place, if it is one or several elements of fields or ndarrays; raises an error that describes any other
    place."""
    if place.is_memory:
        _check_named_once(cx, place, node)
        return place
    if place.slab is not None:
        place.number(cx, node)
    match node:
        case ast.Subscript(slice=ast.Slice()) if place.holds:
            raise cx.fail("QL1201", node, what="assignment to a slice of a list", cure="assign its entries one by one")
        case ast.Attribute() if place.id is None and not place.children():
            raise cx.fail("QL1201", node, what="assignment to an attribute", cure="assign to an element of a field")
    root = owner_of(node)
    name = id_of(root)
    if not name:
        raise cx.fail("QL1303", root, name=name_of(root), what="a value")
    value: Any = cx.frame.env.get(name)
    if value is None:
        raise cx.fail("QL1305", node, name=name)
    what = value.fixed or value.describe()
    if value.captured is not None and value.text == name:
        what = f"a {type(value.captured).__name__} of Python"
    raise cx.fail("QL1303", node, name=name, what=what)


def store(cx: Context, place: Place, value: V.Value, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Stores to memory."""
    warned = False
    for cell, number in in_memory(cx, place, node).pairs(cx, value, source):
        warned = warned or _warn_store(cx, number, cell.mem.buffer.dtype, cell.mem.text, node)
        store_number(cx, cell, number, stmt)
    _activate(cx, place)


def store_number(cx: Context, cell: Any, number: V.Number, stmt: ast.AST) -> None:
    """Stores one number to ``cell``, an `Element` that is one number."""
    cx.at(stmt)
    value = cx.to(number, cell.mem.buffer.dtype)
    if cell.mem.packed is not None:
        cell.mem.packed.store(cx, cell, value)
    else:
        cx.b.store(cell.mem.buffer, (*cell.index, *cell.at), value)


def _activate(cx: Context, place: Any) -> None:
    """Activates the sparse cells of the elements that were written to, each element once."""
    cells = {(id(cell.mem.buffer), *cell.index): cell for cell in place.leaves()}
    for cell in cells.values():
        activate_element(cx, cell.mem, cell.index)


def atomic(
    cx: Context, op: str, place: Place, value: V.Value, node: ast.expr, source: ast.expr, stmt: ast.AST
) -> V.Value:
    """Emits ``place op= value`` on memory, an atomic for each number; returns the old value."""
    old = []
    warned = False
    target = in_memory(cx, place, node).cells(cx, source)
    for cell, number in target.pairs(cx, value, source):
        t = cell.mem.buffer.dtype
        check_atomic(cx, op, t, stmt)
        given = cx.type_of(number)
        if op in _BITWISE and given.is_float:
            text, same = ast.unparse(source), f"i{given.bits}"
            raise cx.fail("QL1404", source, op=f"atomic {op}", dtype=given, text=text, same=same)
        cx.at(stmt)
        if op in ("min", "max") and given.is_int and t.is_int:
            number = _saturated(cx, number, t)
        warned = warned or _warn_store(cx, number, t, cell.mem.text, node)
        index, amount = (*cell.index, *cell.at), cx.to(number, t)
        if cell.mem.packed is not None:
            old.append(cell.mem.packed.atomic(cx, op, cell, amount, stmt))
        else:
            old.append(V.Num(cx.b.atomic(op, cell.mem.buffer, index, amount), t))
    _activate(cx, target)
    return target.with_leaves(old)  # type: ignore[no-any-return]


_BITWISE = ("and", "or", "xor")


def _saturated(cx: Context, number: Any, t: DType) -> V.Number:
    """The integer clamped to the range of ``t``, for atomic min and max: a cast would wrap it to the other end of the
    range, and another number would be the extreme."""
    given = cx.type_of(number)
    for k, (prim, end) in enumerate(zip(("max", "min"), t.limits, strict=True)):
        if number.constant is not None:
            number = replace(number, value=(max, min)[k](number.value, end))
        elif given.holds(end) and end != given.limits[k]:
            number = V.Num(cx.b.op(prim, number.id, cx.const(end, given)), given)
    return number  # type: ignore[no-any-return]  # it is a Number


def differ(before: V.Value, after: V.Value) -> bool:
    """Whether a func has changed its argument: whether a number of the value ``after`` differs from that of
    ``before``."""
    if before.token is not None:
        return before is not after
    return any(a.id != b.id for a, b in zip(before.leaves(), after.leaves(), strict=True))


def write_back(cx: Context, place: Place, before: V.Value, after: V.Value, node: ast.expr, stmt: ast.AST) -> None:
    """Writes an argument that a func took by reference back to its place: those numbers that the func changed. Has no
    effect if the argument was not a place."""
    if before.token is not None:
        containers.hand_back(cx, before, after, node)
    elif place.is_variable:
        write_local(cx, place, after, node, node, stmt)
    elif place.is_memory:
        _check_named_once(cx, place, node)
        for (cell, number), was in zip(place.pairs(cx, after, node), before.leaves(), strict=True):
            if number.id != was.id:
                store_number(cx, cell, number, stmt)
                activate_element(cx, cell.mem, cell.index)


def reduce(
    cx: Context, op: str, place: Local, value: V.Value, node: ast.expr, source: ast.expr, stmt: ast.AST
) -> V.Value:
    """Emits ``place op= value`` for a local that parallel iterations share; returns the old value."""
    _check_named_once(cx, place, node)
    if place.whole.token is not None:
        containers.check_unaliased(cx, place.whole, node, shared=True)
    elif place.steps:
        _check_not_copy(cx, place, node)
    if place.value is not None:
        old = []
        for temp, number in place.value.pairs(cx, value, source):
            amount = _amount(cx, op, temp, number, source, stmt)
            old.append(_reduce(cx, op, temp, amount, node, stmt))
        return place.value.with_leaves(old)  # type: ignore[no-any-return]
    whole: Any = place.base
    last: Any = place.steps[-1]
    if op not in _NEUTRAL:
        raise cx.fail("QL1508", node)
    first = whole.elements[0]
    t: DType = first.buffer.dtype
    target = last.filled(first)
    nothing = cx.const(convert(_NEUTRAL[op], t), t)
    olds = []
    for cell, (_, number) in zip(last.cells, target.pairs(cx, value, source), strict=True):
        amount = _amount(cx, op, first, number, source, stmt)
        needed, found = isinstance(stmt, ast.Call), nothing  # only a call has a value
        for p, here in tests(cx, whole.shape, cell):
            was = _reduce(cx, op, whole.elements[p], cx.b.op("select", here, amount, nothing), node, stmt)
            found = cx.b.op("select", here, was.id, found) if needed else found
        olds.append(V.Num(found, t))
    return target.with_leaves(olds)  # type: ignore[no-any-return]


_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "and": -1, "mul": 1}  # the operand that changes nothing


def _amount(cx: Context, op: str, temp: Any, number: V.Number, source: ast.expr, stmt: ast.AST) -> int:
    """The number to accumulate, cast to the dtype of the shared local before the operation. Raises an error if the
    operation in the common dtype, with a cast after it, would give another result; warns if that would lose values,
    too."""
    t, given = temp.buffer.dtype, cx.type_of(number)
    check_atomic(cx, op, t, stmt)
    known = number.constant
    kept = known is not None and (t.is_float or not given.is_float) and convert(known, t) == known
    if given is not t and promote(t, given) is not t and not kept:
        exact = (t.is_float and given.is_float) or (t.is_int and given.is_int and t is not u1)
        allowed = op in ("add", "sub", "exchange") or (exact and (t.is_float or op not in ("min", "max")))
        if not allowed:
            value = 10.0 if given.is_float else f"qd.{given}(10)"
            raise cx.fail("QL1709", source, name=temp.name, target=t, source=given, op=op, value=value)
        warn_loss(cx, "QL1901", number, t, temp.name, source)
    cx.at(stmt)
    return cx.to(number, t)


def _reduce(cx: Context, op: str, temp: Any, value: int, node: ast.expr, stmt: ast.AST) -> V.Num:
    """Emits an accumulation into one component of a local of the kernel that all iterations of a parallel loop share.
    Raises QL1705 if the loop also accumulates into this component by another operation."""
    family = "add" if op == "sub" else op
    temp.reduced = temp.reduced or (family, cx.span(stmt))
    first, where = temp.reduced
    if first != family:
        also = (Label(where, f"changed in another way: {first} here, {family} there"),)
        raise cx.fail("QL1705", node, name=temp.name, also=also)
    return V.Num(cx.b.atomic(op, temp.buffer, (), value), temp.buffer.dtype)


def set_flag(cx: Context, temp: V.Temp, value: Any, node: ast.expr, source: ast.expr, stmt: ast.AST) -> None:
    """Assigns a constant to a local of the kernel that all iterations share. The loop may assign only this constant to
    it, so that it does not matter which iteration is the last."""
    family = f"= {value.value!r}"
    temp.reduced = temp.reduced or (family, cx.span(stmt))
    if temp.reduced[0] != family:
        raise cx.fail("QL1704", node, name=temp.name)
    warn_loss(cx, "QL1901", value, temp.buffer.dtype, temp.name, source)
    cx.at(stmt)
    cx.b.store(temp.buffer, (), cx.to(value, temp.buffer.dtype))


def check_atomic(cx: Context, op: str, dtype: DType, node: ast.AST) -> None:
    """Raises QL1411 if there is no such atomic on the dtype."""
    if op in _BITWISE and dtype.is_float:
        raise cx.fail("QL1411", node, op=op, dtype=dtype, cure="bits of real numbers cannot be combined")
    if dtype is u1 and op not in ("and", "or", "xor", "exchange"):
        raise cx.fail("QL1411", node, op=op, dtype=dtype, cure="use |=, &= or ^=, or an i32 field")


def _warn_store(cx: Context, number: V.Number, target: DType, name: str, node: ast.AST) -> bool:
    """Warns if a real number, or a constant out of range, is stored to an integer buffer. Returns whether it did."""
    suspect = not target.is_float and (number.constant is not None or cx.type_of(number).is_float)
    return suspect and warn_loss(cx, "QL1903", number, target, name, node)


def warn_loss(cx: Context, code: str, value: V.Number, target: DType, name: str, node: ast.AST) -> bool:
    """Warns if the cast of ``value`` to ``target`` may change the number. Returns whether it did."""
    source = cx.type_of(value)
    if source is target:
        return False
    if (known := value.constant) is not None:
        kept = convert(known, target)
        loss = "" if target.is_float or kept == known else f"cut to {kept}"
    else:
        loss = loss_of(source, target)
    if loss:
        cx.warn(code, node, source=source if known is None else known, target=target, name=name, loss=loss)
    return bool(loss)


def loss_of(source: DType, target: DType) -> str:
    """A word for what a cast from ``source`` to ``target`` may do to a number; "" if it keeps every number."""
    if target is u1:
        return "tested against zero"
    if source.is_float and not target.is_float:
        return "truncated"
    if source.is_float and target.bits < source.bits:
        return "rounded"
    return "wrapped" if target.is_int and target.bits < source.bits else ""


def name_values(cx: Context, value: V.Value, name: str) -> None:
    """Names the statements that have just computed the numbers of the local ``name`` after them."""
    names = value.leaf_names(name)
    wanted = {leaf.id: name for leaf, name in zip(value.leaves(), names, strict=True) if leaf.id is not None}
    for last in reversed(cx.b.stmts[-3 * len(wanted) :] if len(wanted) > 1 else cx.b.stmts[-1:]):
        match last:
            case N.Value() if last.id in wanted and not last.name:
                last.name = wanted[last.id]
            case N.If() | N.WithElement():
                for r in last.results:
                    if r.id in wanted and not r.name:
                        r.name = wanted[r.id]
