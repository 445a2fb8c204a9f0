"""The IR: structured, typed SSA.

A block is a tuple of statements; `For`, `While`, `If` and `Offload` own blocks. Every statement has an id of its
own, which is also the id of the value that it defines, if it defines one. Parameters and results of structured
statements are `Param`s with ids of their own. Operands are ids. Ids are stable across passes: a pass that replaces
one statement by another of the same meaning keeps its id, so users need no rewriting.

Statements are treated as immutable: a pass makes new ones (`dataclasses.replace`) and hands on unchanged blocks by
identity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from quadrants_lab.ir.sizeexpr import SizeExpr
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, i32, i64

NO_ID = -1


def buffer_name(text: str) -> str:
    """What the program calls a buffer, as its name: without brackets, which stand for an index (``v[0]`` is ``v.0``)
    and separators."""
    return re.sub(r"[\[\],:\s]+", ".", text).strip(".")


@dataclass(slots=True)
class Param:
    """A value that a block or structured statement defines: loop index, carried value or result."""

    id: int
    type: DType
    name: str = ""


@dataclass(slots=True)
class Stmt:
    """Base of all statements.

    ``span``: the source it came from (what a pass invents points at what it came from). ``adjoint_of``: in reverse
    code, the id of the forward statement that this one is the adjoint of (or, where the reverse recomputes a launch
    temporary, of the forward statement that it repeats).
    """

    id: int
    span: Span | None = field(default=None, kw_only=True)
    adjoint_of: int = field(default=NO_ID, kw_only=True)

    def operands(self) -> tuple[int, ...]:
        """Ids that this statement itself reads; what its blocks read is not included."""
        return ()

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return self

    def blocks(self) -> tuple[Block, ...]:
        return ()

    def with_blocks(self, blocks: tuple[Block, ...]) -> Stmt:
        return self

    def defs(self) -> tuple[tuple[int, DType], ...]:
        """Values visible after this statement."""
        return ()

    def params(self) -> tuple[Param, ...]:
        """Values visible only inside this statement's blocks."""
        return ()


Block = tuple[Stmt, ...]


@dataclass(slots=True)
class Value(Stmt):
    """A statement that defines exactly one value, of dtype ``type``; ``name`` is the user's variable, if any."""

    type: DType
    name: str = field(default="", kw_only=True)

    def defs(self) -> tuple[tuple[int, DType], ...]:
        return ((self.id, self.type),)


@dataclass(slots=True)
class Const(Value):
    value: Any  # bool, int or float of Python; floats are exact in `type`


@dataclass(slots=True)
class Op(Value):
    """A scalar primitive (a row of `prims.PRIMS`) applied to values."""

    prim: str
    args: tuple[int, ...]

    def operands(self) -> tuple[int, ...]:
        return self.args

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, args=ids)


@dataclass(slots=True)
class ArgLoad(Value):
    """The scalar kernel argument named ``arg``: uniform over a launch."""

    arg: str


@dataclass(slots=True)
class ShapeOf(Value):
    """The extent of an ndarray buffer along ``axis`` (i32, i64 of a wide one): uniform over a launch."""

    buffer: str
    axis: int


@dataclass(slots=True)
class Random(Value):
    """A counter-based draw for call site ``site``; dtype f32/f64: uniform in [0, 1), integers: all bits."""

    site: int


@dataclass(slots=True)
class Load(Value):
    """Global load of ``buffer[index]``; one index value an axis."""

    buffer: str
    index: tuple[int, ...]

    def operands(self) -> tuple[int, ...]:
        return self.index

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, index=ids)


@dataclass(slots=True)
class Store(Stmt):
    buffer: str
    index: tuple[int, ...]
    value: int

    def operands(self) -> tuple[int, ...]:
        return (*self.index, self.value)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, index=ids[:-1], value=ids[-1])


@dataclass(slots=True)
class Atomic(Value):
    """``buffer[index] op= value``, atomically; defines the old value.

    ``op``: add, sub, mul, min, max, and, or, xor, exchange; or cas, which exchanges only where the element is
    ``expected``. ``private``: no other iteration of the task touches this element, so a plain read-modify-write will
    do. ``reach``: other iterations may, but only those whose first index is at most so far from this one's; -1 where
    that is not known. ``sweep``, where it is not 0: any iterations may do this before all else that they do, for what
    it needs can be computed again; and those of one row meet in no atomic of the same number.
    """

    op: str
    buffer: str
    index: tuple[int, ...]
    value: int
    expected: int = field(default=NO_ID, kw_only=True)
    private: bool = field(default=False, kw_only=True)
    reach: int = field(default=-1, kw_only=True)
    sweep: int = field(default=0, kw_only=True)

    def operands(self) -> tuple[int, ...]:
        return (*self.index, self.value) if self.op != "cas" else (*self.index, self.value, self.expected)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        n = len(self.index)
        return replace(self, index=ids[:n], value=ids[n], expected=ids[n + 1] if self.op == "cas" else NO_ID)


@dataclass(slots=True)
class Assert(Stmt):
    """Error at the next entry when ``cond`` (u1) is false; ``args`` fill the ``{}`` and ``{:spec}`` of ``message``.

    ``kind`` is "assert" (the user's, or check_out_of_bound's with kind "bounds", division's with "division").
    """

    cond: int
    message: str
    args: tuple[int, ...]
    kind: str = field(default="assert", kw_only=True)

    def operands(self) -> tuple[int, ...]:
        return (self.cond, *self.args)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, cond=ids[0], args=ids[1:])


@dataclass(slots=True)
class Print(Stmt):
    """Print ``parts`` in order: text as it is, ids as values; a newline is part of the text.

    ``specs``: the format specification of each value as Python has them ("" for none), or () where none has one.
    """

    parts: tuple[str | int, ...]
    specs: tuple[str, ...] = ()

    def pieces(self) -> Iterator[tuple[str | int, str]]:
        """The parts, each with its specification."""
        specs = iter(self.specs)
        for p in self.parts:
            yield p, next(specs, "") if isinstance(p, int) else ""

    def operands(self) -> tuple[int, ...]:
        return tuple(p for p in self.parts if isinstance(p, int))

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        it = iter(ids)
        return replace(self, parts=tuple(next(it) if isinstance(p, int) else p for p in self.parts))


# --- adstacks: typed stacks of primal values, one a parallel iteration in flight -------------------------------


@dataclass(slots=True)
class AdStackAlloca(Stmt):
    """An adstack of ``type``, empty at the start of every parallel iteration; stands at the top of a task's body.

    ``primal`` is the id of the forward value kept there, ``name`` its variable, ``reason`` says in words which use
    made it necessary. ``size`` is its capacity in slots once `determine_ad_stack_size` ran. ``count_only``: pushes
    only count (the counting slice).
    """

    type: DType
    name: str = field(default="", kw_only=True)
    primal: int = field(default=NO_ID, kw_only=True)
    reason: str = field(default="", kw_only=True)
    size: SizeExpr | None = field(default=None, kw_only=True)
    count_only: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class AdStackPush(Stmt):
    stack: int
    value: int

    def operands(self) -> tuple[int, ...]:
        return (self.value,)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, value=ids[0])


@dataclass(slots=True)
class AdStackPop(Stmt):
    stack: int


@dataclass(slots=True)
class AdStackLoadTop(Value):
    stack: int


@dataclass(slots=True)
class AdStackLoadTopAdj(Value):
    stack: int


@dataclass(slots=True)
class AdStackAccAdjoint(Stmt):
    stack: int
    value: int

    def operands(self) -> tuple[int, ...]:
        return (self.value,)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, value=ids[0])


@dataclass(slots=True)
class AdStackDepth(Value):
    """How many slots the stack holds right now (i64); the counting slice reports with it."""

    stack: int


@dataclass(slots=True)
class AdStackGuard(Stmt):
    """Between forward slice and reverse: a lane over capacity on any stack of the task sets the overflow flag and
    skips ``body``, the reverse. An empty one in there stands behind each segment of a checkpointed loop, which pushes
    in the reverse: it sets the flag."""

    body: Block

    def blocks(self) -> tuple[Block, ...]:
        return (self.body,)

    def with_blocks(self, blocks: tuple[Block, ...]) -> Stmt:
        return replace(self, body=blocks[0])


# --- what adstacks are lowered to (backends/lower/adstacks), besides loads and stores -------------------------------


@dataclass(slots=True)
class Lane(Value):
    """The number of the thread or vector lane that runs this iteration, among those that run at a time."""


@dataclass(slots=True)
class Overflow(Stmt):
    """Reports an adstack that is too small: ``stack`` is its number among the kernel's AdStackAllocas, a u32, and
    ``depth`` how many slots it would have needed. What follows runs."""

    stack: int
    depth: int

    def operands(self) -> tuple[int, ...]:
        return (self.stack, self.depth)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, stack=ids[0], depth=ids[1])


# --- terminators ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Yield(Stmt):
    """Ends a block and hands ``values`` to the statement that owns it."""

    values: tuple[int, ...]

    def operands(self) -> tuple[int, ...]:
        return self.values

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, values=ids)


@dataclass(slots=True)
class Break(Yield):
    """Leaves the innermost loop with ``values`` as its results. Gone after `structure_exits`."""


@dataclass(slots=True)
class Continue(Yield):
    """Ends this iteration of the innermost loop, carrying ``values``. Gone after `structure_exits`."""


# --- structured statements -----------------------------------------------------------------------------------


@dataclass(slots=True)
class If(Stmt):
    """Both arms end in a Yield (or Break/Continue) with one value a result."""

    cond: int
    then: Block
    orelse: Block
    results: tuple[Param, ...]

    def operands(self) -> tuple[int, ...]:
        return (self.cond,)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, cond=ids[0])

    def blocks(self) -> tuple[Block, ...]:
        return (self.then, self.orelse)

    def with_blocks(self, blocks: tuple[Block, ...]) -> Stmt:
        return replace(self, then=blocks[0], orelse=blocks[1])

    def defs(self) -> tuple[tuple[int, DType], ...]:
        return tuple((r.id, r.type) for r in self.results)


@dataclass(slots=True)
class For(Stmt):
    """A serial counted loop: index = begin, begin+1, ..., end-1 (or the other way round when ``reverse``).

    ``carried`` start as ``inits``; the body's Yield gives their next values; ``results`` are their last ones. No
    iteration when end <= begin. ``checkpoint``: the user's wish that reverse mode keeps the values of a segment of
    about sqrt(trips) iterations at a time and runs each segment once more; it changes no value.
    """

    index: Param
    begin: int
    end: int
    carried: tuple[Param, ...]
    inits: tuple[int, ...]
    body: Block
    results: tuple[Param, ...]
    reverse: bool = field(default=False, kw_only=True)
    checkpoint: bool = field(default=False, kw_only=True)

    def operands(self) -> tuple[int, ...]:
        return (self.begin, self.end, *self.inits)

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, begin=ids[0], end=ids[1], inits=ids[2:])

    def blocks(self) -> tuple[Block, ...]:
        return (self.body,)

    def with_blocks(self, blocks: tuple[Block, ...]) -> Stmt:
        return replace(self, body=blocks[0])

    def defs(self) -> tuple[tuple[int, DType], ...]:
        return tuple((r.id, r.type) for r in self.results)

    def params(self) -> tuple[Param, ...]:
        return (self.index, *self.carried)


@dataclass(slots=True)
class While(Stmt):
    """``cond`` computes one u1 from the carried values and yields it; ``body`` yields their next values.

    Values of ``cond`` are not visible in ``body``. ``results`` are the carried values when cond was false (or at a
    Break). ``checkpoint``: as of a For.
    """

    carried: tuple[Param, ...]
    inits: tuple[int, ...]
    cond: Block
    body: Block
    results: tuple[Param, ...]
    checkpoint: bool = field(default=False, kw_only=True)

    def operands(self) -> tuple[int, ...]:
        return self.inits

    def with_operands(self, ids: tuple[int, ...]) -> Stmt:
        return replace(self, inits=ids)

    def blocks(self) -> tuple[Block, ...]:
        return (self.cond, self.body)

    def with_blocks(self, blocks: tuple[Block, ...]) -> Stmt:
        return replace(self, cond=blocks[0], body=blocks[1])

    def defs(self) -> tuple[tuple[int, DType], ...]:
        return tuple((r.id, r.type) for r in self.results)

    def params(self) -> tuple[Param, ...]:
        return self.carried


@dataclass(slots=True)
class Offload(Stmt):
    """A task: stands only at the top level of a kernel. Tasks run one after the other.

    ``kind``: "serial" (no indices, run once), "range_for" or "struct_for" (parallel over the box of ``indices``).
    ``bounds`` is run once before the task and yields begin_0..begin_k, end_0..end_k, of the dtypes of the indices, each
    i32 or i64. ``body`` ends in an empty Yield. After the pass `offload` neither block reads a value from outside; the
    body does not see values of ``bounds``.
    """

    kind: str
    bounds: Block
    indices: tuple[Param, ...]
    body: Block

    def blocks(self) -> tuple[Block, ...]:
        return (self.bounds, self.body)

    def with_blocks(self, blocks: tuple[Block, ...]) -> Stmt:
        return replace(self, bounds=blocks[0], body=blocks[1])

    def params(self) -> tuple[Param, ...]:
        return self.indices


# --- kernel -------------------------------------------------------------------------------------------------


UNSHAPED = ("ndarray", "scratch", "heap")  # kinds of buffers whose extents are known at launch


@dataclass(slots=True)
class Buffer:
    """Memory that a kernel reads or writes.

    ``kind``: "field" (static ``shape``), "ndarray" (a kernel argument; only ``ndim`` known), "temp" (0-d launch
    temporary, zero at the start of a launch), "ret" (0-d slot of a returned scalar), "scratch" (memory that the runtime
    provides, of the size ``extents``, one an axis, below 0 standing for 0), "heap" (the slots of an adstack, as many
    as a launch finds that it needs) or "local" (0-d, a variable of the running iteration: an unsigned count below half
    of what its dtype holds). ``grad`` names the buffer of its adjoint, ``dual`` that of its tangent, "" where there is
    none. All are row-major and dense. Indices count from 0 in the IR; ``first`` is what the program calls the first one
    of each axis (() for zeros). ``wide``: an axis of the ndarray has 2**31 elements or more.

    ``beside``: the name of another buffer of kind "heap", whose slots have this one's behind them in memory.

    ``role`` of scratch memory: "kept" (a forward launch fills it for its gradient), "work" (zero when it is made, then
    as the launch before left it), "marks" (the same, but shared by all kernels that use the same array).
    """

    name: str
    kind: str
    dtype: DType
    ndim: int
    shape: tuple[int, ...] | None
    grad: str = ""
    dual: str = ""
    first: tuple[int, ...] = ()
    wide: bool = False
    role: str = ""
    extents: tuple[SizeExpr, ...] = ()
    beside: str = ""

    @property
    def extent_type(self) -> DType:
        """The dtype of the extents of an ndarray."""
        return i64 if self.wide else i32


@dataclass(slots=True)
class Arg:
    """A scalar argument."""

    name: str
    type: DType


@dataclass(slots=True)
class Kernel:
    """``body`` holds plain statements and `Offload`s in program order; after `offload` only `Offload`s.

    ``next_id`` is larger than every id in use. ``mode``: "forward", "reverse", "count", or "dual"
    (values and their tangents).
    """

    name: str
    args: tuple[Arg, ...]
    buffers: dict[str, Buffer]
    body: Block
    next_id: int
    mode: str = "forward"
    span: Span | None = None


Pass = Callable[[Kernel], Kernel]
