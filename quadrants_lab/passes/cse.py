"""The pass `cse` eliminates common subexpressions: a value that a dominating statement has computed is not computed
again."""

from collections.abc import Hashable, Iterable
from dataclasses import replace

from quadrants_lab.analysis.effects import memory_classes
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import of_kind, reading
from quadrants_lab.passes.fold_rules import COMMUTATIVE


def cse(kernel: N.Kernel) -> N.Kernel:
    """Guarantees for each task that no Op, constant, argument, shape or assert repeats an equal statement whose value
    is visible there; nor does a load repeat an equal load, unless something between them may write to the same memory.
    A task does not use values of other tasks or of the statements around it."""
    body = _Cse(kernel).block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


def without_repetitions(kernel: N.Kernel, block: N.Block) -> N.Block:
    """The block, which is part of a task, without statements that repeat others of the same block (see `cse`)."""
    return _Cse(kernel).block(block)


class _Cse:
    def __init__(self, kernel: N.Kernel) -> None:
        self.classes = memory_classes(kernel)
        self.ids: dict[int, int] = {}
        self.seen: dict[Hashable, int] = {}
        self.state: dict[str, int] = {}  # memory class -> number of the last write to it, counted through the kernel
        self.writes = 0
        # id of a block -> (the block, the memory classes that it writes)
        self.known: dict[int, tuple[N.Block, set[str]]] = {}

    def written(self, s: N.Stmt) -> set[str]:
        """The memory classes that the blocks of the statement write. They are cached, so no block is walked twice."""
        return set().union(*map(self._written, s.blocks()))

    def _written(self, block: N.Block) -> set[str]:
        known = self.known.get(id(block))
        if known is None:
            found = {self.classes[s.buffer] for s in of_kind(block, N.Write)}
            found = found.union(*(self.written(s) for s in block if s.blocks()))
            self.known[id(block)] = block, found
            return found
        return known[1]

    def write(self, memories: Iterable[str]) -> None:
        self.writes += 1
        self.state.update(dict.fromkeys(memories, self.writes))

    def key(self, s: N.Stmt) -> Hashable:
        """A key: two statements with the same key define the same value. None if the statement may not be merged with
        others."""
        match s:
            case N.Op(prim=prim, args=args, type=type):
                if prim in COMMUTATIVE and args[0] > args[1]:
                    args = (args[1], args[0])
                return (prim, args, type)
            case N.Element(index=index, shape=shape, values=values, clamped=clamped):
                return ("element", index, shape, values, clamped)
            case N.Const(type=type, value=value):
                return (type, repr(value))
            case N.Load(buffer=buffer, index=index):
                return (buffer, index, self.state.get(self.classes[buffer], 0))
            case N.ArgLoad(arg=arg):
                return ("arg", arg)
            case N.ShapeOf(buffer=buffer, axis=axis):
                return ("shape", buffer, axis)
            case N.Assert(cond=cond):
                return ("assert", cond)
        return None

    def block(self, block: N.Block) -> N.Block:
        """The block without repetitions. Values that it defines are not visible after it."""
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
                self.write((self.classes[s.buffer],))
            elif blocks := s.blocks():
                inside = self.inside(s)
                if any(a is not b for a, b in zip(inside, blocks, strict=True)):
                    s = s.with_blocks(tuple(inside))
                    changed = True
            out.append(s)
        for key in new:
            del self.seen[key]
        return tuple(out) if changed else block

    def inside(self, s: N.Stmt) -> list[N.Block]:
        """The blocks of the statement, without repetitions. An arm of an If knows the loads from before the If. In a
        loop, nothing is known about memory that the loop writes; after the statement, about memory that its blocks
        write. A task sees no value from outside. The body of a guard runs once, after the statements before the guard,
        so everything that was known is still known there."""
        if isinstance(s, N.AdStackGuard):
            return [self.block(s.body)]
        seen, state, memories = self.seen, self.state, self.written(s)
        out = []
        for b in s.blocks():
            if isinstance(s, N.If):
                self.state = dict(state)
            elif isinstance(s, N.Loop):
                self.write(memories)
            else:
                self.seen = {}
            out.append(self.block(b))
        self.seen, self.state = seen, state
        self.write(memories)
        return out
