"""Unrolls loops whose bounds are constants, or become constants when the loops around them are unrolled.

Constants decide most of the unrolled code. So statements on constants are evaluated while they are copied.
"""

from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType
from quadrants_lab.ir.walk import copied, find, rewrite, rules, substitute, types_of

_Ref = tuple[Any, int]  # the replacement of a value: (constant, `NO_ID`), or (None, id of a copy)


def unroll_loops(kernel: N.Kernel, wanted: Container[int], most: tuple[int, int]) -> N.Kernel:
    """Unrolls the ``wanted`` loops, given by id, whose bounds are constants. An outermost loop stays as it is if its
    copies would have more than ``most[0]`` statements, if more than ``most[1]`` statements are visited to make them, or
    if the loop draws random numbers. The same operations compute every value as before."""
    b = Builder(kernel.next_id, types_of(kernel.body))
    constants: dict[int, _Ref] = {s.id: (s.value, N.NO_ID) for s in find(kernel.body, N.Const)}
    ids: dict[int, int] = {}

    def one(s: N.For) -> N.Stmt | list[N.Stmt]:
        if s.id not in wanted or _is_beyond(s, wanted, constants, b.types, most):
            return s
        trips = _Trips(b, wanted, constants, most)
        try:
            with b.block() as made:
                if not trips.unrolled(s) or trips.visited > most[1]:
                    return s
                for r in s.results:
                    value = trips.use(r.id)
                    ids[r.id] = ids.get(value, value)  # another loop's result
        except _NotUnrolled:
            return s
        return made

    body = rewrite(kernel.body, rules({N.For: one}))
    return kernel if body is kernel.body else replace(kernel, body=substitute(body, ids), next_id=b.next_id)


def unrollable(kernel: N.Kernel, wanted: Container[int], most: tuple[int, int]) -> set[int]:
    """The loops that `unroll_loops` tries to unroll, with the wanted loops in them. While they are copied, one may
    still turn out to be too long."""
    constants: dict[int, _Ref] = {s.id: (s.value, N.NO_ID) for s in find(kernel.body, N.Const)}
    types, found, todo = types_of(kernel.body), set[int](), [kernel.body]
    while todo:
        for s in todo.pop():
            known = isinstance(s, N.For) and s.id in wanted and s.begin in constants and s.end in constants
            if isinstance(s, N.For) and known and not _is_beyond(s, wanted, constants, types, most):
                found |= {loop.id for loop in find((s,), N.For) if loop.id in wanted}
            else:
                todo += s.blocks()
    return found


class _NotUnrolled(Exception):
    """The copies of a loop have more statements than allowed, or the loop draws random numbers. Draws of one call site
    are numbered in order, so if a gradient dropped one of several copies of a draw, the next copy would get its
    number."""


class _Trips:
    """Copies the trips of a nest of loops. ``outside`` has the constants of the kernel, by id. ``bound`` has the
    replacement of each value that is defined in the nest."""

    def __init__(
        self, b: Builder, wanted: Container[int], outside: dict[int, _Ref], most: tuple[int, int]
    ) -> None:
        self.b = b
        self.wanted = wanted
        self.outside = outside
        self.bound: dict[int, _Ref] = {}
        self.decided: dict[int, bool] = {}
        self.made = self.visited = 0
        self.most = most

    def value(self, old: int) -> Any:
        """The constant that a value is, else None."""
        found = self.bound.get(old) or self.outside.get(old)
        return found and found[0]

    def use(self, old: int) -> int:
        """The new id of a value."""
        constant, new = self.bound.get(old, (None, old))
        return new if constant is None else self.b.const(constant, self.b.types[old])

    def ref(self, old: int) -> _Ref:
        return self.bound.get(old) or self.outside.get(old) or (None, old)

    def unrolled(self, s: N.For) -> bool:
        """Emits all trips of a loop, and binds its results; False where its bounds are not known."""
        begin, end = self.value(s.begin), self.value(s.end)
        if begin is None or end is None:
            return False
        carried = [self.ref(i) for i in s.inits]
        names = [p.id for p in s.carried]
        for index in range(begin, end):
            self.bound[s.index.id] = index, N.NO_ID
            self.bound.update(zip(names, carried, strict=True))
            carried = self.block(s.body)
        self.bound.update(zip([r.id for r in s.results], carried, strict=True))
        return True

    def block(self, block: N.Block) -> list[_Ref]:
        """Emits the statements of a block; returns the values that the block yields."""
        for s in block[:-1]:
            self.visited += s.weight
            if isinstance(s, N.Op):
                self.op(s)
            elif isinstance(s, N.Choice) and None not in (index := [*map(self.value, s.index)]):
                self.bound |= [(i, self.ref(v) if v != N.NO_ID else (0.0, v)) for i, v in s.taken(index)]
            else:
                self.statement(s)
        return [self.ref(i) for i in block[-1].operands()]

    def statement(self, s: N.Stmt) -> None:
        if isinstance(s, N.Const):
            self.bound[s.id] = s.value, N.NO_ID
        elif isinstance(s, N.If) and (cond := self.value(s.cond)) is not None:
            ends = self.block(s.then if cond else s.orelse)
            self.bound.update(zip([r.id for r in s.results], ends, strict=True))
        elif isinstance(s, N.Assert) and self.value(s.cond) is True:
            pass
        elif not (isinstance(s, N.For) and s.id in self.wanted and self.unrolled(s)):
            self.copy(s)

    def op(self, s: N.Op) -> None:
        """Emits a copy of an operation, or evaluates it if its operands are constants."""
        values = [self.value(a) for a in s.args]
        if s.prim == "select" and values[0] is not None:
            self.bound[s.id] = self.ref(s.args[1 if values[0] else 2])
        elif None in values or not self.is_decidable(s):
            self.copy(s)
        else:
            operands = (self.b.types[a].numpy(v) for a, v in zip(s.args, values, strict=True))
            with np.errstate(all="ignore"):
                self.bound[s.id] = PRIMS[s.prim].evaluate(s.type, *operands).item(), N.NO_ID

    def is_decidable(self, s: N.Op) -> bool:
        """Whether all operands and the result of an operation are integers, so that it can be evaluated exactly."""
        found = self.decided.get(s.id)
        if found is None:
            types = (s.type, *(self.b.types[a] for a in s.args))
            found = self.decided[s.id] = not any(t.is_float for t in types)
        return found

    def copy(self, s: N.Stmt) -> None:
        """Emits a copy of a statement, with copies of its blocks."""
        self.made += s.weight
        if self.made > self.most[0] or self.visited > self.most[1] or isinstance(s, N.Random):
            raise _NotUnrolled
        self.b.span = s.span
        new = copied(s, self.use, self.param, self.inner, self.b.fresh)
        self.b.add(new)
        if isinstance(new, N.Value):
            self.bound[s.id] = None, new.id

    def inner(self, block: N.Block) -> N.Block:
        with self.b.block() as made:
            ends = self.block(block)
            old = block[-1].operands()
            self.b.yield_(*(new if c is None else self.b.const(c, self.b.types[i])
                            for i, (c, new) in zip(old, ends, strict=True)))  # fmt: skip
        return tuple(made)

    def param(self, p: N.Param) -> N.Param:
        new = self.b.param(p.type, p.name)
        self.bound[p.id] = None, new.id
        return new


def _is_beyond(
    s: N.For, wanted: Container[int], constants: dict[int, _Ref], types: dict[int, DType], most: tuple[int, int]
) -> bool:
    """Whether the unrolled loop certainly exceeds a limit. The estimate is a lower bound: it counts only statements
    that certainly run, and among the copies only operations on floats and accesses."""

    def of(s: N.Stmt) -> tuple[int, int]:
        """How many statements are made and visited at least."""
        if isinstance(s, N.Op):
            return s.prim != "select" and any(types[a].is_float for a in s.args), 1
        if isinstance(s, N.For) and s.id in wanted:
            begin, end = constants.get(s.begin), constants.get(s.end)
            trips = max(end[0] - begin[0], 0) if begin and end else 0
            made, visited = zip((0, 0), *map(of, s.body[:-1]), strict=True)
            return trips * sum(made), 1 + trips * sum(visited)
        if isinstance(s, N.Loop):  # its blocks are copied once
            made, visited = zip((1, 1), *(of(x) for b in s.blocks() for x in b[:-1]), strict=True)
            return sum(made), sum(visited)
        return isinstance(s, N.Access), s.weight

    made, visited = of(s)
    return made > most[0] or visited - 1 > most[1]
