"""Data and control dependences of statements, and blocks reduced to the statements that are needed."""

from collections.abc import Callable, Container
from functools import partial

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import exits, keep_carried, keep_results
from quadrants_lab.ir.walk import map_blocks, same_or


def no_effect(s: N.Stmt) -> bool:
    return False


class Needs:
    """The dependence graph of a block.

    ``of`` maps the id of a value, or of a statement that owns blocks, to the ids that it depends on. A statement
    depends on the owner of its block, and the owner on what controls it. ``effects`` has the roots of the graph: what
    the statements with an ``effect`` depend on.
    """

    def __init__(self, effect: Callable[[N.Stmt], bool] = no_effect) -> None:
        self.effect = effect
        self.of: dict[int, tuple[int, ...]] = {}
        self.effects: list[int] = []
        self._guarded = False

    def collect(self, block: N.Block, owner: int, target: int) -> None:
        """Adds the statements of a block. ``target`` is the loop or task that a Break or Continue in it leaves."""
        needs = self.of
        for s in block:
            if self.effect(s):
                self.effects.extend(s.operands())
                self.effects.append(owner)
                needs[s.id] = (owner,)
            elif isinstance(s, N.Value):
                needs[s.id] = (*s.operands(), owner)
            elif isinstance(s, N.If):
                needs[s.id] = (*s.deciding(), owner)
                ends = [arm[-1].operands() for arm in s.blocks() if type(arm[-1]) is N.Yield]
                needs.update((r.id, (*[e[n] for e in ends], s.id)) for n, r in enumerate(s.results))
                self.collect(s.then, s.id, target)
                self.collect(s.orelse, s.id, target)
            elif isinstance(s, N.Loop):
                needs[s.id] = (*s.deciding(), owner)
                needs.update((p.id, (s.id,)) for p in s.params())  # the index
                ends_of = exits(s.body)
                for n, (p, init, r) in enumerate(zip(s.carried, s.inits, s.results, strict=True)):
                    needs[p.id] = (init, *(e.values[n] for e in ends_of), s.id)
                    needs[r.id] = (p.id,)
                for b in s.blocks():
                    self.collect(b, s.id, s.id)
            elif isinstance(s, N.Offload):
                needs[s.id] = s.deciding()
                needs.update((p.id, (s.id,)) for p in s.indices)
                for b in s.blocks():
                    self.collect(b, s.id, s.id)
            elif isinstance(s, N.AdStackGuard):
                needs[s.id] = (owner,)
                if self._guarded:  # the check after a segment of a checkpointed loop
                    self.effects.append(s.id)
                outer, self._guarded = self._guarded, True
                self.collect(s.body, s.id, target)
                self._guarded = outer
            elif isinstance(s, N.Exit) and owner != target:
                needs[target] = (*needs[target], owner)


def only(block: N.Block, live: Container[int], effect: Callable[[N.Stmt], bool] = no_effect) -> N.Block:
    """The block without the values, results, carried values and statements with blocks that neither have an effect
    nor are ``live``."""
    out: list[N.Stmt] = []
    for s in block:
        if s.blocks():
            if s.id in live:
                if isinstance(s, N.If):
                    s = keep_results(s, [n for n, r in enumerate(s.results) if r.id in live])
                elif isinstance(s, (N.For, N.While)):
                    s = keep_carried(s, [n for n, p in enumerate(s.carried) if p.id in live])
                out.append(map_blocks(s, partial(only, live=live, effect=effect)))
        elif isinstance(s, N.Yield) or s.id in live or effect(s):
            out.append(s)
    return same_or(block, out)
