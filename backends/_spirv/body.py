"""The state that the handlers of statements share while they emit instructions."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from quadrants_lab.backends._spirv import ops, outline
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32
from quadrants_lab.ir.walk import end_of, find


class Body:
    """Emits blocks into ``fn``.

    ``frame`` reads the launch frame, and ``plan`` is what the programs of a kernel share; both are None in a function
    of the kernel that only computes. ``exact``: products and sums are not contracted. ``parallel``: other iterations of
    the task may run at the same time. ``values``, ``types`` and ``known`` map the ids of the IR to SPIR-V ids, dtypes
    and constant values.
    """

    handlers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {}

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
        self.offsets: dict[tuple[Any, ...], int] = {}  # pointers to elements that dominate the current block
        self.chunks = plan.chunks if plan else {}
        self.runs = plan.runs if plan else {}
        self.pending: list[int] = []  # values of a chunk that is not stored yet
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
        """The number of the thread, a u32; 0 if the program has one thread."""
        return self.frame.builtin("GlobalInvocationId") if self.parallel else self.m.const(u32, 0)

    def define(self, id: int, type: DType, value: int) -> None:
        self.values[id] = value
        self.types[id] = type

    def bind(self, params: Iterable[N.Param], values: Iterable[int]) -> None:
        """Defines parameters or results."""
        for p, value in zip(params, values, strict=True):
            self.define(p.id, p.type, value)

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
                self.handlers[outline.Run](self, self.runs[stmt.id])
                left = len(self.runs[stmt.id].stmts) - 1
                continue
            stored = self._stored(stmt) if self.counts and stmt.blocks() else []
            if isinstance(stmt, N.Loop):
                self._forget(stored)
            self.handlers[type(stmt)](self, stmt)
            self._forget(stored)
        self.offsets, self.counts, self.loaded = outer
        fn.stmt, fn.span = owner, span
        return tuple(self.values[i] for i in end_of(block).values)

    def run(self, stmts: Iterable[N.Stmt]) -> None:
        """Emits statements without opening a scope."""
        for s in stmts:
            self.handlers[type(s)](self, s)

    def _stored(self, s: N.Stmt) -> list[str]:
        """The locals to which the blocks of a statement store."""
        return [x.buffer for x in find((s,), N.Write) if x.buffer in self.counts]

    def _forget(self, names: list[str]) -> None:
        for name in names:
            self.counts.pop(name, None)
