"""Statements to lines: what languages like C share. Each has a table of handlers, one a class of statements.

A value that is read once, in the block that defines it, becomes part of the expression that reads it; every other one
becomes a variable. An expression that reads memory is given a variable before anything writes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.backends._clike.source import Source
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import uses, walk

LONGEST = 80  # characters of an expression that waits to become part of another
_WRITES = (N.Store, N.Atomic, N.Assert, N.Print, N.Overflow)


class Body:
    """Emits blocks of one function into ``out``; ``start`` holds what stands in front of them.

    ``values`` maps ids to expressions, ``types`` to dtypes. ``type_names``: the language's, by dtype.
    """

    handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    type_names: ClassVar[Mapping[str, str]]

    def __init__(self, block: N.Block, out: Source) -> None:
        self.out = out
        self.start: list[str] = []
        self.values: dict[int, Expr] = {}
        self.types: dict[int, DType] = {}
        self._uses = uses(block)
        self._names = {s.id: s.name for s in walk(block) if isinstance(s, N.Value)}
        self._waiting: frozenset[int] = frozenset()  # read once, in the open block
        self._pending: dict[int, N.Stmt] = {}  # of these, what reads memory and has no variable yet
        self._writes: dict[int, bool] = {}

    # --- the language -----------------------------------------------------------------------------------------------

    def type_name(self, t: DType) -> str:
        return self.type_names[t.name]

    def variable(self, name: str, id: int) -> str:
        """The variable that holds a value, which the program calls ``name``."""
        raise NotImplementedError

    def typed(self, id: int) -> Expr:
        """A value as an expression of exactly its dtype's type."""
        return self.values[id]

    def inner(self, block: N.Block, out: Source) -> Body:
        """Emits a function that this one calls."""
        raise NotImplementedError

    def poll(self) -> None:
        """What a loop that may take long does at the start of each trip."""

    # --- values -----------------------------------------------------------------------------------------------------

    def set(self, id: int, t: DType, e: Expr) -> None:
        self.values[id] = e
        self.types[id] = t

    def define(self, s: N.Value, e: Expr, at_once: bool = False) -> None:
        """The value of a statement; ``at_once``: it gets a variable here, whoever reads it."""
        self.types[s.id] = s.type
        if not at_once and not self._uses.get(s.id):
            return
        self.values[s.id] = e
        if at_once or s.id not in self._waiting or len(e.text) > LONGEST:
            self.settle(s)
        elif e.memory:
            self._pending[s.id] = s

    def read(self, id: int) -> bool:
        """Whether anything reads a value."""
        return bool(self._uses.get(id))

    def settle(self, s: N.Stmt) -> None:
        """Gives the value of a statement its variable."""
        self._pending.pop(s.id, None)
        t = self.type_name(self.types[s.id])
        name = self.variable(self._names[s.id], s.id)
        out, owner, span = self.out, self.out.stmt, self.out.span
        out.stmt, out.span = s.id, s.span or span
        if self._uses.get(s.id):
            out.put(f"{t} {name} = {self.values[s.id].text};")
        else:
            out.put(f"{self.values[s.id].text};")
        out.stmt, out.span = owner, span
        self.values[s.id] = X.variable(name, t)

    def fix(self, e: Expr, name: str, t: str) -> Expr:
        """The expression where it is a variable or constant, else a variable of that name with its value."""
        if e.known is not None or (e.text.isidentifier() and not e.reads):
            return e
        self.out.put(f"{t} {name} = {e.text};")
        return X.variable(name, t)

    # --- blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: N.Block) -> tuple[Expr, ...]:
        """Emits a block; returns the values that its Yield hands on."""
        outer = self._waiting, self._pending
        self._waiting, self._pending = self._read_once_here(block), {}
        out = self.out
        owner, span = out.stmt, out.span
        for stmt in block[:-1]:
            out.stmt, out.span = stmt.id, stmt.span or span
            if self.writes(stmt):
                self._settle_others(stmt)
            for i in stmt.operands():  # part of another expression from here on
                self._pending.pop(i, None)
            self.handlers[type(stmt)](self, stmt)
        last = block[-1]
        if type(last) is not N.Yield:
            raise TypeError(f"a block ends in {type(last).__name__}; exits must be structured before emission")
        out.stmt, out.span = owner, span
        values = tuple(self.values[i] for i in last.values)
        self._waiting, self._pending = outer
        return values

    def _read_once_here(self, block: N.Block) -> frozenset[int]:
        """What becomes part of its reader: of the same source line, for a line of text leads to one line of source."""
        readers: dict[int, list[N.Stmt]] = {}
        for s in block:
            for i in s.operands():
                readers.setdefault(i, []).append(s)
        return frozenset(
            s.id
            for s in block
            if self._uses.get(s.id) == len(readers.get(s.id, ())) == 1 and _beside(s, readers[s.id][0])
        )

    def writes(self, s: N.Stmt) -> bool:
        """Whether the statement, or one in its blocks, writes memory or may end the thread."""
        known = self._writes.get(s.id)
        if known is None:
            known = isinstance(s, _WRITES) or any(self.writes(x) for b in s.blocks() for x in b)
            self._writes[s.id] = known
        return known

    def _settle_others(self, s: N.Stmt) -> None:
        own, changed = s.operands(), self.changed(s)
        for i, other in [*self._pending.items()]:
            if i not in own and (changed is None or changed in self.values[i].reads):
                self.settle(other)

    def changed(self, s: N.Stmt) -> str | None:
        """The one variable that a statement writes; "" where it writes nothing yet; None where it writes memory."""
        return None


def _beside(a: N.Stmt, b: N.Stmt) -> bool:
    """Whether they come from one source line; a constant is at home in any."""
    if isinstance(a, N.Const) or a.span is None or b.span is None:
        return True
    return (a.span.file, a.span.line) == (b.span.file, b.span.line)


def function(b: Body, name: str, f: N.Function) -> str:
    """The text of a function of a lowered kernel."""
    out = Source()
    body = b.inner(f.body, out)
    names = [body.variable(p.name, p.id) for p in f.params]
    for p, v in zip(f.params, names, strict=True):
        body.set(p.id, p.type, X.variable(v, b.type_name(p.type)))
    params = ", ".join(f"{b.type_name(p.type)} {v}" for p, v in zip(f.params, names, strict=True))
    out.put(f"{b.type_name(f.type)} {name}({params}) {{")
    with out.nest():
        body.block(f.body)
        out.put(f"return {body.typed(f.body[-1].operands()[0]).text};")
    out.put("}")
    return "\n".join(out.lines)
