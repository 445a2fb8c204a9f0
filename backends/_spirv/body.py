"""Statements to instructions: the table of handlers, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._spirv import calls, control, failures, memory, ops, stacks
from quadrants_lab.backends._spirv.depths import Depth
from quadrants_lab.backends._spirv.groups import Groups
from quadrants_lab.backends.lower.adstacks.lockstep import Steps
from quadrants_lab.backends.lower.adstacks.loops import Ahead
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType

if TYPE_CHECKING:
    from quadrants_lab.backends._spirv.assembler import Function
    from quadrants_lab.backends._spirv.frame import FrameReader


class Body:
    """Emits blocks into ``fn``. ``frame`` reads the launch frame (None in a function that computes only).

    ``values`` maps ids to SPIR-V ids, ``types`` to dtypes, ``known`` to the values of constants. ``parallel``: other
    iterations of the task may run at the same time. ``asserts``: whether the user's asserts are evaluated; checks
    always are. ``exact``: no contraction.
    """

    def __init__(
        self, fn: Function, frame: FrameReader | None, exact: bool, parallel: bool, asserts: bool
    ) -> None:
        self.fn = fn
        self.m = fn.module
        self._frame = frame
        self.exact = exact
        self.parallel = parallel
        self.asserts = asserts
        self.values: dict[int, int] = {}
        self.types: dict[int, DType] = {}
        self.known: dict[int, Any] = {}
        self.offsets: dict[
            tuple[Any, ...], int
        ] = {}  # element offsets computed in this block or one around it
        self.partials: dict[str, memory.Partial] = {}
        self.stacks: dict[int, stacks.Stack] = {}
        self.depths: dict[int, Depth] = {}  # of stacks alone and, by their first ones, of groups
        self.trips: dict[int, int] = {}  # by the id of a loop: the number of its trip, where slots go by it
        self.groups = Groups(Steps((), {}))
        self.iteration = 0  # number of the parallel iteration within its task, a u64
        self.ahead: Ahead | None = None  # where depths are compared with capacities before anything is pushed
        self.guarded = False  # inside an AdStackGuard, where depths are known to fit

    @property
    def frame(self) -> FrameReader:
        assert self._frame is not None
        return self._frame

    def define(self, id: int, type: DType, value: int) -> None:
        self.values[id] = value
        self.types[id] = type

    def operate(self, prim: str, out: DType, type: DType, *args: int) -> int:
        """A primitive on values of one dtype that are not in the IR."""
        return ops.emit(self.fn, prim, out, (type,) * len(args), args, (None,) * len(args), self.exact)

    def block(self, block: N.Block) -> tuple[int, ...]:
        """Emits a block; returns the values that its Yield hands on."""
        fn = self.fn
        outer, self.offsets = self.offsets, dict(self.offsets)
        owner, span = fn.stmt, fn.span
        popped: set[int] = set()
        behind = 0
        for at, stmt in enumerate(block[:-1]):
            if stmt.id in popped:
                continue
            if (
                self._frame is not None
            ):  # a function of the library belongs to the statement that first called it
                fn.stmt, fn.span = stmt.id, stmt.span or span
            if self.ahead and stmt is self.ahead.loop:
                behind = stacks.guard_ahead(self, self.ahead)
            if isinstance(stmt, N.AdStackLoadTop) and (pop := stacks.taken_with(self, stmt, block, at)) != N.NO_ID:
                popped.add(pop)
                stacks.load_top(self, stmt, pop=True)
            else:
                HANDLERS[type(stmt)](self, stmt)
        last = block[-1]
        if behind:
            fn.jump(behind)
            fn.start(behind)
        self.offsets = outer
        fn.stmt, fn.span = owner, span
        if type(last) is not N.Yield:
            raise TypeError(
                f"a block ends in {type(last).__name__}; exits must be structured before emission"
            )
        return tuple(self.values[i] for i in last.values)


def _const(b: Body, s: N.Const) -> None:
    b.define(s.id, s.type, b.m.const(s.type, s.value))
    b.known[s.id] = s.value


def _op(b: Body, s: N.Op) -> None:
    types = tuple(b.types[i] for i in s.args)
    args = tuple(b.values[i] for i in s.args)
    known = tuple(b.known.get(i) for i in s.args)
    b.define(s.id, s.type, ops.emit(b.fn, s.prim, s.type, types, args, known, b.exact))


def _arg(b: Body, s: N.ArgLoad) -> None:
    b.define(s.id, s.type, b.frame.arg(s.arg))


def _shape(b: Body, s: N.ShapeOf) -> None:
    shape = b.frame.kernel.buffers[s.buffer].shape
    if shape is not None:
        b.define(s.id, s.type, b.m.const(s.type, shape[s.axis]))
        b.known[s.id] = shape[s.axis]
    else:
        wide = b.frame.extent(s.buffer, s.axis)
        b.define(s.id, s.type, wide if s.type.bits == 64 else b.fn.let("UConvert", b.m.type(s.type), wide))


def _builtin(b: Body, s: N.Builtin) -> None:
    at = {"seed": L.SEED, "launch": L.LAUNCH}
    b.define(s.id, s.type, b.frame.word(at[s.what]) if s.what in at else b.iteration)


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
    N.Assert: failures.check,
    N.Print: failures.print_,
    N.If: control.if_,
    N.For: control.for_,
    N.While: control.while_,
    N.AdStackAlloca: stacks.alloca,
    N.AdStackPush: stacks.push,
    N.AdStackPop: stacks.pop,
    N.AdStackLoadTop: stacks.load_top,
    N.AdStackLoadTopAdj: stacks.load_top_adjoint,
    N.AdStackAccAdjoint: stacks.accumulate,
    N.AdStackDepth: stacks.depth,
    N.AdStackGuard: stacks.guard,
}
