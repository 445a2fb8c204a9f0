"""What is known behind an assert, on devices where one that fails ends the task."""

from dataclasses import replace
from functools import partial

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import end_of, map_blocks, same_or, substitute


def trust_asserts(kernel: N.Kernel) -> N.Kernel:
    """Behind an assert its condition holds. So a load needs no other index in case that its own is out of bounds, and a
    store no branch: `passes.check_bounds` makes them for devices where an iteration goes on. With the asserts alone
    between them, accesses are what they are in a kernel without checks, for schedules and for LLVM."""
    asserts = _Asserts()
    body = asserts.block(kernel.body, frozenset())
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, asserts.same))


class _Asserts:
    """``same``: id of a value that went -> the one that is read instead. ``both``: id of a conjunction -> its parts."""

    def __init__(self) -> None:
        self.same: dict[int, int] = {}
        self.both: dict[int, tuple[int, ...]] = {}

    def block(self, block: N.Block, holds: frozenset[int]) -> N.Block:
        """The block, where conditions hold."""
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
        """All that holds where a condition does."""
        return frozenset({condition}).union(*map(self.parts, self.both.get(condition, ())))

    def read(self, id: int, value: int) -> None:
        self.same[id] = self.same.get(value, value)
