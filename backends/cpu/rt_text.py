"""The part of the runtime that is machine code: LLVM IR text, compiled once a process.

Offsets of frame and device (`layout`) and constants of the platform and of CPython are filled in here. Local
variables live in allocas, which the optimiser turns into registers; the text reads like C for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from quadrants_lab.backends.cpu import layout as L
from quadrants_lab.backends.cpu import rt_copies, rt_entry, rt_launch, rt_threads
from quadrants_lab.backends.launch import Status

_FP_MODE = {
    "x86_64": """
define internal i64 @fp_flush() {
  %m = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %m)
  %old = load i32, ptr %m
  %new = or i32 %old, 32832
  store i32 %new, ptr %m
  call void @llvm.x86.sse.ldmxcsr(ptr %m)
  %r = zext i32 %old to i64
  ret i64 %r
}
define internal void @fp_restore(i64 %mode) {
  %m = alloca i32
  %old = trunc i64 %mode to i32
  store i32 %old, ptr %m
  call void @llvm.x86.sse.ldmxcsr(ptr %m)
  ret void
}
define internal void @relax() {
  call void @llvm.x86.sse2.pause()
  ret void
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
""",
    "aarch64": """
define internal i64 @fp_flush() {
  %old = call i64 asm sideeffect "mrs $0, fpcr", "=r"()
  %new = or i64 %old, 16777216
  call void asm sideeffect "msr fpcr, $0", "r"(i64 %new)
  ret i64 %old
}
define internal void @fp_restore(i64 %mode) {
  call void asm sideeffect "msr fpcr, $0", "r"(i64 %mode)
  ret void
}
define internal void @relax() {
  call void asm sideeffect "yield", ""()
  ret void
}
""",
}


@dataclass(frozen=True, slots=True)
class Platform:
    """What differs between operating systems and builds of CPython."""

    machine: str  # x86_64 or aarch64
    darwin: bool
    object_bytes: int  # object.__basicsize__: the head of every object, its type the last word


OVERFLOW, ASSERT, CANCELLED, PRINTED = Status.OVERFLOW, Status.ASSERT, Status.CANCELLED, Status.PRINTED
PARAM_BYTES = 64


def runtime_text(p: Platform) -> str:
    """The runtime's LLVM IR for a platform, without triple and data layout."""
    head = p.object_bytes
    constants = {
        "STATUS": L.STATUS, "RELEASE_GIL": L.RELEASE_GIL, "ENTRY": L.ENTRY, "ZERO_AT": L.ZERO_AT,
        "ZERO_BYTES": L.ZERO_BYTES, "FAILED": L.FAILED, "FAIL_WHAT": L.FAIL_WHAT, "FAIL_COUNT": L.FAIL_COUNT,
        "FAIL_VALUES": L.FAIL_VALUES, "LAUNCH": L.LAUNCH, "REPLAY": L.REPLAY, "LAUNCHES": L.LAUNCHES,
        "THREADS": L.THREADS, "PRINT_LOCK": L.PRINT_LOCK,
        "PRINT_BYTES": L.PRINT_BYTES, "PRINT_ROOM": L.PRINT_ROOM, "PRINT_DATA": L.PRINT_DATA,
        "PRINT_LOST": L.PRINT_LOST, "RUNNING": L.RUNNING, "AGE": L.AGE, "THREAD_STATE": L.THREAD_STATE,
        "FP_MODE": L.FP_MODE, "NEXT": L.NEXT, "COPIES_ROOM": L.COPIES_ROOM, "COPIES_BYTES": L.COPIES_BYTES,
        "ADD_TO": L.ADD_TO, "ADD_FROM": L.ADD_FROM, "ADD_STRIDE": L.ADD_STRIDE, "ADD_COPIES": L.ADD_COPIES,
        "COPIES_STRIDE": L.COPIES_STRIDE,
        "OVERFLOW": OVERFLOW, "ASSERT": ASSERT, "CANCELLED": CANCELLED, "PRINTED": PRINTED,
        "STOP_STATUS": ASSERT | CANCELLED,
        "MONOTONIC": 6 if p.darwin else 1, "SIG_SETMASK": 3 if p.darwin else 2,
        "SPINS": 2000, "INLINE_CHUNK": 1 << 16, "LONGEST_CHUNK": 1 << 20, "WORTH_NS": 10000,
        "PRINT_LIMIT": 1 << 26, "PARAM_BYTES": PARAM_BYTES, "OB_TYPE": head - 8,
        # PyArrayObject after the head: data, nd, dimensions, strides, base, descr, flags
        "NP_DATA": head, "NP_NDIM": head + 8, "NP_DIMS": head + 16, "NP_DESCR": head + 40, "NP_FLAGS": head + 48,
    }  # fmt: skip
    text = rt_threads.TEXT + rt_copies.TEXT + rt_launch.TEXT + rt_entry.TEXT
    for name, value in constants.items():
        text = text.replace("${" + name + "}", str(value))
    return _FP_MODE[p.machine] + text
