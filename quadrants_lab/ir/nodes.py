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
from dataclasses import field, replace
from typing import Any

from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import SizeExpr
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.traits import *  # N is where all classes are found
from quadrants_lab.ir.types import DType, i32, i64


def buffer_name(text: str) -> str:
    """What the program calls a buffer, as its name: without brackets, which stand for an index (``v[0]`` is ``v.0``)
    and separators."""
    return re.sub(r"[\[\],:\s]+", ".", text).strip(".")


@dataclass(slots=True)
class Const(Uniform):
    form = "const {value:Number}"
    value: Any  # bool, int or float of Python; floats are exact in `type`


@dataclass(slots=True)
class Op(Pure):
    """A scalar primitive (a row of `prims.PRIMS`) applied to values. ``range``: least and greatest value of an integer,
    where what made the statement knew more than it shows."""

    form = "{prim} {args}{range?in}"
    prim: Word
    args: Ids
    range: Range | None = field(default=None, kw_only=True)


@dataclass(slots=True)
class Call(Pure):
    """The value of the kernel's `Function` of that name. Only lowered kernels call."""

    form = "call {function} ({args})"
    function: BufferName
    args: Ids


@dataclass(slots=True)
class ArgLoad(Uniform):
    """The scalar kernel argument named ``arg``."""

    form = "arg {arg}"
    arg: ArgName


@dataclass(slots=True)
class ShapeOf(Uniform):
    """The extent of an ndarray buffer along ``axis`` (i32, i64 of a wide one)."""

    form = "shape {buffer} {axis}"
    buffer: BufferName
    axis: int


@dataclass(slots=True)
class Random(Value):
    """A counter-based draw for call site ``site``; dtype f32/f64: uniform in [0, 1), integers: all bits."""

    form = "random {site}"
    site: int


@dataclass(slots=True)
class Builtin(Value):
    """What a device tells a lowered kernel. A u64: "seed" (of random draws), "launch" (its number) or "iteration" (the
    row-major number of the parallel iteration within its task, 0 where there is none). "lanes", a u32: how many threads
    run the task. "elected", a u1: true in one of the threads that are `Together` here. In a task of blocks, an i32
    each: "thread", the iteration's number within its block, "number", that within the task, and "threads", how many
    this block has."""

    form = "builtin {what}"
    what: Word


@dataclass(slots=True)
class Load(Read, Value):
    form = "load {buffer}[{index}]"


@dataclass(slots=True)
class Store(Write):
    form = "store {buffer}[{index}], {value}"


@dataclass(slots=True)
class Atomic(Read, Write, Value):
    """``buffer[index] op= value``, atomically; defines the old value.

    ``op``: add, sub, mul, min, max, and, or, xor, exchange; or cas, which exchanges only where the element is
    ``expected``. ``private``: no other iteration of the task touches this element, so a plain read-modify-write will
    do. ``reach``: other iterations may, but only those whose first index is at most so far from this one's; -1 where
    that is not known. ``sweep``, where it is not 0: any iterations may do this before all else that they do, for what
    it needs can be computed again; and those of one row meet in no atomic of the same number.
    """

    form = "atomic {op} {buffer}[{index}], {value}{expected?}{private?}{reach?}{sweep?}"
    op: Word
    expected: MaybeId = field(default=NO_ID, kw_only=True)
    private: bool = field(default=False, kw_only=True)
    reach: int = field(default=-1, kw_only=True)
    sweep: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class Assert(Effect):
    """Error at the next entry when ``cond`` (u1) is false; ``args`` fill the ``{}`` and ``{:spec}`` of ``message``.

    ``kind`` is "assert" (the user's, or check_out_of_bound's with kind "bounds", division's with "division").
    """

    form = "assert {kind} {cond}, {message} ({args})"
    cond: Id
    message: Text
    args: Ids
    kind: Word = field(default="assert", kw_only=True)


@dataclass(slots=True)
class Barrier(Effect):
    """No iteration of a block goes on before all of them are here. Gone after `split_blocks`."""

    form = "barrier"


@dataclass(slots=True)
class Print(Effect):
    """Print ``parts`` in order: text as it is, ids as values; a newline is part of the text.

    ``specs``: the format specification of each value as Python has them ("" for none), or () where none has one.
    """

    form = "print {parts+specs:Pieces}"
    lane_safe = False
    parts: tuple[str | int, ...]
    specs: tuple[str, ...] = ()

    def pieces(self) -> Iterator[tuple[str | int, str]]:
        """The parts, each with its specification."""
        specs = iter(self.specs)
        for p in self.parts:
            yield p, next(specs, "") if isinstance(p, int) else ""

    def operands(self) -> Ids:
        return tuple(p for p in self.parts if isinstance(p, int))

    def with_operands(self, ids: Ids) -> Print:
        it = iter(ids)
        return replace(self, parts=tuple(next(it) if isinstance(p, int) else p for p in self.parts))


# --- adstacks: typed stacks of primal values, one a parallel iteration in flight --------------------------------


@dataclass(slots=True)
class AdStackAlloca(Effect):
    """An adstack of ``type``, empty at the start of every parallel iteration; stands at the top of a task's body.

    ``primal`` is the id of the forward value kept there, ``name`` its variable, ``reason`` says in words which use
    made it necessary. ``size`` is its capacity in slots once `determine_ad_stack_size` ran. ``count_only``: pushes
    only count (the counting slice).
    """

    form = "adstack_alloca {id:StackId}: {type}{name} primal {primal}{count_only?}{size?} reason {reason}"
    type: DType
    name: str = field(default="", kw_only=True)
    primal: PrimalId = field(default=NO_ID, kw_only=True)
    reason: Text = field(default="", kw_only=True)
    size: SizeExpr | None = field(default=None, kw_only=True)
    count_only: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class AdStackPush(StackUse, Effect):
    form = "adstack_push {stack}, {value}"
    value: Id


@dataclass(slots=True)
class AdStackPop(TopUse, Effect):
    form = "adstack_pop {stack}"


@dataclass(slots=True)
class AdStackLoadTop(TopUse, Value):
    form = "adstack_load_top {stack}"


@dataclass(slots=True)
class AdStackDepth(StackUse, Value):
    """How many slots the stack holds right now (i64); the counting slice reports with it."""

    form = "adstack_depth {stack}"


@dataclass(slots=True)
class AdStackGuard(Stmt):
    """Between forward slice and reverse: a lane over capacity on any stack of the task sets the overflow flag and
    skips ``body``, the reverse. An empty one in there stands behind each segment of a checkpointed loop, which pushes
    in the reverse: it sets the flag."""

    form = "adstack_guard {body}"
    body: Block


# --- what adstacks are lowered to (backends/lower/adstacks), besides loads and stores -------------------------------


@dataclass(slots=True)
class Lane(Value):
    """The number of the thread or vector lane that runs this iteration, among those that run at a time."""

    form = "lane"


@dataclass(slots=True)
class Together(Value):
    """What ``op`` makes of the values of those threads that run in step and are at this place at the same time; right
    in the one that is elected. ``threads``: of so many neighbours, all of which come here; right in the first one."""

    form = "together {op} {value}{threads?}"
    op: Word
    value: Id
    threads: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class Overflow(Effect):
    """Reports an adstack that is too small: ``stack`` is its number among the kernel's AdStackAllocas, a u32, and
    ``depth`` how many slots it would have needed. What follows runs."""

    form = "overflow {stack}, {depth}"
    stack: Id
    depth: Id


@dataclass(slots=True)
class Leave(Effect):
    """Ends a GPU's thread: an assert has failed. Stands in front of the end of an If's block."""

    form = "leave"
    lane_safe = False


# --- terminators ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Yield(Stmt):
    """Ends a block and hands ``values`` to the statement that owns it."""

    form = "yield {values}"
    values: Ids


class Exit(Yield):
    """Leaves a block of the innermost loop, or task. Gone after `structure_exits`."""

    __slots__ = ()


@dataclass(slots=True)
class Break(Exit):
    """Leaves the innermost loop with ``values`` as its results."""

    form = "break {values}"


@dataclass(slots=True)
class Continue(Exit):
    """Ends this iteration of the innermost loop, carrying ``values``."""

    form = "continue {values}"


# --- structured statements --------------------------------------------------------------------------------------


@dataclass(slots=True)
class If(Control):
    """Both arms end in a Yield (or Break/Continue) with one value a result."""

    form = "if {cond} {then} else {orelse}{results:Results}"
    cond: Id
    then: Block
    orelse: Block
    results: Params


@dataclass(slots=True)
class For(Loop):
    """A serial counted loop: index = begin, begin+1, ..., end-1 (or the other way round when ``reverse``). No
    iteration when end <= begin. ``threads``: the iterations are those of a block's threads; any may come first.
    ``step``: what each iteration adds to the index instead of 1, where `lower_tasks` made the loop; it is above 0, the
    index begins at 0 or above, and does not go past what its dtype holds."""

    form = (
        "for{reverse?reversed}{checkpoint?}{threads?} {index} in {begin}..{end}{step?}{carried+inits:Carry} {body}"
        "{results:Results}"
    )
    index: Param
    begin: Id
    end: Id
    carried: Params
    inits: Ids
    body: Block
    results: Params
    reverse: bool = field(default=False, kw_only=True)
    checkpoint: bool = field(default=False, kw_only=True)
    threads: bool = field(default=False, kw_only=True)
    step: MaybeId = field(default=NO_ID, kw_only=True)


@dataclass(slots=True)
class While(Loop):
    """``cond`` computes one u1 from the carried values and yields it; ``body`` yields their next values.

    Values of ``cond`` are not visible in ``body``. ``results`` are the carried values when cond was false (or at a
    Break).
    """

    form = "while{checkpoint?}{carried+inits:Carry} {cond} do {body}{results:Results}"
    carried: Params
    inits: Ids
    cond: Block
    body: Block
    results: Params
    checkpoint: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class Offload(Stmt):
    """A task: stands only at the top level of a kernel. Tasks run one after the other.

    ``kind``: "serial" (no indices, run once), "range_for" or "struct_for" (parallel over the box of ``indices``).
    ``bounds`` is run once before the task and yields begin_0..begin_k, end_0..end_k, of the dtypes of the indices, each
    i32 or i64. ``body`` ends in an empty Yield. After the pass `offload` neither block reads a value from outside; the
    body does not see values of ``bounds``.

    ``block_dim``: as many iterations, in row-major order, are a block; they wait for each other at `Barrier`s and share
    buffers of kind "shared". 0: there are no blocks, as it is after `split_blocks`.

    Of a parallel task `lower_tasks` makes one of kind "threads": each thread of the device runs ``body`` once, and the
    ``indices`` are what ``bounds`` yields: begin and extent of each axis.
    """

    form = "offload {kind}{block_dim?} bounds {bounds} do ({indices}) {body}"
    kind: Word
    bounds: Block
    indices: Params
    body: Block
    block_dim: int = field(default=0, kw_only=True)

    def box(self) -> list[tuple[Param, int, int]]:
        """Each index with the values, ids, that are its begin and its end; not of a task of kind "threads"."""
        ends, k = self.bounds[-1].operands(), len(self.indices)
        return list(zip(self.indices, ends[:k], ends[k:], strict=True))


STATEMENTS: tuple[type[Stmt], ...] = (
    Const, Op, Call, ArgLoad, ShapeOf, Random, Builtin, Load, Store, Atomic, Assert, Barrier, Print,
    AdStackAlloca, AdStackPush, AdStackPop, AdStackLoadTop, AdStackDepth,
    AdStackGuard, Lane, Together, Overflow, Leave, Yield, Break, Continue, If, For, While, Offload,
)  # fmt: skip

for _statement in STATEMENTS:
    derive(_statement)


# --- kernel -------------------------------------------------------------------------------------------------


UNSHAPED = ("ndarray", "scratch", "heap", "words")  # kinds of buffers whose extents are known at launch


@dataclass(slots=True)
class Buffer:
    """Memory that a kernel reads or writes.

    ``kind``: "field" (static ``shape``), "ndarray" (a kernel argument; only ``ndim`` known), "temp" (0-d launch
    temporary, zero at the start of a launch), "ret" (0-d slot of a returned scalar), "scratch" (memory that the runtime
    provides, of the size ``extents``, one an axis, below 0 standing for 0), "heap" (the slots of an adstack, as many
    as a launch finds that it needs), "local" (0-d, a variable: an unsigned count of the running iteration, below half
    of what its dtype holds, or the running thread's share of a reduction), "shared" (memory of each block of a task, of
    static ``shape``, zero when the block begins), "frame" (words of the head of a GPU's launch frame; of the ``role``
    "prints": the print block, whose address is there) or "words". ``grad`` names the buffer of its
    adjoint, ``dual`` that of its tangent, "" where there is none. All are row-major and dense. Indices count from 0 in
    the IR; ``first`` is what the program calls the first one of each axis (() for zeros). ``wide``: an axis of the
    ndarray has 2**31 elements or more.

    The ``role`` of a local that is a share of a reduction is "share".

    ``beside``: the name of another buffer of kind "heap", whose slots have this one's behind them in memory. Of these
    buffers the ``role`` "flags" says that a word has 32 slots.

    ``of``: the buffer whose memory one of kind "words" shows: as words of its ``dtype``, with one axis, row by row.

    ``role`` of scratch memory: "kept" (a forward launch fills it for its gradient), "work" (zero when it is made, then
    as the launch before left it), "marks" (the same, but shared by all kernels that use the same array), "block" (what
    the blocks of a task share or put aside: along the first axis a part for each block, which writes before it reads).
    That of a field which says what is active in a sparse layout is "activity".
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
    of: str = ""

    @property
    def in_frame(self) -> bool:
        """Whether its elements are words of the launch frame."""
        return self.kind in ("temp", "ret") or (self.kind == "frame" and not self.role)

    @property
    def passing(self) -> bool:
        """Whether nothing of it outlasts the launch: it is no input and no output."""
        return self.kind == "temp" or self.role == "block"

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
class Function:
    """A computation that calls share, without memory or effects. ``body`` yields one value of dtype ``type``; it sees
    the ``params`` alone, and its ids are its own."""

    name: str
    params: Params
    type: DType
    body: Block


@dataclass(slots=True)
class Kernel:
    """``body`` holds plain statements and `Offload`s in program order; after `offload` only `Offload`s.

    ``next_id`` is larger than every id in use. ``mode``: "forward", "reverse", "count", or "dual"
    (values and their tangents). ``aliased``: several array arguments that its atomics go to may be the same memory.
    """

    name: str
    args: tuple[Arg, ...]
    buffers: dict[str, Buffer]
    body: Block
    next_id: int
    mode: str = "forward"
    span: Span | None = None
    functions: dict[str, Function] = field(default_factory=dict)
    aliased: bool = False

    @property
    def tasks(self) -> tuple[Offload, ...]:
        """The body of a kernel after `offload`."""
        return self.body  # type: ignore[return-value]  # the verifier holds that


Pass = Callable[[Kernel], Kernel]
