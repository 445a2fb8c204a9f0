"""Lowers random draws to a hash, as `ir.draws` defines it, of the seed, the launch, the iteration, the call site, and
how often this iteration has drawn at this site before. Each call site counts its draws in a local variable. All but the
count is the same for all draws of an iteration at one site, so it is hashed once, at the start."""

from dataclasses import replace

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.backends.lower.math import function
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.types import f16, f32, u32, u64
from quadrants_lab.ir.walk import map_blocks, rewrite, types_of, walk


@deeply_recursive
def lower_random(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that there is no random: a draw is a hash of builtins (seed, launch, iteration) and counts."""
    sites = dict.fromkeys(s.site for s in walk(kernel.body) if isinstance(s, N.Random))
    if not sites:
        return kernel
    counts = {site: N.Buffer(f"drawn${site}", "local", u64, 0, ()) for site in sites}
    b = Builder(kernel.next_id, types_of(kernel.body))

    keys: dict[int, int] = {}  # by site, the hash of all but the count

    def draw(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        return b.made(_draw, b, s, counts[s.site], keys[s.site]) if isinstance(s, N.Random) else s

    def lowered(block: N.Block) -> N.Block:
        drawn = dict.fromkeys(s.site for s in walk(block) if isinstance(s, N.Random))
        if not drawn:
            return block
        with b.block() as start:
            key = b.const(0, u64)
            for word in ("seed", "launch", "iteration"):
                key = _mixed(b, key, b.add(N.Builtin(b.fresh(), u64, word)))
            for site in drawn:
                b.store(counts[site], (), b.const(0, u64))
                keys[site] = _mixed(b, key, b.const(site, u64))
        return (*start, *rewrite(block, draw))

    body = tuple(map_blocks(task, lowered) for task in kernel.body)
    buffers = kernel.buffers | {c.name: c for c in counts.values()}
    mix = function("mix", u64)
    functions = {**kernel.functions, mix.name: mix}
    return replace(kernel, buffers=buffers, body=body, next_id=b.next_id, functions=functions)


def _mixed(b: Builder, bits: int, word: int) -> int:
    return b.add(N.Call(b.fresh(), u64, "mix.u64", (bits, word)))


def _draw(b: Builder, s: N.Random, count: N.Buffer, key: int) -> None:
    b.span, b.adjoint_of = s.span, s.adjoint_of
    nth = b.load(count, ())
    b.store(count, (), (X(b, nth) + 1).id)
    x, t = X(b, _mixed(b, key, nth)), s.type
    if t.is_float:
        digits = {16: 11, 32: 24, 64: 53}[t.bits]
        x = x.lshr(64 - digits)
        x = (x if t.bits == 64 else x.cast(u32)).cast(f32 if t is f16 else t) * 2.0**-digits
    if x.type is not t:
        x = x.bitcast(t) if t.bits == 64 else x.cast(t)
    last = b.stmts.pop()
    assert isinstance(last, N.Value)
    b.add(replace(last, id=s.id, name=s.name))
    b.span, b.adjoint_of = None, N.NO_ID
