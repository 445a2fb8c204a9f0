"""What statements have in common: their base, what their fields hold, their traits, and what follows from these.

A class of statements says once what everything else derives. The annotation of a field says what it holds: an `Id` or
`Ids` is an operand, a `Block` a region, `Params` are values that regions see, and those named ``results`` values that
are seen behind the statement. ``form`` is its text (`ir.forms`). Its traits are base classes. What passes ask of
statements that they do not know one by one they ask of these: a pass has no list of classes.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, ClassVar, TypeVar

from quadrants_lab.ir.record import compiling, dataclass
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType

Id = int  # of a value: an operand
MaybeId = int  # the same, or NO_ID
Ids = tuple[int, ...]
StackId = int  # of an AdStackAlloca
BufferName = str
ArgName = str
Word = str  # one of a few
Text = str
PrimalId = int  # of a forward value
Range = tuple[int, int]  # both ends included

NO_ID = -1

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

    ``span``: the source it came from (what a pass invents points at what it came from). ``adjoint_of``: in reverse
    code, the id of the forward statement that this one is the adjoint of (or, where the reverse recomputes a launch
    temporary, of the forward statement that it repeats).
    """

    id: int
    span: Span | None = field(default=None, kw_only=True)
    adjoint_of: int = field(default=NO_ID, kw_only=True)
    form: ClassVar[str] = ""
    lane_safe: ClassVar[bool] = True  # many iterations can do this at a time, in the lanes of a vector

    # what follows is overridden by `derive`

    def operands(self) -> Ids:
        """Ids that this statement itself reads; what its blocks read is not included."""
        return ()

    def with_operands(self: S, ids: Ids) -> S:
        return self

    def blocks(self) -> tuple[Block, ...]:
        return ()

    def with_blocks(self: S, blocks: tuple[Block, ...]) -> S:
        return self

    def defs(self) -> tuple[tuple[int, DType], ...]:
        """Values visible after this statement."""
        return ()

    def params(self) -> tuple[Param, ...]:
        """Values visible only inside this statement's blocks."""
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
    """It does something besides defining its value."""

    __slots__ = ()


class Pure(Value):
    """Its value depends on its operands alone, and computing it does no harm anywhere, however often."""

    __slots__ = ()


class Uniform(Pure):
    """Its value is the same in a whole launch."""

    __slots__ = ()


@dataclass
class Access(Stmt):
    """It goes to an element of a buffer; one index value an axis."""

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
    """It uses an adstack of its task."""

    __slots__ = ()
    stack: StackId


class TopUse(StackUse):
    """It needs a value on its stack."""

    __slots__ = ()


class Control(Stmt):
    """It decides what runs, and hands on results."""

    __slots__ = ()
    results: Params


class Loop(Control):
    """``carried`` start as ``inits``; the body's Yield gives their next values, ``results`` are their last ones.
    ``checkpoint``: the user's wish that reverse mode keeps the values of a segment of about sqrt(trips) iterations at
    a time and runs each segment once more; it changes no value."""

    __slots__ = ()
    carried: Params
    inits: Ids
    body: Block
    checkpoint: bool


# --- derived ----------------------------------------------------------------------------------------------------

_READ = {"Id": "s.{0},", "Ids": "*s.{0},", "MaybeId": "*((s.{0},) if s.{0} != -1 else ()),"}
_TAKE = {"Id": "next(it)", "Ids": "tuple([next(it) for _ in s.{0}])", "MaybeId": "next(it, -1)"}


def derive(cls: type[Any]) -> None:
    """Gives the class the methods that `Stmt` lists, as far as its fields need them and it has none of its own. They
    are compiled from source, for every pass calls them for every statement, when they are first called."""
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
        method("blocks", "s", f"({''.join(f's.{name},' for name in blocks)})")
        method("with_blocks", "s, blocks", made({name: f"blocks[{n}]" for n, name in enumerate(blocks)}))
    if params:
        method("params", "s", f"({''.join('*' * (kind == 'Params') + f's.{n},' for n, kind in params.items())})")
    if "results" in holds:
        method("defs", "s", "tuple([(r.id, r.type) for r in s.results])")
