"""The IR: structured, typed SSA.

A block is a tuple of statements; `For`, `While`, `If` and `Offload` own blocks. Every statement has an id of its own,
which is also the id of the value that it defines, if it defines one. Parameters and results of structured statements
are `Param`s with ids of their own. Operands are ids. Ids are stable across passes: a pass that replaces one statement
by another of the same meaning keeps its id, so users need no rewriting.

Statements are treated as immutable: a pass makes new ones (`dataclasses.replace`), and an unchanged block stays the
same object.
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
    """The name of a buffer for an expression of the program: brackets and separators become dots, so ``v[0]`` is
    ``v.0``."""
    return re.sub(r"[\[\],:\s]+", ".", text).strip(".")


@dataclass(slots=True)
class Const(Uniform):
    form = "const {value:Number}"
    value: Any  # bool, int or float of Python; floats are exact in `type`


@dataclass(slots=True)
class Op(Pure):
    """A scalar primitive (a row of `prims.PRIMS`) applied to values. ``range`` has the least and the greatest value of
    an integer result, where the pass that made the statement knew them."""

    form = "{prim} {args}{range?in}"
    prim: Word
    args: Ids
    range: Range | None = field(default=None, kw_only=True)


@dataclass(slots=True)
class Call(Pure):
    """A call of the kernel's `Function` of that name. Only lowered kernels have calls."""

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
    """The extent of an ndarray buffer along ``axis``: an i32, or an i64 for a wide buffer."""

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
    """A value that the device provides. In lowered kernels: the u64 "seed" (of random draws), "launch" (the number of
    the launch) and "iteration" (the row-major number of the parallel iteration within its task, 0 in a serial task);
    the u32 "lanes" (the number of threads that run the task); the u1 "elected" (true in one of the threads of a
    `GroupReduce` here). In a task of blocks, as i32: "thread" (the number of the iteration within its block), "number"
    (that within the task) and "threads" (the number of iterations of this block)."""

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

    ``op``: add, sub, mul, min, max, and, or, xor, exchange; or cas, which exchanges only if the element is
    ``expected``. ``private``: no other iteration of the task touches this element, so a plain read-modify-write is
    enough. ``reach``: only iterations whose first index is at most so far from this one's touch it; -1 where that is
    not known. ``sweep``, if it is not 0: the iterations may make this atomic in a loop of its own before all else,
    since its operands can be computed again, and atomics of the same number in one row go to different elements.
    ``together``: threads of a warp or subgroup that are at one element combine their values first."""

    form = "atomic {op} {buffer}[{index}], {value}{expected?}{private?}{reach?}{sweep?}{together?}"
    op: Word
    expected: MaybeId = field(default=NO_ID, kw_only=True)
    private: bool = field(default=False, kw_only=True)
    reach: int = field(default=-1, kw_only=True)
    sweep: int = field(default=0, kw_only=True)
    together: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class Assert(Effect):
    """An error at the next synchronisation if ``cond`` (u1) is false. ``args`` fill the ``{}`` and ``{:spec}`` of
    ``message``. ``kind`` is "assert" for the user's asserts, or "bounds", "division" or "race" for checks."""

    form = "assert {kind} {cond}, {message} ({args})"
    cond: Id
    message: Text
    args: Ids
    kind: Word = field(default="assert", kw_only=True)


@dataclass(slots=True)
class Barrier(Effect):
    """No iteration of a block continues before all of them have come here. `split_blocks` removes barriers."""

    form = "barrier"


@dataclass(slots=True)
class Print(Effect):
    """Prints ``parts`` in order: a text as it is, an id as its value. A newline is part of the text.

    ``specs`` has Python's format specification of each value ("" for none), or is () where no value has one.
    """

    form = "print {parts+specs:Pieces}"
    lane_safe = False
    parts: tuple[str | int, ...]
    specs: tuple[str, ...] = ()

    def pieces(self) -> Iterator[tuple[str | int, str]]:
        """Each part with its format specification."""
        specs = iter(self.specs)
        for p in self.parts:
            yield p, next(specs, "") if isinstance(p, int) else ""

    def operands(self) -> Ids:
        return tuple(p for p in self.parts if isinstance(p, int))

    def with_operands(self, ids: Ids) -> Print:
        it = iter(ids)
        return replace(self, parts=tuple(next(it) if isinstance(p, int) else p for p in self.parts))


# --- adstacks: typed stacks of primal values; each running parallel iteration has its own -----------------------


@dataclass(slots=True)
class AdStackAlloca(Effect):
    """An adstack of ``type``, empty at the start of every parallel iteration. It stands at the top of a task's body.

    ``primal`` is the id of the forward value that is pushed, ``name`` its variable, and ``reason`` says in words which
    use made the stack necessary. ``size`` is its capacity in slots, after `determine_ad_stack_size`. With
    ``count_only`` pushes only count (in the counting slice).
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
    """The current number of slots of the stack (i64), for the reports of the counting slice."""

    form = "adstack_depth {stack}"


@dataclass(slots=True)
class AdStackGuard(Stmt):
    """Stands between the forward slice and the reverse, which is its ``body``. If any stack of the task is over its
    capacity, it sets the overflow flag and skips the body. An empty guard stands in the reverse behind each segment of
    a checkpointed loop, which pushes there; it only sets the flag."""

    form = "adstack_guard {body}"
    body: Block


# --- statements that `backends/lower` makes ---------------------------------------------------------------------


@dataclass(slots=True)
class Lane(Value):
    """The number of the thread or vector lane that runs this iteration, among all that run at the same time."""

    form = "lane"


@dataclass(slots=True)
class GroupReduce(Value):
    """The reduction by ``op`` of the values of those threads of a group or subgroup that are here at the same time; the
    elected thread has the result. With ``threads``: the reduction over that many neighbouring threads, all of which
    come here; the first of them has the result."""

    form = "group_reduce {op} {value}{threads?}"
    op: Word
    value: Id
    threads: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class Overflow(Effect):
    """Reports an adstack that is too small, and continues: ``stack`` is its number among the kernel's AdStackAllocas, a
    u32, and ``depth`` the number of slots that it would have needed."""

    form = "overflow {stack}, {depth}"
    stack: Id
    depth: Id


@dataclass(slots=True)
class ThreadExit(Effect):
    """Ends a GPU's thread after a failed assert. Stands last in an If's block, in front of the terminator."""

    form = "thread_exit"
    lane_safe = False


# --- terminators ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Yield(Stmt):
    """Ends a block and hands ``values`` to the statement that owns it."""

    form = "yield {values}"
    values: Ids


class Exit(Yield):
    """Leaves the innermost loop or task. `structure_exits` removes exits."""

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
    """Both arms end in a Yield with one value for each result, or in an exit."""

    form = "if {cond} {then} else {orelse}{results:Results}"
    cond: Id
    then: Block
    orelse: Block
    results: Params


@dataclass(slots=True)
class For(Loop):
    """A serial counted loop: index = begin, begin+1, ..., end-1, or downwards with ``reverse``. It has no iteration if
    end <= begin. ``threads``: the iterations are the threads of a block, in any order. ``step``: each iteration adds it
    to the index instead of 1. Only `LowerTasks` makes such loops: the step is positive, and the index begins at 0 or
    above and does not overflow."""

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
    """A loop that runs while the u1 that ``cond`` computes from the carried values and yields is true. ``body`` yields
    their next values, and does not see values of ``cond``. ``results`` are the carried values when cond was false, or
    those of a Break."""

    form = "while{checkpoint?}{carried+inits:Carry} {cond} do {body}{results:Results}"
    carried: Params
    inits: Ids
    cond: Block
    body: Block
    results: Params
    checkpoint: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class Offload(Scheduled):
    """A task. Tasks stand at the top level of a kernel only, and run one after the other.

    ``kind``: "serial" (no indices, runs once), or "range_for" or "struct_for" (parallel over the box of ``indices``).
    ``bounds`` runs once before the task and yields begin_0..begin_k, end_0..end_k, of the dtypes of the indices, each
    i32 or i64. ``body`` ends in an empty Yield, and does not see values of ``bounds``. After the pass `offload` neither
    block reads a value from outside.

    ``block_dim``: so many iterations, in row-major order, are a block. They wait for each other at `Barrier`s and share
    buffers of kind "shared". It is 0 where there are no blocks, and after `split_blocks`.

    `LowerTasks` makes parallel tasks tasks of kind "threads": each thread of the device runs ``body`` once. ``indices``
    are what ``bounds`` yields, begin and extent of each axis, unless one thread left these in the launch frame.
    """

    form = "offload {kind}{block_dim?}" + SCHEDULE + " bounds {bounds} do ({indices}) {body}"
    kind: Word
    bounds: Block
    indices: Params
    body: Block
    block_dim: int = field(default=0, kw_only=True)

    def box(self) -> list[tuple[Param, int, int]]:
        """Each index with the ids of its begin and its end; not for a task of kind "threads"."""
        ends, k = self.bounds[-1].operands(), len(self.indices)
        return list(zip(self.indices, ends[:k], ends[k:], strict=True))


STATEMENTS: tuple[type[Stmt], ...] = (
    Const, Op, Call, ArgLoad, ShapeOf, Random, Builtin, Load, Store, Atomic, Assert, Barrier, Print,
    AdStackAlloca, AdStackPush, AdStackPop, AdStackLoadTop, AdStackDepth,
    AdStackGuard, Lane, GroupReduce, Overflow, ThreadExit, Yield, Break, Continue, If, For, While, Offload,
)  # fmt: skip

for _statement in STATEMENTS:
    derive(_statement)


# --- kernel -------------------------------------------------------------------------------------------------


UNSHAPED = ("ndarray", "scratch", "heap", "words")  # kinds of buffers whose extents only a launch knows


@dataclass(slots=True)
class Buffer:
    """Memory that a kernel reads or writes, dense and row-major. Indices count from 0 in the IR. ``kind``:

    - "field" (static ``shape``)
    - "ndarray" (a kernel argument; ``ndim`` is known, and the extents of its last axes, those of an ``element``)
    - "temp" (a 0-d launch temporary, zero at the start of a launch)
    - "ret" (the 0-d slot of a returned scalar)
    - "scratch" (memory that the runtime provides; ``extents`` has the size of each axis, a negative one standing for 0)
    - "heap" (the slots of an adstack, as many as a launch finds that it needs)
    - "local" (0-d: an unsigned count of the running iteration, below half of what its dtype holds; or, with ``role``
      "share", the running thread's part of a reduction)
    - "private" (an array of static ``shape`` of the running iteration, which writes before it reads)
    - "shared" (memory of each block of a task, of static ``shape``, zero when the block begins)
    - "frame" (words of the head of a GPU's launch frame, or, with ``role`` "prints", the print block that it points to)
    - "words" (the memory of the buffer ``of`` as words of ``dtype``, with one axis)

    ``grad`` and ``dual`` name the buffers of its adjoint and tangent, "" where there is none. ``first`` has the first
    index of each axis in the program, or is () where all are 0. ``wide``: an axis of the ndarray has 2**31 elements or
    more. ``beside``: for a "heap", the name of another one whose slots these ones follow in memory; of such buffers the
    ``role`` "flags" says that a word has 32 slots.

    ``role`` of scratch memory: "kept" (a forward launch fills it for its gradient), "work" (zero when it is made, then
    as the last launch left it), "marks" (the same, but all kernels that use the same array share it), or "block" (a
    part for each block along the first axis, which writes before it reads). A field with ``role`` "activity" has the
    activity of the cells of a sparse layout.
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
    element: tuple[int, ...] = ()

    def known_extent(self, axis: int) -> int | None:
        """The extent along an axis, if it is the same in every launch."""
        known = self.shape if self.shape is not None else (*[None] * (self.ndim - len(self.element)), *self.element)
        return known[axis]

    @property
    def in_frame(self) -> bool:
        """Whether its elements are words of the launch frame."""
        return self.kind in ("temp", "ret") or (self.kind == "frame" and not self.role)

    @property
    def passing(self) -> bool:
        """Whether its contents end with the launch: it is neither input nor output."""
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
    """A pure function that `Call`s share. ``body`` yields one value of dtype ``type``, and sees the ``params`` only.
    Its ids are its own."""

    name: str
    params: Params
    type: DType
    body: Block


@dataclass(slots=True)
class Kernel:
    """A kernel. ``body`` has plain statements and `Offload`s in program order, and only `Offload`s after `offload`.

    ``next_id`` is larger than every id in use. ``mode``: "forward", "reverse", "both" (a launch and its gradient),
    "count" (of pushes), or "dual" (values and their tangents). ``aliased``: array arguments may be the same memory.
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
        return self.body  # type: ignore[return-value]  # the verifier checks that


Pass = Callable[[Kernel], Kernel]
