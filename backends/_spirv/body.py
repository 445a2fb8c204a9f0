"""Holds the state of a SPIR-V function under construction, which the functions that emit statements share."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from quadrants_lab.backends._gpu.stacks import Chunk
from quadrants_lab.backends._spirv import ops
from quadrants_lab.backends._spirv.assembler import Function
from quadrants_lab.backends._spirv.frame import FrameReader
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType, u32
from quadrants_lab.ir.walk import end_of, find


class Body:
    """Emits blocks into ``fn``.

    ``frame`` reads the launch frame; it is None in a function of the kernel, which does not access it. ``chunks``: see
    `_gpu.stacks.chunks`. ``exact``: products and sums are not contracted. ``parallel``: other iterations of the task
    may run at the same time. ``values``, ``types`` and ``known`` map ids of the IR to SPIR-V ids, dtypes and constant
    values.
    """

    handlers: ClassVar[dict[type, Callable[[Any, Any], None]]] = {}

    def __init__(
        self, fn: Function, frame: FrameReader | None, chunks: Mapping[str, Chunk], exact: bool, parallel: bool = False
    ) -> None:
        self.fn = fn
        self.m = fn.module
        self._frame = frame
        self.exact = exact
        self.parallel = parallel
        self.values: dict[int, int] = {}
        self.types: dict[int, DType] = {}
        self.known: dict[int, Any] = {}
        self.offsets: dict[tuple[Any, ...], int] = {}  # what is addressed -> a pointer that dominates the current block
        self.chunks = chunks
        self.pending: list[int] = []  # values of a chunk (`_gpu.stacks.Chunk`) that are not stored yet
        self.loaded: dict[tuple[str, int], int] = {}  # (first buffer of a chunk, slot) -> the chunk, in this block
        self.counts: dict[str, int] = {}  # name of a buffer of kind "local" -> the id of its present value, if known
        self.locals: dict[str, int] = {}  # name of a buffer of kind "local" -> its variable

    @property
    def frame(self) -> FrameReader:
        assert self._frame is not None
        return self._frame

    @property
    def lane(self) -> int:
        """The index of the thread, a u32; 0 if the program has one thread."""
        return self.frame.builtin("GlobalInvocationId") if self.parallel else self.m.const(u32, 0)

    def define(self, id: int, type: DType, value: int) -> None:
        self.values[id] = value
        self.types[id] = type

    def bind(self, params: Iterable[N.Param], values: Iterable[int]) -> None:
        """Sets the values of parameters or results."""
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
        for stmt in block[:-1]:
            if self._frame is not None:  # the code of a function belongs to the statement that calls it
                fn.stmt, fn.span = stmt.id, stmt.span or span
            stored = self._stored(stmt) if self.counts and stmt.blocks() else []
            if isinstance(stmt, N.Loop):
                self._forget(stored)
            self.handlers[type(stmt)](self, stmt)
            self._forget(stored)
        self.offsets, self.counts, self.loaded = outer
        fn.stmt, fn.span = owner, span
        return tuple(self.values[i] for i in end_of(block).values)

    def _stored(self, s: N.Stmt) -> list[str]:
        """The names of the local buffers that the blocks of a statement store to."""
        return [x.buffer for x in find((s,), N.Write) if x.buffer in self.counts]

    def _forget(self, names: list[str]) -> None:
        for name in names:
            self.counts.pop(name, None)
