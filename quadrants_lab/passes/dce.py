"""`dce`: what nothing needs is dropped."""

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.loop_carried import exits, keep_carried, keep_results
from quadrants_lab.ir.walk import map_blocks, same_or, walk

_OUTSIDE = -1


def dce(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that every statement has an effect or defines something that an effect needs, directly or by way of
    control: no unused value, result or carried value, no If, loop (terminating or not) or task without effect, no
    store to a launch temporary that nothing loads, no temporary that nothing names."""
    d = _Dce(kernel)
    d.collect(kernel.body, _OUTSIDE, _OUTSIDE)
    d.mark()
    body = d.sweep(kernel.body)
    if body is kernel.body:
        return kernel
    return replace(kernel, body=body, buffers=_named(kernel.buffers, body))


class _Dce:
    """`needs`: id of a value, or of a statement that owns blocks -> ids that it needs when it is needed itself. What
    stands in a block needs the statement that owns the block, and that needs what controls it."""

    def __init__(self, kernel: N.Kernel) -> None:
        temps = {name for name, b in kernel.buffers.items() if b.kind == "temp"}
        if temps:
            temps -= {s.buffer for s in walk(kernel.body) if isinstance(s, N.Load)}
        self.unread = temps
        self.needs: dict[int, tuple[int, ...]] = {}
        self.live: set[int] = {_OUTSIDE}
        self.work: list[int] = []
        self.guarded = False

    def effect(self, s: N.Stmt) -> bool:
        if not isinstance(s, N.Effect):
            return False
        return not (self.unread and isinstance(s, N.Write) and s.buffer in self.unread)

    def collect(self, block: N.Block, owner: int, target: int) -> None:
        """``target``: the loop or task that a Break or Continue in the block leaves."""
        needs = self.needs
        for s in block:
            if self.effect(s):
                self.work.extend(s.operands())
                self.work.append(owner)
                needs[s.id] = (owner,)
            elif isinstance(s, N.Value):
                needs[s.id] = (*s.operands(), owner)
            elif isinstance(s, N.If):
                needs[s.id] = (s.cond, owner)
                for n, r in enumerate(s.results):
                    ends = [arm[-1].operands()[n] for arm in s.blocks() if type(arm[-1]) is N.Yield]
                    needs[r.id] = (*ends, s.id)
                self.collect(s.then, s.id, target)
                self.collect(s.orelse, s.id, target)
            elif isinstance(s, (N.For, N.While)):
                if isinstance(s, N.For):
                    needs[s.id] = (s.begin, s.end, owner)
                    needs[s.index.id] = (s.id,)
                else:
                    needs[s.id] = (*s.cond[-1].operands(), owner)
                ends_of = exits(s.body)
                for n, (p, init, r) in enumerate(zip(s.carried, s.inits, s.results, strict=True)):
                    needs[p.id] = (init, *(e.values[n] for e in ends_of), s.id)
                    needs[r.id] = (p.id,)
                for b in s.blocks():
                    self.collect(b, s.id, s.id)
            elif isinstance(s, N.Offload):
                needs[s.id] = s.bounds[-1].operands()
                for p in s.indices:
                    needs[p.id] = (s.id,)
                for b in s.blocks():
                    self.collect(b, s.id, s.id)
            elif isinstance(s, N.AdStackGuard):
                needs[s.id] = (owner,)
                if self.guarded:  # the check behind a segment of a checkpointed loop
                    self.work.append(s.id)
                outer, self.guarded = self.guarded, True
                self.collect(s.body, s.id, target)
                self.guarded = outer
            elif isinstance(s, N.Exit) and owner != target:
                needs[target] = (*needs[target], owner)

    def mark(self) -> None:
        live, work, needs = self.live, self.work, self.needs
        while work:
            i = work.pop()
            if i not in live:
                live.add(i)
                work.extend(needs[i])

    def sweep(self, block: N.Block) -> N.Block:
        live = self.live
        out: list[N.Stmt] = []
        for s in block:
            if s.blocks():
                if s.id in live:
                    out.append(self.owner(s))
            elif isinstance(s, N.Yield) or s.id in live or self.effect(s):
                out.append(s)
        return same_or(block, out)

    def owner(self, s: N.Stmt) -> N.Stmt:
        live = self.live
        if isinstance(s, N.If):
            s = keep_results(s, [n for n, r in enumerate(s.results) if r.id in live])
        elif isinstance(s, (N.For, N.While)):
            s = keep_carried(s, [n for n, p in enumerate(s.carried) if p.id in live])
        return map_blocks(s, self.sweep)


def _named(buffers: dict[str, N.Buffer], body: N.Block) -> dict[str, N.Buffer]:
    """The buffers without temporaries that neither a statement nor a remaining buffer names, as its grad or dual."""
    if all(b.kind != "temp" for b in buffers.values()):
        return buffers
    named = {s.buffer for s in walk(body) if isinstance(s, N.Access)}
    named |= {of for n, b in buffers.items() if n in named or b.kind != "temp" for of in (b.grad, b.dual)}
    return {n: b for n, b in buffers.items() if b.kind != "temp" or n in named}
