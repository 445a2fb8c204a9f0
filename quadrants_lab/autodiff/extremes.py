"""Atomic min and max: the adjoint goes to the iteration whose value is the result.

Which one won is seen by comparing with the final memory, so the adjoint task of the loop shares out the gradient first
and a second task, `settle`, then clears it where an iteration won (it stays where the old value did). At a tie every
iteration with the winning value gets the whole adjoint, and the old value none.
"""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.errors import Label, QuadrantsCompilationError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import rename, walk

EXTREMES = ("min", "max")


def extreme_atomics(task: N.Offload, with_grad: set[str]) -> list[N.Atomic]:
    """The task's atomic mins and maxes on buffers with a gradient; an error where the task touches such a buffer in
    another way too, because then the order of the threads decides."""
    found = [s for s in walk(task.body) if isinstance(s, N.Atomic) and s.op in EXTREMES and s.buffer in with_grad]
    ops = {s.buffer: s.op for s in found}
    for s in walk(task.body) if found else ():
        if not isinstance(s, (N.Load, N.Store, N.Atomic)) or s.buffer not in ops:
            continue
        if not isinstance(s, N.Atomic) or s.op != ops[s.buffer]:
            first = next(a for a in found if a.buffer == s.buffer)
            raise QuadrantsCompilationError(
                f"{s.buffer} is used in another way beside its atomic {first.op} in one loop",
                code="QL0408",
                labels=(Label(s.span, "depends on the order of the threads"), Label(first.span, "")),
                help="use it in a loop of its own",
            )
    return found


def settle(b: Builder, task: N.Offload, buffers: dict[str, N.Buffer], extremes: list[N.Atomic]) -> N.Stmt:
    """The task that zeroes the gradient of each element whose final value an iteration put there."""
    chosen = {s.id for s in extremes}

    def block(stmts: N.Block) -> N.Block:
        out: list[N.Stmt] = []
        for s in stmts:
            if s.id in chosen:
                assert isinstance(s, N.Atomic)
                out += _clear(b, s, buffers)
                continue
            if isinstance(s, (N.Store, N.Assert, N.Print)):
                continue
            if isinstance(s, N.Atomic):  # its old value is gone; `check_data_access` refuses whoever needs it
                s = N.Load(s.id, s.type, s.buffer, s.index, span=s.span)
            if s.blocks():
                s = s.with_blocks(tuple(block(inner) for inner in s.blocks()))
            out.append(s if s.adjoint_of != N.NO_ID else replace(s, adjoint_of=s.id))
        return tuple(out)

    (made,) = rename((replace(task, body=block(task.body), adjoint_of=task.id),), b.fresh, {})
    return made


def won(b: Builder, atomic: N.Atomic, value: int, index: tuple[int, ...], buffers: dict[str, N.Buffer]) -> int:
    """u1: the final memory holds ``value``."""
    return b.op("eq", value, b.load(buffers[atomic.buffer], index))


def _clear(b: Builder, atomic: N.Atomic, buffers: dict[str, N.Buffer]) -> list[N.Stmt]:
    grad = buffers[buffers[atomic.buffer].grad]
    b.span, b.adjoint_of = atomic.span, atomic.id
    with b.block() as made:
        cond = won(b, atomic, atomic.value, atomic.index, buffers)
        with b.block() as then:
            b.store(grad, atomic.index, b.const(0, grad.dtype))
            b.yield_()
        with b.block() as orelse:
            b.yield_()
        b.add(N.If(b.fresh(), cond, tuple(then), tuple(orelse), ()))
    b.adjoint_of = N.NO_ID
    return made
