"""Conditions that keep most iterations of a task from ever pushing: the others are listed first, and run by themselves.

The kernel of a gradient becomes two. The first lists the iterations that push. The second runs each gated task in two
parts: the iterations that do not push, without any stack, and then those of the list, which are neighbours now. So the
heap has lanes for those that push, and all lanes of a group are at work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quadrants_lab.adstack.counting import computes_temporaries
from quadrants_lab.analysis.algebra import ONE, binary, trips
from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir import sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32, u1
from quadrants_lab.ir.walk import end_of, rename, renamed, rewrite_in, types_of, walk

ACTIVE_COUNT = "active_count"  # and a number: how many iterations the list of that number has
ROWS = "rows"  # and a number: the list, of numbers of iterations in row-major order


@dataclass(slots=True)
class SparseIterations:
    """``lists``: the kernel (mode "count") that leaves i32 "ndarray" buffers `ROWS` and i32 "ret" buffers
    `ACTIVE_COUNT`; ``split``: the kernel that reads `ROWS`, whose extent is the list's length. ``boxes``: by the number
    of a list, how many iterations may be on it."""

    lists: N.Kernel
    split: N.Kernel
    boxes: dict[int, S.SizeExpr]

    def tasks(self) -> dict[int, int]:
        """Maps a list's number to its task's number."""
        bounds = [(number, s) for number, task in enumerate(self.split.body) for s in walk(task.blocks()[0])]
        rows = {s.buffer: number for number, s in bounds if isinstance(s, N.ShapeOf)}
        return {n: rows[f"{ROWS}{n}"] for n in self.boxes if f"{ROWS}{n}" in rows}


def sparse_iterations(kernel: N.Kernel) -> SparseIterations | None:
    """Of a sized reverse kernel; None where no task has conditions in front of all that it pushes. Both kernels are to
    be simplified; then see `is_cheap`."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    lists: list[N.Stmt] = []
    split: list[N.Stmt] = []
    boxes: dict[int, S.SizeExpr] = {}
    for task in kernel.tasks:
        box = _box(task, kernel.buffers)
        listed = None if box is None else _listed(b, task, f"{ROWS}{len(boxes)}", f"{ACTIVE_COUNT}{len(boxes)}")
        if box is None or listed is None:
            split.append(task)
            if computes_temporaries(kernel.buffers, task):
                lists.append(task)
            continue
        n = len(boxes)
        boxes[n] = box
        buffers[f"{ROWS}{n}"] = N.Buffer(f"{ROWS}{n}", "ndarray", i32, 1, None)
        lists.append(listed)
        split.append(_others(b, task))
        split.append(_from_list(b, task, buffers[f"{ROWS}{n}"]))
    if not boxes:
        return None
    counts = {f"{ACTIVE_COUNT}{n}": N.Buffer(f"{ACTIVE_COUNT}{n}", "ret", i32, 0, ()) for n in boxes}
    first = replace(kernel, buffers=buffers | counts, body=tuple(lists), mode="count", next_id=b.next_id)
    return SparseIterations(first, replace(kernel, buffers=buffers, body=tuple(split), next_id=b.next_id), boxes)


def may_be_sparse(kernel: N.Kernel) -> bool:
    """A quick look: whether `sparse_iterations` may find any. What lists iterations finds the memory that the launch
    left, which may not be what the gradient puts back."""
    if any(b.kind == "scratch" for b in kernel.buffers.values()):
        return False
    tasks = [s for s in kernel.body if isinstance(s, N.Offload)]
    return any(any(_somewhere(s) for s in _ahead(t)) and not _uses_stacks(_ahead(t)) for t in tasks)


def is_cheap(lists: N.Kernel) -> bool:
    """Whether the conditions can be evaluated without a loop."""
    return not any(isinstance(s, N.Loop) for s in walk(lists.body))


def _box(task: N.Offload, buffers: Mapping[str, N.Buffer]) -> S.SizeExpr | None:
    """How many iterations a task has that may be gated; None where that is not known, or it may not. Draws depend on
    where an iteration stands, and lists hold numbers of i32."""
    symbols = Symbols(task, buffers)
    if task.kind == "serial" or any(isinstance(s, N.Random) for s in walk((task,))):
        return None
    if any(p.type is not i32 for p in task.indices):
        return None
    total: S.SizeExpr = ONE
    for _, begin, end in task.box():
        low, high = symbols.size(begin), symbols.size(end)
        if low is None or high is None:
            return None
        total = binary("mul", total, trips(low, high))
    return total


# --- the iterations that push


def _listed(b: Builder, task: N.Offload, rows: str, active: str) -> N.Offload | None:
    """The task that lists them; None where all push, or none."""
    stacks = {s.id for s in task.body if isinstance(s, N.AdStackAlloca)}
    if not stacks or stacks - {s.stack for s in walk(_ahead(task)) if isinstance(s, N.AdStackPush)}:
        return None  # a segment of a checkpointed loop may push what its forward slice does not
    body, passes = _flagged(b, _ahead(task))
    if passes is None:
        return None
    with b.block() as gate, b.when(passes):
        at = b.add(N.Atomic(b.fresh(), i32, active, (), b.const(1, i32), "add"))
        b.add(N.Store(b.fresh(), rows, (at,), _number(b, task)))
    return replace(task, body=(*body, *gate, task.body[-1]))


def _ahead(task: N.Offload) -> N.Block:
    """The task's forward slice."""
    return tuple(s for s in task.body[:-1] if not isinstance(s, (N.AdStackAlloca, N.AdStackGuard)))


def _flagged(b: Builder, block: N.Block) -> tuple[list[N.Stmt], int | None]:
    """The block without pushes, and a flag (u1) that says whether it pushes; None: it does whenever it runs."""
    out: list[N.Stmt] = []
    flags: list[int] = []
    for s in block:
        if isinstance(s, N.If) and not _uses_stacks(block) and _somewhere(s):
            arms = [_arm(b, a) for a in s.blocks()]
            flag = b.param(u1)
            flags.append(flag.id)
            out.append(replace(s, then=arms[0], orelse=arms[1], results=(*s.results, flag)))
        elif not isinstance(s, N.AdStackPush):  # what a loop computes may steer a later condition
            out.append(rewrite_in(s, _not_a_push))
    if _uses_stacks(block):
        return out, None
    with b.block() as made:
        passes = flags[0] if flags else b.const(False, u1)
        for f in flags[1:]:
            passes = b.op("or", passes, f)
    return [*out, *made], passes


def _arm(b: Builder, block: N.Block) -> N.Block:
    end = end_of(block)
    body, passes = _flagged(b, block[:-1])
    with b.block() as made:
        flag = b.const(True, u1) if passes is None else passes
    return (*body, *made, replace(end, values=(*end.values, flag)))


def _not_a_push(s: N.Stmt) -> N.Stmt | tuple[()]:
    return () if isinstance(s, N.AdStackPush) else s


def _somewhere(s: N.Stmt) -> bool:
    return any(isinstance(inner, N.StackUse) for inner in walk((s,)))


def _uses_stacks(block: N.Block) -> bool:
    """Whether the block touches a stack whenever it runs, in loops perhaps."""
    return any(_somewhere(s) for s in block if not isinstance(s, N.If))


# --- the two parts of a task


def _others(b: Builder, task: N.Offload) -> N.Stmt:
    """The task for the iterations that do not push: an If around it, and in it no arm that uses stacks."""
    ahead, passes = _flagged(b, _ahead(task))
    assert passes is not None
    nothing = b.nothing()
    opened: list[N.Stmt] = []
    for s in task.body[:-1]:
        if isinstance(s, N.AdStackGuard):
            opened += s.body[:-1]
        elif not isinstance(s, N.AdStackAlloca):
            opened.append(s)
    rest = (*rename(_unstacked(b, tuple(opened)), b.fresh, {}), N.Yield(b.fresh(), ()))
    gate = N.If(b.fresh(), passes, nothing, rest, ())
    return renamed(replace(task, body=(*ahead, gate, task.body[-1])), b.fresh)


def _unstacked(b: Builder, block: N.Block) -> N.Block:
    """The block with zeros in place of the arms that use stacks, which do not run."""
    out: list[N.Stmt] = []
    for s in block:
        if isinstance(s, N.If) and _somewhere(s):
            types = [r.type for r in s.results]
            arms: list[N.Block] = []
            for arm in s.blocks():
                if _uses_stacks(arm):
                    with b.block() as zeros:
                        b.yield_(*(b.const(0, t) for t in types))
                    arm = tuple(zeros)
                arms.append(_unstacked(b, arm))
            s = replace(s, then=arms[0], orelse=arms[1])
        out.append(s)
    return tuple(out)


def _from_list(b: Builder, task: N.Offload, rows: N.Buffer) -> N.Offload:
    """The task for the iterations on the list."""
    with b.block() as bounds:
        zero = b.const(0, i32)
        b.yield_(zero, b.add(N.ShapeOf(b.fresh(), i32, rows.name, 0)))
    place = b.param(i32, "row")
    with b.block() as head:
        rest = b.load(rows, (place.id,))
        begins, extents = _extents(b, task)
        places: list[int] = []
        for extent in reversed(extents[1:]):
            places.append(b.op("mod", rest, extent))
            rest = b.op("floordiv", rest, extent)
        places.append(rest)
        for p, begin, at in zip(task.indices, begins, reversed(places), strict=True):
            b.add(N.Op(p.id, p.type, "add", (begin, at), name=p.name))
    return replace(task, kind="range_for", bounds=tuple(bounds), indices=(place,), body=(*head, *task.body))


def _extents(b: Builder, task: N.Offload) -> tuple[list[int], list[int]]:
    """Begin and extent of each axis of a box that is not empty, computed where they are needed."""
    ids: dict[int, int] = {}
    b.stmts += rename(task.bounds[:-1], b.fresh, ids)
    b.types.update({ids[i]: t for i, t in types_of(task.bounds).items() if i in ids})
    end = [ids.get(v, v) for v in task.bounds[-1].operands()]
    k = len(task.indices)
    return end[:k], [b.op("sub", high, low) for low, high in zip(end[:k], end[k:], strict=True)]


def _number(b: Builder, task: N.Offload) -> int:
    """The number of the iteration at hand, row by row."""
    begins, extents = _extents(b, task)
    number = b.const(0, i32)
    for p, begin, extent in zip(task.indices, begins, extents, strict=True):
        number = b.op("add", b.op("mul", number, extent), b.op("sub", p.id, begin))
    return number
