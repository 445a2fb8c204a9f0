"""Lowers random draws to a hash, as `ir.draws` defines it, of the seed, the launch, the iteration, the call site, and
how often this iteration has drawn at this site before.

The count of draws at a site is a value of the IR. It is a constant where control flow allows, and loops and ifs around
the site carry it. A while whose condition draws gets the condition in front of it and at the end of its body, because
the condition cannot hand a count on. """

from __future__ import annotations

from dataclasses import replace

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.backends.lower.functions import function
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.room import roomy
from quadrants_lab.ir.types import f16, f32, u1, u32, u64
from quadrants_lab.ir.walk import rename, types_of, walk

Counts = dict[int, tuple[int | None, int]]  # call site -> its count: a value, or None for 0, plus a constant


@roomy
def lower_random(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no random: a draw is a hash of builtins (seed, launch, iteration) and carried counts."""
    if not any(isinstance(s, N.Random) for s in walk(kernel.body)):
        return kernel
    r = _Draws(Builder(kernel.next_id, types_of(kernel.body)))
    body = tuple(s.with_blocks(tuple(r.block(b, {}) for b in s.blocks())) for s in kernel.body)
    mix = function("mix", u64)
    return replace(kernel, body=body, next_id=r.b.next_id, functions={**kernel.functions, mix.name: mix})


def _sites(*blocks: N.Block) -> tuple[int, ...]:
    return tuple(dict.fromkeys(s.site for b in blocks for s in walk(b) if isinstance(s, N.Random)))


class _Draws:
    def __init__(self, b: Builder) -> None:
        self.b = b

    def block(self, block: N.Block, counts: Counts, end: tuple[int, ...] = ()) -> N.Block:
        """The block without draws. Updates ``counts``. The block yields the counts of the sites ``end`` behind its own
        values."""
        with self.b.block() as out:
            for s in block[:-1]:
                self.b.span, self.b.adjoint_of = s.span, s.adjoint_of
                self.statement(s, counts)
            last = block[-1]
            more = tuple(self.count(counts, site) for site in end)
            self.b.stmts.append(last.with_operands((*last.operands(), *more)))
        return tuple(out)

    def statement(self, s: N.Stmt, counts: Counts) -> None:
        sites = _sites((s,)) if s.blocks() else ()
        if isinstance(s, N.Random):
            self.draw(s, counts)
        elif not sites:
            self.b.stmts.append(s)
        elif isinstance(s, N.If):
            results = self.params(sites)
            arms = tuple(self.block(arm, dict(counts), sites) for arm in s.blocks())
            self.b.stmts.append(replace(s, then=arms[0], orelse=arms[1], results=(*s.results, *results)))
            counts.update((site, (p.id, 0)) for site, p in zip(sites, results, strict=True))
        elif isinstance(s, N.For | N.While):
            self.loop(s, sites, counts)
        else:  # an adstack_guard, whose block runs last
            self.b.stmts.append(s.with_blocks(tuple(self.block(inner, counts) for inner in s.blocks())))

    def loop(self, s: N.For | N.While, sites: tuple[int, ...], counts: Counts) -> None:
        if isinstance(s, N.While) and _sites(s.cond):
            s = self.moved(s, counts)
        carried, results = self.params(sites), self.params(sites)
        inits = tuple(self.count(counts, site) for site in sites)
        inside: Counts = {site: (p.id, 0) for site, p in zip(sites, carried, strict=True)}
        body = self.block(s.body, inside, sites)
        self.b.stmts.append(
            replace(
                s, carried=(*s.carried, *carried), inits=(*s.inits, *inits), body=body, results=(*s.results, *results)
            )
        )
        counts.update((site, (p.id, 0)) for site, p in zip(sites, results, strict=True))

    def moved(self, s: N.While, counts: Counts) -> N.While:
        """The loop with its condition in front of it and at the end of its body."""
        b = self.b

        def ahead(values: tuple[int, ...]) -> tuple[N.Block, int]:
            ids = dict(zip((p.id for p in s.carried), values, strict=True))
            *copy, last = rename(s.cond, b.fresh, ids)
            b.types.update(types_of(tuple(copy)))
            return tuple(copy), last.operands()[0]

        first, go = ahead(s.inits)
        for inner in first:
            self.statement(inner, counts)
        on, out = b.param(u1), b.param(u1)
        *body, end = s.body
        again, more = ahead(end.operands())
        with b.block() as cond:
            b.yield_(on.id)
        return replace(
            s, carried=(*s.carried, on), inits=(*s.inits, go), cond=tuple(cond), results=(*s.results, out),
            body=(*body, *again, end.with_operands((*end.operands(), more))),
        )  # fmt: skip

    def params(self, sites: tuple[int, ...]) -> tuple[N.Param, ...]:
        return tuple(self.b.param(u64, f"drawn{site}") for site in sites)

    def count(self, counts: Counts, site: int) -> int:
        base, more = counts.get(site, (None, 0))
        if base is None:
            return self.b.const(more, u64)
        return (X(self.b, base) + more).id if more else base

    def draw(self, s: N.Random, counts: Counts) -> None:
        b = self.b
        site, nth = b.const(s.site, u64), self.count(counts, s.site)
        base, more = counts.get(s.site, (None, 0))
        counts[s.site] = base, more + 1
        bits = b.const(0, u64)
        for word in (*(b.add(N.Builtin(b.fresh(), u64, name)) for name in ("seed", "launch", "iteration")), site, nth):
            bits = b.add(N.Call(b.fresh(), u64, "mix.u64", (bits, word)))
        x, t = X(b, bits), s.type
        if t.is_float:
            digits = {16: 11, 32: 24, 64: 53}[t.bits]
            x = x.lshr(64 - digits)
            x = (x if t.bits == 64 else x.cast(u32)).cast(f32 if t is f16 else t) * 2.0**-digits
        if x.type is not t:
            x = x.bitcast(t) if t.bits == 64 else x.cast(t)
        last = b.stmts.pop()
        assert isinstance(last, N.Value)
        b.add(replace(last, id=s.id, name=s.name))
