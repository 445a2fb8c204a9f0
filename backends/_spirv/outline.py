"""Outlining: pushes, pops and reads of adstack slots become calls of shared functions, which makes modules shorter.

A run is the code that lowering made from one adstack statement (`lower.adstacks`): consecutive accesses to one counter
and one chunk of slots, and the arithmetic between them. If it saves words, runs of the same shape call one function
(`heap.call`). The function takes pointers to the counter and to the thread's first slot. Drivers inline it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from quadrants_lab.backends._gpu.stacks import Chunk, chunks
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import u1
from quadrants_lab.ir.walk import constants, types_of, uses, walk

# the approximate number of words of a statement in line; most counts are known and need no load
_WORDS = {(N.Load, "local"): 2, (N.Store, "local"): 3, (N.Load, "heap"): 11, (N.Store, "heap"): 10}


@dataclass(slots=True)
class Run:
    """``takes``: the ids of the values from outside, except constants, which become parameters. ``gives``: the id of
    the value that is used after the run, or NO_ID. ``key``: equal for runs that can share a function."""

    stmts: list[N.Stmt] = field(default_factory=list)
    local: str = ""
    chunk: Chunk | None = None
    takes: list[int] = field(default_factory=list)
    gives: int = N.NO_ID
    key: tuple[Any, ...] = ()

    def work(self) -> list[N.Stmt]:
        return [s for s in self.stmts if s.constant is None]


class Plan:
    """What the programs of a lowered kernel share: its chunks of adstack slots, the runs to outline by the id of
    their first statement."""

    def __init__(self, kernel: N.Kernel) -> None:
        self.kernel = kernel
        self.chunks = chunks(kernel)
        self.runs: dict[int, Run] = {}
        if not self.chunks:
            return
        self._types = types_of(kernel.body)
        self._uses = uses(kernel.body)
        self._known = constants(walk(kernel.body))
        found = [run for task in kernel.body for block in task.blocks() for run in self._within(block)]
        found = [run for run in found if self._describe(run)]
        count = Counter(run.key for run in found)
        self.runs = {run.stmts[0].id: run for run in found if self._pays(run, count[run.key])}

    def _within(self, block: N.Block) -> Iterator[Run]:
        run = Run()
        for s in block:
            if not self._extends(run, s):
                if run.stmts:
                    yield run
                run = Run()
                self._extends(run, s)
            if run.stmts and isinstance(s, N.Store) and s.buffer == run.local:
                yield run
                run = Run()
            for inner in s.blocks():
                yield from self._within(inner)

    def _extends(self, run: Run, s: N.Stmt) -> bool:
        """Appends the statement to the run; returns False if it is not a part of the run."""
        if isinstance(s, (N.Load, N.Store)):
            buffer = self.kernel.buffers[s.buffer]
            if buffer.kind == "local":
                if run.local not in ("", s.buffer) or (run.chunk and not run.local):
                    return False
                run.local = s.buffer
            elif buffer.kind == "heap":
                chunk = self.chunks[s.buffer]
                if run.chunk not in (None, chunk) or (s.loads and len(chunk.buffers) > 1):
                    return False
                run.chunk = chunk
            else:
                return False
        elif isinstance(s, N.Op):
            if not any(x.id in s.args and self._is_own(x) for x in run.stmts):
                return False
        elif s.constant is None or not run.stmts:
            return False
        run.stmts.append(s)
        return True

    def _is_own(self, s: N.Stmt) -> bool:
        """Whether the value is a count, a slot index, or a word of flags."""
        if isinstance(s, N.Load):
            buffer = self.kernel.buffers[s.buffer]
            return buffer.kind == "local" or buffer.role == "flags"
        return isinstance(s, N.Op) and s.type is not u1

    def _describe(self, run: Run) -> bool:
        """Sets what the run takes and gives, and its key; returns False if the run cannot be a function."""
        work = run.work()
        number = {s.id: n for n, s in enumerate(work)}
        inside = uses(tuple(work))
        given = [s.id for s in work if s.id in self._types and self._uses.get(s.id, 0) > inside.get(s.id, 0)]
        if len(given) > 1 or len(work) < 2:
            return False
        run.gives = given[0] if given else N.NO_ID
        shape: list[Any] = []
        for s in work:
            operands: list[Any] = []
            for i in s.operands():
                if i in number:
                    operands.append(number[i])
                elif i in self._known:
                    operands.append((self._types[i], repr(self._known[i])))
                elif i != self._lane(s):
                    if i not in run.takes:
                        run.takes.append(i)
                    operands.append((self._types[i], run.takes.index(i)))
            what: Any = s.prim
            if isinstance(s, (N.Load, N.Store)):
                b = self.kernel.buffers[s.buffer]
                what = b.kind, b.dtype, b.kind == "heap" and self.chunks[b.name].buffers.index(b.name)
            shape.append((type(s), self._types.get(s.id), what, tuple(operands)))
        chunk = run.chunk
        run.key = (*shape, number.get(run.gives), chunk and (len(chunk.buffers), chunk.count))
        return True

    def _lane(self, s: N.Stmt) -> int:
        """The id of the thread's number in a slot's index."""
        return s.index[1] if isinstance(s, (N.Load, N.Store)) and len(s.index) > 1 else N.NO_ID

    def _pays(self, run: Run, count: int) -> bool:
        moves = (N.Load, N.Store)
        kinds = [(type(s), self.kernel.buffers[s.buffer].kind) if isinstance(s, moves) else None for s in run.work()]
        inside = sum(6 if kind is None else _WORDS[kind] for kind in kinds)
        params = len(run.takes) + bool(run.local) + bool(run.chunk)
        return count * (inside - 4 - params) > inside + 4 * params + 25
