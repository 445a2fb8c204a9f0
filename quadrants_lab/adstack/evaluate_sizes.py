"""Evaluates a SizeExpr, the formula of an adstack's size, for the data of one launch.

A value is a Python integer. But in the body of a SizeRange the variable is a numpy vector of all its values, so a
maximum over a field is one vector operation. Arithmetic saturates at 64 bits. A load outside its buffer gives 0 and
reads no memory: the program itself would not run the loop with such an index, so no slots are needed for it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quadrants_lab.adstack.closed_forms import Number, greatest, linear_reduction
from quadrants_lab.analysis.algebra import INT64_MAX, fold, is_open, subexpressions
from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.record import function
from quadrants_lab.ir.walk import all_are, of_kind

Ints = npt.NDArray[np.int64]
_CHUNK = 1 << 16  # elements of a range that are evaluated at a time


class Live(Protocol):
    """The data of one launch: its scalar arguments, the shapes of its ndarrays, and the data of its buffers."""

    def arg(self, name: str) -> int: ...
    def shape(self, buffer: str, axis: int) -> int: ...
    def array(self, buffer: str) -> npt.NDArray[Any]: ...


class LiveData:
    """The data of one launch, by name. ``arrays`` maps a buffer to its array, or to an object with the array's shape;
    for the latter, ``memories`` maps the buffer to the memory with its data."""

    def __init__(
        self, scalars: Mapping[str, Any], arrays: Mapping[str, Any], memories: Mapping[str, Any] | None = None
    ) -> None:
        self.scalars = scalars
        self.arrays = arrays
        self.memories = memories or {}

    def arg(self, name: str) -> int:
        return int(self.scalars[name])

    def shape(self, buffer: str, axis: int) -> int:
        return int(self.arrays[buffer].shape[axis])

    def array(self, buffer: str) -> npt.NDArray[Any]:
        memory = self.memories.get(buffer)
        array: Any = self.arrays[buffer] if memory is None else memory.values()
        found: npt.NDArray[Any] = array if isinstance(array, np.ndarray) else array.read()
        return found


def evaluate(e: S.SizeExpr, live: Live, counted: Mapping[int, int] | None = None) -> int:
    """The value of a size expression in this launch, in slots (at least 0). ``counted`` maps the id of a stack to its
    depth as the counting slice found it."""
    return max(0, int(_Evaluator(live, counted or {}).value(e, {})))


def evaluated(e: S.SizeExpr, live: Live) -> int:
    """The value of a part of a size; the value may be negative."""
    return int(_Evaluator(live, {}).value(e, {}))


def reads(e: S.SizeExpr) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """What the value depends on: (scalar arguments, buffers whose shape matters, buffers whose data matter)."""
    parts = subexpressions(e)
    return (
        frozenset(p.arg for p in of_kind(parts, S.SizeArg)),
        frozenset(p.buffer for p in of_kind(parts, S.SizeShape)),
        frozenset(p.buffer for p in of_kind(parts, S.SizeLoad)),
    )


def values_of_parts(e: S.SizeExpr, live: Live, counted: Mapping[int, int] | None = None) -> dict[int, int]:
    """For the notebook: the value of each part of the expression that reads no free loop variable, by its position in
    `algebra.subexpressions`."""
    ev = _Evaluator(live, counted or {})
    return {n: int(ev.value(part, {})) for n, part in enumerate(subexpressions(e)) if not is_open(part)}


_OPERATIONS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "min": "min({}, {})", "max": "max({}, {})",
}  # fmt: skip


def compiled(
    boxes: Sequence[tuple[S.SizeExpr, S.SizeExpr]], given: str, names: Mapping[str, str],
    fields: Mapping[str, Sequence[int]], shape_of: Callable[[Any], Sequence[int]],
) -> Callable[[Sequence[Any]], tuple[tuple[int, int], ...]]:  # fmt: skip
    """Makes a function of a call's arguments that returns the values of ``boxes``, pairs of size expressions that
    read no data. A Tape calls this function at every launch. ``given``: the names of the function's parameters;
    ``names`` maps an argument or buffer to its parameter; ``fields`` has the shapes of fields."""

    def text(e: S.SizeExpr) -> str:
        match e:
            case S.SizeConst(value):
                return str(value)
            case S.SizeArg(arg):
                return f"int({names[arg]})"
            case S.SizeShape(of, axis):
                return f"shape_of({names[of]})[{axis}]" if of in names else f"fields[{of!r}][{axis}]"
            case S.SizeOp(op, x, y):
                return _OPERATIONS.get(op, f"fold('{op}', {{}}, {{}})").format(text(x), text(y))
        raise TypeError(f"not an expression of arguments and shapes: {e!r}")

    ends = "".join(f"({text(low)}, {text(high)}), " for low, high in boxes)
    args = f"    {given}, = a\n" if names else ""
    space = {"fold": fold, "shape_of": shape_of, "fields": fields}
    return function("region", f"def region(a):\n{args}    return ({ends})", space)


class _Evaluator:
    def __init__(self, live: Live, counted: Mapping[int, int]) -> None:
        self.live = live
        self.counted = counted

    def value(self, e: S.SizeExpr, env: Mapping[int, Number]) -> Number:
        return _VALUES[type(e)](self, e, env)

    def over_range(self, e: S.SizeRange, env: Mapping[int, Number]) -> Number:
        """Reduces over a new last axis, in chunks. If the bounds vary with outer variables, the axis covers all of
        these ranges, and a point outside its own range counts as 0."""
        begin, end = self.value(e.begin, env), self.value(e.end, env)
        low, high = int(np.min(begin)), int(np.max(end))
        if low >= high:
            return 0
        closed = linear_reduction(e, begin, end, lambda part: self.value(part, env), _apply)
        if closed is None and e.op == "max" and not env:
            best = greatest(e.body, {e.var: (low, high)}, lambda part: int(self.value(part, {})), self.live.array)
            closed = None if best is None else max(best, 0)
        if closed is not None:
            return closed
        wide = {k: v[..., None] if isinstance(v, np.ndarray) else v for k, v in env.items()}
        outer = int(np.max([np.size(v) for v in env.values()], initial=1))
        step = max(1, _CHUNK // outer)
        total: Number = 0
        for at in range(low, high, step):
            k = np.arange(at, min(high, at + step), dtype=np.int64)
            inner = self.value(e.body, {**wide, e.var.id: k})
            inside = (k >= _last_axis(begin)) & (k < _last_axis(end))
            body = np.where(inside, inner, 0)
            part = _sum(body) if e.op == "sum" else body.max(axis=-1, initial=0)
            part = part if part.ndim else int(part)
            total = _apply("add" if e.op == "sum" else "max", total, part)
        return total


def _last_axis(x: Number) -> Number:
    return x[..., None] if isinstance(x, np.ndarray) else x


def _sum(body: Ints) -> Ints:
    """The sum along the last axis, saturating at 64 bits."""
    rough = body.astype(np.float64).sum(axis=-1)
    exact: Ints = np.where(np.abs(rough) < 9e18, body.sum(axis=-1, dtype=np.int64), INT64_MAX)
    return exact


_VALUES: dict[type, Callable[[_Evaluator, Any, Mapping[int, Number]], Number]] = {
    S.SizeConst: lambda ev, e, env: e.value,
    S.SizeArg: lambda ev, e, env: int(ev.live.arg(e.arg)),
    S.SizeShape: lambda ev, e, env: int(ev.live.shape(e.buffer, e.axis)),
    S.SizeVar: lambda ev, e, env: env[e.id],
    S.SizeCounted: lambda ev, e, env: ev.counted[e.stack],
    S.SizeLoad: lambda ev, e, env: _load(ev.live.array(e.buffer), [ev.value(i, env) for i in e.index]),
    S.SizeOp: lambda ev, e, env: _apply(e.op, ev.value(e.a, env), ev.value(e.b, env)),
    S.SizeRange: _Evaluator.over_range,
}


def _load(array: npt.NDArray[Any], index: list[Number]) -> Number:
    if all_are(index, int):
        inside = all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
        return int(array[tuple(index)]) if inside else 0
    cells = np.broadcast_arrays(*(np.asarray(i, np.int64) for i in index))
    ok = np.ones(cells[0].shape, bool)
    for i, n in zip(cells, array.shape, strict=True):
        ok &= (i >= 0) & (i < n)
    if array.size == 0:
        return np.zeros(cells[0].shape, np.int64)
    safe = tuple(np.where(ok, i, 0) for i in cells)
    return np.where(ok, array[safe].astype(np.int64), 0)


_VECTOR = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _roots(x: Ints) -> Ints:
    """Square roots, rounded up. The estimate in floats is off by at most one."""
    r: Ints = np.ceil(np.sqrt(np.maximum(x, 0).astype(np.float64))).astype(np.int64)
    r = np.where(r * r < x, r + 1, r)
    return np.where((r > 0) & ((r - 1) * (r - 1) >= x), r - 1, r)


def _apply(op: str, a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return fold(op, a, b)
    x, y = np.asarray(a, np.int64), np.asarray(b, np.int64)
    if op == "isqrt":
        return _roots(x)
    if op in ("floordiv", "mod"):
        safe = np.where(y == 0, 1, y)
        out: Ints = np.where(y == 0, 0, x // safe if op == "floordiv" else x % safe)
        return out
    with np.errstate(over="ignore"):
        exact: Ints = _VECTOR[op](x, y)
        if op in ("add", "sub", "mul"):
            rough = _VECTOR[op](x.astype(np.float64), y.astype(np.float64))
            exact = np.where(np.abs(rough) < 9e18, exact, np.where(rough > 0, INT64_MAX, -INT64_MAX - 1))
    return exact
