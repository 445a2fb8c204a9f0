"""Lowers the several indices of an access on a GPU to one: the row-major index of the element.

load @x[%i, %j] of a field of 4 x 8 elements becomes %n = %i * 8 + %j; load @x[%n]
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from quadrants_lab.backends.lower.expression import X
from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.passes import Parametrised
from quadrants_lab.ir.record import dataclass
from quadrants_lab.ir.types import DType, i32, i64
from quadrants_lab.ir.walk import find, map_blocks, same_or, types_of


@dataclass(frozen=True, slots=True)
class LowerOffsets(Parametrised):
    """Guarantees that an access to memory has one index, an i32 or i64, or none. An index that is computed from several
    is an i64 if the buffer may have 2**31 elements or more; with ``wide``, always. ``groups``: accesses to buffers of
    role "block" keep their indices, because the part of a group may be stored elsewhere."""

    wide: bool = False
    groups: bool = False

    def __call__(self, kernel: N.Kernel) -> N.Kernel:
        b = Builder(kernel.next_id, types_of(kernel.body))
        body = _Rewriter(self, kernel, b).block(kernel.body)
        return kernel if body is kernel.body else replace(kernel, body=body, next_id=b.next_id)


class _Rewriter:
    """Replaces indices by row-major numbers. ``numbers``: a computation -> a value that dominates the open block
    and has the computation's result."""

    def __init__(self, how: LowerOffsets, kernel: N.Kernel, b: Builder) -> None:
        self.how = how
        self.kernel = kernel
        self.b = b
        self.zeros = {s.id for s in find(kernel.body, N.Const) if s.value == 0}
        self.numbers: dict[object, X] = {}

    def block(self, block: N.Block) -> N.Block:
        outer, self.numbers = self.numbers, dict(self.numbers)
        with self.b.block() as out:
            for s in block:
                made = self._access(s) if isinstance(s, N.Access) else map_blocks(s, self.block)
                self.b.stmts.append(made)
        self.numbers = outer
        return same_or(block, out)

    def _access(self, s: N.Access) -> N.Access:
        buffer = self.kernel.buffers[s.buffer]
        few = len(s.index) < 2 and all(self.b.types[i] in (i32, i64) for i in s.index)
        own = buffer.in_frame or buffer.kind in ("heap", "private") or (self.how.groups and buffer.role == "block")
        if few or own:
            return s
        self.b.span, self.b.adjoint_of = s.span, s.adjoint_of
        number = self._number(buffer, s.index)
        self.b.span, self.b.adjoint_of = None, N.NO_ID
        return replace(s, index=(number.id,))

    def _number(self, buffer: N.Buffer, index: N.Ids) -> X:
        """The row-major index of the element; with fewer indices than axes, of the row."""
        narrow = buffer.shape is not None and prod(buffer.shape) < 1 << 31 and not self.how.wide
        t, row, last = i32 if narrow else i64, index[:-1], index[-1]
        if not row:
            return self._once((t, last), lambda: X(self.b, self.b.cast(last, t)))

        place = buffer.name if buffer.shape is None else buffer.shape
        begin = self._once((place, row, "begin"), lambda: self._number(buffer, row) * self._extent(buffer, len(row), t))
        if last in self.zeros:
            return begin
        return self._once((place, index), lambda: begin + self._number(buffer, (last,)))

    def _once(self, key: object, make: Callable[[], X]) -> X:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = make()
        return found

    def _extent(self, buffer: N.Buffer, axis: int, t: DType) -> X:
        known, b = buffer.known_extent(axis), self.b
        return X(b, b.add(N.ShapeOf(b.fresh(), i64, buffer.name, axis)) if known is None else b.const(known, t))
