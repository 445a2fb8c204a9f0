"""Finds the values that loops carry and that ifs merge, and removes some of them from a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, overload

from quadrants_lab.ir.nodes import Block, Break, Exit, For, If, Loop, Params, Stmt, Value, While, Yield
from quadrants_lab.ir.traits import Choice
from quadrants_lab.ir.types import u1
from quadrants_lab.ir.walk import end_of, of_kind, rewrite, rules, walk

if TYPE_CHECKING:
    from quadrants_lab.ir.build import Builder

T = TypeVar("T")


def pick(items: Sequence[T], keep: Sequence[int]) -> tuple[T, ...]:
    return tuple(items[n] for n in keep)


def leaves(block: Block) -> Iterator[Exit]:
    """The Breaks and Continues in the block that leave the innermost loop (or the task) around it."""
    last = block[-1] if block else None
    if isinstance(last, Exit):
        yield last
    for s in of_kind(block, If):
        yield from leaves(s.then)
        yield from leaves(s.orelse)


def exits(body: Block) -> list[Yield]:
    """The terminators that carry values out of a loop's body: its own Yield, and its Breaks and Continues."""
    last = end_of(body)
    inner: list[Yield] = list(leaves(body))
    return [last, *inner] if type(last) is Yield else inner


def merges(stmt: Stmt) -> list[tuple[int, int]]:
    """Pairs each value that enters a structured statement without Break and Continue, or an access to a local vector or
    matrix, with the carried value or result that it may become."""
    pairs: list[tuple[int, int]] = []
    if not stmt.nests:  # most statements
        return stmt.merges() if isinstance(stmt, Choice) else pairs
    if isinstance(stmt, If):
        for block in stmt.blocks():
            pairs += _yielded(block, stmt.results)
    elif isinstance(stmt, Loop):
        pairs += [(i, c.id) for i, c in zip(stmt.inits, stmt.carried, strict=True)]
        pairs += [(i, r.id) for i, r in zip(stmt.inits, stmt.results, strict=True)]
        pairs += _yielded(stmt.body, stmt.carried) + _yielded(stmt.body, stmt.results)
    return pairs


def _yielded(block: Block, to: Params) -> list[tuple[int, int]]:
    return [(v, p.id) for v, p in zip(end_of(block).values, to, strict=True)]


def keep_yields(block: Block, keep: Sequence[int]) -> Block:
    """A copy of the block whose Yield has only the values at the positions ``keep``. Yields of inner blocks are left as
    they are, and so is a block that ends in another statement."""
    last = block[-1]
    if type(last) is not Yield:
        return block
    return (*block[:-1], replace(last, values=pick(last.values, keep)))


def _keep_leaves(block: Block, keep: Sequence[int]) -> Block:
    """A copy of the block whose Breaks and Continues (`leaves`) have only the values at the positions ``keep``."""
    left = {s.id for s in leaves(block)}

    def kept(s: Exit) -> Stmt:
        return replace(s, values=pick(s.values, keep)) if s.id in left else s

    return rewrite(block, rules({Exit: kept})) if left else block


@overload
def keep_carried(loop: For, keep: Sequence[int]) -> For: ...
@overload
def keep_carried(loop: While, keep: Sequence[int]) -> While: ...
def keep_carried(loop: For | While, keep: Sequence[int]) -> For | While:
    """The loop with only those carried values whose positions are in ``keep``."""
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
    """The If with only those results whose positions are in ``keep``."""
    if len(keep) == len(s.results):
        return s
    return replace(
        s, results=pick(s.results, keep), then=keep_yields(s.then, keep), orelse=keep_yields(s.orelse, keep)
    )


def tested_inside(b: Builder, loop: While) -> While:
    """The loop with its test at the beginning of its body, followed by a Break. Effects of the test are then a part
    of the iteration, which is needed to reverse or split the loop."""
    (cond,) = end_of(loop.cond).values
    with b.block() as always:
        b.yield_(b.const(True, u1))
    with b.block() as left:
        b.add(Break(b.fresh(), tuple(p.id for p in loop.carried)))
    with b.block() as test:
        b.add(If(b.fresh(), cond, b.nothing(), tuple(left), ()))
    return replace(loop, cond=tuple(always), body=(*loop.cond[:-1], *test, *loop.body))


def computed_from(block: Block) -> dict[int, list[int]]:
    """For each value in the block, at any depth, the values that it is computed or merged from."""
    found: dict[int, list[int]] = {}
    for s in walk(block):
        if isinstance(s, Value):
            found.setdefault(s.id, []).extend(s.operands())
        elif isinstance(s, Choice):
            found |= {i: [*s.index] for i, _ in s.defs()}
        for a, b in merges(s):
            found.setdefault(b, []).append(a)
    return found
