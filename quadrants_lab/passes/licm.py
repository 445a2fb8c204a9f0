"""The pass `licm` (loop-invariant code motion) moves a value that no iteration of a serial loop changes before the
loop.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from quadrants_lab.analysis.effects import memory_classes, written
from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import map_blocks, same_or


def licm(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no constant, argument, shape or Op whose operands come from outside the loop is at the top level
    of a For or While. A load whose index comes from outside the loop moves out, too, if the kernel does not write that
    memory and the load can safely run early: it reads a 0-d buffer, its index is surely in bounds, or its block surely
    runs, as the condition of a While does. From an arm of an If at the top level of the loop, loads move out only if
    they are safe even when the arm does not run; the values that their indices need move with them."""
    body = _Licm(kernel).block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


class _Licm:
    def __init__(self, kernel: N.Kernel) -> None:
        classes = memory_classes(kernel)
        changing = written((kernel.body,), classes)
        self.read_only = {name for name, memory in classes.items() if memory not in changing}
        self.ranges = Ranges(kernel)

    def block(self, block: N.Block) -> N.Block:
        out: list[N.Stmt] = []
        for s in block:
            # inner loops first: a value that left an inner loop may then leave this loop too
            s = map_blocks(s, self.block)
            out.append(self.loop(s, out) if isinstance(s, N.Loop) else s)
        return same_or(block, out)

    def loop(self, s: N.Loop, out: list[N.Stmt]) -> N.Stmt:
        """The loop without the statements that move before it; these are appended to ``out``."""
        inside = {p.id for p in s.params()}
        new: list[N.Block] = []
        moved = len(out)
        for b in s.blocks():
            runs = (isinstance(s, N.While) and b is s.cond) or (isinstance(s, N.For) and self.surely_runs(s))
            new.append(self.rest(b, inside, out, partial(self.same_everywhere, runs=runs)))
        return s if len(out) == moved else s.with_blocks(tuple(new))

    def rest(self, b: N.Block, inside: set[int], out: list[N.Stmt], moves: Callable[[N.Stmt], bool]) -> N.Block:
        """The block without the statements that move out. ``inside``: the values of the loop, which their operands must
        not be."""
        stay: list[N.Stmt] = []
        for i in b:
            if moves(i) and inside.isdisjoint(i.operands()):
                out.append(i)
            else:
                if isinstance(i, N.If):
                    i = map_blocks(i, lambda arm: self.rest(arm, inside, out, self.moves_from_arm))
                inside.update(d for d, _ in i.defs())
                stay.append(i)
        return tuple(stay)

    def moves_from_arm(self, s: N.Stmt) -> bool:
        """Whether a statement moves out of an arm of an If. Slow statements do not, since the arm may never run."""
        return not (isinstance(s, (N.Op, N.Element)) and s.type.is_float) and self.same_everywhere(s, runs=False)

    def surely_runs(self, s: N.For) -> bool:
        begin, end = self.ranges.range(s.begin), self.ranges.range(s.end)
        return begin is not None and end is not None and begin[1] < end[0]

    def same_everywhere(self, s: N.Stmt, runs: bool) -> bool:
        """Whether the statement can be run early, and always gives the same value for the same operands. ``runs``: its
        block surely runs."""
        if isinstance(s, N.Pure):
            return True
        if not isinstance(s, N.Load) or s.buffer not in self.read_only:
            return False
        return runs or all(self.ranges.inside(i, s.buffer, axis) for axis, i in enumerate(s.index))
