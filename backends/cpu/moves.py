"""Compiles tasks that only copy a box of elements to calls of the runtime, which moves the bytes of each row
(runtime/moves.c).

A kernel whose gradient reads values that the kernel overwrites has such a task for each array that it saves
(`autodiff.keeps`), and its gradient has three. LLVM takes a hundred times as long to compile a loop as a call.
"""

from collections.abc import Sequence

from quadrants_lab.analysis.divergence import counting, divergence
from quadrants_lab.backends._llvm import memory
from quadrants_lab.backends._llvm.text import Function
from quadrants_lab.backends.cpu.body import CpuBody
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import of_kind

_ARRAYS = ("field", "ndarray", "scratch")  # kinds of buffers that have an address and are shared by all threads
_PLACES = ("add", "sub", "mul", "min", "max", "cast")  # the operations that the indices may be computed with
_OTHERS = (N.Access, N.Uniform, N.Yield)


def moves(kernel: N.Kernel, task: N.Offload) -> bool:
    """Whether the task only copies a box of elements to another array. Along each axis, the indices of both arrays must
    count up with the task's own index."""
    if not all(s.prim in _PLACES or isinstance(s, _OTHERS) for s in task.body):
        return False
    accesses = [*of_kind(task.body, N.Access)]
    if len(accesses) != 2:
        return False
    load, store = accesses
    if not (load.loads and isinstance(store, N.Store) and store.value == load.id):
        return False
    of, to = kernel.buffers[load.buffer], kernel.buffers[store.buffer]
    if of.dtype != to.dtype or of.dtype.kind == "b" or of is to or task.lanes or task.colours:
        return False
    if any(b.kind not in _ARRAYS or b.order or b.role == "block" for b in (of, to)):
        return False
    found = divergence(task.body, [p.id for p in task.indices]).divergent
    along = [counting(task.body, p.id, found) for p in task.indices]
    return all(
        len(s.index) == len(along) and all(i in up for i, up in zip(s.index, along, strict=True)) for s in accesses
    )


def reserve(fn: Function, tasks: Sequence[N.Offload]) -> str:
    """Emits into the kernel's entry an allocation for the strides of the boxes that the tasks move: two strides
    (source and target) for each axis except the last."""
    words = max((2 * len(task.indices) - 2 for task in tasks if task.moves), default=0)
    return fn.alloca(f"[{words} x i64]") if words else "null"


def call(entry: CpuBody, task: N.Offload, box: int, strides: str) -> None:
    """Emits into the kernel's entry, after the bounds of a task for which `moves` is true, a call of the runtime
    that moves the box. The box's begins and extents are in the frame at byte ``box``. ``strides``: the result of
    `reserve`.
    """
    fn = entry.fn
    entry.open(task.body)
    for p, (_, begin, _) in zip(task.indices, task.box(), strict=True):
        entry.define(p.id, p.type, entry.values[begin])
    at = list[tuple[str, str]]()
    for s in task.body:
        if not isinstance(s, N.Access):
            if not isinstance(s, N.Yield):
                entry.statement(s)
            continue
        buffer = entry.kernel.buffers[s.buffer]
        nbytes = stride = str(buffer.dtype.nbytes)
        for axis in reversed(range(1, buffer.ndim)):
            stride = fn.let(f"mul i64 {stride}, {memory.extent(entry, buffer, axis)}")
            place = fn.let(f"getelementptr i64, ptr {strides}, i64 {2 * axis - 2 + len(at)}")
            fn.put(f"store i64 {stride}, ptr {place}")
        at.append(("ptr", memory.address(entry, buffer, s.index)))
    of, to = at
    counts = ("i64", str(len(task.indices))), ("i64", nbytes)
    fn.call("void", "qd_move", ("ptr", "%frame"), to, of, ("ptr", entry.at(box)), ("ptr", strides), *counts)
