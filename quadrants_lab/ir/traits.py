"""Defines the base class of statements, the kinds of their fields, their traits, and the methods that are derived
from these.

The annotation of a field says what the field holds: `Id` and `Ids` are operands, a `Block` is a region, and `Params`
are values that only the regions see, except that ``results`` are visible after the statement. ``form`` is the text of
the statement (`ir.text`). Traits are base classes. A pass asks for traits instead of listing classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, fields
from typing import Any, ClassVar, TypeVar

from quadrants_lab.ir.record import compiling, dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType

Id = int  # an operand
MaybeId = int  # an operand, or NO_ID
Ids = tuple[int, ...]  # operands
StackId = int  # the id of an AdStackAlloca
BufferName = str
BufferNames = tuple[str, ...]
Reduced = tuple[tuple[str, str], ...]  # buffers, each with the operation that reduces into it
ArgName = str
Word = str  # an operation or another word that the class of statements knows
Text = str
PrimalId = int  # the id of a forward value, which is no operand
Range = tuple[int, int]  # both ends included
Shape = tuple[int, ...]  # extents of a local vector or matrix

NO_ID = -1
MINMAX = ("min", "max")  # atomics whose result is the value of one iteration, or of several that tie

S = TypeVar("S", bound="Stmt")


@dataclass(slots=True)
class Param:
    """A value that a block or structured statement defines: loop index, carried value or result."""

    id: int
    type: DType
    name: str = ""


@dataclass(slots=True)
class Stmt:
    """Base of all statements.

    ``span`` is the place in the source that the statement comes from, also if a pass made the statement. In reverse
    code ``adjoint_of`` is the id of a forward statement: this statement computes its adjoint, or repeats it.
    """

    id: int
    span: Span | None = field(default=None, kw_only=True)
    adjoint_of: int = field(default=NO_ID, kw_only=True)
    form: ClassVar[str] = ""
    nests: ClassVar[bool] = False  # whether the statement has blocks
    loads: ClassVar[bool] = False  # whether it is a `Load`
    stores: ClassVar[bool] = False  # whether it is a `Store`
    terminates: ClassVar[bool] = False  # whether it ends its block
    lane_safe: ClassVar[bool] = True  # whether iterations in the lanes of a vector can run it at the same time

    @property
    def prim(self) -> str:
        """The primitive of an `Op`; "" for all others."""
        return ""

    @property
    def atomic(self) -> str:
        """The operation of an `Atomic`; "" for all others."""
        return ""

    @property
    def constant(self) -> Any:
        """The value of a `Const`; None for all others."""
        return None

    @property
    def weight(self) -> int:
        """As how many statements this one counts: two for each element of a `Choice`, a comparison and a select."""
        return 1

    def deciding(self) -> Ids:
        """The values that decide which blocks of the statement run, and how often: a condition, begins and ends."""
        return ()

    # `derive` overrides the methods below

    def operands(self) -> Ids:
        """Ids that this statement itself reads. What its blocks read is not among them."""
        return ()

    def with_operands(self: S, ids: Ids) -> S:
        return self

    def blocks(self) -> tuple[Block, ...]:
        return ()

    def with_blocks(self: S, blocks: tuple[Block, ...]) -> S:
        return self

    def defs(self) -> tuple[tuple[int, DType], ...]:
        """Values that are visible after this statement, with their dtypes."""
        return ()

    def params(self) -> tuple[Param, ...]:
        """Values that are visible only in this statement's blocks."""
        return ()

    def with_params(self: S, fn: Callable[[Param], Param]) -> S:
        return self

    def with_results(self: S, fn: Callable[[Param], Param]) -> S:
        return self


Block = tuple[Stmt, ...]
Params = tuple[Param, ...]


@dataclass(slots=True)
class Value(Stmt):
    """The statement defines exactly one value, of dtype ``type``; ``name`` is the user's variable, if any."""

    type: DType
    name: str = field(default="", kw_only=True)

    def defs(self) -> tuple[tuple[int, DType], ...]:
        return ((self.id, self.type),)


# --- traits -----------------------------------------------------------------------------------------------------


class Effect(Stmt):
    """The statement has a side effect."""

    __slots__ = ()


class Pure(Value):
    """The value depends only on the operands. A pass may compute it earlier, again, or where nobody needs it."""

    __slots__ = ()


class Uniform(Pure):
    """The value is the same for every iteration of a launch."""

    __slots__ = ()


@dataclass
class Access(Stmt):
    """The statement accesses an element of a buffer. ``index`` has one value for each axis. In a lowered kernel, whose
    tasks are serial or of kind "threads", it may instead have one value, the row-major number of the element."""

    __slots__ = ()
    buffer: BufferName
    index: Ids


class Read(Access):
    """The statement reads the element."""

    __slots__ = ()


@dataclass
class Write(Access, Effect):
    """The statement changes the element, with ``value``."""

    __slots__ = ()
    value: Id


@dataclass
class StackUse(Stmt):
    """The statement uses an adstack of its task."""

    __slots__ = ()
    stack: StackId


class TopUse(StackUse):
    """The statement uses the newest value of its stack, which must not be empty."""

    __slots__ = ()


@dataclass
class Choice(Stmt):
    """The statement accesses the element of a local vector or matrix that ``index`` means. ``values`` are the elements,
    row by row, and ``shape`` has the extent along each axis. An index that is out of range along some axis means no
    element, or, if the statement is ``clamped``, the last one."""

    __slots__ = ()
    index: Ids
    shape: Shape
    values: Ids
    clamped: bool = field(default=False, kw_only=True)

    weight = property(lambda self: 2 * len(self.values))

    def number(self, index: Sequence[int]) -> int:
        """The position among ``values`` of the element that the index means; -1 if the index means none."""
        at = 0
        for i, n in zip(index, self.shape, strict=True):
            if not 0 <= i < n:
                return len(self.values) - 1 if self.clamped else -1
            at = at * n + int(i)
        return at

    def taken(self, index: Sequence[int]) -> list[tuple[int, int]]:
        """For this index, pairs of each value that the statement defines and the value that it is equal to; NO_ID
        instead of the latter stands for 0."""
        raise NotImplementedError

    def merges(self) -> list[tuple[int, int]]:
        """All pairs of a value and one that may be equal to it, depending on the index."""
        raise NotImplementedError


class Control(Stmt):
    """The statement controls which of its blocks run, and has results."""

    __slots__ = ()
    results: Params


class Loop(Control):
    """The ``carried`` values are ``inits`` in the first iteration. The Yield at the end of the body has their values
    for the next iteration, and ``results`` are the values after the last one. ``checkpoint``: the user asks for
    recursive checkpointing. Then reverse mode keeps the values of one segment of about sqrt(trips) iterations at a
    time, and runs each segment again; no result changes."""

    __slots__ = ()
    carried: Params
    inits: Ids
    body: Block
    checkpoint: bool

    @property
    def counter(self) -> Param:
        """The value that counts the iterations: the index of a For; of a While the last carried value, after
        `autodiff.prepare.count_whiles`."""
        return self.carried[-1]


@dataclass(slots=True)
class Scheduled(Stmt):
    """A task's schedule: what a device does with the task. For each family of devices one pass decides it
    (`backends.cpu.schedule`, `backends._gpu.schedule`), and the emitters read it.

    ``lanes``: the number of iterations that run side by side in vectors; before the schedule, and on devices
    without lanes, what `qd.loop_config` asks for, or 0. ``colours``: what `qd.loop_config` asks for, or 0.
    ``colour_rows``: the task runs in blocks of at least this many rows, first every other block, then the rest,
    so that neighbouring blocks never run at the same time. ``fission``: the number of loops into which the body
    is split; each runs for a whole row before the next one begins. ``wait``: lanes wait for the longest iteration
    of their group. A group runs its iterations one after the other if all of them together make fewer than this
    many sixteenths of the trips of the longest.
    ``shares``: the buffers, each with its operation, into which every thread first reduces what it computed
    itself. ``copies``: the buffers for which every thread may have a copy of its own to add to. ``sums``: how
    an addition to one of ``copies`` is made: "serial" is a plain addition, since one thread runs the whole
    task; "versioned" stands for two functions, one with plain and one with atomic additions, of which a launch
    calls one; otherwise each addition tests whether it may be a plain one. ``aggregate``: the number of
    iterations in a group that first tests whether all of them add to the same element, and if so adds their sum
    once. ``moves``: the task is one copy of a box of elements. ``grain``: the fewest iterations for which waking
    a thread pays. ``timed``: how long an iteration takes is known only from timing it. ``vectorise``,
    ``unroll``: LLVM runs these passes over the task's loops. ``brief``: a launch takes a few microseconds at
    most. ``in_step``: the number of iterations that a thread of a GPU runs side by side. ``long_sum``: the
    number of neighbouring threads that share an iteration's long loop, which only adds up. ``near_sines``: loops
    that keep the arguments of sines near zero do not reduce them. ``why``: the reasons in words.
    """

    lanes: int = field(default=0, kw_only=True)
    colours: int = field(default=0, kw_only=True)
    wait: int = field(default=0, kw_only=True)
    colour_rows: int = field(default=0, kw_only=True)
    fission: int = field(default=0, kw_only=True)
    shares: Reduced = field(default=(), kw_only=True)
    copies: BufferNames = field(default=(), kw_only=True)
    sums: Word = field(default="", kw_only=True)
    aggregate: int = field(default=0, kw_only=True)
    moves: bool = field(default=False, kw_only=True)
    grain: int = field(default=0, kw_only=True)
    timed: bool = field(default=False, kw_only=True)
    vectorise: bool = field(default=False, kw_only=True)
    unroll: bool = field(default=False, kw_only=True)
    brief: bool = field(default=False, kw_only=True)
    in_step: int = field(default=0, kw_only=True)
    long_sum: int = field(default=0, kw_only=True)
    near_sines: bool = field(default=False, kw_only=True)
    why: Text = field(default="", kw_only=True)


# the text of a task shows each field of the schedule that differs from its default
SCHEDULE = "".join(f"{{{f.name}?}}" for f in fields(Scheduled) if f.name not in ("id", "span", "adjoint_of"))


# --- derived ----------------------------------------------------------------------------------------------------

_READ = {"Id": "s.{0},", "Ids": "*s.{0},", "MaybeId": "*((s.{0},) if s.{0} != -1 else ()),"}
_TAKE = {"Id": "next(it)", "Ids": "tuple([next(it) for _ in s.{0}])", "MaybeId": "next(it, -1)"}


def derive(cls: type[Any]) -> None:
    """Gives the class its own `operands`, `blocks` and the other methods of `Stmt` that depend on fields. They are made
    as source text and compiled at their first call, because every pass calls them for every statement."""
    holds = {f.name: str(f.type) for f in fields(cls)}
    operands = {name: kind for name, kind in holds.items() if kind in _READ}
    blocks = [name for name, kind in holds.items() if kind == "Block"]
    params = {name: kind for name, kind in holds.items() if kind in ("Param", "Params") and name != "results"}

    def made(new: dict[str, str]) -> str:
        ordered = sorted(fields(cls), key=lambda f: bool(f.kw_only))
        args = (("", f"{f.name}=")[bool(f.kw_only)] + new.get(f.name, f"s.{f.name}") for f in ordered)
        return f"cls({', '.join(args)})"

    def method(name: str, args: str, result: Callable[[], str], before: str = "pass") -> None:
        setattr(cls, name, compiling(name, lambda *_: f"def method({args}):\n {before}\n return {result()}", [cls]))

    def taking_operands() -> str:
        return made({name: _TAKE[kind].format(name) for name, kind in operands.items()})

    def all_params() -> str:
        return f"({''.join('*' * (kind == 'Params') + f's.{n},' for n, kind in params.items())})"

    def mapping_params() -> str:
        return made({n: f"tuple(map(fn, s.{n}))" if kind == "Params" else f"fn(s.{n})" for n, kind in params.items()})

    if list(operands.values()) == ["Ids"]:
        (only,) = operands
        method("operands", "s", lambda: f"s.{only}")
        method("with_operands", "s, ids", lambda: made({only: "ids"}))
    elif operands:
        method("operands", "s", lambda: f"({''.join(_READ[kind].format(name) for name, kind in operands.items())})")
        method("with_operands", "s, ids", taking_operands, "it = iter(ids)")
    if blocks:
        cls.nests = True
        method("blocks", "s", lambda: f"({''.join(f's.{name},' for name in blocks)})")
        method("with_blocks", "s, blocks", lambda: made({name: f"blocks[{n}]" for n, name in enumerate(blocks)}))
    if params:
        method("params", "s", all_params)
        method("with_params", "s, fn", mapping_params)
    if "results" in holds:
        method("with_results", "s, fn", lambda: made({"results": "tuple(map(fn, s.results))"}))
        method("defs", "s", lambda: "tuple([(r.id, r.type) for r in s.results])")
