"""The exact check of the data-access rule: which element was read, to be read again, and then overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quadrants_lab.autodiff.access import Doubt
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import rename, types_of, walk

_MIX = 0x9E3779B97F4A7C15 - (1 << 64)  # spreads the indices of a task over the numbers of its iterations


@dataclass(frozen=True, slots=True)
class Clash:
    """A read and a write that may meet. ``slot``: the "ret" buffer that holds, after a launch of the checked kernel,
    1 + the row-major number of the last element on which they did; 0 for none."""

    slot: str
    read: N.Load
    write: N.Store | N.Atomic


@dataclass(frozen=True, slots=True)
class Checked:
    """``marks``: buffer of marks -> the buffer whose shape it must have, of zeros before a launch."""

    kernel: N.Kernel
    marks: dict[str, str]
    clashes: tuple[Clash, ...]


def check_elements(kernel: N.Kernel, doubts: Sequence[Doubt]) -> Checked:
    """The (offloaded) kernel with a check of every doubtful pair.

    A doubtful read marks its element; a write to a marked element clashes. Within a parallel task the order of two
    iterations is not defined, so a write marks too, with the number of its iteration, and a read clashes with the
    mark of another one. Reads in the bounds of a task get a task of their own before it.
    """
    stmts = {s.id: s for s in walk(kernel.body)}
    task_of: dict[int, N.Block] = {}
    for task in kernel.body:
        for block in task.blocks():
            task_of |= dict.fromkeys((s.id for s in walk(block)), block)
    clashes: list[Clash] = []
    buffers = dict(kernel.buffers)
    marks: dict[str, str] = {}
    reads: dict[int, list[Clash]] = {}
    writes: dict[int, list[Clash]] = {}
    for d in doubts:
        read = stmts[d.read]
        assert isinstance(read, N.Load)
        for w in d.writes:
            write = stmts[w]
            assert isinstance(write, (N.Store, N.Atomic))
            clash = Clash(f"clash{len(clashes)}", read, write)
            clashes.append(clash)
            reads.setdefault(read.id, []).append(clash)
            writes.setdefault(write.id, []).append(clash)
            buffers[clash.slot] = N.Buffer(clash.slot, "ret", i64, 0, ())

    def mark(of: N.Load | N.Store | N.Atomic) -> N.Buffer:
        name = f"{of.buffer}.marks{of.id}"
        if name not in buffers:
            buffers[name] = N.Buffer(name, "ndarray", i64, len(of.index), None)
            marks[name] = of.buffer
        return buffers[name]

    b = Builder(kernel.next_id, types_of(kernel.body))

    def meet(clash: Clash, at: N.Load | N.Store | N.Atomic, happened: int) -> None:
        """Notes the element where the condition holds."""
        with b.block() as then:
            number = _number(b, kernel.buffers[at.buffer], at.index)
            b.atomic("max", buffers[clash.slot], (), b.op("add", number, b.const(1, i64)))
            b.yield_()
        with b.block() as orelse:
            b.yield_()
        b.add(N.If(b.fresh(), happened, tuple(then), tuple(orelse), ()))

    def visit(block: N.Block, lane: int) -> N.Block:
        out: list[N.Stmt] = []
        for s in block:
            if s.blocks():
                s = s.with_blocks(tuple(visit(inner, lane) for inner in s.blocks()))
            b.span = s.span
            with b.block() as ahead:
                if isinstance(s, (N.Store, N.Atomic)):
                    for c in writes.get(s.id, ()):
                        seen = b.load(mark(c.read), s.index)
                        meet(c, s, b.op("ne", seen, b.const(0, i64)))
                        if task_of[c.read.id] is task_of[s.id]:
                            b.atomic("exchange", mark(c.write), s.index, lane)
            out += ahead
            out.append(s)
            with b.block() as behind:
                if isinstance(s, N.Load):
                    for c in reads.get(s.id, ()):
                        b.atomic("exchange", mark(c.read), s.index, lane)
                        if task_of[c.write.id] is task_of[s.id]:
                            other = b.load(mark(c.write), s.index)
                            strange = b.op("and", b.op("ne", other, b.const(0, i64)), b.op("ne", other, lane))
                            meet(c, s, strange)
            out += behind
        return tuple(out)

    def ahead(bounds: N.Block) -> N.Offload:
        """A task that marks what the bounds read."""
        ids: dict[int, int] = {}
        again = rename(bounds[:-1], b.fresh, ids)
        b.types |= {new: b.types[old] for old, new in ids.items() if old in b.types}
        reads.update({ids[old]: clashes for old, clashes in reads.items() if old in ids})
        task_of.update(dict.fromkeys(ids.values(), bounds))
        with b.block() as top:
            lane = b.const(1, i64)
        with b.block() as end:
            b.yield_()
        with b.block() as none:
            b.yield_()
        return N.Offload(b.fresh(), "serial", tuple(none), (), (*top, *visit(again, lane), *end), span=b.span)

    tasks: list[N.Stmt] = []
    for task in kernel.body:
        assert isinstance(task, N.Offload)
        b.span = task.span
        if any(s.id in reads for s in walk(task.bounds)):
            tasks.append(ahead(task.bounds))
        with b.block() as top:
            lane = _lane(b, task)
        tasks.append(replace(task, body=(*top, *visit(task.body, lane))))
    checked = replace(kernel, body=tuple(tasks), buffers=buffers, next_id=b.next_id)
    return Checked(checked, marks, tuple(clashes))


def _lane(b: Builder, task: N.Offload) -> int:
    """A number of the iteration that is not 0."""
    lane = b.const(1, i64)
    for p in task.indices:
        b.types[p.id] = p.type
        lane = b.op("add", b.op("mul", lane, b.const(_MIX, i64)), b.cast(p.id, i64))
    return b.op("or", lane, b.const(1 << 62, i64))


def _number(b: Builder, buffer: N.Buffer, index: tuple[int, ...]) -> int:
    """The row-major number of the element."""
    number = b.const(0, i64)
    for axis, i in enumerate(index):
        if buffer.shape is None:
            extent = b.add(N.ShapeOf(b.fresh(), i32, buffer.name, axis))
        else:
            extent = b.const(buffer.shape[axis], i32)
        number = b.op("add", b.op("mul", number, b.cast(extent, i64)), b.cast(i, i64))
    return number
