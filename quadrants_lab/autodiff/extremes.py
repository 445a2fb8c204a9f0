"""Atomic min and max: the derivative is that of the iteration whose value is the result.

Which one won is seen by comparing with the final memory. In reverse mode the adjoint task of the loop shares out the
gradient first and a second task, `settle`, then clears it where an iteration won (it stays where the old value did). At
a tie every iteration with the winning value gets the whole adjoint, and the old value none. Forward mode is the
transpose: after the loop, `settle` clears the tangent where an iteration won, then the winners' tangents are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from quadrants_lab.errors import Label, QuadrantsCompilationError
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.walk import rename, walk

EXTREMES = ("min", "max")


def extreme_atomics(task: N.Offload, with_derivative: set[str]) -> list[N.Atomic]:
    """The task's atomic mins and maxes on buffers with a derivative; an error where the task touches such a buffer in
    another way too, because then the order of the threads decides."""
    found = [
        s for s in walk(task.body) if isinstance(s, N.Atomic) and s.op in EXTREMES and s.buffer in with_derivative
    ]
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


def settle(
    b: Builder, task: N.Offload, buffers: dict[str, N.Buffer], extremes: list[N.Atomic], of: Mapping[str, str]
) -> N.Offload:
    """The task that zeroes the derivative, in the buffer ``of[buffer]``, of each element whose final value an iteration
    put there."""
    again = replay(task, {s.id: clear(b, s, buffers, buffers[of[s.buffer]]) for s in extremes})
    (made,) = rename((again,), b.fresh, {})
    assert isinstance(made, N.Offload)
    return made


def replay(task: N.Offload, instead: Mapping[int, N.Block]) -> N.Offload:
    """The task again without its effects, under the same ids, with ``instead`` in the place of some statements;
    every statement names itself as the one that it comes from."""

    def block(stmts: N.Block) -> N.Block:
        out: list[N.Stmt] = []
        for s in stmts:
            if s.id in instead:
                out += instead[s.id]
                continue
            if isinstance(s, (N.Store, N.Assert, N.Print)):
                continue
            if isinstance(s, N.Atomic):  # its old value is gone; `check_data_access` refuses whoever needs it
                s = N.Load(s.id, s.type, s.buffer, s.index, span=s.span)
            if s.blocks():
                s = s.with_blocks(tuple(block(inner) for inner in s.blocks()))
            out.append(s if s.adjoint_of != N.NO_ID else replace(s, adjoint_of=s.id))
        return tuple(out)

    return replace(task, body=block(task.body), adjoint_of=task.id)


def won(b: Builder, atomic: N.Atomic, value: int, index: tuple[int, ...], buffers: dict[str, N.Buffer]) -> int:
    """u1: the final memory holds ``value``."""
    return b.op("eq", value, b.load(buffers[atomic.buffer], index))


def clear(b: Builder, atomic: N.Atomic, buffers: dict[str, N.Buffer], derivative: N.Buffer) -> N.Block:
    """Where the atomic's value won, the derivative of the element is zeroed."""

    def zero() -> None:
        b.store(derivative, atomic.index, b.const(0, derivative.dtype))

    return where_won(b, atomic, buffers, zero)


def where_won(b: Builder, atomic: N.Atomic, buffers: dict[str, N.Buffer], do: Callable[[], None]) -> N.Block:
    """``do`` builds what runs where the final memory holds the atomic's value."""
    b.span, b.adjoint_of = atomic.span, atomic.id
    with b.block() as made:
        cond = won(b, atomic, atomic.value, atomic.index, buffers)
        with b.block() as then:
            do()
            b.yield_()
        with b.block() as orelse:
            b.yield_()
        b.add(N.If(b.fresh(), cond, tuple(then), tuple(orelse), ()))
    b.adjoint_of = N.NO_ID
    return tuple(made)
