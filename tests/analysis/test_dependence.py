"""What dependence analysis excludes does not happen: random kernels, all of whose accesses are watched."""

import random
from collections import defaultdict

import numpy as np
import pytest
from sessions import NIGHT

from quadrants_lab.analysis.accesses import Accesses
from quadrants_lab.analysis.boxes import box_of
from quadrants_lab.analysis.dependence import may_follow, other_iterations
from quadrants_lab.ir import nodes as N, sizeexpr as S
from quadrants_lab.ir.build import Builder
from quadrants_lab.ir.parse import parse_kernel
from quadrants_lab.ir.text import print_kernel
from quadrants_lab.ir.types import f64, i32
from quadrants_lab.ir.verify import verify
from quadrants_lab.runtime.interpret.interpreter import interpret

SIZE = 32
ARG = 3


class Writer:
    """A kernel of two parallel tasks over ``u[SIZE, SIZE]`` with accesses at random affine places, in loops and ifs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = Builder(0)
        self.buffers = {"u": N.Buffer("u", "field", f64, 2, (SIZE, SIZE))}

    def kernel(self) -> N.Kernel:
        tasks = tuple(self.task() for _ in range(2))
        return N.Kernel("k", (N.Arg("n", i32),), self.buffers, tasks, self.b.next_id)

    def task(self) -> N.Offload:
        b = self.b
        axes = self.rng.randint(1, 2)
        with b.block() as bounds:
            b.yield_(*(b.const(0, i32) for _ in range(axes)), *(self.bound() for _ in range(axes)))
        indices = tuple(b.param(i32, f"p{n}") for n in range(axes))
        with b.block() as body:
            self.n = self.arg()
            self.statements([p.id for p in indices], 0)
            b.yield_()
        return N.Offload(b.fresh(), "range_for", tuple(bounds), indices, tuple(body))

    def arg(self) -> int:
        return self.b.add(N.ArgLoad(self.b.fresh(), i32, "n"))

    def bound(self) -> int:
        return self.b.const(self.rng.randint(2, 4), i32) if self.rng.random() < 0.6 else self.arg()

    def statements(self, scope: list[int], depth: int) -> None:
        b, rng = self.b, self.rng
        for _ in range(rng.randint(1, 3)):
            way = rng.random()
            if way < 0.3 and depth < 2:
                begin = b.const(rng.randint(0, 1), i32)
                end = self.bound() if rng.random() < 0.7 else rng.choice(scope)
                index = b.param(i32, "j")
                with b.block() as body:
                    self.statements([*scope, index.id], depth + 1)
                    b.yield_()
                b.add(N.For(b.fresh(), index, begin, end, (), (), tuple(body), (), reverse=rng.random() < 0.3))
            elif way < 0.45 and depth < 2:
                even = b.op("eq", b.op("mod", rng.choice(scope), b.const(2, i32)), b.const(0, i32))
                arms = []
                for _ in range(2):
                    with b.block() as arm:
                        self.statements(scope, depth + 1)
                        b.yield_()
                    arms.append(tuple(arm))
                b.add(N.If(b.fresh(), even, *arms, ()))
            else:
                index = (self.place(scope), self.place(scope))
                if rng.random() < 0.5:
                    b.load(self.buffers["u"], index)
                else:
                    b.store(self.buffers["u"], index, b.const(1.0, f64))

    def place(self, scope: list[int]) -> int:
        """Affine, or a remainder, of two indices, the argument and a constant; inside the field."""
        b, rng = self.b, self.rng
        value = b.const(rng.randint(12, 14), i32)
        for s in rng.sample(scope, min(len(scope), rng.randint(0, 2))):
            value = b.op(rng.choice(("add", "add", "sub")), value, b.op("mul", s, b.const(rng.choice((1, 1, 2)), i32)))
        if rng.random() < 0.3:
            value = b.op("add", value, self.n)
        if rng.random() < 0.15:
            parity = b.op("mod", b.op("add", self.n, b.const(rng.randint(0, 1), i32)), b.const(2, i32))
            value = b.op("add", b.const(12, i32), parity)
        return value


def happened(kernel: N.Kernel) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """Every access in order: statement, number of the task, iteration, element."""
    events, at = [], {"task": -1, "lane": ()}
    numbers = {id(t): n for n, t in enumerate(kernel.body)}

    def observe(s: N.Stmt, value: object, env: dict[int, object]) -> None:
        if isinstance(s, N.Offload):
            at["task"], at["lane"] = numbers[id(s)], tuple(value)
        elif isinstance(s, (N.Load, N.Store)):
            events.append((s.id, at["task"], at["lane"], tuple(int(env[i]) for i in s.index)))

    interpret(kernel, {"n": ARG}, {"u": np.zeros((SIZE, SIZE))}, observer=observe)
    return events


@pytest.mark.parametrize("seed", range(6 if NIGHT else 3))
def test_nothing_that_is_excluded_happens(seed: int) -> None:
    excluded = both = 0
    for k in range(25):
        kernel = Writer(1000 * seed + k).kernel()
        verify(kernel)
        assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
        info, events = Accesses(kernel), happened(kernel)
        follows, meets = set(), set()
        last: dict[tuple[int, ...], list[tuple[int, int, tuple[int, ...]]]] = defaultdict(list)
        for stmt, task, lane, element in events:
            for before, task_before, lane_before in last[element]:
                if task_before != task or lane_before == lane:
                    follows.add((before, stmt))
                else:
                    meets |= {(before, stmt), (stmt, before)}
            last[element].append((stmt, task, lane))
        for a in info.of.values():
            for c in info.of.values():
                both += 1
                if not may_follow(info, a, c):
                    excluded += 1
                    assert (a.stmt.id, c.stmt.id) not in follows, (seed, k, print_kernel(kernel))
                if a.number == c.number and not other_iterations(info, a, c):
                    excluded += 1
                    assert (a.stmt.id, c.stmt.id) not in meets, (seed, k, print_kernel(kernel))
    assert excluded > both / 3, "much of it is excluded"


def size(e: S.SizeExpr) -> int:
    match e:
        case S.SizeConst(value):
            return value
        case S.SizeArg():
            return ARG
        case S.SizeOp(op, a, b):
            x, y = size(a), size(b)
            return {"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y),
                    "mod": x % y if y else 0}[op]  # fmt: skip
    raise TypeError(e)


@pytest.mark.parametrize("seed", range(4))
def test_boxes_hold_all_that_is_written(seed: int) -> None:
    smaller = 0
    for k in range(25):
        kernel = Writer(1000 * seed + k).kernel()
        info, events = Accesses(kernel), happened(kernel)
        for number in range(2):
            written = [w for w in info.writes.get("u", []) if w.number == number]
            if not written:
                continue
            box = box_of(info, written)
            low, high = [size(e) for e in box.low], [size(e) for e in box.high]
            ids = {w.stmt.id for w in written}
            for stmt, _, _, element in events:
                if stmt in ids:
                    assert all(a <= i < b for a, i, b in zip(low, element, high, strict=True)), (seed, k)
            smaller += any(b - a < SIZE for a, b in zip(low, high, strict=True))
    assert smaller > 20
