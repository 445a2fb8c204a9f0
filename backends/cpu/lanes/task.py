"""The chunk function of a task that runs in lanes. It counts in groups of the iterations that run side by side."""

from functools import partial

from quadrants_lab.backends._llvm.body import Unit
from quadrants_lab.backends._llvm.memory import Partial
from quadrants_lab.backends._llvm.text import Function, ty
from quadrants_lab.backends.cost import large
from quadrants_lab.backends.cpu import copies, layout as L, shares
from quadrants_lab.backends.cpu.lanes import memory
from quadrants_lab.backends.cpu.lanes.body import LaneBody
from quadrants_lab.backends.cpu.lanes.divergence import divergence
from quadrants_lab.backends.cpu.rows import rows, saturated_product
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import i32


def group(fn: Function, kernel: N.Kernel, task: N.Offload, total: str) -> str:
    """How many iterations run side by side, an i64: as many as there are lanes, unless there are fewer iterations, or
    the heap has no room for the adstacks of so many. The frame's number is that of the kernel's widest task."""
    if not stores_slots(kernel, task.body):
        return str(task.lanes)
    room = fn.call("i64", "llvm.umin.i64", ("i64", fn.word(L.LANES)), ("i64", str(task.lanes)))
    fewer = fn.call("i64", "llvm.umin.i64", ("i64", room), ("i64", total))
    return fn.call("i64", "llvm.umax.i64", ("i64", fewer), ("i64", "1"))


def groups(fn: Function, kernel: N.Kernel, task: N.Offload, total: str) -> str:
    """The number of groups of ``total`` iterations."""
    size = group(fn, kernel, task, total)
    up = fn.let(f"add i64 {total}, {fn.let(f'sub i64 {size}, 1')}")
    return fn.let(f"udiv i64 {up}, {size}")


def emit(fn: Function, unit: Unit, task: N.Offload, number: int) -> None:
    """The chunk function ``fn`` of groups %begin to %end, or in colours of iterations, in row-major order."""
    kernel, width = unit.kernel, task.lanes
    variables = {b.name for b in kernel.buffers.values() if b.kind == "local"}
    found = divergence(task.body, [task.indices[-1].id], variables)
    body = LaneBody(fn, unit, found, width)
    body.begin_chunk(task, number)
    total = "1"
    for axis in range(len(task.indices)):
        extent = body.word(body.bounds_at + (2 * axis + 1) * L.WORD)
        total = saturated_product(fn, total, extent) if axis else extent
    body.stride = group(fn, kernel, task, total)
    begin, end = "%begin", "%end"
    if not task.colour_rows:
        begin, past = (fn.let(f"mul i64 {n}, {body.stride}") for n in (begin, end))
        end = fn.call("i64", "llvm.umin.i64", ("i64", past), ("i64", total))
    body.open(task.body)
    copies.open(body, task.copies)
    body.scratch_at = fn.let(f"alloca <{width} x ptr>")
    body.scratch_values = fn.let(f"alloca <{width} x i64>")
    shares.open(body, task, width)
    rows(body, task, begin, end, _row)
    fn.start("leave")
    shares.close(body, task, partial(_over_lanes, body))
    fn.put("ret void")
    fn.close()


def _over_lanes(body: LaneBody, p: Partial) -> str:
    share = body.fn.let(f"load {ty(p.dtype, body.width).text}, ptr {p.ptr}")
    return memory.reduced(body, p.op, p.dtype, share)


def _row(body: LaneBody, task: N.Offload, begin: str, end: str, done: str) -> None:
    """The innermost parallel loop, over a range of i64 that is never empty. A trip runs a group; in the last one only
    as many lanes take part as there are iterations left."""
    with body.fn.loop("group", "i64", begin, end, done, body.stride, hoisting=not large(task.body)) as at:
        run_group(body, task, at, end)


def run_group(body: LaneBody, task: N.Offload, at: str, end: str) -> None:
    """The iterations of a group, from the one with the last index ``at`` on, and before ``end``."""
    fn, p = body.fn, task.indices[-1]
    outer, body.offsets = body.offsets, dict(body.offsets)
    left = fn.let(f"sub i64 {end}, {at}")
    lanes = fn.call("i64", "llvm.umin.i64", ("i64", left), ("i64", body.stride))
    few = body.splat(fn.let(f"trunc i64 {lanes} to i32"), i32)
    body.mask = fn.let(f"icmp ult {ty(i32, body.width).text} {body.numbers(i32)}, {few}")
    body.linear[p.id] = at if p.type.bits == 64 else fn.let(f"trunc i64 {at} to {ty(p.type).text}")
    body.define(p.id, p.type, "")
    body.block(task.body, ())
    body.offsets = outer
