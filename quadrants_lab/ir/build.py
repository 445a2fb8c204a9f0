"""Builds blocks of IR: the builder gives each statement an id, remembers the dtypes of values, and collects the
statements."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

from quadrants_lab.ir import nodes as N, prims
from quadrants_lab.ir.source import Span
from quadrants_lab.ir.types import DType, i64, u1


class Builder:
    """Appends statements to the innermost open block.

    ``types`` maps every id that the builder knows to its dtype. Each new statement gets the present ``span`` and
    ``adjoint_of``.
    """

    def __init__(self, next_id: int, types: dict[int, DType] | None = None) -> None:
        self.next_id = next_id
        self.types: dict[int, DType] = {} if types is None else types
        self.stmts: list[N.Stmt] = []
        self.span: Span | None = None
        self.adjoint_of = N.NO_ID

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def param(self, type: DType, name: str = "") -> N.Param:
        p = N.Param(self.fresh(), type, name)
        self.types[p.id] = type
        return p

    def add(self, stmt: N.Stmt) -> int:
        """Appends the statement and returns its id. If it has no span or adjoint_of, it gets the builder's."""
        if stmt.span is None:
            stmt.span = self.span
        if stmt.adjoint_of == N.NO_ID:
            stmt.adjoint_of = self.adjoint_of
        self.stmts.append(stmt)
        for i, t in stmt.defs():
            self.types[i] = t
        return stmt.id

    @contextmanager
    def block(self, more: list[N.Stmt] | None = None) -> Iterator[list[N.Stmt]]:
        """Makes a context in which new statements go to the end of ``more``, or of a new list. Its value is this
        list."""
        outer, self.stmts = self.stmts, [] if more is None else more
        try:
            yield self.stmts
        finally:
            self.stmts = outer

    def made(self, build: Callable[..., object], *args: Any) -> list[N.Stmt]:
        """A block of the statements that ``build(*args)`` appends."""
        with self.block() as stmts:
            build(*args)
        return stmts

    def nothing(self) -> N.Block:
        """A block that does nothing and yields nothing."""
        with self.block() as made:
            self.yield_()
        return tuple(made)

    @contextmanager
    def when(self, cond: int) -> Iterator[None]:
        """Makes a context whose statements run only where the condition holds."""
        with self.block() as then:
            yield
            self.yield_()
        orelse = self.nothing()
        self.add(N.If(self.fresh(), cond, tuple(then), orelse, ()))

    def check_depths(self) -> None:
        """Appends an empty AdStackGuard, which sets the overflow flag if a stack is over its capacity."""
        nothing = self.nothing()
        self.add(N.AdStackGuard(self.fresh(), nothing))

    def const(self, value: Any, type: DType) -> int:
        value = float(type.numpy(value)) if type.is_float else bool(value) if type is u1 else int(value)
        return self.add(N.Const(self.fresh(), type, value))

    def op(self, prim: str, *args: int, type: DType | None = None, name: str = "") -> int:
        """Appends the Op ``prim(args)`` and returns its id. ``type``, the dtype of the result, is needed for casts and
        bitcasts only."""
        second = self.types[args[1]] if len(args) > 1 else None
        t = prims.result_type(prim, self.types[args[0]], second, type)
        return self.add(N.Op(self.fresh(), t, prim, args, name=name))

    def reduced(self, op: str, values: Iterable[int]) -> int:
        """Appends Ops that combine the ``values`` by a primitive, from left to right; returns the id of the result."""
        return reduce(partial(self.op, op), values)

    def cast(self, value: int, type: DType) -> int:
        """``value`` as ``type``; the same id if it already has that dtype."""
        return value if self.types[value] is type else self.op("cast", value, type=type)

    def limited(self, extents: Iterable[int], divide: str) -> list[int]:
        """The extents of a box, which are all i64 or all u64 and not negative. If their product does not fit i64, outer
        extents are reduced until it does: such a loop would take centuries anyway, but a product that wraps could make
        it run no iteration. ``divide`` is the primitive that divides extents."""
        found = [*extents]
        t = self.types[found[0]]
        room = self.const(i64.limits[1], t)
        for k in reversed(range(len(found))):
            found[k] = self.op("min", found[k], room)
            room = self.op(divide, room, self.op("max", found[k], self.const(1, t)))
        return found

    def load(self, buffer: N.Buffer, index: tuple[int, ...]) -> int:
        return self.add(N.Load(self.fresh(), buffer.dtype, buffer.name, index))

    def store(self, buffer: N.Buffer, index: tuple[int, ...], value: int) -> None:
        self.add(N.Store(self.fresh(), buffer.name, index, value))

    def atomic(self, op: str, buffer: N.Buffer, index: tuple[int, ...], value: int) -> int:
        return self.add(N.Atomic(self.fresh(), buffer.dtype, buffer.name, index, value, op))

    def yield_(self, *values: int) -> None:
        self.add(N.Yield(self.fresh(), values))
