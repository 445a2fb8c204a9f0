"""Emits the statements of a task's body as LLVM instructions: a table of handlers, and the state that they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any

from quadrants_lab.analysis.divergence import Divergence, counts_up
from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm import atomics, calls, control, memory, ops
from quadrants_lab.backends._llvm.lanes import Lanes
from quadrants_lab.backends._llvm.text import Function, constant, memory_type, ty
from quadrants_lab.backends.layout import WORD, FrameLayout
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import walk

_DIVIDES = ("quot", "rem")


class Unit:
    """What the functions of one module share. ``frame`` says where a launch frame keeps what."""

    def __init__(self, kernel: N.Kernel, options: CompileOptions, frame: FrameLayout) -> None:
        self.kernel = kernel
        self.options = options
        self.frame = frame
        self.scopes = memory.Scopes(kernel)
        self.ranges = Ranges(kernel)


class Body(Lanes, ABC):
    """Emits blocks into the function ``fn``, whose parameter %frame is the launch frame. A device's subclass says where
    buffers and stacks are.

    ``parallel``: other iterations of the task may run at the same time. ``width``: how many run in the lanes of this
    function, where ``found`` tells what differs.
    """

    polls = True  # whether long loops look at a cancel flag
    thread = "0"  # the number of the thread that runs this iteration

    def __init__(
        self, fn: Function, unit: Unit, parallel: bool, width: int = 1, found: Divergence | None = None
    ) -> None:
        super().__init__(fn, width, found or Divergence())
        self.unit = unit
        self.frame = unit.frame
        self.kernel = unit.kernel
        self.ranges = unit.ranges
        self.fast = ops.FAST if unit.options.fast_math else ""
        self.parallel = parallel
        self.stride = str(width)  # elements from one slot of an adstack to the next, with lanes an i64
        self.whole = "true"  # an i1: there are as many of these elements as lanes
        self._opened: dict[object, str] = {}
        self.own: dict[str, N.Buffer] = {}  # buffers of role "block" that are a variable of this function
        self.partials: dict[str, atomics.Partial] = {}
        self.exit = ""  # the label that ends the task's function early
        self.scratch_at = self.scratch_values = ""  # room for an address and a value of each lane
        self.apart: str | None = None  # where a group of iterations goes on whose sums go to several elements

    # --- what a device provides ---------------------------------------------------------------------------------

    @abstractmethod
    def address_at(self, offset: int) -> str:
        """The address that the frame holds at ``offset``, as a pointer to memory of the device."""

    @abstractmethod
    def first_slot(self, b: N.Buffer, at: int) -> str:
        """Address of this thread's first slot of a stack. The frame has the stack's place in the heap at ``at``."""

    @abstractmethod
    def poll(self) -> None:
        """Leaves the task when the launch was cancelled. It is emitted on the back edges of loops."""

    @abstractmethod
    def builtin(self, what: str) -> str:
        """The value of an `N.Builtin`, an i64."""

    def sums(self, buffer: str) -> tuple[str, str]:
        """How an atomic on the buffer runs: an i1 that is true where no other thread changes the element meanwhile ("":
        not known), and the address of element 0 ("": the buffer's own)."""
        return "", ""

    # --- what the function reads from the frame once, in its entry block ----------------------------------------

    def opened(self, key: object, make: Callable[[], str]) -> str:
        """The value of that key, which the first call makes."""
        if key not in self._opened:
            self._opened[key] = make()
        return self._opened[key]

    def open(self, *blocks: N.Block) -> None:
        """Reads everything that the blocks need from the frame."""
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
        """Reads what an access to the buffer with ``rank`` indices needs."""
        self.pointer(buffer)
        if buffer in self.frame.extents:
            for axis in range(1, rank):
                self.extent(buffer, axis)

    def at(self, offset: int) -> str:
        """Address of a word of the frame."""
        return self.fn.at(offset)

    def word(self, offset: int, type: str = "i64") -> str:
        return self.fn.word(offset, type)

    def pointer(self, buffer: str) -> str:
        """Address of the buffer's first element."""
        found = self.own.get(buffer) or self.kernel.buffers[buffer]
        return self.opened(("pointer", buffer), lambda: self._address(found))

    def _address(self, b: N.Buffer) -> str:
        if b.kind == "local":
            return self.local(b)
        if b.kind == "private":
            return self.fn.alloca(f"[{prod(b.shape or ())} x {memory_type(b.dtype)}]")
        if b.kind == "shared":
            return self.of_block(b)
        at, whole = self.frame.buffers[b.of or b.name], self.kernel.buffers[b.of or b.name]
        if b.kind == "heap":
            return self.first_slot(b, at)
        return self.in_frame(at) if whole.in_frame else self.address_at(at)

    def of_block(self, b: N.Buffer) -> str:
        """Address of memory that the threads of one block share."""
        return self.fn.let(f"alloca [{prod(b.shape or ())} x {memory_type(b.dtype)}], align 64")

    def local(self, b: N.Buffer) -> str:
        """Address of a new variable of the iteration."""
        return self.fn.alloca(memory.variable_type(b.dtype, self.width if b.name in self.per_lane else 1))

    def in_frame(self, at: int) -> str:
        """Address of a buffer that lies in the frame itself."""
        return self.at(at)

    def extent(self, buffer: str, axis: int) -> str:
        """Extent of an ndarray along an axis, as an i64."""
        return self.opened((buffer, axis), lambda: self.word(self.frame.extents[buffer] + axis * WORD))

    def arg(self, name: str, t: DType) -> str:
        """Value of a scalar argument."""
        return self.opened(("argument", name), lambda: memory.read(self, t, self.at(self.frame.args[name])))

    # --- shared by the handlers ---------------------------------------------------------------------------------

    def tag(self, buffer: N.Buffer) -> str:
        """The alias metadata of an access to the buffer."""
        return self.unit.scopes.tag(buffer.name)

    def operate(self, prim: str, type: DType, a: str, b: str, flags: str | None = None, lanes: int = 1) -> str:
        """Emits a binary primitive on values that have no id in the IR."""
        t = ty(type, lanes)
        return ops.emit(self.fn, prim, t, (t, t), (a, b), (None, None), self.fast if flags is None else flags)

    def block(self, block: N.Block, takers: tuple[N.Param, ...] | None = None) -> tuple[str, ...]:
        """Emits a block; returns the values that its Yield hands to the ``takers``."""
        outer, self.offsets = self.offsets, dict(self.offsets)
        owner = self.fn.stmt
        for stmt in block[:-1]:
            self.fn.stmt = stmt.id
            self.statement(stmt)
        last = block[-1]
        if type(last) is not N.Yield:
            raise TypeError(f"a block ends in {type(last).__name__}; exits must be structured before emission")
        values = tuple(self.values[i] for i in last.values) if takers is None else self.given(takers, last.values)
        self.offsets = outer
        self.fn.stmt = owner
        return values

    def statement(self, stmt: N.Stmt) -> None:
        HANDLERS[type(stmt)](self, stmt)


def _op(b: Body, s: N.Op) -> None:
    if b.linear and counts_up(s, b.linear, b.divergent):
        # the first lane may take no part, so the ranges of the operands do not hold for it
        x, y = (b.values[i] for i in s.args)
        b.define(s.id, s.type, b.operate(s.prim, s.type, x, y))
        b.linear.add(s.id)
        return
    lanes = b.lanes(s.id)
    types = tuple(ty(b.types[i], lanes) for i in s.args)
    args = tuple(b.value(i, lanes) for i in s.args)
    known = tuple(map(b.ranges.range, s.args))
    if lanes > 1 and s.prim in _DIVIDES and not b.uniform(s.args[1]):
        # a lane that takes no part may hold 0 or poison
        args = args[0], b.select(b.mask, args[1], constant(types[1], 1), types[1].dtype)
    if lanes > 1 and ops.is_library(s.prim, types[0].dtype):
        value = calls.lane_by_lane(b, s.prim, ty(s.type, lanes), args)
    else:
        value = ops.emit(b.fn, s.prim, ty(s.type, lanes), types, args, known, b.fast)
    b.define(s.id, s.type, value)


def _shape(b: Body, s: N.ShapeOf) -> None:
    wide = b.extent(s.buffer, s.axis)
    value = wide if s.type.bits == 64 else b.fn.let(f"trunc nuw nsw i64 {wide} to {ty(s.type).text}")
    b.define(s.id, s.type, value)


def _builtin(b: Body, s: N.Builtin) -> None:
    value = b.builtin(s.what)
    b.define(s.id, s.type, value if b.uniform(s.id) else b.count_up(value, s.type))


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: lambda b, s: b.define(s.id, s.type, constant(ty(s.type), s.value)),
    N.Op: _op,
    N.Call: calls.call,
    N.ArgLoad: lambda b, s: b.define(s.id, s.type, b.arg(s.arg, s.type)),
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: atomics.atomic,
    N.ThreadExit: lambda b, s: None,  # `control.if_` emits the jump
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.define(s.id, s.type, b.thread if b.uniform(s.id) else b.numbers(s.type)),
    # on a GPU lowerings leave none of these
    N.Assert: lambda b, s: b.check(s),
    N.Print: lambda b, s: b.print(s),
    N.Overflow: lambda b, s: b.overflow(s),
}
