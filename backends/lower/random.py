"""Lowers random draws to the hash that `ir.draws` defines. Seed and launch are hashed once, at the start of an
iteration. A statement that may draw several times has a local variable, which counts its draws in this iteration; the
count enters the hash."""

from collections import Counter
from dataclasses import replace

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import draws, nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.types import f16, f32, i32, i64, u64, wrapped
from quadrants_lab.ir.walk import find, map_blocks, rewrite, rules, types_of


@deeply_recursive
def lower_random(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no random draw is left: a draw is a hash of builtins (seed, launch, iteration) and of counts."""
    if not any(find(kernel.body, N.Random)):
        return kernel
    counts: dict[int, N.Buffer] = {}  # id of a statement that draws -> its counter
    b = Builder(kernel.next_id, types_of(kernel.body))

    def lowered(block: N.Block) -> N.Block:
        drawn = Counter(_sites(block))
        if not drawn:
            return block
        again = {site for site, times in drawn.items() if times > 1}
        for loop in find(block, N.Loop):
            again.update(site for part in loop.blocks() for site in _sites(part))
        with b.block() as start:
            words = [X(b, b.add(N.Builtin(b.fresh(), u64, word))) for word in ("seed", "launch", "iteration")]
            seed, launch, iteration = words
            key = _mixed(_mixed(seed + draws.GOLDEN) + launch * draws.GOLDEN)
            counter = iteration * draws.ITERATION
            for site in sorted(again):
                counts.setdefault(site, N.Buffer(f"drawn${site}", "local", u64, 0, ()))
                b.store(counts[site], (), b.const(_first(site), u64))

        def draw(s: N.Random) -> list[N.Stmt]:
            return b.made(_draw, b, s, counts[s.site] if s.site in again else None, key, counter)

        return (*start, *rewrite(block, rules({N.Random: draw})))

    body = tuple(map_blocks(task, lowered) for task in kernel.body)
    return replace(kernel, buffers=kernel.buffers | {c.name: c for c in counts.values()}, body=body, next_id=b.next_id)


def _sites(block: N.Block) -> list[int]:
    return [s.site for s in find(block, N.Random)]


def _first(site: int) -> int:
    return wrapped(site * draws.SITE, u64)


def _mixed(x: X) -> X:
    """`draws.mix`, emitted for u64."""
    x = (x ^ x.lshr(30)) * draws.FIRST
    x = (x ^ x.lshr(27)) * draws.SECOND
    return x ^ x.lshr(31)


def _draw(b: Builder, s: N.Random, count: N.Buffer | None, key: X, counter: X) -> None:
    b.span, b.adjoint_of = s.span, s.adjoint_of
    before = X(b, b.const(_first(s.site), u64) if count is None else b.load(count, ()))
    if count is not None:
        b.store(count, (), (before + draws.OCCURRENCE).id)
    x, t = _mixed(key ^ (counter + before)), s.type
    if t.is_float:
        # how many bits of the hash make a float; they fit in signed integers, which more processors can convert to
        # floats
        digits = {16: 11, 32: 24, 64: 53}[t.bits]
        x = x.lshr(64 - digits)
        x = (x.bitcast(i64) if t.bits == 64 else x.cast(i32)).cast(f32 if t is f16 else t) * 2.0**-digits
    if x.type is not t:
        x = x.bitcast(t) if t.bits == 64 else x.cast(t)
    last = b.stmts.pop()
    assert isinstance(last, N.Value)
    b.add(replace(last, id=s.id, name=s.name))
    b.span, b.adjoint_of = None, N.NO_ID
