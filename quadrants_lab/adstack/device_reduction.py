"""Makes a kernel that evaluates the sizes of adstacks on the device: each maximum or sum over elements of arrays
becomes a parallel reduction, so that one number is copied to the host instead of the arrays.

The host evaluates those parts of the size expressions that do not vary over a range, and passes the results to the
kernel as arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from quadrants_lab.analysis.algebra import INT64_MAX, is_open, subexpressions
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, f64, i32, i64, u1
from quadrants_lab.ir.walk import of_kind

SIZE, ROUGH = "size", "rough"  # followed by a number: the names of the result buffers
_INT32_MAX = (1 << 31) - 1
_ROUND = 9e18  # larger results may not fit into i64; they saturate, as in `evaluate`


@dataclass(slots=True)
class DeviceReduction:
    """The sizes of a launch, split between host and device. ``ranges``: the maxima and sums over ranges that the device
    evaluates. ``sizes``: the sizes, in which a `SizeCounted` stands for each of these ranges, with stack -1 for the
    first range and -2 for the second. ``given``: for each added argument of the kernel, the expression that the host
    evaluates."""

    ranges: list[S.SizeRange]
    sizes: list[S.SizeExpr]
    given: dict[str, S.SizeExpr] = field(default_factory=dict)

    @property
    def data(self) -> frozenset[str]:
        """The buffers whose elements the ranges read."""
        return frozenset(p.buffer for r in self.ranges for p in of_kind(subexpressions(r), S.SizeLoad))


def device_reduction(sizes: Sequence[S.SizeExpr]) -> DeviceReduction | None:
    """Splits the sizes into the parts that the device evaluates and those that the host evaluates. Returns None if no
    range reads elements of arrays."""
    ranges: list[S.SizeRange] = []

    def without(e: S.SizeExpr) -> S.SizeExpr:
        if isinstance(e, S.SizeRange):
            if not _reads_elements(e):
                return e
            if e not in ranges:
                ranges.append(e)
            return S.SizeCounted(-1 - ranges.index(e))
        return replace(e, a=without(e.a), b=without(e.b)) if isinstance(e, S.SizeOp) else e

    rest = [without(e) for e in sizes]
    return DeviceReduction(ranges, rest) if ranges else None


def _reads_elements(e: S.SizeRange) -> bool:
    """Whether the body of the range reads array elements that vary with the range's variable, and uses only operations
    that kernels have in 64 bits."""
    varying = [p for p in subexpressions(e.body) if is_open(p)]
    return any(of_kind(varying, S.SizeLoad)) and not any(
        isinstance(p, S.SizeCounted) or (isinstance(p, S.SizeOp) and p.op == "isqrt") for p in varying
    )


def sizing_kernel(kernel: N.Kernel, work: DeviceReduction) -> N.Kernel:
    """The kernel (mode "count") that returns the value of range number k in the "ret" buffer ``size<k>``. For a sum
    it also returns an f64 estimate in ``rough<k>``, which shows an overflow. Added arguments are put into
    ``work.given``."""
    b = Builder(kernel.next_id)
    wanted = {n for n, x in kernel.buffers.items() if x.kind == "ndarray" or (x.kind == "field" and n in work.data)}
    buffers = {name: kernel.buffers[name] for name in kernel.buffers if name in wanted}
    tasks: list[N.Stmt] = []
    wide = any(x.wide or any(n >> 31 for n in x.shape or ()) for x in buffers.values())
    t = i64 if wide else i32  # the dtype of indices
    made = _Maker(b, buffers, work.given, t)
    for k, e in enumerate(work.ranges):
        buffers[f"{SIZE}{k}"] = N.Buffer(f"{SIZE}{k}", "ret", i64, 0, ())
        if e.op == "sum":
            buffers[f"{ROUGH}{k}"] = N.Buffer(f"{ROUGH}{k}", "ret", f64, 0, ())
        with b.block() as bounds:
            b.yield_(made.argument(e.begin, t), made.argument(e.end, t))
        index = b.param(t, e.var.name)
        with b.block() as body:
            value = made.value(e.body, {e.var.id: b.cast(index.id, i64)})
            if e.op == "sum":
                b.atomic("add", buffers[f"{SIZE}{k}"], (), value)
                b.atomic("add", buffers[f"{ROUGH}{k}"], (), b.cast(value, f64))
            else:
                b.atomic("max", buffers[f"{SIZE}{k}"], (), value)
            b.yield_()
        tasks.append(N.Offload(b.fresh(), "range_for", tuple(bounds), (index,), tuple(body)))
    args = (*kernel.args, *(N.Arg(name, t if name in made.bounds else i64) for name in work.given))
    return replace(kernel, args=args, buffers=buffers, body=tuple(tasks), next_id=b.next_id, mode="count")


@dataclass(slots=True)
class _Maker:
    """Builds statements that compute an expression in i64 and saturate like `evaluate`. ``t``: the dtype of indices."""

    b: Builder
    buffers: Mapping[str, N.Buffer]
    given: dict[str, S.SizeExpr]
    t: DType
    bounds: set[str] = field(default_factory=set)

    def argument(self, e: S.SizeExpr, bound: DType | None = None) -> int:
        """A new argument of the kernel, whose value is that of ``e``, evaluated by the host: an i64, or, as the bound
        of a task, a number of dtype ``bound``."""
        name, type = f"${len(self.given)}", bound or i64
        self.given[name] = e
        if bound is not None:
            self.bounds.add(name)
        return self.b.add(N.ArgLoad(self.b.fresh(), type, name))

    def value(self, e: S.SizeExpr, env: Mapping[int, int]) -> int:
        b = self.b
        if not is_open(e):
            return self.argument(e) if e.constant is None else b.const(e.constant, i64)
        match e:
            case S.SizeVar(id, _):
                return env[id]
            case S.SizeLoad(buffer, index):
                return self.load(self.buffers[buffer], [self.value(i, env) for i in index])
            case S.SizeOp(op, x, y):
                return self.apply(op, self.value(x, env), self.value(y, env))
            case S.SizeRange():
                return self.over_range(e, env)
        raise TypeError(f"not a SizeExpr: {e!r}")

    def load(self, buffer: N.Buffer, index: list[int]) -> int:
        """Emits the load of an element. For an index outside the buffer the result is 0, and no memory is read."""
        b = self.b
        inside = b.const(True, u1)
        for axis, i in enumerate(index):
            n = b.const(buffer.shape[axis], i64) if buffer.shape is not None else self.extent(buffer, axis)
            ok = b.op("and", b.op("ge", i, b.const(0, i64)), b.op("lt", i, n))
            inside = b.op("and", inside, ok)
        with b.block() as then:
            b.yield_(b.cast(b.load(buffer, tuple(b.cast(i, self.t) for i in index)), i64))
        with b.block() as orelse:
            b.yield_(b.const(0, i64))
        result = b.param(i64)
        b.add(N.If(b.fresh(), inside, tuple(then), tuple(orelse), (result,)))
        return result.id

    def extent(self, buffer: N.Buffer, axis: int) -> int:
        return self.b.cast(self.b.add(N.ShapeOf(self.b.fresh(), buffer.extent_type, buffer.name, axis)), i64)

    def apply(self, op: str, x: int, y: int) -> int:
        b = self.b
        exact = b.op(op, x, y)
        if op not in ("add", "sub", "mul"):
            return exact
        rough = b.op(op, b.cast(x, f64), b.cast(y, f64))
        grows = b.op("gt", rough, b.const(0.0, f64))
        most = b.op("select", grows, b.const(INT64_MAX, i64), b.const(-INT64_MAX - 1, i64))
        return b.op("select", b.op("lt", b.op("abs", rough), b.const(_ROUND, f64)), exact, most)

    def over_range(self, e: S.SizeRange, env: Mapping[int, int]) -> int:
        b = self.b
        begin, end = (self.narrow(self.value(x, env)) for x in (e.begin, e.end))
        index, so_far, result = b.param(self.t, e.var.name), b.param(i64), b.param(i64)
        zero = b.const(0, i64)
        with b.block() as body:
            value = self.value(e.body, {**env, e.var.id: b.cast(index.id, i64)})
            b.yield_(self.apply("add" if e.op == "sum" else "max", so_far.id, value))
        b.add(N.For(b.fresh(), index, begin, end, (so_far,), (zero,), tuple(body), (result,)))
        return result.id

    def narrow(self, x: int) -> int:
        b = self.b
        if self.t is i64:
            return x
        return b.cast(b.op("max", b.op("min", x, b.const(_INT32_MAX, i64)), b.const(-_INT32_MAX - 1, i64)), i32)
