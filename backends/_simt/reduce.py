"""Reductions: the threads of a warp combine their values by shuffles, the warps of a group through shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants_lab.backends._llvm import atomics, memory
from quadrants_lab.backends._llvm.text import constant, ty
from quadrants_lab.backends.reductions import identity
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends._simt.body import SimtBody


# an atomic operation -> the operation that combines the values of several threads
COMBINED_BY = {"add": "add", "sub": "add", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}


def over_group(b: SimtBody, op: str, t: DType, value: str) -> str:
    """The reduction over the group, which its first thread gets. All threads of the group must reach this code."""
    fn, target = b.fn, b.target
    if target.warp == 1:
        return value
    place = target.place(fn)
    value = over_warp(b, op, t, value, target.warp)
    warps = b.group // target.warp
    if warps == 1:
        return value
    text, shared = ty(t).text, target.shared(fn.module)
    lane = fn.let(f"and i32 {place}, {target.warp - 1}")
    warp = fn.let(f"lshr i32 {place}, {target.warp.bit_length() - 1}")
    put, wait = fn.label("put"), fn.label("wait")
    fn.branch(fn.let(f"icmp eq i32 {lane}, 0"), put, wait)
    fn.start(put)
    here = fn.let(f"getelementptr inbounds i64, ptr addrspace(3) {shared}, i32 {warp}")
    fn.put(f"store {text} {value}, ptr addrspace(3) {here}")
    fn.jump(wait)
    fn.start(wait)
    target.barrier(fn)
    mine = fn.let(f"icmp ult i32 {place}, {warps}")
    of = fn.let(f"select i1 {mine}, i32 {place}, i32 0")
    there = fn.let(f"getelementptr inbounds i64, ptr addrspace(3) {shared}, i32 {of}")
    found = fn.let(f"load {text}, ptr addrspace(3) {there}")
    target.barrier(fn)
    nothing = constant(ty(t), identity(op, t))
    found = fn.let(f"select i1 {mine}, {text} {found}, {text} {nothing}")
    return over_warp(b, op, t, found, warps)


def over_warp(b: SimtBody, op: str, t: DType, value: str, lanes: int) -> str:
    """The reduction over the first ``lanes`` threads of a warp, which the first one gets. All threads of the warp must
    reach this code."""
    distance = lanes // 2
    while distance:
        value = atomics.combine(b, op, t, value, _further(b, t, value, distance), b.fast)
        distance //= 2
    return value


def _further(b: SimtBody, t: DType, value: str, distance: int) -> str:
    """The value of the thread ``distance`` lanes further in this warp."""
    fn, bits, text = b.fn, t.bits, ty(t).text
    if t.is_float:
        value = fn.let(f"bitcast {text} {value} to i{bits}")
    if bits == 32:
        value = b.target.shuffle_down(fn, value, distance)
    else:
        words = [fn.let(f"trunc i64 {value} to i32"), ""]
        words[1] = fn.let(f"trunc i64 {fn.let(f'lshr i64 {value}, 32')} to i32")
        low, high = (fn.let(f"zext i32 {b.target.shuffle_down(fn, w, distance)} to i64") for w in words)
        value = fn.let(f"or i64 {low}, {fn.let(f'shl i64 {high}, 32')}")
    return fn.let(f"bitcast i{bits} {value} to {text}") if t.is_float else value


def aggregated_atomic(b: SimtBody, s: N.Atomic) -> None:
    """An atomic operation of `_gpu.aggregated_atomics`: where all threads of the warp have the same address, their
    first one applies the combined value."""
    fn, t, buffer = b.fn, s.type, b.kernel.buffers[s.buffer]
    ptr, tag, value = memory.address(b, buffer, s.index), b.tag(buffer), b.values[s.value]
    together, put, apart, done = (fn.label(name) for name in ("together", "put", "apart", "done"))
    fn.branch(b.target.same_address(fn, ptr), together, apart)
    fn.start(together)
    total = over_warp(b, COMBINED_BY[s.op], t, value, b.target.warp)
    lane = fn.let(f"and i32 {b.target.place(fn)}, {b.target.warp - 1}")
    fn.branch(fn.let(f"icmp eq i32 {lane}, 0"), put, done)
    for label, own in ((put, total), (apart, value)):
        fn.start(label)
        atomics.modify(b, s.op, t, ptr, own, tag)
        fn.jump(done)
    fn.start(done)
