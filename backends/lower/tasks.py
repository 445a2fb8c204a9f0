"""Lowers parallel tasks to the code of one thread: a grid-stride loop over the flattened box of iterations.

offload range_for bounds { yield 0, 0, n, m } do (i, j) { atomic add @s[], x } becomes

    offload threads bounds { yield 0, n, 0, m } do (...) {
      store @s.share[], 0
      for it in lane..n * m step lanes { i = it / m; j = it % m; atomic add @s.share[], x private }
      atomic add @s[], @s.share[]
    }

Iterations are numbered in row-major order: of k threads, thread t runs t, t + k, t + 2k, ...
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from quadrants_lab.analysis.ranges import Range, Ranges
from quadrants_lab.backends.cost import GROUP, inline
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.backends.lower.sums import identity, reductions
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, i32, i64, u1, u32, u64
from quadrants_lab.ir.walk import constants, end_of, find, reading, rename, rewrite, types_of

_SMALL = 1 << 30  # the most iterations that an i32 counts: adding a stride still does not overflow


@dataclass(frozen=True, slots=True)
class LowerTasks(Parametrised):
    """Guarantees that tasks are serial or of kind "threads", and that no builtin "iteration" is left. If a task only
    reduces into a buffer, each thread adds its share to the buffer once, after its last iteration. If the schedule sets
    ``in_step``, a thread runs several iterations in step, statement by statement, so that their loads overlap; the
    iterations of `GROUP` threads are neighbours. If the bounds read memory, one thread computes the box and stores it
    in the launch frame, where each thread of the task reads it; the task's own bounds block then yields nothing.
    ``group``: pairs of an operation and the dtypes for which a group of threads can combine its shares of a reduction.
    ``starts``: the thread that stores the box also stores how many groups the device should start."""

    group: tuple[tuple[str, tuple[DType, ...]], ...] = ()
    starts: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        b, buffers = Builder(kernel.next_id, types_of(kernel.body)), dict(kernel.buffers)
        groups = dict(self.group)
        body = tuple(_task(b, kernel, n, t, buffers, groups, self.starts) for n, t in enumerate(kernel.tasks))
        if all(x is y for x, y in zip(body, kernel.body, strict=True)):
            return kernel
        return replace(kernel, buffers=buffers, body=body, next_id=b.next_id)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of the box. ``begin`` and ``extent`` are integers if they are known; otherwise ``params`` have their
    values."""

    begin: int | None
    extent: int | None
    params: tuple[N.Param, N.Param]

    def value(self, b: Builder, n: int) -> int:
        """The id of begin (n = 0) or extent (n = 1)."""
        known = (self.begin, self.extent)[n]
        return self.params[n].id if known is None else b.const(known, self.params[n].type)


def _task(
    b: Builder, kernel: N.Kernel, number: int, task: N.Offload, buffers: dict[str, N.Buffer],
    group_ops: Mapping[str, Collection[DType]], starts: bool,
) -> N.Offload:  # fmt: skip
    if task.kind == "threads":
        return task
    b.span = task.span
    if task.kind == "serial":
        if not _numbered(task):
            return task
        with b.block() as zero:
            first = b.const(0, u64)
        return replace(task, body=(*zero, *_renumbered(task.body, first, {})))
    shares = {
        name: (op, N.Buffer(f"{name}.share", "local", kernel.buffers[name].dtype, 0, (), role="share"))
        for name, op in reductions(kernel, task.body).items()
    }
    buffers |= {share.name: share for _, share in shares.values()}
    bounds, axes, t = _box(b, task)
    params = tuple(p for axis in axes for p in axis.params)
    found: N.Block = ()
    if not inline(task):
        most = "" if not starts else "$threads" if stores_slots(kernel, task.body) else "$lanes"
        bounds, found, left = _through_frame(b, number, bounds, params, most)
        buffers |= {x.name: x for x in left}
        params = ()
    with b.block() as body:
        b.stmts += found
        lane, lanes = b.add(N.Lane(b.fresh(), u32)), b.add(N.Builtin(b.fresh(), u32, "lanes"))
        for op, share in shares.values():
            b.store(share, (), b.const(identity(op, share.dtype), share.dtype))
        index, end = _count(b, task, axes, t)
        first, step = (b.cast(x, index.type) for x in (lane, lanes))
        with b.block() as loop:
            _indices(b, task, axes, index, Ranges(kernel))
            place = b.cast(index.id, u64) if _numbered(task) else N.NO_ID
            b.stmts += _renumbered(task.body, place, {name: share.name for name, (_, share) in shares.items()})
        if task.in_step:
            first = _in_step(b, task.in_step, index, first, end, step, tuple(loop), Ranges(kernel).range(index.id))
        b.add(N.For(b.fresh(), index, first, end, (), (), tuple(loop), (), step=step))
        for name, (op, share) in shares.items():
            value, buffer = b.load(share, ()), kernel.buffers[name]
            if buffer.dtype in group_ops.get(op, ()):
                value = b.add(N.GroupReduce(b.fresh(), buffer.dtype, op, value))
                with b.when(b.add(N.Builtin(b.fresh(), u1, "elected"))):
                    b.atomic(op, buffer, (), value)
            else:
                b.atomic(op, buffer, (), value)
        b.yield_()
    b.span = None
    return replace(task, kind="threads", bounds=bounds, indices=params, body=tuple(body))


def _through_frame(
    b: Builder, number: int, bounds: N.Block, params: Sequence[N.Param], most: str
) -> tuple[N.Block, N.Block, tuple[N.Buffer, ...]]:
    """Passes bounds that read memory through the launch frame. Returns three things: a bounds block with which one
    thread stores the box of the task in the launch frame; a block with which every thread loads the box; and the
    buffers of these words. ``most``: the name of the word with the greatest number of threads; the number of groups
    is stored too."""
    shape, box = (len(params) // 2,), end_of(bounds).values
    what = ("begins", "extents")
    left = tuple(N.Buffer(f"${w}{number}", "frame", p.type, 1, shape) for w, p in zip(what, params[:2], strict=True))
    with b.block() as leaving:
        b.stmts += bounds[:-1]
        for n, value in enumerate(box):
            b.store(left[n % 2], (b.const(n // 2, i32),), value)
        if most:
            groups, threads = (N.Buffer(name, "frame", u32, 0, ()) for name in (f"$groups{number}", most))
            left += groups, threads
            size = b.const(GROUP, u64)
            needed = b.op("quot", b.op("add", b.reduced("mul", box[1::2]), b.const(GROUP - 1, u64)), size)
            room = b.op("quot", b.cast(b.load(threads, ()), u64), size)
            b.store(groups, (), b.cast(b.op("min", needed, room), u32))
        b.yield_()
    with b.block() as finding:
        for n, p in enumerate(params):
            b.add(N.Load(p.id, p.type, left[n % 2].name, (b.const(n // 2, i32),), name=p.name))
    return tuple(leaving), tuple(finding), left


def _box(b: Builder, task: N.Offload) -> tuple[N.Block, list[_Axis], DType]:
    """Returns the bounds block, which yields begin and extent of each axis; the axes; and the dtype that counts
    iterations. If bounds read memory, a separate program computes them, and they have 64 bits."""
    known = constants(task.bounds)
    ids, k, wide = end_of(task.bounds).values, len(task.indices), not inline(task)
    box = [(p, known.get(low), known.get(high)) for p, low, high in task.box()]
    sizes = [max(0, high - low) if low is not None and high is not None else None for _, low, high in box]
    short = [p.type is i32 and low is not None and low >= 0 and not wide for p, low, _ in box]
    if None not in sizes:
        few = prod(n for n in sizes if n is not None) < 1 << 31
    else:
        few = len(box) == 1 and short[0]
    t, axes, values = u32 if few else u64, [], []
    with b.block() as block:
        b.stmts += task.bounds[:-1]
        for axis, (_p, begin, _) in enumerate(box):
            word = i32 if short[axis] else i64
            first = b.cast(ids[axis], i64) if wide else ids[axis]
            if (extent := sizes[axis]) is not None:
                size = b.const(extent, u64 if wide else t)
            else:
                low, high = b.cast(ids[axis], word), b.cast(ids[k + axis], word)
                some = high if begin == 0 else b.op("sub", high, low)
                size = b.cast(b.op("select", b.op("lt", low, high), some, b.const(0, word)), t)
            params = b.param(b.types[first], f"b{axis}"), b.param(b.types[size], f"n{axis}")
            axes.append(_Axis(begin, extent, params))
            values += [first, size]
        if wide and len(box) > 1:  # extents that the host knows are already limited
            values[1::2] = b.limited(values[1::2], "quot")
        b.yield_(*values)
    return tuple(block), axes, t


def _count(b: Builder, task: N.Offload, axes: list[_Axis], t: DType) -> tuple[N.Param, int]:
    """The index of the loop over iterations, and its end. If the task's own index counts from 0, it serves as this
    index."""
    sizes, own = [axis.extent for axis in axes if axis.extent is not None], task.indices[0]
    if len(sizes) == len(axes):
        total = prod(sizes)
        if len(axes) == 1 and axes[0].begin == 0 and own.type is i32 and total <= _SMALL:
            return replace(own, name=own.name or "i"), b.const(total, i32)
        return b.param(t, "it"), b.const(total, t)
    end = b.reduced("mul", (axis.value(b, 1) for axis in axes))
    return b.param(t, "it"), end


def _in_step(
    b: Builder, several: int, index: N.Param, lane: int, end: int, lanes: int, body: N.Block, known: Range | None
) -> int:
    """Emits the loop that runs ``several`` iterations in step, as far as all threads have that many. Returns this
    thread's first iteration after that. ``known``: the range of the index if it is the task's own."""
    t = index.type

    def rows(value: int, size: int, range: Range | None = None) -> int:
        """Emits ``value`` rounded down to a multiple of ``size``, a power of two."""
        mask = b.const(-size if t.kind == "i" else (1 << t.bits) - size, t)
        return b.add(N.Op(b.fresh(), t, "and", (value, mask), range=range))

    whole = rows(end, GROUP * several, (0, known[1] + 1) if known else None)
    before = b.op("mul", rows(lane, GROUP), b.const(several - 1, t))
    number = b.param(t, "it")
    with b.block() as loop:
        places = [number.id]
        for n in range(1, several):
            at = b.const(n * GROUP, t)
            places.append(b.add(N.Op(b.fresh(), t, "add", (number.id, at), range=known)))
        copies = [rename(body[:-1], b.fresh, {index.id: place}) for place in places]
        for same in zip(*copies, strict=True):
            b.stmts += same
        b.yield_()
    first, step = b.op("add", lane, before), b.op("mul", lanes, b.const(several, t))
    b.add(N.For(b.fresh(), number, first, whole, (), (), tuple(loop), (), step=step))
    return b.op("add", whole, lane)


def _indices(b: Builder, task: N.Offload, axes: list[_Axis], index: N.Param, ranges: Ranges) -> None:
    """Emits the task's indices for the iteration with row-major index ``index``."""
    if index.id == task.indices[0].id:
        return
    rest, inner, places = index.id, 1, []  # ``inner``: the divisor by which ``rest`` is still to be divided

    def row() -> int:
        return rest if inner == 1 else b.op("quot", rest, b.const(inner, index.type))

    for axis in reversed(axes[1:]):
        if axis.extent is not None:
            places.append(b.op("rem", row(), b.const(max(axis.extent, 1), index.type)))
            inner *= max(axis.extent, 1)
        else:
            rest, size, inner = row(), axis.value(b, 1), 1
            places.append(b.op("rem", rest, size))
            rest = b.op("quot", rest, size)
    for axis, p, place in zip(axes, task.indices, (row(), *reversed(places)), strict=True):
        if axis.begin == 0:
            b.add(N.Op(p.id, p.type, "cast", (place,), name=p.name or "i", range=ranges.range(p.id)))
        else:
            parts = b.cast(axis.value(b, 0), p.type), b.cast(place, p.type)
            b.add(N.Op(p.id, p.type, "add", parts, name=p.name or "i", range=ranges.range(p.id)))


def _numbered(task: N.Offload) -> bool:
    """Whether the task uses the row-major index of the iteration."""
    return any(s.what == "iteration" for s in find(task.body, N.Builtin))


def _renumbered(block: N.Block, number: int, shares: dict[str, str]) -> N.Block:
    """The block with the value ``number`` instead of the builtin "iteration", and with the buffers ``shares`` instead
    of those that they are shares of."""
    ids: dict[int, int] = {}

    def inner(s: N.Stmt) -> N.Stmt | tuple[()]:
        if isinstance(s, N.Builtin) and s.what == "iteration":
            ids[s.id] = number
            return ()
        s = reading(s, ids)
        if isinstance(s, N.Atomic) and s.buffer in shares:
            return replace(s, buffer=shares[s.buffer], private=True)
        return s

    return rewrite(block, inner)
