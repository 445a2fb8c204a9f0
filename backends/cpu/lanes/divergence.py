"""Which values and variables of a block differ between lanes: those that count an adstack's slots may."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from quadrants_lab.ir import nodes as N


@dataclass(slots=True)
class Divergence:
    """``varying``: ids of values that may differ between lanes; all others are the same in every lane that takes part.
    ``split``: names of locals that differ, and ids of adstacks (before they are lowered) whose depths do: they are
    pushed or popped where only some lanes take part."""

    locals: Container[str] = ()
    varying: set[int] = field(default_factory=set)
    split: set[int | str] = field(default_factory=set)

    def size(self) -> int:
        return len(self.varying) + len(self.split)


def divergence(block: N.Block, seeds: Iterable[int], locals: Container[str] = ()) -> Divergence:
    """The least solution, where the values ``seeds`` differ; ``locals``: names of the variables. A data-flow
    analysis after Coutinho et al., "Divergence analysis and optimizations" (2011), over structured control flow."""
    found = Divergence(locals, set(seeds))
    while True:
        before = found.size()
        _block(found, block, False)
        if found.size() == before:
            return found


def counts_up(s: N.Op, counting: Container[int], varying: Container[int]) -> bool:
    """Whether the result grows by one from lane to lane as an operand does, which is one of ``counting``: a signed
    integer plus or minus what the lanes share. It may wrap, but then no index is in range on both sides of that
    place."""
    if s.prim not in ("add", "sub") or s.type.kind != "i":
        return False
    x, y = s.args
    return (x in counting and y not in varying) or (s.prim == "add" and y in counting and x not in varying)


def _block(d: Divergence, block: N.Block, parted: bool) -> None:
    for s in block:
        _statement(d, s, parted)


def _statement(d: Divergence, s: N.Stmt, parted: bool) -> None:
    varying = d.varying
    if isinstance(s, (N.Op, N.Call, N.Load)):
        if not varying.isdisjoint(s.operands()) or (isinstance(s, N.Load) and s.buffer in d.split):
            varying.add(s.id)
    elif isinstance(s, N.Builtin):
        if s.what == "iteration":
            varying.add(s.id)
    elif isinstance(s, N.Store):
        if s.buffer in d.locals and (parted or s.value in varying):
            d.split.add(s.buffer)
    elif isinstance(s, (N.Lane, N.Atomic, N.Random, N.AdStackLoadTop)):
        varying.add(s.id)
    elif isinstance(s, N.AdStackDepth):
        if s.stack in d.split:
            varying.add(s.id)
    elif isinstance(s, N.AdStackGuard):
        _block(d, s.body, parted)
    elif isinstance(s, N.If):
        # a lane that runs out of slots is done: what others count from there on is nothing to it
        part = s.cond in varying and not any(isinstance(x, N.Overflow) for x in s.then)
        for arm in (s.then, s.orelse):
            _block(d, arm, parted or part)
            _hand_on(d, arm[-1].operands(), s.results, part)
    elif isinstance(s, N.For):
        part = s.begin in varying or s.end in varying
        if s.begin in varying and s.end in varying:
            varying.add(s.index.id)
        _carry(d, s.carried, s.inits, s.body, s.results, parted, part)
    elif isinstance(s, N.While):
        _hand_on(d, s.inits, s.carried, False)
        _block(d, s.cond, parted)
        part = s.cond[-1].operands()[0] in varying
        _carry(d, s.carried, s.inits, s.body, s.results, parted, part)
        _block(d, s.cond, parted or part)
    if parted and isinstance(s, (N.AdStackPush, N.AdStackPop, N.AdStackLoadTop)):
        d.split.add(s.stack)


def _carry(
    d: Divergence, carried: tuple[N.Param, ...], inits: tuple[int, ...], body: N.Block, results: tuple[N.Param, ...],
    parted: bool, part: bool,
) -> None:  # fmt: skip
    _hand_on(d, inits, carried, part)
    _block(d, body, parted or part)
    _hand_on(d, body[-1].operands(), carried, part)
    _hand_on(d, tuple(p.id for p in carried), results, part)


def _hand_on(d: Divergence, ids: tuple[int, ...], takers: tuple[N.Param, ...], part: bool) -> None:
    d.varying.update(p.id for p, i in zip(takers, ids, strict=True) if part or i in d.varying)
