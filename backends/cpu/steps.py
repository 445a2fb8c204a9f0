"""Sums into neighbours' elements in separate loops, which LLVM vectorises; see the ``sweep`` of an Atomic.

A row runs one sweep after the other and then the rest, each as a loop that recomputes what it needs. In a single loop
an iteration would read what the one before has just written, and vectors would wait for stores that they half overlap.
"""

from __future__ import annotations

from quadrants_lab.backends.cost import estimate
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import map_blocks, walk

_MOST = 2  # how many times the work of the body its steps may take together


def steps(body: N.Block) -> tuple[N.Block, ...]:
    """The sweeps of a task's body, and last the rest of it; only the body where LLVM cannot vectorise it or too much
    would be recomputed."""
    sweeps = sorted({s.sweep for s in walk(body) if isinstance(s, N.Atomic)} - {0})
    if not sweeps or any(isinstance(s, N.Op) and "@math" in PRIMS[s.prim].llvm for s in walk(body)):
        return (body,)
    found = tuple(_step(body, n, set()) for n in (*sweeps, 0))
    return found if sum(estimate(b)[0] for b in found) <= _MOST * estimate(body)[0] else (body,)


def _step(block: N.Block, sweep: int, live: set[int]) -> N.Block:
    """The atomics of one sweep, and for sweep 0 the stores, with what they need. ``live``: ids that are read behind the
    block."""
    out: list[N.Stmt] = []
    for s in reversed(block):
        if isinstance(s, N.If):
            s = map_blocks(s, lambda arm: _step(arm, sweep, live))
        acts = any(isinstance(a, N.Write) for b in s.blocks() for a in walk(b))
        acts = acts or (s.sweep == sweep if isinstance(s, N.Atomic) else isinstance(s, N.Store) and not sweep)
        if acts or isinstance(s, N.Yield) or any(i in live for i, _ in s.defs()):
            out.append(s)
            live.update(s.operands())
    return tuple(reversed(out))
