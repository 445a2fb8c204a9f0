"""Statements to lines: the table of handlers, and what they share.

A value that is read once, in the block that defines it, becomes part of the expression that reads it; every other one
becomes a variable. An expression that reads memory is given a variable before anything writes memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._msl import calls, control, failures, memory, names, ops, stacks
from quadrants_lab.backends._msl import expr as X
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.frame import FrameStruct, stored
from quadrants_lab.backends._msl.helpers import Helper, Library
from quadrants_lab.backends._msl.source import Source
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u1, u32
from quadrants_lab.ir.walk import uses, walk

LONGEST = 80  # characters of an expression that waits to become part of another
_WRITES = (N.Store, N.Atomic, N.Assert, N.Print, N.Overflow)


class Body:
    """Emits blocks of one program into ``out``; ``start`` holds what stands in front of them.

    ``values`` maps ids to expressions, ``types`` to dtypes. ``number``: of the task. ``parallel``: other iterations of
    the task may run at the same time. ``asserts``: whether the user's asserts are evaluated; checks always are.
    """

    def __init__(
        self, block: N.Block, number: int, frame: FrameStruct, library: Library, out: Source, parallel: bool,
        asserts: bool,
    ) -> None:  # fmt: skip
        self.frame = frame
        self.library = library
        self.out = out
        self.number = number
        self.parallel = parallel
        self.asserts = asserts
        self.start: list[str] = []
        self.values: dict[int, Expr] = {}
        self.types: dict[int, DType] = {}
        self.partials: dict[str, memory.Partial] = {}
        self.chunks = stacks.chunks(frame.kernel)
        self.locals: dict[str, str] = {}  # buffer -> variable
        self.row: list[Expr] = []  # values of a slot that are to be stored with others
        self.whole: dict[tuple[str, int], str] = {}  # first buffer of a chunk, slot -> variable with all of the slot
        self.index: dict[int, str] = {}  # slot -> variable with the place of its element
        self.lane = "0"  # number of this thread
        self.iteration = "0"  # number of the parallel iteration within its task
        self._uses = uses(block)
        self._names: dict[int, str] = {}
        for s in walk(block):
            if isinstance(s, N.Value):
                self._names[s.id] = s.name
        self._started: dict[object, str] = {}
        self._waiting: frozenset[int] = frozenset()  # read once, in the open block
        self._pending: dict[int, N.Stmt] = {}  # of these, what reads memory and has no variable yet
        self._writes: dict[int, bool] = {}
        self._counts: dict[str, int] = {}

    # --- what stands in front ---------------------------------------------------------------------------------------

    def once(self, name: str, type: str, text: str) -> str:
        """A variable that is set when the program starts; returns its name."""
        if name not in self._started:
            self._started[name] = name
            before = self.start[-1] if self.start else ""
            if type == "uint" and before.startswith("uint ") and len(before) < LONGEST:
                self.start[-1] = f"{before[:-1]}, {name} = {text};"
            else:
                self.start.append(f"{type} {name} = {text};")
        return name

    def pointer(self, b: N.Buffer) -> str:
        """The variable with the address of a field or ndarray."""
        address = self.frame.buffer(b)
        return self.once(address[2:], f"device {stored(b)}*", address)

    def extent(self, b: N.Buffer, axis: int) -> Expr:
        """A variable with an extent of an ndarray, a long."""
        shape = self.frame.shape(b)
        name = self.once(self.frame.names.of(f"{b.name}.extent{axis}"), "long", f"{shape}[{axis}]")
        return X.variable(name, "long")

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
        t = X.name(self.types[s.id])
        name = names.of_value(self._names[s.id], s.id)
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

    def typed(self, id: int) -> Expr:
        """A value as an expression of exactly its dtype's type."""
        return X.as_type(self.values[id], X.name(self.types[id]))

    def operate(self, prim: str, out: DType, type: DType, *args: Expr) -> Expr:
        """A primitive on values of one dtype that are not in the IR."""
        return ops.emit(self.library, prim, out, (type,) * len(args), args)

    def count(self, what: str) -> int:
        """0, 1, 2, ...: how often it was asked of this."""
        self._counts[what] = self._counts.get(what, -1) + 1
        return self._counts[what]

    def helper(self, name: str, own: Helper | None = None) -> str:
        """Includes a helper of the table, or one of the caller's own."""
        return self.library.need(name) if own is None else self.library.add(name, own)

    # --- blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: N.Block) -> tuple[Expr, ...]:
        """Emits a block; returns the values that its Yield hands on."""
        outer = self._waiting, self._pending, self.whole, self.index
        self._waiting, self._pending, self.whole, self.index = self._read_once_here(block), {}, {}, {}
        out = self.out
        owner, span = out.stmt, out.span
        for stmt in block[:-1]:
            out.stmt, out.span = stmt.id, stmt.span or span
            if self.writes(stmt):
                self._settle_others(stmt)
            for i in stmt.operands():  # part of another expression from here on
                self._pending.pop(i, None)
            HANDLERS[type(stmt)](self, stmt)
        last = block[-1]
        if type(last) is not N.Yield:
            raise TypeError(f"a block ends in {type(last).__name__}; exits must be structured before emission")
        out.stmt, out.span = owner, span
        values = tuple(self.values[i] for i in last.values)
        self._waiting, self._pending, self.whole, self.index = outer
        return values

    def _read_once_here(self, block: N.Block) -> frozenset[int]:
        here: dict[int, int] = {}
        for s in block:
            for i in s.operands():
                here[i] = here.get(i, 0) + 1
        return frozenset(i for i, n in here.items() if n == 1 and self._uses[i] == 1)

    def writes(self, s: N.Stmt) -> bool:
        """Whether the statement, or one in its blocks, writes memory or may end the thread."""
        known = self._writes.get(s.id)
        if known is None:
            known = isinstance(s, _WRITES) or any(self.writes(x) for b in s.blocks() for x in b)
            self._writes[s.id] = known
        return known

    def _settle_others(self, s: N.Stmt) -> None:
        own, changed = s.operands(), self._changed(s)
        for i, other in [*self._pending.items()]:
            if i not in own and (changed is None or changed in self.values[i].reads):
                self.settle(other)

    def _changed(self, s: N.Stmt) -> str | None:
        """The one variable that a statement writes; "" where it writes nothing yet; None where it writes memory."""
        if not isinstance(s, N.Store):
            return None
        if self.frame.kernel.buffers[s.buffer].kind == "local":
            return self.locals.get(s.buffer, "")
        return "" if s.buffer in self.chunks and self.chunks[s.buffer].buffers[-1] != s.buffer else None


def _const(b: Body, s: N.Const) -> None:
    b.set(s.id, s.type, X.literal(s.type, s.value))


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.types[i] for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    if s.prim == "min" and s.type is u32:  # of which MSL has its own without doubt about the operands' types
        e = X.call("min", "uint", *args)
    else:
        e = ops.emit(b.library, s.prim, s.type, types, args)
    b.define(s, e if e.known is None else replace(e, known=None))


def _arg(b: Body, s: N.ArgLoad) -> None:
    at = b.frame.layout.frame.args[s.arg]
    if b.frame.stack_place(at) >= 0:
        stacks.argument(b, s, at)
        return
    member = b.frame.arg(s.arg, s.type)
    text = f"{member} != 0" if s.type is u1 else member
    b.set(s.id, s.type, X.variable(b.once(member[2:], X.name(s.type), text), X.name(s.type)))


def _shape(b: Body, s: N.ShapeOf) -> None:
    buffer = b.frame.kernel.buffers[s.buffer]
    if buffer.shape is not None:
        b.set(s.id, s.type, X.literal(s.type, buffer.shape[s.axis]))
    else:
        b.set(s.id, s.type, X.as_type(b.extent(buffer, s.axis), X.name(s.type)))


def _builtin(b: Body, s: N.Builtin) -> None:
    at = {"seed": L.SEED, "launch": L.LAUNCH}
    text = b.frame.head(at[s.what]) if s.what in at else f"ulong({b.iteration})"
    b.set(s.id, s.type, X.variable(text, "ulong"))


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: _const,
    N.Op: _op,
    N.Call: calls.call,
    N.ArgLoad: _arg,
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: memory.atomic,
    N.Assert: failures.check,
    N.Print: failures.print_,
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.set(s.id, s.type, X.variable(b.lane, "uint")),
    N.Overflow: stacks.overflow,
}
