"""Emits the statements of a task's body as LLVM instructions: a table of handlers, and the state that they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any

from quadrants_lab.analysis.ranges import Ranges
from quadrants_lab.backends._llvm import control, memory, ops
from quadrants_lab.backends._llvm.text import Function, Ty, constant, memory_type, ty
from quadrants_lab.backends.layout import WORD, FrameLayout
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.options import CompileOptions
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import walk

INLINED = 24  # the most statements of a function that is inlined, since a call costs about as much


class Unit:
    """What the functions of one module share. ``frame`` says where a launch frame keeps what."""

    def __init__(self, kernel: N.Kernel, options: CompileOptions, frame: FrameLayout) -> None:
        self.kernel = kernel
        self.options = options
        self.frame = frame
        self.scopes = memory.Scopes(kernel)
        self.ranges = Ranges(kernel)


class Body(ABC):
    """Emits blocks into the function ``fn``, whose parameter %frame is the launch frame. A device's subclass says where
    buffers and stacks are.

    ``values`` maps ids to the text of their value, ``types`` to their dtype. ``parallel``: other iterations of the task
    may run at the same time. ``lanes`` is the number of iterations that one value holds.
    """

    lanes = 1
    polls = True  # whether long loops look at a cancel flag
    thread = "0"  # the number of the thread that runs this iteration
    stride = ""  # elements from one slot of an adstack to the next

    def __init__(self, fn: Function, unit: Unit, parallel: bool) -> None:
        self.fn = fn
        self.unit = unit
        self.frame = unit.frame
        self.kernel = unit.kernel
        self.ranges = unit.ranges
        self.fast = ops.FAST if unit.options.fast_math else ""
        self.parallel = parallel
        self.values: dict[int, str] = {}
        self.types: dict[int, DType] = {}
        self.offsets: dict[tuple[Any, ...], str] = {}  # see `once`; most are offsets of elements
        self._opened: dict[object, str] = {}
        self.own: dict[str, N.Buffer] = {}  # buffers of role "block" that are a variable of this function
        self.partials: dict[str, memory.Partial] = {}
        self.exit = ""  # the label that ends the task's function early

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
        return self.fn.alloca(memory_type(b.dtype))

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

    def once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        """The value of that key, which the first call in this block or one around it makes."""
        made = self.offsets.get(key)
        if made is None:
            made = self.offsets[key] = make()
        return made

    def type_of(self, id: int) -> Ty:
        return ty(self.types[id], self.lanes)

    def define(self, id: int, type: DType, value: str) -> None:
        self.values[id] = value
        self.types[id] = type

    def tag(self, buffer: N.Buffer) -> str:
        """The alias metadata of an access to the buffer."""
        return self.unit.scopes.tag(buffer.name)

    def operate(self, prim: str, type: DType, a: str, b: str, flags: str | None = None) -> str:
        """Emits a binary primitive on values that have no id in the IR."""
        t = ty(type, self.lanes)
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

    def given(self, takers: tuple[N.Param, ...], ids: tuple[int, ...]) -> tuple[str, ...]:
        """Values in the form in which these parameters or results take them."""
        return tuple(self.values[i] for i in ids)

    def type_of_param(self, p: N.Param) -> Ty:
        return ty(p.type, self.lanes)


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.type_of(i) for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    known = tuple(map(b.ranges.range, s.args))
    b.define(s.id, s.type, ops.emit(b.fn, s.prim, ty(s.type, b.lanes), types, args, known, b.fast))


def _shape(b: Body, s: N.ShapeOf) -> None:
    wide = b.extent(s.buffer, s.axis)
    value = wide if s.type.bits == 64 else b.fn.let(f"trunc nuw nsw i64 {wide} to {ty(s.type).text}")
    b.define(s.id, s.type, value)


def _call(b: Body, s: N.Call) -> None:
    symbol = f"qd.{s.function}"
    if symbol not in b.fn.module.defined:
        _define(b, b.kernel.functions[s.function], symbol)
    args = ((ty(b.types[i]).text, b.values[i]) for i in s.args)
    b.define(s.id, s.type, b.fn.call(ty(s.type).text, symbol, *args))


def _define(caller: Body, f: N.Function, symbol: str) -> None:
    """Makes a function of the kernel one of the module, without fast-math flags: some of its sums compute the rounding
    errors of other sums."""
    names = [f"%p{n}" for n in range(len(f.params))]
    params = ", ".join(f"{ty(p.type).text} {x}" for p, x in zip(f.params, names, strict=True))
    b = copy(caller)
    inline = " alwaysinline nounwind" if sum(1 for _ in walk(f.body)) <= INLINED else ""
    b.fn = caller.fn.module.function(symbol, f"define internal {ty(f.type).text} @{symbol}({params}){inline}")
    b.values, b.types, b.offsets, b.fast, b.polls = {}, {}, {}, "", False
    b.ranges = Ranges(replace(b.kernel, body=f.body))
    for p, x in zip(f.params, names, strict=True):
        b.define(p.id, p.type, x)
    (value,) = b.block(f.body)
    b.fn.put(f"ret {ty(f.type).text} {value}")
    b.fn.module.helper(symbol, "\n".join([*b.fn.lines, "}"]))


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: lambda b, s: b.define(s.id, s.type, constant(ty(s.type, b.lanes), s.value)),
    N.Op: _op,
    N.Call: _call,
    N.ArgLoad: lambda b, s: b.define(s.id, s.type, b.arg(s.arg, s.type)),
    N.ShapeOf: _shape,
    N.Builtin: lambda b, s: b.define(s.id, s.type, b.builtin(s.what)),
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: memory.atomic,
    N.ThreadExit: lambda b, s: None,  # `control.if_` emits the jump
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.define(s.id, s.type, b.thread),
}
