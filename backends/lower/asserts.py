"""What is known after an assert, on devices where a failed assert ends the task."""

from dataclasses import replace
from functools import partial

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import end_of, map_blocks, same_or, substitute


def trust_asserts(kernel: N.Kernel) -> N.Kernel:
    """After an assert its condition holds. So a load needs no replacement for an index that is out of bounds, and a
    store needs no branch; `passes.check_bounds` makes both for devices where the iteration continues. Except for the
    asserts, accesses are then as in a kernel without checks, for schedules and for LLVM."""
    asserts = _Asserts()
    body = asserts.block(kernel.body, frozenset())
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, asserts.same))


class _Asserts:
    """``same``: id of a removed value -> the value to read instead. ``both``: id of a conjunction -> its parts."""

    def __init__(self) -> None:
        self.same: dict[int, int] = {}
        self.both: dict[int, tuple[int, ...]] = {}

    def block(self, block: N.Block, holds: frozenset[int]) -> N.Block:
        """Rewrites the block; the conditions ``holds`` hold where it begins."""
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
        """All conditions that hold if this condition holds."""
        return frozenset({condition}).union(*map(self.parts, self.both.get(condition, ())))

    def read(self, id: int, value: int) -> None:
        self.same[id] = self.same.get(value, value)
