"""Holds the state of an MSL function under construction, which the functions that emit statements share."""

from __future__ import annotations

from collections import Counter

from quadrants_lab.backends._clike import body
from quadrants_lab.backends._clike.source import Source
from quadrants_lab.backends._gpu.stacks import chunks
from quadrants_lab.backends._msl import expr as X, ops
from quadrants_lab.backends._msl.expr import Expr
from quadrants_lab.backends._msl.frame import FrameStruct, stored
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.types import DType


class Body(body.Body):
    """Emits blocks of one program. ``library``: the functions of the module that programs call, by name."""

    type_names = X.NAMES

    def __init__(self, block: N.Block, frame: FrameStruct, library: dict[str, str], out: Source) -> None:
        super().__init__(frame.kernel, block, out, frame.names)
        self.frame = frame
        self.library = library
        self.chunks = chunks(frame.kernel)
        self.pending: list[Expr] = []  # values of a chunk that is not stored yet
        self.loaded: dict[tuple[str, int], str] = {}  # (first buffer of a chunk, slot) -> variable with the chunk
        self.index: dict[int, str] = {}  # slot -> variable with its index in the heap
        self.lane = "0"  # the index of this thread
        self._started: set[str] = set()  # variables that `once` has declared
        self._counts: dict[str, int] = {}

    # --- variables at the start of the program -----------------------------------------------------------------------

    def once(self, name: str, type: str, text: str) -> str:
        """Declares a variable at the start of the program, once; returns its name."""
        if name not in self._started:
            self._started.add(name)
            self.start.declare(type.rstrip(" *"), f"{'*' * type.count('*')}{name} = {text}")
        return name

    def pointer(self, b: N.Buffer) -> str:
        """The variable with the address of a field or ndarray, or of a view of its words."""
        of, t = self.frame.kernel.buffers[b.of or b.name], f"device {stored(b)} *"
        address = self.frame.buffer(of)
        if not b.of:
            return self.once(address[2:], t, address)
        return self.once(self.frame.names.of(b.name, b.name), t, f"({t}){'&' * of.in_frame}{address}")

    def local(self, b: N.Buffer) -> str:
        """The variable of a buffer of kind "local"."""
        return self.once(self.frame.named(b.name), X.name(b.dtype), X.literal(b.dtype, 0).text)

    def extent(self, b: N.Buffer, axis: int) -> Expr:
        """The variable with the number of elements of an ndarray along an axis, a long."""
        shape = self.frame.shape(b)
        name = self.once(self.frame.names.of((b.name, axis), f"{b.name}.extent{axis}"), "long", f"{shape}[{axis}]")
        return X.variable(name, "long")

    # --- values -----------------------------------------------------------------------------------------------------

    def typed(self, id: int) -> Expr:
        return X.as_type(self.values[id], X.name(self.types[id]))

    def inner(self, block: N.Block, out: Source) -> Body:
        return Body(block, self.frame, self.library, out)

    def operate(self, prim: str, out: DType, type: DType, *args: Expr) -> Expr:
        """A primitive on values of one dtype that have no ids in the IR."""
        return ops.emit(prim, out, (type,) * len(args), args)

    def count(self, what: str) -> int:
        """How often this was called before with the same argument; this makes names unique."""
        self._counts[what] = self._counts.get(what, -1) + 1
        return self._counts[what]

    # --- blocks -----------------------------------------------------------------------------------------------------

    def block(self, block: N.Block, lines: bool = False) -> tuple[Expr, ...]:
        outer = self.loaded, self.index
        self.loaded, self.index = {}, {}
        values = super().block(block, lines)
        self.loaded, self.index = outer
        return values

    def free(self, name: str, reads: Counter[int]) -> bool:
        return super().free(name, reads) and not any(name in e.reads for e in self.pending)

    def changed(self, s: N.Stmt) -> str | None:
        if not isinstance(s, N.Store):
            return None
        if self.frame.kernel.buffers[s.buffer].kind == "local":
            return self.local(self.frame.kernel.buffers[s.buffer])
        return "" if s.buffer in self.chunks and self.chunks[s.buffer].buffers[-1] != s.buffer else None
