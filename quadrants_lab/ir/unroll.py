"""Unrolling of loops whose bounds are constants, also once the loops around them are unrolled.

Constants decide most of the unrolled code. So statements on constants are evaluated while they are copied.
"""

from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.walk import copied, find, rewrite, substitute, types_of


def unroll_loops(kernel: N.Kernel, wanted: Container[int], most: tuple[int, int]) -> N.Kernel:
    """Unrolls the loops with these ids whose bounds are constants, unless an outermost one would become more statements
    than the first number of ``most``, or more than the second were visited to make them, or it draws random numbers.
    The same operations compute every value as before."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    constants = {s.id: s.value for s in find(kernel.body, N.Const)}
    ids: dict[int, int] = {}

    def one(s: N.Stmt) -> N.Stmt | list[N.Stmt]:
        if not isinstance(s, N.For) or s.id not in wanted:
            return s
        trips = _Trips(b, wanted, constants, most)
        try:
            with b.block() as made:
                if not trips.unrolled(s):
                    return s
                for r in s.results:
                    value = trips.use(r.id)
                    ids[r.id] = ids.get(value, value)  # another loop's result
        except _NotUnrolled:
            return s
        return made

    body = rewrite(kernel.body, one)
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, ids), next_id=b.next_id)


class _NotUnrolled(Exception):
    """There are more statements than allowed, or a random draw. Draws of one call site are
    numbered in order, so a gradient that drops one of several copies would give the number of that draw to the next
    one."""


class _Trips:
    """Copies the trips of a nest of loops. ``outside`` has the constants from around the nest, by id. ``known`` maps
    the id of a value in the nest to its constant, or else ``ids`` maps it to the id of the copy; the ids of values
    from around the nest are in neither."""

    def __init__(
        self, b: Builder, wanted: Container[int], outside: dict[int, Any], most: tuple[int, int]
    ) -> None:
        self.b = b
        self.wanted = wanted
        self.outside = outside
        self.known: dict[int, Any] = {}
        self.ids: dict[int, int] = {}
        self.made = self.visited = 0
        self.most = most

    def value(self, old: int) -> Any:
        """The constant that a value is, else None."""
        return self.known[old] if old in self.known else None if old in self.ids else self.outside.get(old)

    def use(self, old: int) -> int:
        """The new id of a value."""
        return self.b.const(self.known[old], self.b.types[old]) if old in self.known else self.ids.get(old, old)

    def bind(self, old: int, ref: tuple[Any, int]) -> None:
        """Notes what takes the place of the value ``old``: a constant, or the id of a copy."""
        constant, new = ref
        self.known.pop(old, None)
        self.ids.pop(old, None)
        if constant is not None:
            self.known[old] = constant
        else:
            self.ids[old] = new

    def ref(self, old: int) -> tuple[Any, int]:
        constant = self.value(old)
        return constant, N.NO_ID if constant is not None else self.use(old)

    def unrolled(self, s: N.For) -> bool:
        """Emits all trips of a loop, and binds its results; False where its bounds are not known."""
        begin, end = self.value(s.begin), self.value(s.end)
        if begin is None or end is None:
            return False
        carried = [self.ref(i) for i in s.inits]
        for index in range(begin, end):
            self.bind(s.index.id, (index, N.NO_ID))
            for p, ref in zip(s.carried, carried, strict=True):
                self.bind(p.id, ref)
            carried = self.block(s.body)
        for r, ref in zip(s.results, carried, strict=True):
            self.bind(r.id, ref)
        return True

    def block(self, block: N.Block) -> list[tuple[Any, int]]:
        """Emits a block; returns what it yields."""
        for s in block[:-1]:
            self.visited += 1
            self.statement(s)
        return [self.ref(i) for i in block[-1].operands()]

    def statement(self, s: N.Stmt) -> None:
        if isinstance(s, N.Const):
            self.bind(s.id, (s.value, N.NO_ID))
        elif isinstance(s, N.Op):
            self.op(s)
        elif isinstance(s, N.If) and (cond := self.value(s.cond)) is not None:
            for r, ref in zip(s.results, self.block(s.then if cond else s.orelse), strict=True):
                self.bind(r.id, ref)
        elif isinstance(s, N.Assert) and self.value(s.cond) is True:
            pass
        elif not (isinstance(s, N.For) and s.id in self.wanted and self.unrolled(s)):
            self.copy(s)

    def op(self, s: N.Op) -> None:
        values = [self.value(a) for a in s.args]
        if s.prim == "select" and values[0] is not None:
            self.bind(s.id, self.ref(s.args[1] if values[0] else s.args[2]))
        elif None in values or s.type.is_float or any(self.b.types[a].is_float for a in s.args):
            self.copy(s)
        else:
            operands = (self.b.types[a].numpy(v) for a, v in zip(s.args, values, strict=True))
            with np.errstate(all="ignore"):
                self.bind(s.id, (PRIMS[s.prim].evaluate(s.type, *operands).item(), N.NO_ID))

    def copy(self, s: N.Stmt) -> None:
        """Emits a copy of a statement, with copies of its blocks."""
        self.made += 1
        if self.made > self.most[0] or self.visited > self.most[1] or isinstance(s, N.Random):
            raise _NotUnrolled
        self.b.span = s.span
        new = copied(s, self.use, self.param, self.inner, self.b.fresh)
        self.b.add(new)
        if isinstance(new, N.Value):
            self.bind(s.id, (None, new.id))

    def inner(self, block: N.Block) -> N.Block:
        with self.b.block() as made:
            ends = self.block(block)
            old = block[-1].operands()
            self.b.yield_(*(new if c is None else self.b.const(c, self.b.types[i])
                            for i, (c, new) in zip(old, ends, strict=True)))  # fmt: skip
        return tuple(made)

    def param(self, p: N.Param) -> N.Param:
        new = self.b.param(p.type, p.name)
        self.bind(p.id, (None, new.id))
        return new
