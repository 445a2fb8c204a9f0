"""Statements to instructions: the table of handlers, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._gpu.programs import GROUP
from quadrants_lab.backends._spirv import calls, control, memory, ops, outline
from quadrants_lab.backends._spirv import opcodes as C
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32
from quadrants_lab.ir.walk import walk

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function
    from quadrants_lab.backends._spirv.frame import FrameReader


class Body:
    """Emits blocks into ``fn``. ``frame`` reads the launch frame and ``plan`` has what its programs share (None in a
    function that computes only).

    ``values`` maps ids to SPIR-V ids, ``types`` to dtypes, ``known`` to the values of constants. ``parallel``: other
    iterations of the task may run at the same time. ``exact``: no contraction.
    """

    def __init__(
        self, fn: Function, frame: FrameReader | None, plan: outline.Plan | None, exact: bool, parallel: bool = False
    ) -> None:
        self.fn = fn
        self.m = fn.module
        self._frame = frame
        self.plan = plan
        self.exact = exact
        self.parallel = parallel
        self.values: dict[int, int] = {}
        self.types: dict[int, DType] = {}
        self.known: dict[int, Any] = {}
        self.offsets: dict[tuple[Any, ...], int] = {}  # of elements, computed in this block or one around it
        self.chunks = plan.chunks if plan else {}
        self.runs = plan.runs if plan else {}
        self.row: list[int] = []  # values of a slot that are to be stored with others
        self.whole: dict[tuple[str, int], int] = {}  # first buffer of a chunk, slot -> all of the slot, in this block
        self.counts: dict[str, int] = {}  # what locals are known to hold here
        self.locals: dict[str, int] = {}  # their variables
        self.slots: dict[tuple[str, ...], int] = {}  # pointers to the first slots that a function was given

    @property
    def frame(self) -> FrameReader:
        assert self._frame is not None
        return self._frame

    @property
    def lane(self) -> int:
        """The number of the thread, a u32; there is one where nothing runs in parallel."""
        return self.frame.builtin("GlobalInvocationId") if self.parallel else self.m.const(u32, 0)

    def define(self, id: int, type: DType, value: int) -> None:
        self.values[id] = value
        self.types[id] = type

    def operate(self, prim: str, out: DType, type: DType, *args: int) -> int:
        """A primitive on values of one dtype that are not in the IR."""
        return ops.emit(self.fn, prim, out, (type,) * len(args), args, (None,) * len(args), self.exact)

    def local(self, buffer: N.Buffer) -> int:
        """The variable of a buffer of kind "local"."""
        if buffer.name not in self.locals:
            self.locals[buffer.name] = self.fn.local(self.m.type(buffer.dtype))
        return self.locals[buffer.name]

    def block(self, block: N.Block) -> tuple[int, ...]:
        """Emits a block; returns the values that its Yield hands on."""
        fn = self.fn
        outer = self.offsets, self.counts, self.whole
        self.offsets, self.counts, self.whole = dict(self.offsets), dict(self.counts), {}
        owner, span = fn.stmt, fn.span
        left = 0
        for stmt in block[:-1]:
            if left:
                left -= 1
                continue
            if self._frame is not None:  # a function of the library belongs to the statement that first called it
                fn.stmt, fn.span = stmt.id, stmt.span or span
            if stmt.id in self.runs:
                outline.call(self, self.runs[stmt.id])
                left = len(self.runs[stmt.id].stmts) - 1
                continue
            stored = self._stored(stmt) if self.counts and stmt.blocks() else []
            if isinstance(stmt, N.Loop):
                self._forget(stored)
            HANDLERS[type(stmt)](self, stmt)
            self._forget(stored)
        last = block[-1]
        self.offsets, self.counts, self.whole = outer
        fn.stmt, fn.span = owner, span
        if type(last) is not N.Yield:
            raise TypeError(
                f"a block ends in {type(last).__name__}; exits must be structured before emission"
            )
        return tuple(self.values[i] for i in last.values)

    def run(self, stmts: Iterable[N.Stmt]) -> None:
        """Emits statements of a block."""
        for s in stmts:
            HANDLERS[type(s)](self, s)

    def _stored(self, s: N.Stmt) -> list[str]:
        """Locals that a statement's blocks store to."""
        return [x.buffer for x in walk((s,)) if isinstance(x, N.Write) and x.buffer in self.counts]

    def _forget(self, names: list[str]) -> None:
        for name in names:
            self.counts.pop(name, None)


def _const(b: Body, s: N.Const) -> None:
    b.define(s.id, s.type, b.m.const(s.type, s.value))
    b.known[s.id] = s.value


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.types[i] for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    known = tuple(b.known.get(i) for i in s.args)
    b.define(s.id, s.type, ops.emit(b.fn, s.prim, s.type, types, args, known, b.exact))


def _arg(b: Body, s: N.ArgLoad) -> None:
    b.define(s.id, s.type, b.frame.arg(s.arg, s.type))


def _shape(b: Body, s: N.ShapeOf) -> None:
    wide = b.frame.extent(s.buffer, s.axis)
    b.define(s.id, s.type, wide if s.type.bits == 64 else b.fn.let("UConvert", b.m.type(s.type), wide))


def _builtin(b: Body, s: N.Builtin) -> None:
    if s.what == "elected":
        value = b.fn.let("GroupNonUniformElect", b.m.bool, b.m.const(u32, C.SUBGROUP_SCOPE))
    elif s.what == "lanes":
        groups = b.frame.builtin("NumWorkgroups")
        value = b.fn.let("IMul", b.m.type(u32), groups, b.m.const(u32, GROUP))
    else:
        value = b.frame.word({"seed": L.SEED, "launch": L.LAUNCH}[s.what])
    b.define(s.id, s.type, value)


def _together(b: Body, s: N.Together) -> None:
    """Those that are not at this place together form groups of their own: the result does not depend on it."""
    b.define(s.id, s.type, memory.subgroup_sum(b, s.type, b.values[s.value]))


def _barrier(b: Body, s: N.Barrier) -> None:
    scope = b.m.const(u32, C.GROUP_SCOPE)
    b.fn.put("ControlBarrier", scope, scope, b.m.const(u32, C.BUFFERS_AND_SHARED))


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: _const,
    N.Op: _op,
    N.Call: calls.call,
    N.ArgLoad: _arg,
    N.ShapeOf: _shape,
    N.Builtin: _builtin,
    N.Load: memory.load,
    N.Store: memory.store,
    N.Atomic: memory.atomic,
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.Lane: lambda b, s: b.define(s.id, s.type, b.lane),
    N.Together: _together,
    N.Barrier: _barrier,
    N.Leave: lambda b, s: None,  # the If that it stands in does it
}
