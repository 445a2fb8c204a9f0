"""Simplifies the code after an assert by the fact that its condition holds, on devices where a failed assert ends
the task."""

from dataclasses import replace
from functools import partial

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import end_of, map_blocks, same_or, substitute


def trust_asserts(kernel: N.Kernel) -> N.Kernel:
    """Removes what a passed assert makes unnecessary. `passes.check_bounds` replaces the value of a load whose index is
    out of bounds, and puts a store under a branch, for devices where a failed iteration continues. Here both become
    plain accesses again, so that schedules and LLVM see them as in a kernel without checks."""
    asserts = _Asserts()
    body = asserts.block(kernel.body, frozenset())
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, asserts.same))


class _Asserts:
    """Rewrites blocks by the conditions that asserts guarantee. ``same``: id of a removed value -> the value that
    replaces it. ``both``: id of a conjunction -> its parts."""

    def __init__(self) -> None:
        self.same: dict[int, int] = {}
        self.both: dict[int, tuple[int, ...]] = {}

    def block(self, block: N.Block, holds: frozenset[int]) -> N.Block:
        """Rewrites the block. ``holds``: ids of conditions that are true where the block begins."""
        out: list[N.Stmt] = []
        for s in block:
            if isinstance(s, N.Op) and s.prim == "and":
                self.both[s.id] = s.args
                holds |= {s.id} if holds.issuperset(s.args) else set()
            if isinstance(s, N.Assert):
                holds |= self.parts(s.cond)
            if isinstance(s, N.Op) and s.prim == "select" and s.args[0] in holds:
                self.read(s.id, s.args[1])
            elif isinstance(s, N.If) and s.cond in holds:
                then = self.block(s.then, holds)
                for result, value in zip(s.results, end_of(then).operands(), strict=True):
                    self.read(result.id, value)
                out += then[:-1]
            else:
                out.append(map_blocks(s, partial(self.block, holds=holds)))
        return same_or(block, out)

    def parts(self, condition: int) -> frozenset[int]:
        """The ids of all conditions that are true if ``condition`` is."""
        return frozenset({condition}).union(*map(self.parts, self.both.get(condition, ())))

    def read(self, id: int, value: int) -> None:
        self.same[id] = self.same.get(value, value)
