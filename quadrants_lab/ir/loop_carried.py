"""Values that structured statements carry, merge and hand on: looking at them, leaving some out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, overload

from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.nodes import Block, Break, Exit, For, If, Stmt, While, Yield
from quadrants_lab.ir.types import u1
from quadrants_lab.ir.walk import end_of, rewrite

T = TypeVar("T")


def pick(items: Sequence[T], keep: Sequence[int]) -> tuple[T, ...]:
    return tuple(items[n] for n in keep)


def leaves(block: Block) -> Iterator[Exit]:
    """The Breaks and Continues in the block that leave the innermost loop (or task) around it."""
    last = block[-1] if block else None
    if isinstance(last, Exit):
        yield last
    for s in block:
        if isinstance(s, If):
            yield from leaves(s.then)
            yield from leaves(s.orelse)


def exits(body: Block) -> list[Yield]:
    """All that hands values on from a loop's body: its own Yield, Breaks and Continues."""
    last = end_of(body)
    inner: list[Yield] = list(leaves(body))
    return [last, *inner] if type(last) is Yield else inner


def keep_yields(block: Block, keep: Sequence[int]) -> Block:
    """The block with only these values in its own Yield; other terminators as they are."""
    last = block[-1]
    if type(last) is not Yield:
        return block
    return (*block[:-1], replace(last, values=pick(last.values, keep)))


def _keep_leaves(block: Block, keep: Sequence[int]) -> Block:
    """The block with only these values in its `leaves`."""
    left = {s.id for s in leaves(block)}

    def one(s: Stmt) -> Stmt:
        return replace(s, values=pick(s.values, keep)) if isinstance(s, Exit) and s.id in left else s

    return rewrite(block, one) if left else block


@overload
def keep_carried(loop: For, keep: Sequence[int]) -> For: ...
@overload
def keep_carried(loop: While, keep: Sequence[int]) -> While: ...
def keep_carried(loop: For | While, keep: Sequence[int]) -> For | While:
    """The loop with only these of its carried values."""
    if len(keep) == len(loop.carried):
        return loop
    return replace(
        loop,
        carried=pick(loop.carried, keep),
        inits=pick(loop.inits, keep),
        results=pick(loop.results, keep),
        body=_keep_leaves(keep_yields(loop.body, keep), keep),
    )


def keep_results(s: If, keep: Sequence[int]) -> If:
    """The If with only these of its results."""
    if len(keep) == len(s.results):
        return s
    return replace(
        s, results=pick(s.results, keep), then=keep_yields(s.then, keep), orelse=keep_yields(s.orelse, keep)
    )


def tested_inside(b: Builder, loop: While) -> While:
    """The loop with its test at the beginning of its body, which it leaves there. What a test changes is a part of the
    iteration then, for those who reverse the loop or split it."""
    (cond,) = end_of(loop.cond).values
    with b.block() as always:
        b.yield_(b.const(True, u1))
    with b.block() as left:
        b.add(Break(b.fresh(), tuple(p.id for p in loop.carried)))
    with b.block() as test:
        b.add(If(b.fresh(), cond, b.nothing(), tuple(left), ()))
    return replace(loop, cond=tuple(always), body=(*loop.cond[:-1], *test, *loop.body))
