"""Which value each variable holds, and whether any line to come reads it: if none does, another may take its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import uses, walk


class Variables:
    """``waiting``: values whose expressions become part of lines to come. ``homes``: for a value that a block hands on,
    the variable that is to hold it then. ``left``: how often lines to come read a value."""

    def __init__(self, block: N.Block) -> None:
        self.stmts = {s.id: s for s in walk(block)}
        self.left = Counter(uses(block))
        self.waiting: set[int] = set()
        self.homes: dict[int, str] = {}
        self.holds: dict[str, int] = {}
        self._labels: dict[str, tuple[str, str]] = {}  # what the program calls it, and its type
        self._levels: dict[int, int] = {}  # in which loop a value is made
        self._level = self._loops = 0
        self._written: set[int] = set()

    @contextmanager
    def loop(self) -> Iterator[None]:
        """What is made outside is read again by each trip of what is emitted inside."""
        self._loops += 1
        outer, self._level = self._level, self._loops
        yield
        self._level = outer

    @contextmanager
    def beside(self, other: N.Block) -> Iterator[None]:
        """What is emitted inside runs instead of the other block, which is emitted behind it."""
        reads, holds = uses(other), dict(self.holds)
        self.left.subtract(reads)
        yield
        self.left.update(reads)
        self.holds = holds

    def reads(self, s: N.Stmt) -> Counter[int]:
        """What a statement reads, and what is part of its line."""
        found = Counter(s.operands())
        for i in s.operands():
            if i in self.waiting:
                found += self.reads(self.stmts[i])
        return found

    def written(self, s: N.Stmt) -> None:
        """The line of a statement is there."""
        if s.id in self._written:
            return
        self.left.subtract(self.reads(s))
        if isinstance(s, N.Value):
            self._written.add(s.id)
        self.waiting.difference_update(s.operands())

    def hold(self, name: str, id: int, label: str, type: str) -> None:
        self.holds[name] = id
        self._labels[name] = label, type
        self._levels[id] = self._level

    def free(self, name: str, reads: Counter[int]) -> bool:
        """Whether only those reads of its value are left, and none that another trip of a loop repeats."""
        id = self.holds.get(name)
        return id is None or (self.left[id] <= reads[id] and self._levels[id] == self._level)

    def called(self, name: str, label: str, type: str) -> bool:
        """Whether it is a variable for values of that name in the program, and of that type."""
        return self._labels.get(name) == (label, type)
