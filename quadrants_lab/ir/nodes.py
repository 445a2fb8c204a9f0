"""Defines the statements of the IR, which is structured, typed SSA.

A block is a tuple of statements; `For`, `While`, `If` and `Offload` own blocks. Every statement has an id of its own,
which is also the id of the value that it defines, if it defines one. Parameters and results of structured statements
are `Param`s, and each has an id, too. Operands are ids. Ids are stable across passes: a pass that replaces one
statement by another of the same meaning keeps the id, so the statements that read the value stay as they are.

Statements are treated as immutable: a pass makes new ones (`dataclasses.replace`), and an unchanged block stays the
same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from quadrants_lab.ir.buffers import *  # so that other modules find these classes here, as N.Name
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.sizeexpr import SizeExpr
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.traits import *
from quadrants_lab.ir.types import DType


@dataclass(slots=True)
class Const(Uniform):
    """A constant of dtype ``type``."""
    form = "const {value:Number}"
    value: Any  # bool, int or float of Python; floats are exact in `type`
    constant = property(lambda self: self.value)


@dataclass(slots=True)
class Op(Pure):
    """A scalar primitive, which is a row of `prims.PRIMS`, applied to values. ``range`` is the least and the greatest
    value of an integer result, where the pass that made the statement knew them."""
    form = "{prim} {args}{range?in}"
    prim: Word
    args: Ids
    range: Range | None = field(default=None, kw_only=True)


@dataclass(slots=True)
class Element(Choice, Pure):
    """The value of an element of a local vector or matrix, chosen at run time; 0 if the index means no element."""
    form = "element [{index}] of ({shape}) {values}{clamped?}"

    def taken(self, index: Sequence[int]) -> list[tuple[int, int]]:
        at = self.number(index)
        return [(self.id, self.values[at] if at >= 0 else NO_ID)]

    def merges(self) -> list[tuple[int, int]]:
        return [(v, self.id) for v in self.values]


@dataclass(slots=True)
class WithElement(Choice):
    """The elements of a local vector or matrix after one of them, chosen at run time, became ``value``. The ``results``
    are all elements; if the index means no element, they are the same as before."""
    form = "with_element [{index}] = {value} of ({shape}) {values}{clamped?}{results:Results}"
    value: Id
    results: Params

    def becoming(self, k: int) -> tuple[int, int]:
        """The two values of which result ``k`` is one: what is written, and the element before."""
        return self.value, self.values[k]

    def taken(self, index: Sequence[int]) -> list[tuple[int, int]]:
        at = self.number(index)
        return [(r.id, self.becoming(k)[k != at]) for k, r in enumerate(self.results)]

    def merges(self) -> list[tuple[int, int]]:
        return [(v, r.id) for k, r in enumerate(self.results) for v in self.becoming(k)]

    def position(self, result: int) -> int:
        """The position of the result with this id."""
        return [r.id for r in self.results].index(result)


@dataclass(slots=True)
class Call(Pure):
    """A call of one of the kernel's `Function`s. Only lowered kernels have calls."""
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
    """A random draw at call site ``site``. An f32 or f64 is uniform in [0, 1), and an integer has random bits."""
    form = "random {site}"
    site: int


@dataclass(slots=True)
class Builtin(Value):
    """A value that the device provides. Lowered kernels have these. As u64: "seed" (of random draws), "launch" (the
    number of the launch), and "iteration" (the row-major number of the parallel iteration within its task, 0 in a
    serial task). As u32: "lanes" (the number of threads that run the task) and "place" (the number of the thread in its
    group). As u1: "elected" (true in one of the threads that run a `GroupReduce` together). Tasks of blocks have these,
    as i32: "thread" (the number of the iteration within its block), "number" (the number of the iteration within the
    task), and "threads" (the number of iterations of this block). All kernels have "clock", as i64: ticks of the
    device's clock, 0 where kernels cannot read one."""
    form = "builtin {what}"
    what: Word


@dataclass(slots=True)
class Load(Read, Value):
    """The value is the element."""
    form = "load {buffer}[{index}]"
    loads = True


@dataclass(slots=True)
class Store(Write):
    """The element becomes ``value``."""
    form = "store {buffer}[{index}], {value}"
    stores = True


@dataclass(slots=True)
class Atomic(Read, Write, Value):
    """``buffer[index] op= value``, atomically. The value of the statement is the old element.

    ``op``: add, sub, mul, min, max, and, or, xor, exchange, or cas, which exchanges only if the element is
    ``expected``; or slot, which gives the word of a table (`ir.cell_order.Slots`) a slot's number if it has none, and
    whose value is the new element. ``private``: no other iteration of the task touches this element at the same time,
    so reading and then writing it is enough. ``distance``: the largest dependence distance, along the first index,
    between two iterations that touch the same element; -1 where it is not known. ``fission``: a number other than 0
    says that loop fission may give this atomic a loop of its own, which runs for all iterations of a row before
    anything else. The operands can be computed again, and atomics of the same number touch different elements in one
    row."""
    form = "atomic {op} {buffer}[{index}], {value}{expected?}{private?}{distance?}{fission?}"
    op: Word
    expected: MaybeId = field(default=NO_ID, kw_only=True)
    private: bool = field(default=False, kw_only=True)
    distance: int = field(default=-1, kw_only=True)
    fission: int = field(default=0, kw_only=True)
    atomic = property(lambda self: self.op)


@dataclass(slots=True)
class Assert(Effect):
    """If ``cond`` (u1) is false, the next synchronisation raises an error. ``args`` fill the ``{}`` and ``{:spec}`` of
    ``message``. ``kind`` is "assert" for an assert of the program, and "bounds", "division" or "race" for a check that
    the compiler adds."""
    form = "assert {kind} {cond}, {message} ({args})"
    cond: Id
    message: Text
    args: Ids
    kind: Word = field(default="assert", kw_only=True)


@dataclass(slots=True)
class Barrier(Effect):
    """No iteration of a block continues before all iterations of the block have reached the barrier. `split_blocks`
    removes barriers."""
    form = "barrier"


@dataclass(slots=True)
class Print(Effect):
    """Prints ``parts`` in order, texts and values. A newline is printed only where a text has one.

    ``specs`` has Python's format specification for each value ("" for none), or is () where no value has one.
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


# --- adstacks: stacks of forward values, of one dtype each; every running parallel iteration has its own ---------


@dataclass(slots=True)
class AdStackAlloca(Effect):
    """An adstack of ``type``, empty at the start of every parallel iteration. The statement stands at the top of a
    task's body.

    ``primal`` is the id of the forward value that is pushed, ``name`` is the variable that has it, and ``reason``
    says in words which use made the stack necessary. ``size``, which the pass `determine_ad_stack_size` computes, is
    the capacity in slots. In the counting slice, whose stacks are ``count_only``, a push only counts.
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
    """Puts ``value`` on top of the stack."""
    form = "adstack_push {stack}, {value}"
    value: Id


@dataclass(slots=True)
class AdStackPop(TopUse, Effect):
    """Removes the top of the stack."""
    form = "adstack_pop {stack}"


@dataclass(slots=True)
class AdStackLoadTop(TopUse, Value):
    """The value on top of the stack, which stays there."""
    form = "adstack_load_top {stack}"


@dataclass(slots=True)
class AdStackDepth(StackUse, Value):
    """The number of values on the stack now (i64), which the counting slice reports."""
    form = "adstack_depth {stack}"


@dataclass(slots=True)
class AdStackGuard(Stmt):
    """Stands between the forward slice and the reverse code, which is its ``body``. If any stack of the task is over
    its capacity, the guard sets the overflow flag and skips the body. In a checkpointed loop the reverse code pushes,
    too: an empty guard, which only sets the flag, stands after each segment."""
    form = "adstack_guard {body}"
    body: Block


# --- statements that `backends/lower` makes ---------------------------------------------------------------------


@dataclass(slots=True)
class Lane(Value):
    """The number of the thread or vector lane that runs this iteration. No other thread or lane that runs at the same
    time has this number."""
    form = "lane"


@dataclass(slots=True)
class GroupReduce(Value):
    """Reduces by ``op`` the values of the threads of a group or subgroup that run this statement at the same time; the
    elected thread gets the result. With ``threads``: reduces the values of that many neighbouring threads, which all
    run the statement; the first of them gets the result."""
    form = "group_reduce {op} {value}{threads?}"
    op: Word
    value: Id
    threads: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class GroupSame(Value):
    """Whether all threads of a subgroup that run this statement at the same time have the same ``value``, a u1. With
    ``threads``: whether all of that many neighbouring threads run the statement, with the same value."""
    form = "group_same {value}{threads?}"
    value: Id
    threads: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class Overflow(Effect):
    """Reports an adstack that is too small, and continues. ``stack`` is the number of the stack among the kernel's
    AdStackAllocas, a u32, and ``depth`` is the number of slots that the stack would have needed."""
    form = "overflow {stack}, {depth}"
    stack: Id
    depth: Id


@dataclass(slots=True)
class ThreadExit(Effect):
    """Ends a GPU's thread after a failed assert. Stands in a block of an If, just before the terminator."""
    form = "thread_exit"
    lane_safe = False


# --- terminators ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Yield(Stmt):
    """Ends a block and hands ``values`` to the statement that owns the block."""
    form = "yield {values}"
    terminates = True
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
    """Runs ``then`` or ``orelse``. Each of them ends in a Yield with one value for each result, or in an exit."""
    form = "if {cond} {then} else {orelse}{results:Results}"
    cond: Id
    then: Block
    orelse: Block
    results: Params

    def deciding(self) -> Ids:
        return (self.cond,)


@dataclass(slots=True)
class For(Loop):
    """A serial counted loop: index = begin, begin+1, ..., end-1, or downwards with ``reverse``. It has no iteration
    if end <= begin. ``threads``: the iterations are the threads of a block, in any order. ``step``: what each
    iteration adds to the index instead of 1. Only `LowerTasks` makes loops with a step; it is positive, and the index
    begins at 0 or above and does not overflow."""
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
    counter = property(lambda self: self.index)

    def deciding(self) -> Ids:
        return (self.begin, self.end) if self.step == NO_ID else (self.begin, self.end, self.step)


@dataclass(slots=True)
class While(Loop):
    """A loop with a condition. ``cond`` computes a u1 from the carried values and yields it; the loop ends when it is
    false. ``body`` yields the next carried values, and does not see the values that ``cond`` computes. ``results`` are
    the carried values when the loop ends, or the values of the Break that ends it."""
    form = "while{checkpoint?}{carried+inits:Carry} {cond} do {body}{results:Results}"
    carried: Params
    inits: Ids
    cond: Block
    body: Block
    results: Params
    checkpoint: bool = field(default=False, kw_only=True)

    def deciding(self) -> Ids:
        return self.cond[-1].operands()


@dataclass(slots=True)
class Offload(Scheduled):
    """A task. Tasks stand only at the top level of a kernel, and run one after the other.

    ``kind``: "serial" (no indices, runs once), or "range_for" or "struct_for" (parallel over the box of ``indices``).
    ``bounds`` runs once before the task and yields begin_0..begin_k, end_0..end_k, each with the dtype of its index,
    i32 or i64. ``body`` ends in an empty Yield, and does not see values of ``bounds``. After the pass `offload`
    neither block reads a value from outside.

    ``block_dim``: the number of iterations in a block, in row-major order. The iterations of a block wait for each
    other at `Barrier`s and share buffers of kind "shared". The number is 0 where there are no blocks, and after
    `split_blocks`.

    `LowerTasks` turns parallel tasks into tasks of kind "threads": each thread of the device runs ``body`` once.
    ``indices`` are what ``bounds`` yields, the begin and the extent of each axis, unless one thread left these in the
    launch frame.
    """
    form = "offload {kind}{block_dim?}" + SCHEDULE + " bounds {bounds} do ({indices}) {body}"
    kind: Word
    bounds: Block
    indices: Params
    body: Block
    block_dim: int = field(default=0, kw_only=True)

    def deciding(self) -> Ids:
        return self.bounds[-1].operands()

    def box(self) -> list[tuple[Param, int, int]]:
        """Each index with the ids of its begin and its end; not for a task of kind "threads"."""
        ends, k = self.bounds[-1].operands(), len(self.indices)
        return list(zip(self.indices, ends[:k], ends[k:], strict=True))


STATEMENTS: tuple[type[Stmt], ...] = (
    Const, Op, Element, WithElement, Call, ArgLoad, ShapeOf, Random, Builtin, Load, Store, Atomic, Assert, Barrier,
    Print, AdStackAlloca, AdStackPush, AdStackPop, AdStackLoadTop, AdStackDepth,
    AdStackGuard, Lane, GroupReduce, GroupSame, Overflow, ThreadExit, Yield, Break, Continue, If, For, While, Offload,
)  # fmt: skip

for _statement in STATEMENTS:
    derive(_statement)


# --- kernel -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Arg:
    """A scalar argument."""

    name: str
    type: DType


@dataclass(slots=True)
class Function:
    """A pure function, which any number of `Call`s name. ``body`` yields one value of dtype ``type``, and sees only the
    ``params``. The ids in it have nothing to do with the ids of the kernel."""

    name: str
    params: Params
    type: DType
    body: Block


@dataclass(slots=True)
class Kernel:
    """A kernel. ``body`` has plain statements and `Offload`s in program order, and only `Offload`s after `offload`.

    ``next_id`` is larger than every id in use. ``mode``: "forward", "reverse", "both" (a launch and its gradient),
    "count" (only counts pushes), or "dual" (values and their tangents). ``aliased``: array arguments may share memory.
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
        """The tasks of a kernel: after the pass `offload` its body has nothing else, as the verifier checks. TypeError
        before the pass."""
        if self.body and not isinstance(self.body[0], Offload):
            raise TypeError(f"kernel {self.name} is not offloaded: {type(self.body[0]).__name__} at top level")
        return self.body  # type: ignore[return-value]  # these are tasks


Pass = Callable[[Kernel], Kernel]
