"""Compacts tasks in which a condition keeps most iterations from ever pushing to a stack.

The kernel of a gradient becomes two kernels. The first one lists the iterations that push. In the second one each such
task becomes two tasks: one runs the iterations that do not push and has no stacks, the other runs the listed
iterations, densely packed. So only iterations that push need memory for stacks, and all lanes of a group are busy.
"""

from collections.abc import Mapping
from dataclasses import replace

from quadrants_lab.adstack.counting import computes_temporaries
from quadrants_lab.analysis.algebra import ONE, binary, trips
from quadrants_lab.analysis.symbols import Symbols
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import i32, u1
from quadrants_lab.ir.walk import end_of, find, of_kind, rename, renamed, rewrite_in, rules, types_of, walk

ACTIVE_COUNT = "active_count"  # followed by a list's number: the "ret" buffer with the list's length
ROWS = "rows"  # followed by a list's number: the list itself, of row-major iteration numbers


@dataclass(slots=True)
class SparseIterations:
    """The two kernels that replace a gradient. ``lists``: the kernel (mode "count") that fills i32 "ndarray"
    buffers `ROWS` and i32 "ret" buffers `ACTIVE_COUNT`; ``split``: the kernel that reads `ROWS`, whose extent is
    the list's length. ``boxes``: the number of iterations of the task of each list, by the list's number."""

    lists: N.Kernel
    split: N.Kernel
    boxes: dict[int, S.SizeExpr]

    def tasks(self) -> dict[int, int]:
        """For each list, by its number, the number of the task whose iterations it lists."""
        bounds = [(number, s) for number, task in enumerate(self.split.body) for s in walk(task.blocks()[0])]
        rows = {s.buffer: number for number, s in bounds if isinstance(s, N.ShapeOf)}
        return {n: rows[f"{ROWS}{n}"] for n in self.boxes if f"{ROWS}{n}" in rows}


def sparse_iterations(kernel: N.Kernel) -> SparseIterations | None:
    """The two kernels for a sized reverse kernel; None if no task has a condition around all of its pushes. The caller
    simplifies both kernels and then asks `is_cheap`."""
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
    """A quick check whether `sparse_iterations` may find a task. Kernels with scratch buffers are excluded: their
    gradient restores overwritten values, but the kernel that lists iterations runs before that."""
    if any(b.kind == "scratch" for b in kernel.buffers.values()):
        return False
    tasks = kernel.tasks
    return any(any(map(_uses_stack, _forward_slice(t))) and not _always_uses_stack(_forward_slice(t)) for t in tasks)


def is_cheap(lists: N.Kernel) -> bool:
    """Whether the conditions can be evaluated without a loop."""
    return not any(find(lists.body, N.Loop))


def _box(task: N.Offload, buffers: Mapping[str, N.Buffer]) -> S.SizeExpr | None:
    """The number of iterations of a task; None if it is not known, or if the task cannot be split. A task with random
    draws cannot be split, because draws depend on an iteration's position. Neither can a task with more iterations
    than an i32 can number."""
    symbols = Symbols(task, buffers)
    if task.kind == "serial" or any(find((task,), N.Random)):
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
    """The task that lists the iterations that push; None where all iterations push, or none."""
    stacks = {s.id for s in of_kind(task.body, N.AdStackAlloca)}
    if not stacks or stacks - {s.stack for s in find(_forward_slice(task), N.AdStackPush)}:
        return None  # the reverse pushes in segments of a checkpointed loop, even where the forward slice does not push
    body, pushes = _flagged(b, _forward_slice(task))
    if pushes is None:
        return None
    with b.block() as gate, b.when(pushes):
        at = b.add(N.Atomic(b.fresh(), i32, active, (), b.const(1, i32), "add"))
        b.add(N.Store(b.fresh(), rows, (at,), _number(b, task)))
    return replace(task, body=(*body, *gate, task.body[-1]))


def _forward_slice(task: N.Offload) -> N.Block:
    """The task's forward slice."""
    return tuple(s for s in task.body[:-1] if not isinstance(s, (N.AdStackAlloca, N.AdStackGuard)))


def _flagged(b: Builder, block: N.Block) -> tuple[list[N.Stmt], int | None]:
    """The block without its pushes, and a flag (u1) that is true if the block would push; None if it always pushes."""
    out: list[N.Stmt] = []
    flags: list[int] = []
    for s in block:
        if isinstance(s, N.If) and not _always_uses_stack(block) and _uses_stack(s):
            arms = [_arm(b, a) for a in s.blocks()]
            flag = b.param(u1)
            flags.append(flag.id)
            out.append(replace(s, then=arms[0], orelse=arms[1], results=(*s.results, flag)))
        elif not isinstance(s, N.AdStackPush):  # also loops: a later If may read their results
            out.append(rewrite_in(s, rules({N.AdStackPush: lambda push: ()})))
    if _always_uses_stack(block):
        return out, None
    with b.block() as made:
        pushes = b.reduced("or", flags or [b.const(False, u1)])
    return [*out, *made], pushes


def _arm(b: Builder, block: N.Block) -> N.Block:
    end = end_of(block)
    body, pushes = _flagged(b, block[:-1])
    with b.block() as made:
        flag = b.const(True, u1) if pushes is None else pushes
    return (*body, *made, replace(end, values=(*end.values, flag)))


def _uses_stack(s: N.Stmt) -> bool:
    return any(find((s,), N.StackUse))


def _always_uses_stack(block: N.Block) -> bool:
    """Whether the block uses a stack outside of any If."""
    return any(_uses_stack(s) for s in block if not isinstance(s, N.If))


# --- the two parts of a task


def _others(b: Builder, task: N.Offload) -> N.Stmt:
    """The task for the iterations that do not push: its body, without the arms that use stacks, in an If."""
    forward, pushes = _flagged(b, _forward_slice(task))
    assert pushes is not None
    nothing = b.nothing()
    opened: list[N.Stmt] = []
    for s in task.body[:-1]:
        if isinstance(s, N.AdStackGuard):
            opened += s.body[:-1]
        elif not isinstance(s, N.AdStackAlloca):
            opened.append(s)
    rest = (*rename(_unstacked(b, tuple(opened)), b.fresh, {}), N.Yield(b.fresh(), ()))
    gate = N.If(b.fresh(), pushes, nothing, rest, ())
    return renamed(replace(task, body=(*forward, gate, task.body[-1])), b.fresh)


def _unstacked(b: Builder, block: N.Block) -> N.Block:
    """The block with zeros in place of those arms that use stacks; these arms are never taken."""
    out: list[N.Stmt] = []
    for s in block:
        if isinstance(s, N.If) and _uses_stack(s):
            types = [r.type for r in s.results]
            arms: list[N.Block] = []
            for arm in s.blocks():
                if _always_uses_stack(arm):
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
        b.yield_(b.const(0, i32), b.add(N.ShapeOf(b.fresh(), i32, rows.name, 0)))
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
    """Statements that compute begin and extent of each axis of a box that is not empty."""
    ids: dict[int, int] = {}
    b.stmts += rename(task.bounds[:-1], b.fresh, ids)
    b.types.update({ids[i]: t for i, t in types_of(task.bounds).items() if i in ids})
    end = [ids.get(v, v) for v in task.bounds[-1].operands()]
    k = len(task.indices)
    return end[:k], [b.op("sub", high, low) for low, high in zip(end[:k], end[k:], strict=True)]


def _number(b: Builder, task: N.Offload) -> int:
    """The row-major number of the current iteration."""
    begins, extents = _extents(b, task)
    number = b.const(0, i32)
    for p, begin, extent in zip(task.indices, begins, extents, strict=True):
        number = b.op("add", b.op("mul", number, extent), b.op("sub", p.id, begin))
    return number
