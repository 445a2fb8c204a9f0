"""`over_cells`: a loop over a sparse layout looks at each of its widest cells once, not at each element."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import map_offloads, substitute, types_of, walk

FEWEST = 64  # cells that tasks are made of: fewer would leave threads without work
_WHOLE = (N.AdStackAlloca, N.Random, N.Builtin)  # what is about an iteration as such


def over_cells(kernel: N.Kernel) -> N.Kernel:
    """Where the iterations of a parallel task do nothing unless a cell of a sparse layout is active, and a cell has
    many of them: the task runs over the cells, and of those that are active over the elements, in serial loops."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    made = map_offloads(kernel, lambda task: _task(kernel, task, b))
    return kernel if made is kernel else replace(made, next_id=b.next_id)


def counts_cells(buffer: N.Buffer) -> bool:
    """Whether it says what is active in a sparse layout, or what was."""
    return buffer.role == "activity" or (buffer.role == "kept" and buffer.name.endswith(".before"))


def _task(kernel: N.Kernel, task: N.Offload, b: Builder) -> N.Offload:
    *before, guard, _ = task.body if len(task.body) > 1 else (None, None)
    if task.kind != "struct_for" or not isinstance(guard, N.If) or guard.results:
        return task
    arms = [guard.then, guard.orelse]
    idle = [n for n, arm in enumerate(arms) if len(arm) == 1]
    if len(idle) != 1 or any(_about_iterations(s) for s in walk(task.body)):
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
    if not fits or prod(cells) < FEWEST or not all(counts_cells(kernel.buffers[s.buffer]) for s in loads):
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


def _about_iterations(s: N.Stmt) -> bool:
    return isinstance(s, _WHOLE) or (isinstance(s, N.Atomic) and (s.reach >= 0 or s.sweep != 0))


def _extents(task: N.Offload) -> list[int] | None:
    """How many indices each axis has, where all begin at 0 and that is known."""
    known = {s.id: s.value for s in task.bounds if isinstance(s, N.Const)}
    ends = [known.get(i, -1) for i in task.bounds[-1].operands()]
    k = len(task.indices)
    return None if any(ends[:k]) or min(ends) < 0 else ends[k:]


def _test(
    cond: int, made: dict[int, N.Const | N.Op | N.Load], indices: set[int]
) -> tuple[set[int], dict[int, tuple[int, tuple[int, ...]]]]:
    """The statements that a condition is computed by, and for each index that it only depends on divided by one number
    that number and the statements that divide."""
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
