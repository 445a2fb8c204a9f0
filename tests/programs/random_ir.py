"""Random well-typed IR: every kind of control flow, exits anywhere, values of every dtype; always terminates."""

import random
from collections.abc import Sequence

import numpy as np

from quadrants_lab.ir import nodes as N
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.prims import PRIMS
from quadrants_lab.ir.types import DType, f16, f32, f64, i8, i32, i64, u1, u8, u32

TYPES = (f32, f64, i32, i64, u1, u8, f16, i8, u32)
SIZE = 8
SPECIAL = {
    "f": (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, float("inf"), float("-inf"), float("nan"), 2.5, -7.0),
    "i": (0, 1, -1, 2, 3, 7, -5, "low", "high"),
    "u": (0, 1, 2, 3, 7, "high"),
    "b": (False, True),
}
# approximate on purpose in `fold`: not where a later decision could tell
INEXACT = ("pow",)
BUFFERS = {t: f"m_{t}" for t in TYPES}


def special(r: random.Random, t: DType) -> bool | int | float:
    v = r.choice(SPECIAL[t.kind])
    if v == "low":
        return -(1 << (t.bits - 1))
    if v == "high":
        return (1 << (t.bits - (t.kind == "i"))) - 1
    return v


def arrays(seed: int, wide: bool = True) -> dict[str, np.ndarray]:
    """Memory for a kernel of this module, full of special values."""
    r = random.Random(seed)
    kept = [t for t in TYPES if wide or t is not f64]
    return {BUFFERS[t]: np.array([special(r, t) for _ in range(SIZE)], t.numpy) for t in kept}


def _names() -> list[str]:
    """Of the primitives that tests have left in the table, but for roots, which are gone before a backend sees the
    kernel, and those of lowered kernels alone."""
    return [name for name, p in PRIMS.items() if p.rule not in ("isqrt", "machine", "unit", "fptoint")]


class Maker:
    """``exact``: only operations whose result no pass may change in the last bit. ``wild``: indices may be anything.
    ``draws``: random numbers too, which the interpreter does not run. ``wide``: f64 too."""

    def __init__(
        self, seed: int, exact: bool = True, wild: bool = False, draws: bool = False, wide: bool = True
    ) -> None:
        self.types = TYPES if wide else tuple(t for t in TYPES if t is not f64)
        self.r = random.Random(seed)
        self.b = Builder(0)
        self.exact, self.wild, self.draws = exact, wild, draws
        self.site = 0
        self.budget = 90

    def kernel(self) -> N.Kernel:
        scope: list[int] = []
        with self.b.block() as body:
            for _ in range(self.r.randint(1, 4)):
                if self.r.random() < 0.5:
                    self.stmts(scope, self.r.randint(1, 6), 0, None)
                else:
                    self.task(scope)
        buffers = {n: N.Buffer(n, "field", t, 1, (SIZE,)) for t, n in BUFFERS.items() if t in self.types}
        return N.Kernel("random", (N.Arg("s", i32),), buffers, tuple(body), self.b.next_id)

    def task(self, scope: list[int]) -> None:
        b = self.b
        with b.block() as bounds:
            b.yield_(b.const(0, i32), self.small([*scope]))
        index = b.param(i32, "i")
        with b.block() as body:
            self.stmts([*scope, index.id], self.r.randint(1, 8), 1, ())
            b.yield_()
        b.add(N.Offload(b.fresh(), "range_for", tuple(bounds), (index,), tuple(body)))

    # --- values ---------------------------------------------------------------------------------------------

    def pick(self, scope: Sequence[int], t: DType) -> int:
        known = [i for i in scope if self.b.types[i] is t]
        if known and self.r.random() < 0.75:
            return self.r.choice(known[-6:])
        return self.b.const(special(self.r, t), t)

    def small(self, scope: Sequence[int]) -> int:
        """An i32 from 0 to 3."""
        return self.b.op("mod", self.pick(scope, i32), self.b.const(4, i32))

    def index(self, scope: Sequence[int]) -> int:
        if self.wild and self.r.random() < 0.4:
            return self.pick(scope, self.r.choice((i32, i32, i64, u8)))
        return self.b.op("mod", self.pick(scope, i32), self.b.const(SIZE, i32))

    def op(self, scope: Sequence[int]) -> int:
        names = _names()
        p = PRIMS[self.r.choice(names)]
        while self.exact and p.name in INEXACT:
            p = PRIMS[self.r.choice(names)]
        floats, ints = tuple(t for t in (f32, f64, f16) if t in self.types), (i32, i64, u8, i8, u32)
        if p.rule in ("float", "test"):
            t = self.r.choice(floats)
        elif p.rule in ("int", "count"):
            t = self.r.choice((*ints, u1) if p.name in ("and", "or", "xor", "not") else ints)
        elif p.rule == "num":
            t = self.r.choice((*floats, *ints))
        else:
            t = self.r.choice(self.types)
        b = self.b
        if p.rule == "select":
            return b.op("select", self.pick(scope, u1), self.pick(scope, t), self.pick(scope, t))
        if p.rule == "cast":
            return b.op("cast", self.pick(scope, t), type=self.r.choice(self.types))
        if p.rule == "bitcast":
            to = {16: (f16,), 32: (f32, i32, u32), 64: (f64, i64), 8: (i8, u8), 1: (u1,)}[t.bits]
            known = tuple(u for u in to if u in self.types)
            return b.op("bitcast", self.pick(scope, t), type=self.r.choice(known))
        return b.op(p.name, *(self.pick(scope, t) for _ in range(p.arity)))

    # --- statements -----------------------------------------------------------------------------------------

    def stmts(self, scope: list[int], count: int, depth: int, leave: Sequence[DType] | None, brk: bool = False) -> None:
        """Appends statements; ``leave``: what Break and Continue carry (None: there is nothing to leave)."""
        for _ in range(count):
            self.budget -= 1
            k = self.r.random()
            if k < 0.55 or self.budget < 0:
                scope.append(self.op(scope))
            elif k < 0.65:
                t = self.r.choice(self.types)
                at = self.index(scope)
                scope.append(self.b.add(N.Load(self.b.fresh(), t, BUFFERS[t], (at,))))
            elif k < 0.72:
                self.write(scope)
            elif k < 0.74 and self.draws:
                t = self.r.choice((f32, i32))
                self.site += 1
                scope.append(self.b.add(N.Random(self.b.fresh(), t, self.site)))
            elif k < 0.76:
                scope.append(self.b.add(N.ArgLoad(self.b.fresh(), i32, "s")))
            elif depth < 4 and k < 0.88:
                self.if_(scope, depth, leave, brk)
            elif depth < 4:
                (self.for_ if self.r.random() < 0.6 else self.while_)(scope, depth)

    def write(self, scope: list[int]) -> None:
        b = self.b
        t = self.r.choice(self.types)
        at, value = self.index(scope), self.pick(scope, t)
        if self.r.random() < 0.5 or t in (u1, f16):
            b.add(N.Store(b.fresh(), BUFFERS[t], (at,), value))
        else:
            op = self.r.choice(("add", "sub", "min", "max", "exchange"))
            scope.append(b.add(N.Atomic(b.fresh(), t, BUFFERS[t], (at,), value, op)))

    def arm(self, scope: list[int], depth: int, leave: Sequence[DType] | None, brk: bool, types: Sequence[DType]):
        b = self.b
        with b.block() as out:
            inner = list(scope)
            self.stmts(inner, self.r.randint(0, 4), depth + 1, leave, brk)
            if leave is not None and self.r.random() < 0.3:
                self.exit(inner, leave, brk)
            else:
                b.yield_(*(self.pick(inner, t) for t in types))
        return tuple(out)

    def exit(self, scope: list[int], leave: Sequence[DType], brk: bool) -> None:
        cls = N.Break if brk and self.r.random() < 0.5 else N.Continue
        values = [self.pick(scope, t) for t in leave]
        if values and self.counter is not None:
            values[0] = self.counter
        self.b.add(cls(self.b.fresh(), tuple(values)))

    counter: int | None = None  # of the innermost While: what its exits carry first, so that it ends

    def if_(self, scope: list[int], depth: int, leave: Sequence[DType] | None, brk: bool) -> None:
        b = self.b
        types = [self.r.choice(self.types) for _ in range(self.r.randint(0, 3))]
        cond = self.pick(scope, u1)
        then, orelse = (self.arm(scope, depth, leave, brk, types) for _ in range(2))
        results = tuple(b.param(t) for t in types)
        b.add(N.If(b.fresh(), cond, then, orelse, results))
        scope += [p.id for p in results]

    def carry(self, scope: list[int]) -> tuple[list[DType], tuple[N.Param, ...], tuple[int, ...]]:
        types = [self.r.choice(self.types) for _ in range(self.r.randint(0, 3))]
        inits = tuple(self.pick(scope, t) for t in types)
        return types, tuple(self.b.param(t) for t in types), inits

    def for_(self, scope: list[int], depth: int) -> None:
        b = self.b
        outer, self.counter = self.counter, None
        types, carried, inits = self.carry(scope)
        begin, end = self.small(scope), self.small(scope)
        index = b.param(i32, "j")
        with b.block() as body:
            inner = [*scope, index.id, *(p.id for p in carried)]
            self.stmts(inner, self.r.randint(0, 5), depth + 1, types, True)
            if self.r.random() < 0.1:
                self.exit(inner, types, True)
            else:
                b.yield_(*(self.pick(inner, t) for t in types))
        results = tuple(b.param(t) for t in types)
        reverse = self.r.random() < 0.2
        b.add(N.For(b.fresh(), index, begin, end, carried, inits, tuple(body), results, reverse=reverse))
        scope += [p.id for p in results]
        self.counter = outer

    def while_(self, scope: list[int], depth: int) -> None:
        b = self.b
        outer = self.counter
        types, carried, inits = self.carry(scope)
        types, start = [i32, *types], self.small(scope)
        carried = (b.param(i32, "count"), *carried)
        with b.block() as cond:
            inner = [*scope, *(p.id for p in carried)]
            self.counter = None
            self.stmts(inner, self.r.randint(0, 2), 4, None)
            also = b.op("lt", carried[0].id, b.const(4, i32))
            b.yield_(b.op("and", also, self.pick(inner, u1)))
        with b.block() as body:
            inner = [*scope, *(p.id for p in carried)]
            self.counter = b.op("add", carried[0].id, b.const(1, i32))
            self.stmts(inner, self.r.randint(0, 5), depth + 1, types, True)
            b.yield_(self.counter, *(self.pick(inner, t) for t in types[1:]))
        results = tuple(b.param(t) for t in types)
        b.add(N.While(b.fresh(), carried, (start, *inits), tuple(cond), tuple(body), results))
        scope += [p.id for p in results]
        self.counter = outer


def random_kernel(
    seed: int, exact: bool = True, wild: bool = False, draws: bool = False, wide: bool = True
) -> N.Kernel:
    return Maker(seed, exact, wild, draws, wide).kernel()
