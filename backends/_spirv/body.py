"""Statements to instructions: the table of handlers, and the state that they share."""

from collections.abc import Callable, Iterable
from typing import Any

from quadrants_lab.backends._gpu import layout as L
from quadrants_lab.backends._spirv import control, memory, opcodes as C, ops, outline
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.backends.boxes import GROUP
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32
from quadrants_lab.ir.walk import walk


class Body:
    """Emits blocks into ``fn``.

    ``frame`` reads the launch frame, and ``plan`` is what the programs of a kernel share; both are None in a function
    of the kernel that only computes. ``exact``: no contraction. ``parallel``: other iterations of the task may run at
    the same time. ``values``, ``types`` and ``known`` map the ids of the IR to SPIR-V ids, dtypes and constant values.
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
        self.offsets: dict[tuple[Any, ...], int] = {}  # offsets of elements that dominate the current block
        self.chunks = plan.chunks if plan else {}
        self.runs = plan.runs if plan else {}
        self.pending: list[int] = []  # values of a chunk whose store is still to come
        self.loaded: dict[tuple[str, int], int] = {}  # (first buffer of a chunk, slot) -> the chunk, in this block
        self.counts: dict[str, int] = {}  # the current values of locals, where they are known
        self.locals: dict[str, int] = {}  # the variables of locals
        self.slots: dict[tuple[str, ...], int] = {}  # parameters of a function that point to a chunk's first slot

    @property
    def frame(self) -> FrameReader:
        assert self._frame is not None
        return self._frame

    @property
    def lane(self) -> int:
        """The number of the thread, a u32; 0 where the program has one thread."""
        return self.frame.builtin("GlobalInvocationId") if self.parallel else self.m.const(u32, 0)

    def define(self, id: int, type: DType, value: int) -> None:
        self.values[id] = value
        self.types[id] = type

    def operate(self, prim: str, out: DType, type: DType, *args: int) -> int:
        """Emits a primitive on values of one dtype that have no ids in the IR."""
        return ops.emit(self.fn, prim, out, (type,) * len(args), args, (None,) * len(args), self.exact)

    def local(self, buffer: N.Buffer) -> int:
        """The variable of a buffer of kind "local" or "private"."""
        if buffer.name not in self.locals:
            element = self.m.type(buffer.dtype)
            self.locals[buffer.name] = self.fn.local(self.m.array(element, *buffer.shape) if buffer.shape else element)
        return self.locals[buffer.name]

    def block(self, block: N.Block) -> tuple[int, ...]:
        """Emits a block and returns the operands of its Yield."""
        fn = self.fn
        outer = self.offsets, self.counts, self.loaded
        self.offsets, self.counts, self.loaded = dict(self.offsets), dict(self.counts), {}
        owner, span = fn.stmt, fn.span
        left = 0
        for stmt in block[:-1]:
            if left:
                left -= 1
                continue
            if self._frame is not None:  # the code of a kernel's function belongs to the statement that calls it
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
        self.offsets, self.counts, self.loaded = outer
        fn.stmt, fn.span = owner, span
        if type(last) is not N.Yield:
            raise TypeError(f"a block ends in {type(last).__name__}; exits must be structured before emission")
        return tuple(self.values[i] for i in last.values)

    def run(self, stmts: Iterable[N.Stmt]) -> None:
        """Emits statements without opening a scope."""
        for s in stmts:
            HANDLERS[type(s)](self, s)

    def _stored(self, s: N.Stmt) -> list[str]:
        """The locals to which the blocks of a statement store."""
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


def _group_reduce(b: Body, s: N.GroupReduce) -> None:
    """The IR leaves open which threads sum together, so whichever threads of a subgroup are active here do."""
    b.define(s.id, s.type, memory.subgroup_sum(b, s.type, b.values[s.value]))


def _barrier(b: Body, s: N.Barrier) -> None:
    scope = b.m.const(u32, C.GROUP_SCOPE)
    b.fn.put("ControlBarrier", scope, scope, b.m.const(u32, C.BUFFERS_AND_SHARED))


def _call(b: Body, s: N.Call) -> None:
    m = b.m
    if s.function not in m.helpers:
        m.helpers[s.function] = _function(b, m.callable[s.function])
    args = (b.values[i] for i in s.args)
    b.define(s.id, s.type, b.fn.let("FunctionCall", m.type(s.type), m.helpers[s.function], *args))


def _function(caller: Body, f: N.Function) -> int:
    """Emits a function, without contraction: error-compensated sums must stay exactly as they are."""
    m = caller.m
    fn = Function(m, m.type(f.type), tuple(m.type(p.type) for p in f.params), f.name.replace(".", "_"))
    fn.stmt, fn.span = caller.fn.stmt, caller.fn.span
    body = type(caller)(fn, None, None, True)
    for p, id in zip(f.params, fn.params, strict=True):
        body.define(p.id, p.type, id)
    (value,) = body.block(f.body)
    fn.put("ReturnValue", value)
    return fn.close()


HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    N.Const: _const,
    N.Op: _op,
    N.Call: _call,
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
    N.GroupReduce: _group_reduce,
    N.Barrier: _barrier,
    N.ThreadExit: lambda b, s: None,  # the enclosing If emits the return
}
