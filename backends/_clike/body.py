"""Emits statements as lines of source. Each language has a table: class of a statement -> the function that emits it.

A value that is read once, in the block that defines it, is not stored in a variable: its expression becomes part of the
line that reads it. For this, both statements must come from one line of the user's source, or the reading line must do
nothing else, for instance set a loop's initial value. Every other value becomes a variable. An expression that reads
memory becomes a variable at the latest before memory is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from quadrants_lab.backends._clike import expr as X
from quadrants_lab.backends._clike.expr import Expr
from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends._clike.variables import Names, Variables
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import end_of, uses

LONGEST = 80  # an expression with more characters does not become part of another expression
_WRITES = (N.Store, N.Atomic, N.Assert, N.Print, N.Overflow, N.ThreadExit)


class Body:
    """Emits blocks of one function into ``out``; ``start`` holds the lines that go before them.

    ``values``: id -> expression; ``types``: id -> dtype. ``type_names``: dtype -> the language's type. ``named``: every
    value that has a name in the user's program becomes a variable.
    """

    handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    type_names: ClassVar[Mapping[str, str]]
    named: ClassVar[bool] = False

    def __init__(self, kernel: N.Kernel, block: N.Block, out: Source, names: Names) -> None:
        self.kernel = kernel
        self.out = out
        self.names = names
        self.start = Source()
        self.start.depth, self.start.stmt = 1, out.stmt
        self.values: dict[int, Expr] = {}
        self.types: dict[int, DType] = {}
        self._uses = uses(block)
        self.variables = Variables(block)
        # id of a statement -> the line that leaves the function after it, if nothing remains to do
        self.exits: dict[int, str] = {}
        # id of a value that is read once, in the open block -> whether the line that reads it does nothing else
        self._waiting: dict[int, bool] = {}
        self._pending: dict[int, N.Stmt] = {}  # id -> statement, for the waiting values that read memory
        self._writes: dict[int, bool] = {}

    # --- the language -----------------------------------------------------------------------------------------------

    def type_name(self, t: DType) -> str:
        return self.type_names[t.name]

    def typed(self, id: int) -> Expr:
        """A value as an expression of exactly its dtype's type."""
        return self.values[id]

    def inner(self, block: N.Block, out: Source) -> Body:
        """A `Body` for a function that this one calls; it emits into ``out``."""
        raise NotImplementedError

    def poll(self) -> None:
        """Emits what a loop that may run long has to do at the start of each trip, for instance look whether the
        launch was cancelled."""

    # --- values -----------------------------------------------------------------------------------------------------

    def set(self, id: int, t: DType, e: Expr) -> None:
        self.values[id] = e
        self.types[id] = t

    def define(self, s: N.Value, e: Expr, at_once: bool = False) -> None:
        """Sets the value of a statement to the expression ``e``. With ``at_once`` the value always gets a variable
        of its own, here."""
        self.types[s.id] = s.type
        if not at_once and not self.read(s.id):
            return
        self.values[s.id] = e
        alone = self._waiting.get(s.id)
        named = self.named and s.name and not alone
        if at_once or alone is None or named or (len(e.text) > LONGEST and not alone) or (alone and self._reusable(s)):
            self.assign(s, at_once)
            return
        self.variables.waiting.add(s.id)
        if e.memory:
            self._pending[s.id] = s

    def read(self, id: int) -> bool:
        """Whether any statement reads a value."""
        return bool(self._uses.get(id))

    def assign(self, s: N.Stmt, fresh: bool = False) -> None:
        """Assigns the value of a statement to a variable: a new one if ``fresh``, else one whose old value is never
        read again."""
        self._pending.pop(s.id, None)
        e, label, t = self.values[s.id], getattr(s, "name", ""), self.type_name(self.types[s.id])
        name = "" if fresh else self._reusable(s)
        self.variables.waiting.discard(s.id)
        self.variables.written(s)
        with self.owned(s.id):
            if name:
                self.out.put(X.assignment(name, e))
            elif self.read(s.id):
                name = self.names.local(label)
                self.out.declare(t, f"{name} = {e.assigned(t)}")
            else:
                self.out.put(f"{e.text};")
        if name:
            self.hold(name, s.id, label, t)

    def hold(self, name: str, id: int, label: str, t: str) -> None:
        """Records that the variable ``name`` holds the value ``id`` from here on. ``label``: the value's name in the
        user's program; ``t``: the variable's type."""
        self.values[id] = X.variable(name, t, assigned=True)
        self.variables.hold(name, id, label, t)

    def _reusable(self, s: N.Stmt) -> str:
        """The name of an existing variable that can hold the statement's value, else "". It is the variable that must
        hold the value in the end, or one with the same label from whose value this one is computed."""
        reads, label, t = self.variables.reads(s), getattr(s, "name", ""), self.type_name(self.types[s.id])
        home = self.variables.homes.get(s.id)
        names = [home] if home else sorted(self.values[s.id].reads)
        return next((n for n in names if (home or self.variables.called(n, label, t)) and self.free(n, reads)), "")

    def free(self, name: str, reads: Counter[int]) -> bool:
        """Whether a variable may be overwritten once the given reads are done."""
        return self.variables.free(name, reads)

    @contextmanager
    def owned(self, id: int) -> Iterator[None]:
        """Makes a context in which the emitted lines belong to the statement that defines the value ``id``."""
        s, out, owner, span = self.variables.stmts.get(id), self.out, self.out.stmt, self.out.span
        if s is not None:
            out.stmt, out.span = s.id, s.span or span
        yield
        out.stmt, out.span = owner, span

    def fix(self, e: Expr, name: str, t: str) -> Expr:
        """Returns ``e`` if it is a variable or a constant, else a new variable ``name`` of type ``t`` with its value.
        """
        if e.known is not None or (e.text.isidentifier() and not e.memory):
            return e
        self.out.put(f"{t} {name} = {e.assigned(t)};")
        return X.variable(name, t)

    @contextmanager
    def braces(self) -> Iterator[None]:
        """Makes a context whose emitted lines stand in braces, where names have a scope of their own."""
        with self.names.scope(), self.out.nest():
            yield

    # --- blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: N.Block, lines: bool = False) -> tuple[Expr, ...]:
        """Emits a block; returns the values of its Yield. ``lines``: each of these values gets its own line."""
        outer = self._waiting, self._pending
        self._waiting, self._pending = self._read_once_here(block, lines), {}
        out = self.out
        owner, span = out.stmt, out.span
        for stmt in block[:-1]:
            out.stmt, out.span = stmt.id, stmt.span or span
            if self.writes(stmt):
                self._assign_others(stmt)
            for i in stmt.operands():  # from here on, the operands are part of another expression
                self._pending.pop(i, None)
            if stmt.blocks():
                self.variables.written(stmt)
            self.handlers[type(stmt)](self, stmt)
            if not stmt.blocks() and stmt.id not in self.variables.waiting:
                self.variables.written(stmt)
        out.stmt, out.span = owner, span
        values = tuple(self.values[i] for i in end_of(block).values)
        self._waiting, self._pending = outer
        return values

    def _read_once_here(self, block: N.Block, lines: bool) -> dict[int, bool]:
        """The ids of the values that become part of the line that reads them, see the docstring of this module; for
        each, whether that line does nothing else."""
        readers: dict[int, list[N.Stmt]] = {}
        for s in block:
            for i in s.operands():
                readers.setdefault(i, []).append(s)
        found = {}
        for s in block:
            if self._uses.get(s.id) == 1 and len(readers.get(s.id, ())) == 1:
                (reader,) = readers[s.id]
                alone = lines if isinstance(reader, N.Yield) else s.id in getattr(reader, "inits", ())
                if alone or self._on_one_line(s, reader):
                    found[s.id] = alone
        return found

    def writes(self, s: N.Stmt) -> bool:
        """Whether the statement, or one in its blocks, writes memory or may end the thread."""
        known = self._writes.get(s.id)
        if known is None:
            known = isinstance(s, _WRITES) or any(self.writes(x) for b in s.blocks() for x in b)
            self._writes[s.id] = known
        return known

    def _assign_others(self, s: N.Stmt) -> None:
        own, changed = s.operands(), self.changed(s)
        for i, other in [*self._pending.items()]:
            if i not in own and (changed is None or changed in self.values[i].reads):
                self.assign(other)

    def _on_one_line(self, a: N.Stmt, b: N.Stmt) -> bool:
        """Whether both statements come from one source line; constants and values from adstacks may join any line."""
        kept = isinstance(a, N.Load) and self.kernel.buffers[a.buffer].kind in ("heap", "local")
        if isinstance(a, N.Const) or kept or a.span is None or b.span is None:
            return True
        return (a.span.file, a.span.line) == (b.span.file, b.span.line)

    def changed(self, s: N.Stmt) -> str | None:
        """The variable that a statement assigns, if it changes nothing else; "" if it changes nothing; None if it
        writes memory."""
        return None


def function(b: Body, name: str, f: N.Function) -> str:
    """The source text of a function of a lowered kernel."""
    out = Source()
    body = b.inner(f.body, out)
    with body.names.scope():
        names = [body.names.local(p.name) for p in f.params]
        for p, v in zip(f.params, names, strict=True):
            body.set(p.id, p.type, X.variable(v, b.type_name(p.type)))
        params = ", ".join(f"{b.type_name(p.type)} {v}" for p, v in zip(f.params, names, strict=True))
        out.put(f"{b.type_name(f.type)} {name}({params}) {{")
        with out.nest():
            body.block(f.body)
            out.put(f"return {body.typed(f.body[-1].operands()[0]).text};")
    out.put("}")
    return "\n".join(out.lines)
