"""`over_cells`: a loop over a sparse layout tests each of its widest cells once instead of once for each element."""

from dataclasses import replace
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import map_offloads, of_kind, substitute, types_of, walk

FEWEST = 64  # fewest cells of a task, so that all threads of the host have work
_PER_ITERATION = (N.AdStackAlloca, N.Random, N.Builtin)  # depend on what one iteration is


def over_cells(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that a parallel task whose iterations do nothing unless a cell of a sparse layout is active runs
    over the cells, with serial loops over the elements of an active cell."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    made = map_offloads(kernel, lambda task: _task(kernel, task, b))
    return kernel if made is kernel else replace(made, next_id=b.next_id)


def _task(kernel: N.Kernel, task: N.Offload, b: Builder) -> N.Offload:
    *before, guard, _ = task.body if len(task.body) > 1 else (None, None)
    if task.kind != "struct_for" or not isinstance(guard, N.If) or guard.results:
        return task
    arms = [guard.then, guard.orelse]
    idle = [n for n, arm in enumerate(arms) if len(arm) == 1]
    if len(idle) != 1 or any(_depends_on_iterations(s) for s in walk(task.body)):
        return task
    made = {s.id: s for s in before if isinstance(s, (N.Const, N.Op, N.Load))}
    extents = _extents(task)
    if len(made) < len(before) or extents is None:
        return task
    test, divided = _test(guard.cond, made, {p.id for p in task.indices})
    loads = [s for s in before if s.id in test and isinstance(s, N.Load)]
    sizes = [divided.get(p.id, (1, ()))[0] for p in task.indices]
    cells = [n // by for n, by in zip(extents, sizes, strict=True)]
    fits = all(n % by == 0 for n, by in zip(extents, sizes, strict=True)) and prod(sizes) > 1
    if not fits or prod(cells) < FEWEST or not all(kernel.buffers[s.buffer].counts_cells for s in loads):
        return task
    b.span = task.span
    indices = tuple(b.param(p.type, p.name) if by > 1 else p for p, by in zip(task.indices, sizes, strict=True))
    ids = {s: index.id for p, index in zip(task.indices, indices, strict=True) for s in divided.get(p.id, (1, ()))[1]}
    inner = (*(s for s in before if s.id not in test and s.id not in ids), *arms[1 - idle[0]])
    for p, index, by in reversed(list(zip(task.indices, indices, sizes, strict=True))):
        if by > 1:
            with b.block() as loop:
                begin = b.op("mul", index.id, b.const(by, p.type))
                end = b.op("add", begin, b.const(by, p.type))
                b.add(N.For(b.fresh(), p, begin, end, (), (), inner, ()))
                b.yield_()
            inner = tuple(loop)
    arms[1 - idle[0]] = inner
    entered = replace(guard, then=arms[0], orelse=arms[1])
    body = (*(s for s in before if s.id in test and s.id not in ids), entered, task.body[-1])
    with b.block() as bounds:
        types = [p.type for p in indices]
        b.yield_(*(b.const(0, t) for t in types), *(b.const(n, t) for n, t in zip(cells, types, strict=True)))
    return replace(task, bounds=tuple(bounds), indices=indices, body=substitute(body, ids))


def _depends_on_iterations(s: N.Stmt) -> bool:
    return isinstance(s, _PER_ITERATION) or (isinstance(s, N.Atomic) and (s.distance >= 0 or s.fission != 0))


def _extents(task: N.Offload) -> list[int] | None:
    """The number of indices along each axis; None unless every axis begins at 0 and ends at a constant."""
    known = {s.id: s.value for s in of_kind(task.bounds, N.Const)}
    ends = [known.get(i, -1) for i in task.bounds[-1].operands()]
    k = len(task.indices)
    return None if any(ends[:k]) or min(ends) < 0 else ends[k:]


def _test(
    cond: int, made: dict[int, N.Const | N.Op | N.Load], indices: set[int]
) -> tuple[set[int], dict[int, tuple[int, tuple[int, ...]]]]:
    """The ids of the statements that compute the condition. For each index that the condition reads only as ``index
    // n``, with one constant n, the result also has n and the ids of these divisions."""
    test, direct, divided = set[int](), set[int](), dict[int, tuple[int, tuple[int, ...]]]()
    todo = [cond]
    while todo:
        s = made.get(todo.pop())
        if s is None or s.id in test:
            continue
        test.add(s.id)
        first = s.operands()[0] if s.operands() else -1
        by = made.get(s.operands()[1]) if isinstance(s, N.Op) and s.prim == "floordiv" else None
        if first in indices and isinstance(by, N.Const) and by.value > 1:
            n, same = divided.get(first, (by.value, ()))
            divided[first] = n, (*same, s.id)
            direct.update({first} if n != by.value else ())
            test.add(by.id)
            continue
        direct.update(indices.intersection(s.operands()))
        todo += s.operands()
    return test, {i: found for i, found in divided.items() if i not in direct}
