"""Tracks which value each variable of the source holds, and whether a later line reads it. If none does, the variable
may be reused for another value."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import uses, walk


class Variables:
    """Tracks the variables of a function. ``waiting``: ids of values whose expressions become part of later lines.
    ``homes``: id of a value that a block yields -> the variable that must hold it in the end. ``holds``: variable
    -> id of its value. ``left``: id of a value -> how often later lines read it."""

    def __init__(self, block: N.Block) -> None:
        self.stmts = {s.id: s for s in walk(block)}
        self.left = Counter(uses(block))
        self.waiting: set[int] = set()
        self.homes: dict[int, str] = {}
        self.holds: dict[str, int] = {}
        self._labels: dict[str, tuple[str, str]] = {}  # variable -> its name in the user's program, and its type
        self._levels: dict[int, int] = {}  # id of a value -> the loop in which it is computed
        self._level = self._loops = 0
        self._written: set[int] = set()

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Makes a context for the body of a loop, each trip of which reads the values from outside again."""
        self._loops += 1
        outer, self._level = self._level, self._loops
        yield
        self._level = outer

    @contextmanager
    def beside(self, other: N.Block) -> Iterator[None]:
        """Makes a context for an arm of a branch whose other arm, the block ``other``, is emitted afterwards."""
        reads, holds = uses(other), dict(self.holds)
        self.left.subtract(reads)
        yield
        self.left.update(reads)
        self.holds = holds

    def reads(self, s: N.Stmt) -> Counter[int]:
        """Maps the id of each value to how often the line of a statement reads it, directly or in expressions that are
        part of the line."""
        found = Counter(s.operands())
        for i in s.operands():
            if i in self.waiting:
                found += self.reads(self.stmts[i])
        return found

    def written(self, s: N.Stmt) -> None:
        """Records that the line of a statement has been emitted."""
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
        """Whether the variable's value is read nowhere any more after ``reads``, not even in a later trip of a loop."""
        id = self.holds.get(name)
        return id is None or (self.left[id] <= reads[id] and self._levels[id] == self._level)

    def called(self, name: str, label: str, type: str) -> bool:
        """Whether the variable was made for values of this type that are named ``label`` in the user's program."""
        return self._labels.get(name) == (label, type)


WORDS = """
auto bool break case char const continue default do double else enum extern false float for goto if inline int long
register return short signed sizeof static struct switch true typedef union unsigned void volatile while
"""  # keywords of all these languages


class Names:
    """Makes identifiers that are unique in their scope and do not match the pattern ``avoid``. None ends in an
    underscore, since `_clike.control` makes names that do."""

    def __init__(self, avoid: re.Pattern[str]) -> None:
        self.known: dict[object, str] = {}
        self._avoid = avoid
        self._taken: dict[str, int] = {}  # name -> how often it was asked for

    def of(self, key: object, wanted: str) -> str:
        """The name, visible everywhere, of the object ``key``; ``wanted`` if that is free."""
        if key not in self.known:
            self.known[key] = self.local(wanted)
        return self.known[key]

    def local(self, wanted: str) -> str:
        """A new name that is visible until the end of the open `scope`."""
        base = re.sub(r"[\W_]+", "_", wanted, flags=re.ASCII).strip("_")
        unnamed = not base
        name = base = "t" if unnamed else f"v_{base}" if self._avoid.fullmatch(base) or base[0].isdigit() else base
        while name in self._taken:
            self._taken[base] += 1
            name = f"{base}{'' if unnamed else '_'}{self._taken[base]}"
        self._taken[name] = 1
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        taken = dict(self._taken)
        yield
        self._taken = {**dict.fromkeys(self.known.values(), 1), **taken}
