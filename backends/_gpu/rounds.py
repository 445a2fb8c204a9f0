"""How often a thread goes round loops, for drivers that do not let it do so as often as it likes."""

from __future__ import annotations

from collections.abc import Mapping

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import walk


def rounds(block: N.Block) -> int | None:
    """In one run of the block, at the most; None where no constants tell."""
    return _rounds(block, {s.id: s.value for s in walk(block) if isinstance(s, N.Const)})


def _rounds(block: N.Block, constants: Mapping[int, int]) -> int | None:
    total = 0
    for s in block:
        inside = 0
        for b in s.blocks():
            found = _rounds(b, constants)
            if found is None:
                return None
            inside += found
        if isinstance(s, N.While):
            return None
        if isinstance(s, N.For):
            if s.begin not in constants or s.end not in constants:
                return None
            inside = max(constants[s.end] - constants[s.begin], 0) * (inside + 1)
        total += inside
    return total
