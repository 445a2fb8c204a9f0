"""Finds places: what a chain of subscripts and attributes refers to. A place is a variable, memory, or a part of
either.

`locate` follows ``x[i].pos[0]`` or ``v.xy`` without loading from memory. `Context.loaded` loads what it found, and
`update.write` writes it. The value of a local is immutable, so writing a part of a local gives the whole local a new
value.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from quadrants_lab.frontend import values as V
from quadrants_lab.frontend.diagnostics import entries_of, is_none, name_of, suggestion
from quadrants_lab.frontend.source import note_unknown
from quadrants_lab.frontend.values import containers, matrix
from quadrants_lab.frontend.values.active_cells import node_of
from quadrants_lab.frontend.values.context import Context, argument_node
from quadrants_lab.frontend.values.matrix import letters, swizzle
from quadrants_lab.frontend.values.steps import Child, Elements, Step
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32, i64


@dataclass(slots=True, eq=False)
class Local(V.Value):
    """A local variable, or the part of a local variable to which ``steps`` lead. ``whole`` is the value from which the
    steps start: the variable's value, or a list or dict (also one without a name). The last step leads from ``base`` to
    ``value``, which is None if the step has an index that is computed at run time."""

    name: str
    whole: Any
    steps: tuple[Step, ...]
    value: V.Value | None
    base: V.Value
    is_variable = True

    def held(self, cx: Context, node: ast.expr) -> V.Value:
        found: V.Value = self.steps[-1].take(cx, self.base, node) if self.value is None else self.value
        return found

    def part(self, cx: Context, step: Step, node: ast.expr) -> V.Value:
        if self.value is None:
            return self.held(cx, node).part(cx, step, node)
        later = step.is_dynamic and (not step.shape or self.value.is_shared)
        after = None if later else step.take(cx, self.value, node)
        plain = getattr(after, "raw", 0) is None  # an entry of a list may be None
        if after is None or plain or after.is_held:
            return Local(self.name, self.whole, (*self.steps, step), after, self.value)
        return after  # type: ignore[no-any-return]


Place = Any  # a `Local` for a variable or a part of one; a value that is not loaded for memory


def locate(cx: Context, node: ast.expr) -> Place:
    """The place to which the expression refers, not loaded from memory; the value of the expression if it refers to no
    place."""
    place = place_of(cx, node)
    return cx.expr(node) if place is None else place


def place_of(cx: Context, node: ast.expr) -> Place | None:
    """The place to which a name, subscript or attribute refers, not loaded from memory; None for other expressions."""
    match node:
        case ast.Subscript():
            return _subscripted(cx, node)
        case ast.Attribute():
            return _member(cx, node)
        case ast.Name():
            value = cx.unread(node)
            return variable(node.id, value) if node.id in cx.frame.env and value.is_local else value
    return None


def variable(name: str, value: V.Value) -> Local:
    """The whole of a local variable."""
    return Local(name, value, (), value, value)


def read(cx: Context, node: ast.expr) -> V.Value:
    """The value of a subscript or attribute."""
    value: V.Value = locate(cx, node).held(cx, node)
    return value.load(cx, node)


# --- subscripts -------------------------------------------------------------------------------------------------


def _subscripted(cx: Context, node: ast.Subscript) -> Place:
    base = locate(cx, node.value)
    value = base.held(cx, node.value)
    found = _SUBSCRIPTS[type(value)](cx, base, value, node) if type(value) in _SUBSCRIPTS else None
    if found is not None:
        return found
    if value.has_items:
        return _item(cx, value, node)
    raise cx.fail("QL1505", node, what=value.describe())


def _mem_element(cx: Context, base: Place, value: V.Mem, node: ast.Subscript) -> Place:
    sliced = [isinstance(p, ast.Slice) for p in indices(node)]
    if len(sliced) > 1 and any(sliced[-2:]) and not any(sliced[:-2]):
        return _slab(cx, value, node)
    index = element_index(cx, node, value)
    return V.Element(value, index, tuple(cx.const(k, i32) for k in value.entry))


def _slab(cx: Context, base: V.Mem, node: ast.Subscript) -> V.Slab:
    """The slab to which a subscript with slices refers: some rows and columns of a field or array of numbers, one row,
    or one column."""
    parts = indices(node)
    if base.element_shape or base.offset or base.clamp:
        raise cx.fail("QL1504", next(p for p in parts if isinstance(p, ast.Slice)))
    _check_axes(cx, node, base.text, len(parts), base.ndim)
    found: list[tuple[V.Num, ...]] = []
    for k, p in enumerate(parts):
        match p:
            case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper, step=None):
                ends = [lower, upper]
            case ast.Slice():
                raise cx.fail("QL1511", p)
            case _:
                ends = [p]
        numbers = [_index(cx, e, k, base.text, cx.expr(e)) for e in ends]
        if numbers[0].constant is not None and numbers[0].constant < 0:
            raise cx.fail("QL1503", ends[0], k=k, text=base.text, back=-numbers[0].constant)
        cx.at(p)
        found.append(tuple(cx.num(cx.index(n)) for n in numbers))
    *at, rows, columns = found
    return V.Slab(base, tuple(n for (n,) in at), rows, columns)


def _whole_tile(cx: Context, base: Place, value: V.Tile, node: ast.Subscript) -> Place:
    """The value of ``t[:]``, which is the tile itself."""
    match node.slice:
        case ast.Slice(lower=None, upper=None, step=None):
            return value
    raise cx.fail("QL1512", node)


def _matrix_part(cx: Context, base: Place, value: V.Matrix | V.Element, node: ast.Subscript) -> Place | None:
    return base.part(cx, _position(cx, node, value.shape), node) if value.shape else None


def _entry(cx: Context, base: Place, value: V.Container, node: ast.Subscript) -> Place | None:
    if isinstance(node.slice, ast.Slice):
        return None
    at = containers.entry_at(cx, value, node)
    return variable(name_of(node.value), value).part(cx, Child(at, f"[{at}]"), node)


def _viewed_element(cx: Context, base: Place, value: V.Struct, node: ast.Subscript) -> Place | None:
    if (mem := value.view) is None:
        return None
    at = element_index(cx, node, mem)[0]
    t = cx.b.types[at]
    first, size = (cx.to(value.members[name].load(cx, node).number(cx, node), t) for name in ("offset", "size"))
    _checked(cx, V.Num(at, t), size, name_of(node.value))
    return V.Element(mem, (cx.b.op("add", at, first),))


_SUBSCRIPTS: dict[type, Callable[[Context, Place, Any, ast.Subscript], Place | None]] = {
    V.Mem: _mem_element,
    V.StructMem: lambda cx, base, value, node: value.element(element_index(cx, node, value.fields[0])),
    V.Matrix: _matrix_part, V.Element: _matrix_part, V.List: _entry, V.Dict: _entry, V.Struct: _viewed_element,
    V.Tile: _whole_tile,
}  # fmt: skip


def _slice(cx: Context, node: Any) -> slice:
    """The Python slice that an ``a:b:c`` stands for; its ends and step must be known at compile time."""
    ends = [None if e is None else cx.known(cx.expr(e), "QL1508", node) for e in (node.lower, node.upper, node.step)]
    if ends[2] == 0:
        raise cx.fail("QL1509", node)
    return slice(*ends)


def _item(cx: Context, base: V.Value, node: ast.Subscript) -> V.Value:
    """The entry of a tuple, shape or captured constant at an index that is known at compile time; for a slice, the
    entries in it."""
    if isinstance(node.slice, ast.Slice):
        return base.items(cx, _slice(cx, node.slice), ast.unparse(node.slice), node)
    code = "QL1508" if base.captured is None or isinstance(base.captured, dict) else "QL1513"
    index = cx.known(cx.expr(node.slice), code, node.slice, what=base.describe(), text=name_of(node.value))
    return base.item(cx, index, repr(index), node)


def indices(node: ast.Subscript) -> list[ast.expr]:
    """The expressions between the brackets; an empty list for ``[None]``."""
    parts = entries_of(node.slice)
    return [] if len(parts) == 1 and is_none(parts[0]) else parts


def element_index(cx: Context, node: ast.Subscript, base: V.Mem) -> tuple[int, ...]:
    """The SSA ids of the indices in a subscript of a field or ndarray, after subtraction of the field's offset. A
    vector in the subscript counts as several indices."""
    parts = enumerate(_spread(cx, node, (V.Matrix, V.Tuple)))
    values = [(_index(cx, p, k, base.text, value), p) for k, (value, p) in parts]
    _check_axes(cx, node, base.text, len(values), base.ndim)
    ids = []
    for k, (number, p) in enumerate(values):
        first = base.offset[k] if base.offset else 0
        known = number.constant
        if known is not None and known < first and isinstance(p, ast.UnaryOp) and not base.clamp:
            raise cx.fail("QL1503", p, k=k, text=base.text, back=-known)
        cx.at(p)
        if first and known is not None:
            number = V.Lit(int(known) - first, p)
        at = cx.index(number)
        if base.clamp:
            ids.append(_clamped(cx, at, cx.extent(base.buffer, k)))
        elif first and at.constant is None:
            t = cx.type_of(at) if i32.holds(first) else i64
            ids.append(cx.b.op("sub", cx.to(at, t), cx.const(first, t)))
        else:
            ids.append(cx.to(at, cx.type_of(at)))
    return tuple(ids)


def _clamped(cx: Context, at: V.Number, extent: V.Number) -> int:
    """The id of the index, clamped to the extent."""
    t = cx.common_dtype(at, extent)
    last = cx.b.op("sub", cx.to(extent, t), cx.const(1, t))
    return cx.b.op("max", cx.b.op("min", cx.to(at, t), last), cx.const(0, t))


def _spread(cx: Context, node: ast.Subscript, several: Any) -> Iterator[tuple[V.Value | None, ast.expr]]:
    """The values between the brackets of a subscript, with None for a slice. A value of one of the classes ``several``
    is replaced by its entries."""
    for p in indices(node):
        value: Any = None if isinstance(p, ast.Slice) else cx.expr(p)
        parts = (value,) if not isinstance(value, several) else getattr(value, "elements", value)
        yield from ((v, p) for v in parts)


def _check_axes(cx: Context, node: ast.Subscript, text: str, got: int, ndim: int) -> None:
    """Raises an error unless there are as many indices as axes."""
    if got != ndim:
        index = ", ".join("ijkl"[:ndim]) if ndim else "None"
        given = f"{got} indices" if got > 1 else "1 index" if got else "None"
        raise cx.fail("QL1501", node, text=text, ndim=ndim, axes="axis" if ndim == 1 else "axes", got=given,
                      cure=f"write {text}[{index}]")  # fmt: skip


def _index(cx: Context, node: ast.expr, k: int, text: str, value: V.Value | None) -> V.Number:
    """The value of an index, which must be an integer; raises an error for None, which means a slice."""
    if value is None:
        raise cx.fail("QL1504", node)
    number: V.Number = value.number(cx, node)
    t = cx.type_of(number)
    if t.is_float:
        raise cx.fail("QL1502", node, dtype=t, k=k, text=text)
    return number


def given_index(cx: Context, call: ast.Call, value: V.Value, ndim: int, params: str) -> list[V.Number]:
    """The ``ndim`` numbers of an index that is the second argument of a call."""
    node, parts = argument_node(call, 1), value.entries(cx)
    parts = (value,) if parts is None else parts
    if len(parts) != ndim:
        what = f"takes {ndim} indices, {len(parts)} given"
        raise cx.fail("QL1602", call, text=ast.unparse(call.func), what=what, params=params)
    text = ast.unparse(call.args[0])
    return [_index(cx, node, k, text, part.load(cx, node)) for k, part in enumerate(parts)]


def _position(cx: Context, node: ast.Subscript, shape: tuple[int, ...]) -> Elements:
    """The step (`steps.Elements`) to which a subscript of a matrix leads. Slices in it, as in ``m[i, :]``, must be
    known at compile time."""
    text = name_of(node.value)
    parts = list(_spread(cx, node, (V.Matrix,)))
    _check_axes(cx, node, text, len(parts), len(shape))
    axes: list[Sequence[int | V.Num]] = []
    for k, ((value, p), extent) in enumerate(zip(parts, shape, strict=True)):
        if value is not None:
            axes.append([_along(cx, p, k, extent, text, value)])
            continue
        axes.append(range(extent)[_slice(cx, p)])
        if not axes[-1]:
            raise cx.fail("QL1506", p, index=ast.unparse(p), count=extent)
    picked = tuple(len(a) for a, (value, _) in zip(axes, parts, strict=True) if value is None)
    return Elements(tuple(product(*axes)), picked)


def _along(cx: Context, node: ast.expr, k: int, extent: int, text: str, value: V.Value | None) -> int | V.Num:
    """The index along axis ``k`` of a matrix."""
    number = _index(cx, node, k, text, value)
    if number.constant is not None:
        known = int(number.constant)
        if known < 0:
            raise cx.fail("QL1503", node, k=k, text=text, back=-known)
        if known >= extent:
            raise cx.fail("QL1506", node, index=known, count=extent)
        return known
    cx.at(node)
    at: Any = cx.index(number)
    _checked(cx, at, cx.const(extent, at.type), text)
    return at  # type: ignore[no-any-return]  # the number is no literal


def _checked(cx: Context, index: V.Num, extent: int, text: str) -> None:
    """Emits an assert that the index is in range. ``extent`` is the id of a value of the same dtype as the index."""
    low = cx.b.op("ge", index.id, cx.const(0, index.type))
    ok = cx.b.op("and", low, cx.b.op("lt", index.id, extent))
    message = f"index {{}} is out of bounds for '{text}' with extent {{}}"
    cx.b.add(N.Assert(cx.b.fresh(), ok, message, (index.id, extent), kind="bounds"))


# --- attributes -------------------------------------------------------------------------------------------------


def _list_method(cx: Context, node: ast.Attribute) -> V.Value | None:
    """If ``x.append`` or ``x[i].append`` is a method of a list of a dynamic node, this method; else None."""
    element: ast.Subscript | None = None
    match node.value:
        case ast.Subscript(value=ast.Name() | ast.Attribute() as inner) as element:
            pass
        case ast.Name() | ast.Attribute() as inner:
            pass
        case _:
            return None
    if node.attr not in ("append", "length", "deactivate"):
        return None
    mem = locate(cx, inner).held(cx, inner)
    if not mem.fields:
        return None
    first = mem.fields[0]
    cell = node_of(cx, first)
    if cell is None or cell.kind != "dynamic":
        return None
    index: tuple[int, ...] = ()
    want = len(cell.parent().axes)
    if element is not None:
        holder = V.Mem(replace(first.buffer, ndim=want), first.text, (), first.offset[:want])
        index = element_index(cx, element, holder)
    elif want:
        _check_axes(cx, ast.Subscript(inner, ast.Constant(None)), name_of(inner), 0, want)
    at = (V.Num(k, cx.b.types[k]) for k in index)
    return V.BoundMethod(f"Field.{node.attr}", V.Tuple((mem, *at)), name_of(node))


def _member(cx: Context, node: ast.Attribute) -> Place:
    if (method := _list_method(cx, node)) is not None:
        return method
    base = locate(cx, node.value)
    value = base.held(cx, node.value)
    if value.member is not None:
        value = V.Obj(value.member, name_of(node.value))
    found = _OWNERS[type(value)](cx, base, value, node) if type(value) in _OWNERS else None
    if found is None:
        raise cx.fail("QL1306", node, text=name_of(node.value), name=node.attr, hint=f": it is {value.describe()}",
                      cure="only fields, ndarrays and modules have attributes in a kernel")  # fmt: skip
    return found


def _container_member(cx: Context, base: Place, value: V.Container, node: ast.Attribute) -> Place:
    methods = containers.METHODS[value.kind]
    if node.attr in methods:
        return V.BoundMethod(node.attr, value, name_of(node))
    raise _no_attribute(cx, node, name_of(node.value), methods, f"{value.describe()} has {', '.join(methods)}")


def _attribute(cx: Context, base: Place, value: V.Obj, node: ast.Attribute) -> Place | None:
    if node.attr == "parent" and value.snode is not None:
        return V.BoundMethod("Field.parent", value, name_of(node))
    if value.raw is None:
        return None
    try:
        return cx.captured(value.raw, node.attr, f"{value.text}.{node.attr}", node)
    except AttributeError as e:
        cure = str(e) if isinstance(e, NotImplementedError) else "check the name"
        raise _no_attribute(cx, node, value.text, dir(value.raw), cure) from None


def _matrix_member(cx: Context, base: Place, value: V.Matrix | V.Element, node: ast.Attribute) -> Place | None:
    shape, name = value.shape, node.attr
    if not shape:
        return None
    if (known := matrix.attribute(name, shape, node)) is not None:
        return known
    positions = swizzle(name) if len(shape) == 1 else None
    if positions is not None and max(positions) < shape[0]:
        return base.part(cx, Elements(tuple(zip(positions)), (len(positions),) if len(positions) > 1 else ()), node)
    if f"Matrix.{name}" in cx.operations:
        return V.BoundMethod(f"Matrix.{name}", value.load(cx, node), name_of(node))
    own = [k.partition(".")[2] for k in cx.operations if k.startswith("Matrix.")]
    cure = "check the name"
    if positions is not None:
        cure = f"a vector of {shape[0]} has {', '.join(letters(name, shape[0]))}"
    raise _no_attribute(cx, node, name_of(node.value), own, cure)


def _tile_method(cx: Context, base: Place, value: V.Tile, node: ast.Attribute) -> V.BoundMethod:
    if f"Tile.{node.attr}" not in cx.operations:
        known = [name.removeprefix("Tile.") for name in cx.operations if name.startswith("Tile.")]
        raise _no_attribute(cx, node, name_of(node.value), known, f"a tile has {', '.join(known)}")
    return V.BoundMethod(f"Tile.{node.attr}", value, name_of(node))


def _no_attribute(cx: Context, node: ast.Attribute, text: str, known: Iterable[str], cure: str) -> Exception:
    hint = suggestion(node.attr, list(known))
    return cx.fail("QL1306", node, text=text, name=node.attr, hint=hint, cure=cure)


def _struct_member(cx: Context, base: Place, value: V.Struct, node: ast.Attribute) -> Place:
    name = node.attr
    if name in value.members:
        return base.part(cx, Child(list(value.members).index(name), f".{name}"), node)
    if name == "shape" and value.view:
        return V.Tuple((value.members["size"],))
    method = getattr(value.type, "methods", {}).get(name)
    if method is not None:
        return V.BoundMethod("", value.load(cx, node), name_of(node), method, base)
    raise _no_attribute(cx, node, name_of(node.value), value.members, f"it has {', '.join(value.members)}")


def _struct_mem_member(cx: Context, base: Place, value: V.StructMem, node: ast.Attribute) -> V.Value:
    name = node.attr
    member = value.members.get(name)
    if member is not None:
        return member
    if name in _OF_STRUCTS:
        return _MEMBERS[name](cx, value, node)
    cure = f"it has {', '.join([*value.members, 'shape', 'grad'])} and the elements"
    raise _no_attribute(cx, node, value.text, value.members, cure)


def _mem_member(cx: Context, place: Place, base: V.Mem, node: ast.Attribute) -> V.Value:
    read = _MEMBERS.get(node.attr)
    if read is not None:
        return read(cx, base, node)
    shape = () if base.entry else base.element_shape
    if shape and (known := matrix.attribute(node.attr, shape, node)) is not None:
        return known
    cure = f"a kernel sees {', '.join(f'{base.text}.{m}' for m in _MEMBERS)} and the elements"
    raise _no_attribute(cx, node, base.text, _MEMBERS, cure)


def _shape(cx: Context, base: V.Mem | V.StructMem, node: ast.Attribute) -> V.Value:
    mem = base.fields[0]
    if mem.buffer.shape is None:
        return V.Shape(mem.buffer, mem.ndim)
    return V.Tuple(cx.extent(mem.buffer, k, node) for k in range(mem.ndim))


def _derivative(cx: Context, base: V.Mem | V.StructMem, node: ast.Attribute) -> V.Value:
    found = base.derivative(cx, node.attr)
    if found is None:
        what = "gradient" if node.attr == "grad" else "dual"
        raise cx.fail("QL1507", node, text=base.text, what=what, which=node.attr)
    return found


def _method(cx: Context, base: V.Mem | V.StructMem, node: ast.Attribute) -> V.Value:
    return V.BoundMethod(f"Field.{node.attr}", base, name_of(node))


def _snode(cx: Context, base: V.Mem, node: ast.Attribute) -> V.Value:
    note_unknown()
    return V.Obj(getattr(base.python(cx), "snode", None), f"{base.text}.snode")


_MEMBERS: dict[str, Callable[[Context, Any, ast.Attribute], V.Value]] = {
    "shape": _shape, "grad": _derivative, "dual": _derivative, "fill": _method, "snode": _snode, "parent": _method,
    "get_scalar_field": _method,
    "dtype": lambda cx, base, node: V.Obj(base.buffer.dtype, f"{base.text}.dtype"),
}  # fmt: skip
_OF_STRUCTS = ("shape", "grad", "dual", "fill", "parent")  # rows of `_MEMBERS` that fields of structs have, too
_OWNERS: dict[type, Callable[[Context, Place, Any, ast.Attribute], Place | None]] = {
    V.Mem: _mem_member, V.StructMem: _struct_mem_member, V.Struct: _struct_member, V.Matrix: _matrix_member,
    V.Element: _matrix_member, V.List: _container_member, V.Dict: _container_member, V.Obj: _attribute,
    V.Tile: _tile_method,
}  # fmt: skip
