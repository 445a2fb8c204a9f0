"""Buffers of which one task stores every element, so that no value from before it is left."""

from math import prod

from quadrants_lab.analysis.accesses import Access, Accesses, Form, symbol
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def overwritten(info: Accesses) -> dict[str, list[int]]:
    """For each buffer the numbers of the tasks that store to each of its elements, whatever the data."""
    found: dict[str, list[int]] = {}
    for name, writes in info.writes.items():
        entries: dict[tuple[int, tuple[int, ...]], set[tuple[int, ...]]] = {}  # by task and by axes with an index
        buffer = info.kernel.buffers[name]
        for a in writes:
            if isinstance(a.stmt, N.Store) and not a.arms:
                fixed = [axis for axis, form in enumerate(a.at) if not form.terms]
                if _loops_cover(info, a, [axis for axis in range(buffer.ndim) if axis not in fixed]):
                    constants = tuple(a.at[axis].const for axis in fixed)
                    entries.setdefault((a.number, tuple(fixed)), set()).add(constants)
        for (number, axes), entry in entries.items():
            extents = [buffer.known_extent(axis) for axis in axes]
            if len(entry) == prod(n or 0 for n in extents) and number not in found.setdefault(name, []):
                found[name].append(number)
    return {name: tasks for name, tasks in found.items() if tasks}


def _loops_cover(info: Accesses, a: Access, axes: list[int]) -> bool:
    """Whether the loops around the access are one for each of these axes, over its whole extent."""
    inner = [x for x in a.loops if isinstance(x, N.For) and not any(isinstance(s, N.Exit) for s in walk(x.body))]
    loops = {symbol(p.id) for p in (*a.task.indices, *(loop.index for loop in inner))}
    if len(inner) < len(a.loops) or len(loops) != len(axes):
        return False
    buffer = info.kernel.buffers[a.stmt.buffer]
    for axis in axes:
        index = next(iter(a.at[axis].terms))
        extent = buffer.known_extent(axis)
        whole = Form({f"!shape {buffer.name} {axis}": 1}) if extent is None else Form({}, extent)
        if a.at[axis] != Form({index: 1}) or index not in loops or info.index[index] != (Form({}), whole):
            return False
        loops.remove(index)
    return True
