"""Finds data and control dependences of statements, and reduces blocks to the statements that are needed."""

from collections.abc import Callable, Container
from functools import partial
from typing import Any

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import exits, keep_carried, keep_results
from quadrants_lab.ir.walk import by_class, map_blocks, same_or


def no_effect(s: N.Stmt) -> bool:
    return False


class Needs:
    """The dependence graph of a block.

    ``of``: id of a value, or of a statement that contains blocks, -> the ids that it depends on. A statement depends on
    the statement that contains its block, and that one on what controls it. ``effects``: the roots of the graph, which
    are the ids that statements with an ``effect`` depend on.
    """

    def __init__(self, effect: Callable[[N.Stmt], bool] = no_effect) -> None:
        self.effect = effect
        self.of: dict[int, tuple[int, ...]] = {}
        self.effects: list[int] = []
        self._guarded = False

    def collect(self, block: N.Block, owner: int, target: int) -> None:
        """Adds the statements of a block to the graph. ``owner``: the statement that contains the block; ``target``:
        the loop or task that a Break or Continue in the block leaves."""
        for s in block:
            if self.effect(s):
                self.effects += (*s.operands(), owner)
                self.of[s.id] = (owner,)
            elif rule := _RULES.get(type(s)):
                rule(self, s, owner, target)

    def _value(self, s: N.Value, owner: int, target: int) -> None:
        self.of[s.id] = (*s.operands(), owner)

    def _written(self, s: N.WithElement, owner: int, target: int) -> None:
        self.of[s.id] = (*s.operands(), owner)
        self.of.update((r.id, (s.id,)) for r in s.results)

    def _if(self, s: N.If, owner: int, target: int) -> None:
        self.of[s.id] = (*s.deciding(), owner)
        ends = [arm[-1].operands() for arm in s.blocks() if type(arm[-1]) is N.Yield]
        self.of.update((r.id, (*[values[n] for values in ends], s.id)) for n, r in enumerate(s.results))
        for arm in s.blocks():
            self.collect(arm, s.id, target)

    def _loop(self, s: N.Loop, owner: int, target: int) -> None:
        self.of[s.id] = (*s.deciding(), owner)
        self.of.update((p.id, (s.id,)) for p in s.params())  # the index
        ends = exits(s.body)
        for n, (p, init, r) in enumerate(zip(s.carried, s.inits, s.results, strict=True)):
            self.of[p.id] = (init, *(e.values[n] for e in ends), s.id)
            self.of[r.id] = (p.id,)
        for b in s.blocks():
            self.collect(b, s.id, s.id)

    def _task(self, s: N.Offload, owner: int, target: int) -> None:
        self.of[s.id] = s.deciding()
        self.of.update((p.id, (s.id,)) for p in s.indices)
        for b in s.blocks():
            self.collect(b, s.id, s.id)

    def _guard(self, s: N.AdStackGuard, owner: int, target: int) -> None:
        self.of[s.id] = (owner,)
        if self._guarded:  # the check after a segment of a checkpointed loop
            self.effects.append(s.id)
        outer, self._guarded = self._guarded, True
        self.collect(s.body, s.id, target)
        self._guarded = outer

    def _exit(self, s: N.Exit, owner: int, target: int) -> None:
        if owner != target:
            self.of[target] = (*self.of[target], owner)


_RULES: dict[type[N.Stmt], Callable[[Needs, Any, int, int], None]] = by_class({
    N.Value: Needs._value, N.WithElement: Needs._written, N.If: Needs._if, N.Loop: Needs._loop, N.Offload: Needs._task,
    N.AdStackGuard: Needs._guard, N.Exit: Needs._exit,
})  # fmt: skip


def only(block: N.Block, live: Container[int], effect: Callable[[N.Stmt], bool] = no_effect) -> N.Block:
    """The block without those statements, values, results and carried values that neither have an effect nor are
    ``live``."""
    out: list[N.Stmt] = []
    for s in block:
        if s.nests:
            if s.id in live:
                s = _KEEPS[type(s)](s, live) if type(s) in _KEEPS else s
                out.append(map_blocks(s, partial(only, live=live, effect=effect)))
        elif s.terminates or s.id in live or effect(s):
            out.append(s)
    return same_or(block, out)


_KEEPS: dict[type[N.Stmt], Callable[[Any, Container[int]], N.Stmt]] = by_class({
    N.If: lambda s, live: keep_results(s, [n for n, r in enumerate(s.results) if r.id in live]),
    N.Loop: lambda s, live: keep_carried(s, [n for n, p in enumerate(s.carried) if p.id in live]),
})  # fmt: skip
