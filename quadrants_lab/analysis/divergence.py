"""Which values and variables of a block may differ between lanes."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import find


@dataclass(slots=True)
class Divergence:
    """``divergent``: ids of values that may differ between lanes; all others are equal in all lanes that take part.
    ``per_lane``: names of locals and local arrays that may differ, and ids of adstacks (before they are lowered) that
    are pushed or popped under a mask, so that each lane has a depth of its own. ``locals``: names of all locals."""

    locals: Container[str] = ()
    divergent: set[int] = field(default_factory=set)
    per_lane: set[int | str] = field(default_factory=set)

    def size(self) -> int:
        return len(self.divergent) + len(self.per_lane)


def divergence(
    block: N.Block, seeds: Iterable[int], locals: Container[str] = (), arrays: Iterable[str] = ()
) -> Divergence:
    """The least solution in which the values ``seeds`` are divergent. ``arrays``: the buffers of kind "private", of
    which each lane has one. A data-flow analysis after Coutinho et al., "Divergence analysis and optimizations" (2011),
    over structured control flow."""
    found = Divergence(locals, set(seeds), {*arrays})
    while True:
        before = found.size()
        _block(found, block, False)
        if found.size() == before:
            return found


def counts_up(s: N.Op, counting: Container[int], divergent: Container[int]) -> bool:
    """Whether the result grows by one from lane to lane because an operand, one of ``counting``, does: the operation
    adds a uniform value to a signed integer or subtracts it, or casts it to another. The result may wrap around, but
    then the indices before and after the wrap are not both in range."""
    if s.prim == "cast":
        return s.type.kind == "i" and s.args[0] in counting
    if s.prim not in ("add", "sub") or s.type.kind != "i":
        return False
    x, y = s.args
    return (x in counting and y not in divergent) or (s.prim == "add" and y in counting and x not in divergent)


def counting(block: N.Block, index: int, divergent: Container[int]) -> set[int]:
    """The values that count up with the index: from one iteration to the next they grow by one."""
    found = {index}
    for s in find(block, N.Op):
        if counts_up(s, found, divergent):
            found.add(s.id)
    return found


def _block(d: Divergence, block: N.Block, under_mask: bool) -> None:
    for s in block:
        _statement(d, s, under_mask)


def _statement(d: Divergence, s: N.Stmt, under_mask: bool) -> None:
    divergent = d.divergent
    if isinstance(s, (N.Op, N.Call, N.Load)) or (isinstance(s, N.Atomic) and s.op == "slot"):
        if not divergent.isdisjoint(s.operands()) or (isinstance(s, N.Load) and s.buffer in d.per_lane):
            divergent.add(s.id)
    elif isinstance(s, N.Builtin):
        if s.what == "iteration":
            divergent.add(s.id)
    elif isinstance(s, N.Store):
        if s.buffer in d.locals and (under_mask or s.value in divergent):
            d.per_lane.add(s.buffer)
    elif isinstance(s, (N.Lane, N.Atomic, N.Random, N.AdStackLoadTop)):
        divergent.add(s.id)
    elif isinstance(s, N.AdStackDepth):
        if s.stack in d.per_lane:
            divergent.add(s.id)
    elif isinstance(s, N.AdStackGuard):
        _block(d, s.body, under_mask)
    elif isinstance(s, N.If):
        # a lane that runs out of slots takes no further part, so the arms do not diverge for the other lanes
        part = s.cond in divergent and not any(isinstance(x, N.Overflow) for x in s.then)
        for arm in (s.then, s.orelse):
            _block(d, arm, under_mask or part)
            _pass_on(d, arm[-1].operands(), s.results, part)
    elif isinstance(s, N.For):
        part = s.begin in divergent or s.end in divergent
        if s.begin in divergent and s.end in divergent:
            divergent.add(s.index.id)
        _carry(d, s.carried, s.inits, s.body, s.results, under_mask, part)
    elif isinstance(s, N.While):
        _pass_on(d, s.inits, s.carried, False)
        _block(d, s.cond, under_mask)
        part = s.cond[-1].operands()[0] in divergent
        _carry(d, s.carried, s.inits, s.body, s.results, under_mask, part)
        _block(d, s.cond, under_mask or part)
    if under_mask and isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop)):
        d.per_lane.add(s.stack)


def _carry(
    d: Divergence, carried: tuple[N.Param, ...], inits: tuple[int, ...], body: N.Block, results: tuple[N.Param, ...],
    under_mask: bool, part: bool,
) -> None:  # fmt: skip
    _pass_on(d, inits, carried, part)
    _block(d, body, under_mask or part)
    _pass_on(d, body[-1].operands(), carried, part)
    _pass_on(d, tuple(p.id for p in carried), results, part)


def _pass_on(d: Divergence, ids: tuple[int, ...], takers: tuple[N.Param, ...], part: bool) -> None:
    d.divergent.update(p.id for p, i in zip(takers, ids, strict=True) if part or i in d.divergent)
