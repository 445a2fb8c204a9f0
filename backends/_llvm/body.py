"""Statements of a task's body to instructions: the table of handlers, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm import calls, control, memory, ops
from quadrants_lab.backends._llvm.text import Function, Ty, constant, memory_type, ty
from quadrants_lab.backends.layout import WORD, FrameLayout
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import walk


class Body(ABC):
    """Emits blocks into ``fn``, whose parameter %frame has its words as ``frame`` says. A device subclasses it and says
    where buffers and stacks are.

    ``values`` maps ids to the text of their value, ``types`` to their dtype; ``ranges``: what is known of integers.
    ``parallel``: other iterations of the task may run at the same time. ``lanes`` is the number of iterations that one
    value holds.
    """

    lanes = 1
    polls = True  # whether long loops look at a cancel flag
    thread = "0"  # number of the lane that runs this iteration
    stride = ""  # how many elements on the next slot of an adstack is

    def __init__(
        self, fn: Function, kernel: N.Kernel, options: CompileOptions, frame: FrameLayout, parallel: bool,
        scopes: memory.Scopes, ranges: Ranges,
    ) -> None:  # fmt: skip
        self.fn = fn
        self.frame = frame
        self.scopes = scopes
        self.kernel = kernel
        self.fast = ops.FAST if options.fast_math else ""
        self.parallel = parallel
        self.values: dict[int, str] = {}
        self.types: dict[int, DType] = {}
        self.ranges = ranges
        self.offsets: dict[tuple[Any, ...], str] = {}  # of elements, computed in this block or one around it
        self._opened: dict[object, str] = {}
        self.own: dict[str, N.Buffer] = {}  # memory of blocks, of which this function has one block's part alone
        self.partials: dict[str, memory.Partial] = {}
        self.exit = ""  # the label that ends the task's function early

    # --- what a device provides ---------------------------------------------------------------------------------

    @abstractmethod
    def address_at(self, offset: int) -> str:
        """A pointer to memory of the device that the frame holds."""

    @abstractmethod
    def first_slot(self, b: N.Buffer, at: int) -> str:
        """Address of this thread's first slot of a stack, whose place in the heap the frame has at ``at``."""

    @abstractmethod
    def poll(self) -> None:
        """Leaves the task when the launch was cancelled; stands on loop back-edges."""

    @abstractmethod
    def builtin(self, what: str) -> str:
        """What the device tells, an i64: see `N.Builtin`."""

    def sums(self, buffer: str) -> tuple[str, str]:
        """For atomics on a buffer: an i1 that says whether this thread alone changes its elements meanwhile ("": not
        known), and the address of element 0 ("": the buffer's own)."""
        return "", ""

    # --- what comes from the frame, read once, when the function begins -----------------------------------------

    def opened(self, key: object, make: Callable[[], str]) -> str:
        if key not in self._opened:
            self._opened[key] = make()
        return self._opened[key]

    def open(self, *blocks: N.Block) -> None:
        """Reads what the blocks need from the frame."""
        for block in blocks:
            for s in walk(block):
                self.prepare(s)

    def prepare(self, s: N.Stmt) -> None:
        """Reads what the statement needs."""
        if isinstance(s, N.Access):
            self.reach(s.buffer, len(s.index))
        elif isinstance(s, N.ShapeOf):
            self.extent(s.buffer, s.axis)
        elif isinstance(s, N.ArgLoad):
            self.arg(s.arg, s.type)

    def reach(self, buffer: str, rank: int) -> None:
        """Reads what an access with so many indices needs."""
        self.pointer(buffer)
        if buffer in self.frame.extents:
            for axis in range(1, rank):
                self.extent(buffer, axis)

    def at(self, offset: int) -> str:
        """Address of a word of the frame."""
        return self.fn.let(f"getelementptr inbounds i8, ptr %frame, i64 {offset}")

    def word(self, offset: int, type: str = "i64") -> str:
        return self.fn.let(f"load {type}, ptr {self.at(offset)}")

    def pointer(self, buffer: str) -> str:
        """Address of the buffer's first element."""
        found = self.own.get(buffer) or self.kernel.buffers[buffer]
        return self.opened(("pointer", buffer), lambda: self._begin(found))

    def _begin(self, b: N.Buffer) -> str:
        if b.kind == "local":
            return self.local(b)
        if b.kind == "shared":
            return self.of_block(b)
        at, whole = self.frame.buffers[b.of or b.name], self.kernel.buffers[b.of or b.name]
        if b.kind == "heap":
            return self.first_slot(b, at)
        return self.held(at) if whole.in_frame else self.address_at(at)

    def of_block(self, b: N.Buffer) -> str:
        """Address of a block's part of what its threads share."""
        return self.fn.let(f"alloca [{prod(b.shape or ())} x {memory_type(b.dtype)}], align 64")

    def local(self, b: N.Buffer) -> str:
        """Address of a new variable of the iteration."""
        return self.fn.alloca(memory_type(b.dtype))

    def held(self, at: int) -> str:
        """Address of a buffer in the frame."""
        return self.at(at)

    def extent(self, buffer: str, axis: int) -> str:
        """Extent of an ndarray along an axis, as an i64."""
        return self.opened((buffer, axis), lambda: self.word(self.frame.extents[buffer] + axis * WORD))

    def arg(self, name: str, t: DType) -> str:
        """Value of a scalar argument."""
        return self.opened(("argument", name), lambda: memory.read(self, t, self.at(self.frame.args[name])))

    # --- shared by the handlers ---------------------------------------------------------------------------------

    def type_of(self, id: int) -> Ty:
        return ty(self.types[id], self.lanes)

    def define(self, id: int, type: DType, value: str) -> None:
        self.values[id] = value
        self.types[id] = type

    def tag(self, buffer: N.Buffer) -> str:
        """What an access to the buffer says about what it does not overlap."""
        return self.scopes.tag(buffer.name)

    def operate(self, prim: str, type: DType, a: str, b: str, flags: str | None = None) -> str:
        """A binary primitive on values that are not in the IR."""
        t = ty(type, self.lanes)
        return ops.emit(self.fn, prim, t, (t, t), (a, b), (None, None), self.fast if flags is None else flags)

    def block(self, block: N.Block, takers: tuple[N.Param, ...] | None = None) -> tuple[str, ...]:
        """Emits a block; returns the values that its Yield hands on, as the ``takers`` take them."""
        outer, self.offsets = self.offsets, dict(self.offsets)
        owner = self.fn.stmt
        for stmt in block[:-1]:
            self.fn.stmt = stmt.id
            self.statement(stmt)
        last = block[-1]
        if not isinstance(last, N.Yield) or type(last) is not N.Yield:
            raise TypeError(
                f"a block ends in {type(last).__name__}; exits must be structured before emission"
            )
        values = tuple(self.values[i] for i in last.values) if takers is None else self.given(takers, last.values)
        self.offsets = outer
        self.fn.stmt = owner
        return values

    def statement(self, stmt: N.Stmt) -> None:
        HANDLERS[type(stmt)](self, stmt)

    def given(self, takers: tuple[N.Param, ...], ids: tuple[int, ...]) -> tuple[str, ...]:
        """Values as these parameters and results take them."""
        return tuple(self.values[i] for i in ids)

    def type_of_param(self, p: N.Param) -> Ty:
        return ty(p.type, self.lanes)


def _const(b: Body, s: N.Const) -> None:
    b.define(s.id, s.type, constant(ty(s.type, b.lanes), s.value))


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.type_of(i) for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    known = tuple(map(b.ranges.range, s.args))
    b.define(s.id, s.type, ops.emit(b.fn, s.prim, ty(s.type, b.lanes), types, args, known, b.fast))


def _arg(b: Body, s: N.ArgLoad) -> None:
    b.define(s.id, s.type, b.arg(s.arg, s.type))


def _shape(b: Body, s: N.ShapeOf) -> None:
    wide = b.extent(s.buffer, s.axis)
    value = wide if s.type.bits == 64 else b.fn.let(f"trunc nuw nsw i64 {wide} to {ty(s.type).text}")
    b.define(s.id, s.type, value)


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: _const,
    N.Op: _op,
    N.Call: calls.call,
    N.ArgLoad: _arg,
    N.ShapeOf: _shape,
    N.Builtin: lambda b, s: b.define(s.id, s.type, b.builtin(s.what)),
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: memory.atomic,
    N.Leave: lambda b, s: None,  # the If that it stands in does it
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.define(s.id, s.type, b.thread),
}
