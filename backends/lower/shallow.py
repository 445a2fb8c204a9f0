"""Rewrites deeply nested ifs as ifs side by side: Mesa's llvmpipe silently ignores conditions beyond the 80th level,
and Metal's compilers accept no more than 256 nested brackets.

if a { s; if b { t }; u } becomes if a { s }; p = a and b; if p { t }; if a { u }

Each if passes its results to later ones as values, which they read only if it has run; otherwise the values are 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.deep_recursion import deeply_recursive
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.walk import map_blocks, rename, types_of, uses


@dataclass(frozen=True, slots=True)
class Shallow(Parametrised):
    """Guarantees that no more than ``levels`` ifs are nested, not counting ifs around loops. The kernel must be split
    into tasks and contain no exits."""

    levels: int = 48

    @deeply_recursive
    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        if _levels(kernel.body) <= self.levels:
            return kernel
        flat = _Flat(Builder(kernel.next_id, types_of(kernel.body)), self.levels)
        body = tuple(replace(task, body=flat.block(task.body, 0)) for task in kernel.tasks)
        return replace(kernel, body=body, next_id=flat.b.next_id)


def _levels(block: Iterable[N.Stmt]) -> int:
    """The deepest nesting of ifs."""
    nested = (s for s in block if s.blocks())
    return max((max(map(_levels, s.blocks())) + isinstance(s, N.If) for s in nested), default=0)


class _Flat:
    def __init__(self, b: Builder, most: int) -> None:
        self.b = b
        self.most = most  # the greatest allowed depth

    def block(self, block: N.Block, level: int) -> N.Block:
        """Rewrites a block. ``level``: how many ifs are around the block."""
        with self.b.block() as out:
            for s in block:
                if isinstance(s, N.If) and level + 1 >= self.most and _levels((s,)) > 1:
                    self.flat(s, None, uses((s,)))
                else:
                    self.b.stmts.append(map_blocks(s, partial(self.block, level=level + isinstance(s, N.If))))
        return tuple(out)

    def flat(self, s: N.If, runs: int | None, read: dict[int, int]) -> None:
        """Emits an if in pieces. ``runs``: the condition under which the code around the if runs, None if it always
        does; ``read``: id of a value -> how often it is read in the outermost if that is cut into pieces."""
        b = self.b
        b.span, b.adjoint_of = s.span, s.adjoint_of
        ends: list[Sequence[int]] = []
        for block, way in zip(s.blocks(), (s.cond, b.op("not", s.cond)), strict=True):
            when = way if runs is None else b.op("and", runs, way)
            run: list[N.Stmt] = []
            for inner in block[:-1]:
                if not isinstance(inner, N.If):
                    run.append(inner)
                    continue
                self.piece(run, when, read)
                run = []
                self.flat(inner, when, read)
            self.piece(run, when, read)
            end = block[-1]
            assert isinstance(end, N.Yield)
            ends.append(end.values)
        for r, value, other in zip(s.results, *ends, strict=True):
            b.span = s.span
            b.add(N.Op(r.id, r.type, "select", (s.cond, value, other), name=r.name))

    def piece(self, run: Sequence[N.Stmt], when: int, read: dict[int, int]) -> None:
        """Emits the statements ``run`` under the condition ``when``. Values that are read afterwards keep their ids."""
        if not run:
            return
        b = self.b
        inside = uses(tuple(run))
        defined = [(i, t, s) for s in run for i, t in s.defs()]
        handed = [(i, t, s) for i, t, s in defined if read.get(i, 0) > inside.get(i, 0)]
        ids: dict[int, int] = {}
        with b.block() as then:
            b.stmts += rename(self.block(tuple(run), self.most), b.fresh, ids)
            b.yield_(*(ids[i] for i, _, _ in handed))
        with b.block() as orelse:
            b.yield_(*(b.const(0, t) for _, t, _ in handed))
        results = tuple(N.Param(i, t, s.name if isinstance(s, N.Value) else "") for i, t, s in handed)
        b.add(N.If(b.fresh(), when, tuple(then), tuple(orelse), results, span=run[0].span))
