"""The base class of statements, the kinds of their fields, their traits, and the methods that are derived from these.

The annotation of a field says what it holds: an `Id` or `Ids` is an operand, a `Block` a region, `Params` are values
that regions see, or, if they are named ``results``, values that are visible behind the statement. ``form`` is the text
of the statement (`ir.forms`). Traits are base classes. A pass asks for traits instead of listing classes.
"""

from __future__ import annotations

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
Word = str  # one of a few words
Text = str
PrimalId = int  # the id of a forward value, which is no operand
Range = tuple[int, int]  # both ends included

NO_ID = -1
MINMAX = ("min", "max")  # the atomics of which some iterations win

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

    ``span`` is the source that it comes from, also if a pass made it. In reverse code ``adjoint_of`` is the id of the
    forward statement of which this is the adjoint, or which it repeats.
    """

    id: int
    span: Span | None = field(default=None, kw_only=True)
    adjoint_of: int = field(default=NO_ID, kw_only=True)
    form: ClassVar[str] = ""
    nests: ClassVar[bool] = False  # whether it has blocks
    lane_safe: ClassVar[bool] = True  # iterations in the lanes of a vector can do this at the same time

    # `derive` overrides the methods below

    def operands(self) -> Ids:
        """Ids that this statement itself reads, without those that its blocks read."""
        return ()

    def with_operands(self: S, ids: Ids) -> S:
        return self

    def blocks(self) -> tuple[Block, ...]:
        return ()

    def with_blocks(self: S, blocks: tuple[Block, ...]) -> S:
        return self

    def defs(self) -> tuple[tuple[int, DType], ...]:
        """Values that are visible behind this statement, with their dtypes."""
        return ()

    def params(self) -> tuple[Param, ...]:
        """Values that are visible only in this statement's blocks."""
        return ()


Block = tuple[Stmt, ...]
Params = tuple[Param, ...]


@dataclass(slots=True)
class Value(Stmt):
    """A statement that defines exactly one value, of dtype ``type``; ``name`` is the user's variable, if any."""

    type: DType
    name: str = field(default="", kw_only=True)

    def defs(self) -> tuple[tuple[int, DType], ...]:
        return ((self.id, self.type),)


# --- traits -----------------------------------------------------------------------------------------------------


class Effect(Stmt):
    """The statement has a side effect."""

    __slots__ = ()


class Pure(Value):
    """The value depends on the operands alone, and may be computed speculatively and repeatedly."""

    __slots__ = ()


class Uniform(Pure):
    """The value is the same in a whole launch."""

    __slots__ = ()


@dataclass
class Access(Stmt):
    """The statement accesses an element of a buffer; ``index`` has one value for each axis."""

    __slots__ = ()
    buffer: BufferName
    index: Ids


class Read(Access):
    __slots__ = ()


@dataclass
class Write(Access, Effect):
    __slots__ = ()
    value: Id


@dataclass
class StackUse(Stmt):
    """The statement uses an adstack of its task."""

    __slots__ = ()
    stack: StackId


class TopUse(StackUse):
    """The statement needs a value on its stack."""

    __slots__ = ()


class Control(Stmt):
    """The statement controls which of its blocks run, and has results."""

    __slots__ = ()
    results: Params


class Loop(Control):
    """``carried`` values start as ``inits``; the body's Yield has their next values, ``results`` are their last ones.
    ``checkpoint``: the user asks for recursive checkpointing, in which reverse mode stashes the values of one segment
    of about sqrt(trips) iterations at a time and runs each segment again. It changes no value."""

    __slots__ = ()
    carried: Params
    inits: Ids
    body: Block
    checkpoint: bool


@dataclass(slots=True)
class Scheduled(Stmt):
    """A task's schedule: what a device does with it. One pass of its family of devices decides that
    (`backends.cpu.schedule`, `backends.lower.schedule`), and emitters read it.

    ``lanes``: so many iterations run side by side in vectors. Before the schedule, and on devices without lanes, it is
    what `qd.loop_config` asks for, or 0. ``colours``: what it asks for, or 0. ``colour_rows``: blocks of at least so
    many rows run in two colours, one colour after the other. ``steps``: each row runs so many parts of the body one
    after the other.
    ``wait``: a group whose iterations make fewer than so many sixteenths of the longest's trips together has no lanes.
    ``shares``: the buffers that each thread reduces into for itself first, with the operation. ``copies``: the buffers
    that each thread may add to in a copy of its own. ``sums``: of additions to these, whether one thread runs the task
    and they are plain ("alone"), whether functions of their own have plain and atomic additions ("apart"), or whether
    each addition asks. ``one_place``: groups of so many iterations are looked at for additions to one element.
    ``grain``: the fewest iterations that are worth waking a thread for; ``timed``: only timing tells their cost.
    ``vectorise``, ``unroll``: LLVM's passes that do this to loops run, since the task may gain. ``brief``: a launch
    takes a few microseconds at most. ``in_step``: a thread of a GPU runs so many iterations in step.
    ``why``: the reasons in words.
    """

    lanes: int = field(default=0, kw_only=True)
    colours: int = field(default=0, kw_only=True)
    wait: int = field(default=0, kw_only=True)
    colour_rows: int = field(default=0, kw_only=True)
    steps: int = field(default=0, kw_only=True)
    shares: Reduced = field(default=(), kw_only=True)
    copies: BufferNames = field(default=(), kw_only=True)
    sums: Word = field(default="", kw_only=True)
    one_place: int = field(default=0, kw_only=True)
    grain: int = field(default=0, kw_only=True)
    timed: bool = field(default=False, kw_only=True)
    vectorise: bool = field(default=False, kw_only=True)
    unroll: bool = field(default=False, kw_only=True)
    brief: bool = field(default=False, kw_only=True)
    in_step: int = field(default=0, kw_only=True)
    why: Text = field(default="", kw_only=True)


# what of the schedule is not the default, in the text of a task
SCHEDULE = "".join(f"{{{f.name}?}}" for f in fields(Scheduled) if f.name not in ("id", "span", "adjoint_of"))


# --- derived ----------------------------------------------------------------------------------------------------

_READ = {"Id": "s.{0},", "Ids": "*s.{0},", "MaybeId": "*((s.{0},) if s.{0} != -1 else ()),"}
_TAKE = {"Id": "next(it)", "Ids": "tuple([next(it) for _ in s.{0}])", "MaybeId": "next(it, -1)"}


def derive(cls: type[Any]) -> None:
    """Gives the class those methods of `Stmt` that its fields need. As every pass calls them for every statement, they
    are compiled from source, at their first call."""
    holds = {f.name: str(f.type) for f in fields(cls)}
    operands = {name: kind for name, kind in holds.items() if kind in _READ}
    blocks = [name for name, kind in holds.items() if kind == "Block"]
    params = {name: kind for name, kind in holds.items() if kind in ("Param", "Params") and name != "results"}
    ordered = sorted(fields(cls), key=lambda f: bool(f.kw_only))

    def made(new: dict[str, str]) -> str:
        args = (("", f"{f.name}=")[bool(f.kw_only)] + new.get(f.name, f"s.{f.name}") for f in ordered)
        return f"cls({', '.join(args)})"

    def method(name: str, args: str, result: str, before: str = "pass") -> None:
        text = f"def method({args}):\n {before}\n return {result}"
        setattr(cls, name, compiling(name, lambda *_: text, cls))

    if list(operands.values()) == ["Ids"]:
        (name,) = operands
        method("operands", "s", f"s.{name}")
        method("with_operands", "s, ids", made({name: "ids"}))
    elif operands:
        method("operands", "s", f"({''.join(_READ[kind].format(name) for name, kind in operands.items())})")
        taken = {name: _TAKE[kind].format(name) for name, kind in operands.items()}
        method("with_operands", "s, ids", made(taken), "it = iter(ids)")
    if blocks:
        cls.nests = True
        method("blocks", "s", f"({''.join(f's.{name},' for name in blocks)})")
        method("with_blocks", "s, blocks", made({name: f"blocks[{n}]" for n, name in enumerate(blocks)}))
    if params:
        method("params", "s", f"({''.join('*' * (kind == 'Params') + f's.{n},' for n, kind in params.items())})")
    if "results" in holds:
        method("defs", "s", "tuple([(r.id, r.type) for r in s.results])")
