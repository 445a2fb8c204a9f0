"""Finds which values and variables of a block may differ between lanes (iterations that run side by side)."""

from collections.abc import Callable, Container, Iterable
from dataclasses import field
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import find, of_kind


@dataclass(slots=True)
class Divergence:
    """Which values differ between lanes (iterations that run side by side). ``divergent``: ids of values that may
    differ; all others are equal in all lanes that take part. ``per_lane``: names of locals and local arrays that
    may differ; and ids of adstacks (before they are lowered) that are pushed or popped under a mask, so that their
    depths differ between lanes. ``locals``: names of all locals."""

    locals: Container[str] = ()
    divergent: set[int] = field(default_factory=set)
    per_lane: set[int | str] = field(default_factory=set)

    def size(self) -> int:
        return len(self.divergent) + len(self.per_lane)


def divergence(
    block: N.Block, seeds: Iterable[int], locals: Container[str] = (), arrays: Iterable[str] = ()
) -> Divergence:
    """Finds which values differ between lanes if the values ``seeds`` do: the least solution of a data-flow
    analysis after Coutinho et al., "Divergence analysis and optimizations" (2011), over structured control flow.
    ``arrays``: the buffers of kind "private", of which each lane has its own."""
    found = Divergence(locals, set(seeds), {*arrays})
    while True:
        before = found.size()
        _block(found, block, False)
        if found.size() == before:
            return found


def counts_up(s: N.Op, counting: Container[int], divergent: Container[int]) -> bool:
    """Whether the result grows by one from lane to lane because an operand, one of ``counting``, does: the operation
    adds a uniform value to a signed integer, subtracts one from it, or casts it to another signed integer. The result
    may wrap around, but then the indices before and after the wrap are not both in range."""
    if s.prim == "cast":
        return s.type.kind == "i" and s.args[0] in counting
    if s.prim not in ("add", "sub") or s.type.kind != "i":
        return False
    x, y = s.args
    return (x in counting and y not in divergent) or (s.prim == "add" and y in counting and x not in divergent)


def counting(block: N.Block, index: int, divergent: Container[int]) -> set[int]:
    """The values that grow by one from one iteration to the next, because ``index`` does."""
    found = {index}
    for s in find(block, N.Op):
        if counts_up(s, found, divergent):
            found.add(s.id)
    return found


def _block(d: Divergence, block: N.Block, under_mask: bool) -> None:
    for s in block:
        _statement(d, s, under_mask)


def _statement(d: Divergence, s: N.Stmt, under_mask: bool) -> None:
    rule = _RULES.get(type(s))
    if rule is not None:
        rule(d, s, under_mask)
    if under_mask and isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop)):
        d.per_lane.add(s.stack)


def _differs(d: Divergence, s: N.Stmt, under_mask: bool) -> None:
    d.divergent.add(s.id)


def _computed(d: Divergence, s: N.Stmt, under_mask: bool) -> None:
    if not d.divergent.isdisjoint(s.operands()):
        d.divergent.add(s.id)


def _load(d: Divergence, s: N.Load, under_mask: bool) -> None:
    if s.buffer in d.per_lane or not d.divergent.isdisjoint(s.operands()):
        d.divergent.add(s.id)


def _atomic(d: Divergence, s: N.Atomic, under_mask: bool) -> None:
    if s.op != "slot" or not d.divergent.isdisjoint(s.operands()):  # a cell has the same slot for all lanes
        d.divergent.add(s.id)


def _store(d: Divergence, s: N.Store, under_mask: bool) -> None:
    if s.buffer in d.locals and (under_mask or s.value in d.divergent):
        d.per_lane.add(s.buffer)


def _builtin(d: Divergence, s: N.Builtin, under_mask: bool) -> None:
    if s.what == "iteration":
        d.divergent.add(s.id)


def _depth(d: Divergence, s: N.AdStackDepth, under_mask: bool) -> None:
    if s.stack in d.per_lane:
        d.divergent.add(s.id)


def _if(d: Divergence, s: N.If, under_mask: bool) -> None:
    # a lane that runs out of slots stops, so the arms do not diverge for the other lanes
    part = s.cond in d.divergent and not any(of_kind(s.then, N.Overflow))
    for arm in (s.then, s.orelse):
        _block(d, arm, under_mask or part)
        _pass_on(d, arm[-1].operands(), s.results, part)


def _for(d: Divergence, s: N.For, under_mask: bool) -> None:
    ends = d.divergent.intersection((s.begin, s.end))
    if ends == {s.begin, s.end}:
        d.divergent.add(s.index.id)
    _carry(d, s, under_mask, bool(ends))


def _while(d: Divergence, s: N.While, under_mask: bool) -> None:
    _pass_on(d, s.inits, s.carried, False)
    _block(d, s.cond, under_mask)
    part = not d.divergent.isdisjoint(s.deciding())
    _carry(d, s, under_mask, part)
    _block(d, s.cond, under_mask or part)


_RULES: dict[type[N.Stmt], Callable[[Divergence, Any, bool], None]] = {
    N.Op: _computed, N.Call: _computed, N.Load: _load, N.Store: _store, N.Builtin: _builtin,
    **dict.fromkeys((N.Lane, N.Random, N.AdStackLoadTop), _differs), N.Atomic: _atomic,
    N.AdStackDepth: _depth, N.AdStackGuard: lambda d, s, under_mask: _block(d, s.body, under_mask),
    N.If: _if, N.For: _for, N.While: _while,
}  # fmt: skip


def _carry(d: Divergence, s: N.Loop, under_mask: bool, part: bool) -> None:
    _pass_on(d, s.inits, s.carried, part)
    _block(d, s.body, under_mask or part)
    _pass_on(d, s.body[-1].operands(), s.carried, part)
    _pass_on(d, tuple(p.id for p in s.carried), s.results, part)


def _pass_on(d: Divergence, ids: tuple[int, ...], takers: tuple[N.Param, ...], part: bool) -> None:
    d.divergent.update(p.id for p, i in zip(takers, ids, strict=True) if part or i in d.divergent)
