"""Which value each variable holds, and whether a later line reads it. If none does, the variable may be reused."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.walk import uses, walk


class Variables:
    """``waiting``: values whose expressions become part of later lines. ``homes``: by value that a block yields, the
    variable that must hold the value in the end. ``holds``: the value of each variable. ``left``: how often later lines
    read each value."""

    def __init__(self, block: N.Block) -> None:
        self.stmts = {s.id: s for s in walk(block)}
        self.left = Counter(uses(block))
        self.waiting: set[int] = set()
        self.homes: dict[int, str] = {}
        self.holds: dict[str, int] = {}
        self._labels: dict[str, tuple[str, str]] = {}  # variable -> its name in the user's program, and its type
        self._levels: dict[int, int] = {}  # value -> the loop in which it is made
        self._level = self._loops = 0
        self._written: set[int] = set()

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Marks what is emitted inside as a loop: each of its trips reads the values from outside again."""
        self._loops += 1
        outer, self._level = self._level, self._loops
        yield
        self._level = outer

    @contextmanager
    def beside(self, other: N.Block) -> Iterator[None]:
        """Marks what is emitted inside as an alternative to the ``other`` block, which is emitted afterwards."""
        reads, holds = uses(other), dict(self.holds)
        self.left.subtract(reads)
        yield
        self.left.update(reads)
        self.holds = holds

    def reads(self, s: N.Stmt) -> Counter[int]:
        """How often the line of a statement reads each value, itself or in expressions that are part of it."""
        found = Counter(s.operands())
        for i in s.operands():
            if i in self.waiting:
                found += self.reads(self.stmts[i])
        return found

    def written(self, s: N.Stmt) -> None:
        """Notes that the line of a statement has been emitted."""
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
        """Whether only ``reads`` are left of the variable's value, and no later trip of a loop reads it again."""
        id = self.holds.get(name)
        return id is None or (self.left[id] <= reads[id] and self._levels[id] == self._level)

    def called(self, name: str, label: str, type: str) -> bool:
        """Whether the variable is for values with that name in the user's program and with that type."""
        return self._labels.get(name) == (label, type)


WORDS = """
auto bool break case char const continue default do double else enum extern false float for goto if inline int long
register return short signed sizeof static struct switch true typedef union unsigned void volatile while
"""  # keywords of all these languages


class Names:
    """Gives out identifiers that are unique in their scope and do not match ``avoid``. None ends in an underscore,
    since `_clike.control` makes names with one."""

    def __init__(self, avoid: re.Pattern[str]) -> None:
        self.known: dict[object, str] = {}
        self._avoid = avoid
        self._taken: dict[str, int] = {}  # name -> how often it was wanted

    def of(self, key: object, wanted: str) -> str:
        """The name of an object that is visible everywhere."""
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
