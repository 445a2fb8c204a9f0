"""`cse`: what was computed already, at a place that dominates, is not computed again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from quadrants_lab.analysis.alias import memory_classes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import reading
from quadrants_lab.passes.fold_rules import COMMUTATIVE


def cse(kernel: N.Kernel) -> N.Kernel:
    """Guarantees that no two Ops, constants, arguments or shapes of a task are equal where the first is visible to
    the second; the same for loads with no write to memory that may be theirs on any way from one to the other, and
    for asserts. Tasks share nothing with each other or with what stands around them."""
    c = _Cse(kernel)
    body = c.block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


class _Cse:
    def __init__(self, kernel: N.Kernel) -> None:
        self.classes = memory_classes(kernel)
        self.ids: dict[int, int] = {}
        self.seen: dict[Hashable, int] = {}
        self.state: dict[str, int] = {}  # memory class -> number of the write after which it is as it is
        self.writes = 0
        self.known: dict[int, tuple[N.Block, set[str]]] = {}  # a block, and memory classes that it writes, by its id

    def written(self, s: N.Stmt) -> set[str]:
        """Memory classes that the blocks of the statement write; none is walked twice."""
        return set().union(*map(self._written, s.blocks()))

    def _written(self, block: N.Block) -> set[str]:
        known = self.known.get(id(block))
        if known is None:
            found = {self.classes[s.buffer] for s in block if isinstance(s, N.Write)}
            found = found.union(*(self.written(s) for s in block if s.blocks()))
            self.known[id(block)] = block, found
            return found
        return known[1]

    def write(self, memory: str) -> None:
        self.writes += 1
        self.state[memory] = self.writes

    def key(self, s: N.Stmt) -> Hashable:
        """Two statements with the same key (not None) define the same value."""
        match s:
            case N.Op(prim=prim, args=args, type=type):
                if prim in COMMUTATIVE and args[0] > args[1]:
                    args = (args[1], args[0])
                return (prim, args, type)
            case N.Const(type=type, value=value):
                return (type, repr(value))
            case N.Load(buffer=buffer, index=index):
                return (buffer, index, self.state.get(self.classes[buffer], 0))
            case N.ArgLoad(arg=arg):
                return ("arg", arg)
            case N.ShapeOf(buffer=buffer, axis=axis):
                return ("shape", buffer, axis)
            case N.Assert(cond=cond, message=message, args=args):
                return ("assert", cond, message, args)
        return None

    def block(self, block: N.Block) -> N.Block:
        """The block without repetitions; what is first seen in it is forgotten behind it."""
        out: list[N.Stmt] = []
        new: list[Hashable] = []
        changed = False
        ids = self.ids
        for s in block:
            if ids and not ids.keys().isdisjoint(s.operands()):
                s, changed = reading(s, ids), True
            key = self.key(s)
            if key is not None:
                first = self.seen.get(key)
                if first is not None:
                    ids[s.id] = first
                    changed = True
                    continue
                self.seen[key] = s.id
                new.append(key)
            elif isinstance(s, N.Write):
                self.write(self.classes[s.buffer])
            elif (fn := _OWNERS.get(type(s))) is not None:
                inside = fn(self, s)
                if any(a is not b for a, b in zip(inside, s.blocks(), strict=True)):
                    s = s.with_blocks(inside)
                    changed = True
            out.append(s)
        for key in new:
            del self.seen[key]
        return tuple(out) if changed else block

    def arms(self, s: N.If) -> tuple[N.Block, ...]:
        """Each arm sees the memory before the If; what either writes is unknown behind it."""
        before = self.state
        out = []
        for arm in s.blocks():
            self.state = dict(before)
            out.append(self.block(arm))
        self.state = before
        for memory in self.written(s):
            self.write(memory)
        return tuple(out)

    def loop(self, s: N.Loop) -> tuple[N.Block, ...]:
        """What the loop writes is unknown in it and behind it."""
        memories = self.written(s)
        out = []
        for b in s.blocks():
            for memory in memories:
                self.write(memory)
            out.append(self.block(b))
        for memory in memories:
            self.write(memory)
        return tuple(out)

    def task(self, s: N.Offload) -> tuple[N.Block, ...]:
        outer = self.seen
        out = []
        for b in s.blocks():
            self.seen = {}
            out.append(self.block(b))
        self.seen = outer
        for memory in self.written(s):
            self.write(memory)
        return tuple(out)

    def guard(self, s: N.AdStackGuard) -> tuple[N.Block, ...]:
        return (self.block(s.body),)


_OWNERS: dict[type, Any] = {
    N.If: _Cse.arms,
    N.For: _Cse.loop,
    N.While: _Cse.loop,
    N.Offload: _Cse.task,
    N.AdStackGuard: _Cse.guard,
}
