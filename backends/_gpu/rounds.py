"""How often a thread goes round loops, for drivers that do not let it do so as often as it likes. An atomic that
devices do not have is a loop, too: nobody knows how often others are faster."""

from __future__ import annotations

from collections.abc import Container, Mapping

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import f32
from quadrants_lab.ir.walk import walk

_OF_INTEGERS = frozenset({"add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas"})
# atomics of 32 bits and more that devices have themselves
_AT_ONCE = {"i": _OF_INTEGERS, "u": _OF_INTEGERS, "f32": {"add", "sub", "exchange"}, "f": {"exchange"}}


def rounds(block: N.Block, reduced: Container[str]) -> int | None:
    """In one run of the block, at the most; None where no constants tell. ``reduced``: buffers of which each thread has
    its share."""
    if any(isinstance(s, N.Atomic) and s.buffer not in reduced and _tries(s) for s in walk(block)):
        return None
    return _rounds(block, {s.id: s.value for s in walk(block) if isinstance(s, N.Const)})


def _tries(s: N.Atomic) -> bool:
    """Whether it compares and exchanges until nobody else was faster."""
    if s.private or s.type.bits < 32:
        return not s.private
    return s.op not in _AT_ONCE["f32" if s.type is f32 else s.type.kind]


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
