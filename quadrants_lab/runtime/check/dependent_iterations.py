"""Finds the iterations of a launch that touch elements which depend on an input: compiled code lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.types import i32, i64
from quadrants_lab.ir.walk import rewrite, types_of

MARK = ".depends"  # suffix of the buffer that marks the dependent elements of a buffer
COUNT, LISTED = "dependent", "dependent.at"  # buffers: the number of entries in the list, the list
MOST = 256  # entries of the list


def listing(kernel: N.Kernel, shapes: Mapping[str, tuple[int, ...]]) -> N.Kernel:
    """The kernel (after the passes `TASKS`), extended: an iteration that accesses a marked element adds its indices to
    a list. ``shapes``: name of each array -> its shape."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    buffers = dict(kernel.buffers)
    axes = max((len(task.indices) for task in kernel.tasks), default=0)
    count = buffers[COUNT] = N.Buffer(COUNT, "field", i32, 0, ())
    listed = buffers[LISTED] = N.Buffer(LISTED, "field", i64, 2, (MOST, axes or 1))
    for x in kernel.buffers.values():
        shape = () if x.kind == "temp" else shapes.get(x.name)
        if shape is not None:
            buffers[x.name + MARK] = N.Buffer(x.name + MARK, "field", i32, len(shape), shape)

    def noted(task: N.Offload) -> N.Offload:
        def note(s: N.Access) -> None:
            b.span = s.span
            mark = b.load(buffers[s.buffer + MARK], s.index)
            with b.when(b.op("ne", mark, b.const(0, i32))):
                at = b.atomic("add", count, (), b.const(1, i32))
                with b.when(b.op("lt", at, b.const(MOST, i32))):
                    for axis, p in enumerate(task.indices):
                        b.store(listed, (at, b.const(axis, i32)), b.cast(p.id, i64))

        def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
            return [*b.made(note, s), s] if isinstance(s, N.Access) and s.buffer + MARK in buffers else s

        return replace(task, body=rewrite(task.body, one))

    body = tuple(noted(task) for task in kernel.tasks)
    return replace(kernel, body=body, buffers=buffers, next_id=b.next_id)
