"""The chunk function of a task that runs in lanes: it counts in groups of as many iterations as run side by side."""

from __future__ import annotations

from functools import partial

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm.memory import Partial, Scopes
from quadrants_lab.backends._llvm.text import Function, ty
from quadrants_lab.backends.cpu import copies, shares
from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu.lanes import memory
from quadrants_lab.backends.cpu.lanes.body import LaneBody
from quadrants_lab.backends.cpu.lanes.divergence import divergence
from quadrants_lab.backends.cpu.rows import rows
from quadrants_lab.backends.lower.adstacks import stores_slots
from quadrants_lab.backends.lower.sums import Target
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import i32


def group(fn: Function, kernel: N.Kernel, task: N.Offload, total: str, width: int) -> str:
    """How many iterations run side by side, an i64: all lanes, unless there are fewer iterations than lanes, or the
    heap has no room for so many adstacks. ``fn`` has the frame as %frame."""
    if not stores_slots(kernel, task.body):
        return str(width)
    at = fn.let(f"getelementptr inbounds i8, ptr %frame, i64 {L.LANES}")
    most = fn.let(f"load i64, ptr {at}")
    fewer = fn.call("i64", "llvm.umin.i64", ("i64", most), ("i64", total))
    return fn.call("i64", "llvm.umax.i64", ("i64", fewer), ("i64", "1"))


def groups(fn: Function, kernel: N.Kernel, task: N.Offload, total: str, width: int) -> str:
    """How many groups the iterations make."""
    size = group(fn, kernel, task, total, width)
    up = fn.let(f"add i64 {total}, {fn.let(f'sub i64 {size}, 1')}")
    return fn.let(f"udiv i64 {up}, {size}")


def emit(
    fn: Function, kernel: N.Kernel, options: CompileOptions, frame: L.FrameLayout, scopes: Scopes,
    ranges: Ranges, task: N.Offload, number: int, width: int, whole: bool,
    targets: tuple[Target, ...],
) -> None:  # fmt: skip
    """Groups %begin to %end of the box in row-major order, on worker %worker; with ``whole``, iterations. ``targets``:
    what workers may have copies of."""
    variables = {b.name for b in kernel.buffers.values() if b.kind == "local"}
    found = divergence(task.body, [task.indices[-1].id], variables)
    body = LaneBody(fn, kernel, options, frame, scopes, ranges, found, width)
    copies.worker(body)
    body.indices, body.bounds_at = task.indices, frame.bounds[number]
    body.device = fn.let("load ptr, ptr %frame")
    total = "1"
    for axis in range(len(task.indices)):
        extent = body.word(body.bounds_at + (2 * axis + 1) * L.WORD)
        total = fn.let(f"mul i64 {total}, {extent}") if axis else extent
    body.stride = group(fn, kernel, task, total, width)
    begin, end = "%begin", "%end"
    if not whole:
        begin, past = (fn.let(f"mul i64 {n}, {body.stride}") for n in (begin, end))
        end = fn.call("i64", "llvm.umin.i64", ("i64", past), ("i64", total))
    body.open(task.body)
    copies.open(body, targets)
    body.scratch_at = fn.let(f"alloca <{width} x ptr>")
    body.scratch_values = fn.let(f"alloca <{width} x i64>")
    shares.open(body, task, width)
    rows(body, task, number, begin, end, _row)
    fn.start("leave")
    shares.close(body, task, partial(_over_lanes, body))
    fn.put("ret void")
    fn.close()


def _over_lanes(body: LaneBody, p: Partial) -> str:
    share = body.fn.let(f"load {ty(p.dtype, body.width).text}, ptr {p.ptr}")
    return memory.reduced(body, p.op, p.dtype, share)


def _row(body: LaneBody, task: N.Offload, begin: str, end: str, done: str) -> None:
    """The innermost parallel loop, over [begin, end) given as i64, never empty: a group a round, and in the last one as
    many lanes as there are iterations left."""
    fn, p = body.fn, task.indices[-1]
    t = ty(p.type).text
    v = ty(i32, body.width).text
    loop, before = fn.label("group"), fn.block
    fn.jump(loop)
    fn.start(loop)
    at, hole = fn.hole()
    outer, body.offsets = body.offsets, dict(body.offsets)
    left = fn.let(f"sub i64 {end}, {at}")
    lanes = fn.call("i64", "llvm.umin.i64", ("i64", left), ("i64", body.stride))
    few = body.splat(fn.let(f"trunc i64 {lanes} to i32"), i32)
    body.mask = fn.let(f"icmp ult {v} {body.numbers(i32)}, {few}")
    first = at if p.type.bits == 64 else fn.let(f"trunc i64 {at} to {t}")
    body.linear[p.id] = first
    body.define(p.id, p.type, "")
    body.block(task.body, ())
    body.offsets = outer
    step = fn.let(f"add i64 {at}, {body.stride}")
    fn.patch(hole, f"{at} = phi i64 [{begin}, %{before}], [{step}, %{fn.block}]")
    fn.branch(fn.let(f"icmp slt i64 {step}, {end}"), loop, done)
