"""Finds which elements of a buffer a task accesses, as a box: a begin and an end for each axis. The host evaluates
them before a launch."""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from quadrants_lab.analysis.accesses import Access, Accesses, Form
from quadrants_lab.analysis.algebra import ONE, ZERO, binary
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, i32, i64

_AXES = "ijklmnop"  # the names of the indices of a box


@dataclass(frozen=True, slots=True)
class Box:
    """Elements of a buffer: along each axis from ``low`` up to, but not including, ``high``, as far as they are in the
    buffer. ``type``: the dtype that holds the box's indices. ``everywhere``: along some axis the indices depend on
    data, so the box has the whole axis."""

    low: tuple[S.SizeExpr, ...]
    high: tuple[S.SizeExpr, ...]
    type: DType = i32
    everywhere: bool = False

    def extents(self) -> tuple[S.SizeExpr, ...]:
        """The number of elements along each axis. A negative number means that the box is empty."""
        return tuple(binary("sub", high, low) for low, high in zip(self.low, self.high, strict=True))

    def within(self, b: Builder, index: tuple[int, ...], types: Mapping[str, DType]) -> tuple[int, ...]:
        """Emits, from the index of an element in the buffer, its index within the box. For ``types`` see `emit_size`.
        """
        return tuple(
            i if low == ZERO else b.op("sub", i, emit_size(b, low, b.types[i], types))
            for i, low in zip(index, self.low, strict=True)
        )


Ids = tuple[int, ...]


def task_over(
    b: Builder, box: Box, types: Mapping[str, DType], build: Callable[[Ids, Ids], None]
) -> N.Offload:
    """Makes a parallel task over the elements of a box. ``build(index, within)`` emits its body: ``index`` is the index
    of an element in the buffer, ``within`` its index in the box."""
    span = b.span
    with b.block() as bounds:
        b.yield_(*(emit_size(b, e, box.type, types) for e in (*box.low, *box.high)))
    names = (_AXES[axis] if axis < len(_AXES) else f"k{axis}" for axis in range(len(box.low)))
    params = tuple(b.param(box.type, name) for name in names)
    index = tuple(p.id for p in params)
    with b.block() as body:
        build(index, box.within(b, index, types))
        b.yield_()
    kind = "range_for" if params else "serial"
    return N.Offload(b.fresh(), kind, tuple(bounds), params, tuple(body), span=span)


def box_of(info: Accesses, accesses: Iterable[Access]) -> Box:
    """The smallest box with affine ends that contains all elements of these accesses to one buffer. If an index depends
    on data, the box has the whole axis."""
    found = list(accesses)
    buffer = info.kernel.buffers[found[0].stmt.buffer]
    low: list[S.SizeExpr] = []
    high: list[S.SizeExpr] = []
    everywhere = False
    for axis in range(buffer.ndim):
        extent = extent_of(buffer, axis)
        ends = _ends(info, [a.at[axis] for a in found])
        if ends is None:
            everywhere = True
            low.append(ZERO)
            high.append(extent)
            continue
        least = reduce(lambda a, b: binary("min", a, b), (_size(info, first) for first, _ in ends))
        most = reduce(lambda a, b: binary("max", a, b), (_size(info, last) for _, last in ends))
        low.append(binary("max", least, ZERO))
        high.append(binary("min", binary("add", most, ONE), extent))
    return Box(tuple(low), tuple(high), index_type(buffer), everywhere)


def _ends(info: Accesses, forms: Iterable[Form]) -> list[tuple[Form, Form]] | None:
    """The least and the greatest value of each form; None if one of them depends on data."""
    found: list[tuple[Form, Form]] = []
    for form in forms:
        first, last = info.bound(form, low=True), info.bound(form, low=False)
        if first is None or last is None:
            return None
        found.append((first, last))
    return found


def whole(buffer: N.Buffer) -> Box:
    """The box of all elements."""
    extents = tuple(extent_of(buffer, axis) for axis in range(buffer.ndim))
    return Box((ZERO,) * buffer.ndim, extents, index_type(buffer))


def index_type(buffer: N.Buffer) -> DType:
    """The dtype that holds all indices of a buffer."""
    if buffer.shape is None:
        return buffer.extent_type
    return i64 if any(n >= 2**31 for n in buffer.shape) else i32


def extent_of(buffer: N.Buffer, axis: int) -> S.SizeExpr:
    return S.SizeShape(buffer.name, axis) if buffer.shape is None else S.SizeConst(buffer.shape[axis])


def _size(info: Accesses, form: Form) -> S.SizeExpr:
    """A form of uniform symbols as a SizeExpr."""
    total: S.SizeExpr = ZERO
    for s, c in form.terms.items():
        total = binary("add", total, binary("mul", _symbol(info, s), S.SizeConst(c)))
    return binary("add", total, S.SizeConst(form.const))


def _symbol(info: Accesses, s: str) -> S.SizeExpr:
    kind, _, rest = s[1:].partition(" ")
    if kind == "arg":
        return S.SizeArg(rest)
    if kind == "shape":
        buffer, _, axis = rest.rpartition(" ")
        return S.SizeShape(buffer, int(axis))
    prim, a, b = info.uniform[s]
    return binary(prim, _size(info, a), _size(info, b))


def size_types(args: Iterable[N.Arg], buffers: Mapping[str, N.Buffer]) -> dict[str, DType]:
    """Maps the names of a kernel's arguments, and of the extents of its arrays, to dtypes."""
    return {a.name: a.type for a in args} | {n: b.extent_type for n, b in buffers.items() if b.kind == "ndarray"}


def emit_size(b: Builder, e: S.SizeExpr, type: DType, types: Mapping[str, DType]) -> int:
    """Emits an expression of constants, arguments and shapes; returns the id of its value, of dtype ``type``.

    ``types``: the dtypes of arguments and extents (`size_types`). The arithmetic has 64 bits, as on the host. A
    negative value becomes 0; ``type`` must be able to hold every other value.
    """
    if e.constant is not None:
        return b.const(max(e.constant, 0), type)
    value = _emit(b, e, types)
    if not isinstance(e, S.SizeShape):
        value = b.op("max", value, b.const(0, i64))
    return b.cast(value, type)


def _emit(b: Builder, e: S.SizeExpr, types: Mapping[str, DType]) -> int:
    match e:
        case S.SizeConst(value):
            return b.const(value, i64)
        case S.SizeArg(arg):
            return b.cast(b.add(N.ArgLoad(b.fresh(), types[arg], arg)), i64)
        case S.SizeShape(buffer, axis):
            return b.cast(b.add(N.ShapeOf(b.fresh(), types[buffer], buffer, axis)), i64)
        case S.SizeOp(op, x, y):
            return b.op(op, _emit(b, x, types), _emit(b, y, types))
    raise TypeError(f"not an expression of arguments and shapes: {e!r}")
