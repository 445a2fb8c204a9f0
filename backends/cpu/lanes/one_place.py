"""Sums at places from data that are often one place: a hot cell, or data in order.

Additions to one element, one after the other, take the time of as many round trips to the cache. So a task that does
nothing but add to a place from data, be it to several arrays, first looks at a group of iterations in vectors. If the
place is the same in all of them, their sums are added at once. Otherwise they run by themselves, and so do the next
groups.
"""

from collections.abc import Callable

from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.text import Function
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.backends.cpu.lanes.body import LaneBody
from quadrants_lab.backends.cpu.lanes.divergence import divergence
from quadrants_lab.backends.cpu.lanes.task import run_group
from quadrants_lab.backends.cpu.rows import Row, iterations
from quadrants_lab.ir import nodes as N

_PAUSE = 16  # groups that run by themselves before the next look


def row_of(fn: Function, unit: Unit, task: N.Offload, opened: Callable[[CpuBody], None]) -> Row[CpuBody]:
    """What `rows` takes. ``opened`` reads what a body needs from the frame."""
    lanes = task.one_place
    body = LaneBody(fn, unit, divergence(task.body, [task.indices[-1].id]), lanes)
    opened(body)
    body.stride = str(lanes)

    def row(alone: CpuBody, task: N.Offload, begin: str, end: str, done: str) -> None:
        for p in task.indices[:-1]:
            body.define(p.id, p.type, alone.values[p.id])
        head, apart, after, before = fn.label("group"), fn.label("apart"), fn.label("next"), fn.block
        fn.jump(head)
        fn.start(head)
        at, line = fn.hole()
        body.apart = apart
        run_group(body, task, at, end)
        behind, together = fn.let(f"add i64 {at}, {lanes}"), fn.block
        fn.jump(after)
        fn.start(apart)
        pause = fn.let(f"add i64 {at}, {_PAUSE * lanes}")
        far, single = fn.call("i64", "llvm.smin.i64", ("i64", pause), ("i64", end)), fn.label("single")
        iterations(alone, task.indices[-1], task.body, at, far, single)
        fn.start(single)
        fn.jump(after)
        fn.start(after)
        then = fn.phi("i64", (behind, together), (far, single))
        fn.patch(line, f"{at} = phi i64 [{begin}, %{before}], [{then}, %{after}]")
        fn.branch(fn.let(f"icmp slt i64 {then}, {end}"), head, done)

    return row
