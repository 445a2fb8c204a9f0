"""Programs that launch kernels in many ways, as functions of a `World`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import quadrants_lab as qd
from quadrants_lab.runtime.observe.observers import unwatched

N = 6
Program = Callable[["World"], Any]
PROGRAMS: dict[str, Program] = {}


class World:
    """The fields and kernels of the programs, in a session of their own."""

    def __init__(self, options: dict[str, Any]) -> None:
        qd.init(**options, random_seed=7)
        make = {"dtype": qd.f32, "needs_grad": True}
        self.x, self.z, self.w = (qd.field(shape=N, name=name, **make) for name in "xzw")
        self.u = qd.field(shape=(9, N), name="u", **make)
        self.y = qd.field(shape=(), name="y", needs_dual=True, **make)
        self.k = qd.field(qd.i32, N, name="k")
        self.x.from_numpy(np.linspace(0.1, 0.9, N).astype(np.float32))
        self.u.from_numpy(np.linspace(-1, 1, 9 * N).astype(np.float32).reshape(9, N))
        self.k.from_numpy(np.arange(N)[::-1].astype(np.int32))
        x, z, u, w, y, k = self.x, self.z, self.u, self.w, self.y, self.k

        @qd.kernel
        def there():
            for i in x:
                z[i] = qd.sin(x[i]) + 0.01

        @qd.kernel
        def back(by: qd.f32):
            for i in x:
                x[i] = z[i] * by

        @qd.kernel
        def in_place(by: qd.f32):
            for i in x:
                x[i] = qd.sin(x[i]) * by

        @qd.kernel
        def turned():
            for i in x:
                w[i] = x[k[i]] * 2.0

        @qd.kernel
        def step(t: qd.i32):
            for i in range(N):
                u[t + 1, i] = qd.cos(u[t, i]) + 0.1 * u[t, (i + 1) % N]

        @qd.kernel
        def total():
            for i in x:
                y[None] += x[i] ** 2

        @qd.kernel
        def last():
            for i in range(N):
                y[None] += u[8, i] ** 2

        @qd.kernel
        def looped(n: qd.i32):
            for i in x:
                v = x[i]
                for _ in range(n + k[i]):
                    v = qd.sin(v) + 0.1
                y[None] += v

        @qd.kernel
        def of(f: qd.template(), g: qd.template(), by: qd.f32):
            for i in f:
                g[i] = f[i] * by + g[i]

        @qd.kernel
        def arrays(a: qd.types.ndarray(dtype=qd.f32, ndim=1), b: qd.types.ndarray(dtype=qd.f32, ndim=1)):
            for i in a:
                a[i] = b[i] * 0.5 + a[i]

        @qd.kernel
        def noise():
            for i in z:
                z[i] = qd.random(qd.f32) + x[i]

        @qd.kernel
        def sums() -> qd.f32:
            s = 0.0
            for i in range(N):
                s += x[i]
            return s

        @qd.kernel
        def checked(limit: qd.f32):
            for i in x:
                assert x[i] < limit
            for i in x:
                z[i] = x[i] + limit

        @qd.kernel
        def says(by: qd.i32):
            for i in range(2):
                print("said", by + i)
            for i in x:
                x[i] += by

        @qd.kernel
        def half(a: qd.f16):
            for i in x:
                x[i] = x[i] * a

        self.there, self.back, self.in_place, self.turned, self.step = there, back, in_place, turned, step
        self.total, self.last, self.looped, self.of, self.arrays = total, last, looped, of, arrays
        self.noise, self.sums, self.checked, self.says, self.half = noise, sums, checked, says, half


def program(name: str) -> Callable[[Program], Program]:
    def add(fn: Program) -> Program:
        PROGRAMS[name] = fn
        return fn
    return add


@program("ping-pong")
def _(o: World) -> None:
    for n in range(30):
        o.there()
        o.back(1.0 + n / 100)

@program("in place")
def _(o: World) -> None:
    for n in range(30):
        o.in_place(1.0 + n / 100)

@program("indexed by time")
def _(o: World) -> None:
    for _ in range(4):
        for t in range(8):
            o.step(t)
        o.last()

@program("several kernels in turns")
def _(o: World) -> None:
    for n in range(12):
        o.there()
        if n % 3 == 0:
            o.turned()
        o.back(0.9)
        if n % 5 == 0:
            o.total()
    for _ in range(20):
        o.in_place(1.01)

@program("Python writes in between")
def _(o: World) -> None:
    for n in range(12):
        o.x[n % N] = n / 10
        o.in_place(1.0)
        o.y[None] = 0
        o.total()
        if n % 4 == 1:
            o.x.fill(0.3)
        if n % 4 == 2:
            o.x.from_numpy(np.full(N, n / 20, np.float32))
        if n % 4 == 3:
            o.k[n % N] = n % N
    o.x.fill(7)
    o.y[None] = 3

@program("numpy arrays changed in place")
def _(o: World) -> None:
    a, b = np.zeros(N, np.float32), np.ones(N, np.float32)
    for n in range(12):
        a[n % N] = n
        o.arrays(a, b)
        b += 1
    a[:] = b[:] = -1

@program("tensors changed in place")
def _(o: World) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.zeros(N), torch.ones(N)
    for n in range(12):
        a[n % N] = n
        o.arrays(a, b)
        b += 1
    a.fill_(-1)

@program("ndarrays")
def _(o: World) -> None:
    a, b, c = (qd.ndarray(qd.f32, N) for _ in range(3))
    a.fill(1)
    for n in range(12):
        o.arrays(b, a)
        o.arrays(a, c if n % 3 == 0 else b)
        c[n % N] = n

@program("ndarrays with gradients")
def _(o: World) -> None:
    a, b = (qd.ndarray(qd.f32, N, needs_grad=True) for _ in range(2))
    a.fill(1)
    for _ in range(9):
        o.arrays(b, a)
        b.grad.fill(1)
        o.arrays.grad(b, a)

@program("a field that others write to")
def _(o: World) -> None:
    o.there()
    if o.x._memory.session.backend.CAPABILITIES.on_host:
        seen = o.x.to_numpy(copy=False)
        for n in range(7):
            seen[n % N] = n
            o.there()
            o.in_place(1.0)

@program("templates")
def _(o: World) -> None:
    for n in range(9):
        o.of(o.x, o.z, n / 10)
        o.of(o.z, o.w, 0.5)

@program("random numbers")
def _(o: World) -> None:
    for _ in range(9):
        o.noise()
        o.back(0.5)

@program("random numbers under a Tape")
def _(o: World) -> None:
    for _ in range(3):
        with qd.ad.Tape(o.y):
            for _ in range(5):
                o.noise()
                o.back(0.5)
            o.total()

@program("values")
def _(o: World) -> float:
    return sum(o.sums() + (o.in_place(1.0) or 0) for _ in range(9))

@program("gradients by hand")
def _(o: World) -> None:
    for n in range(9):
        o.total()
        o.y.grad[None] = n
        o.total.grad()
        o.looped(n)
        o.looped.grad(n)
    o.total()

@program("value and gradient")
def _(o: World) -> None:
    for n in range(9):
        o.y.grad[None] = 1
        o.looped.value_and_grad(n % 3)

@program("a gradient alone")
def _(o: World) -> None:
    for _ in range(3):
        o.y.grad[None] = 1
        o.total.grad()

@program("Tape")
def _(o: World) -> None:
    for n in range(4):
        with qd.ad.Tape(o.y):
            for t in range(8):
                o.step(t)
            o.last()
        if n == 1:
            o.x[1] = 5

@program("equal Tapes")
def _(o: World) -> None:
    for n in range(7):
        with qd.ad.Tape(o.y):
            for t in range(8):
                o.step(t)
                if n % 2 and t in (2, 5):
                    o.w[t] = n
                    o.k[t] = n
            if n == 5:
                o.of(o.x, o.w, 0.5)
            o.last()
            o.total()
        o.turned()
        o.back(0.5)
    o.total.grad()

@program("equal Tapes with values and errors")
def _(o: World) -> None:
    for n in range(8):
        with suppress(AssertionError), qd.ad.Tape(o.y):
            o.there()
            o.sums()
            o.checked(2.0 if n != 6 else 0.5)
            o.total()
    o.back(0.5)

@program("Tape over launches in place")
def _(o: World) -> None:
    for _ in range(4):
        with qd.ad.Tape(o.y):
            for n in range(8):
                o.in_place(1.0 + n / 50)
                o.there()
                o.back(1.0)
            o.total()
            o.looped(3)

@program("Tape with a budget")
def _(o: World) -> None:
    for _ in range(2):
        with qd.ad.Tape(o.y, memory=400):
            for n in range(9):
                o.in_place(1.0 + n / 50)
                o.there()
                o.back(1.0)
            o.total()

@program("Tape with a checkpoint")
def _(o: World) -> None:
    @qd.ad.checkpoint
    def part(n: int) -> None:
        o.in_place(1.0 + n / 50)
        o.there()
        o.back(1.0)
    for _ in range(2):
        with qd.ad.Tape(o.y):
            for n in range(4):
                part(n)
            o.total()

@program("a program that is repeated")
def _(o: World) -> None:
    @qd.ad.program
    def run() -> None:
        o.in_place(1.1)
        o.total()
    for _ in range(6):
        run()

@program("forward mode")
def _(o: World) -> None:
    a, b = (qd.field(qd.f32, N, needs_dual=True) for _ in "ab")
    @qd.kernel
    def squares():
        for i in a:
            o.y[None] += b[i] ** 2
    for n in range(6):
        with qd.ad.FwdMode(loss=o.y, param=a, seed=[1.0] * N):
            o.of(a, b, 2.0 + n)
            squares()

@program("a custom gradient")
def _(o: World) -> None:
    @qd.ad.grad_replaced
    def doubled(by: float) -> None:
        o.there()
        o.back(by)
    @qd.ad.grad_for(doubled)
    def doubled_back(by: float) -> None:
        o.turned()
    for _ in range(3):
        with qd.ad.Tape(o.y):
            o.in_place(1.0)
            doubled(0.5)
            o.total()

@program("sparse")
def _(o: World) -> None:
    s = qd.field(qd.f32, name="s")
    qd.root.pointer(qd.i, 4).dense(qd.i, 4).place(s)
    @qd.kernel
    def more(at: qd.i32):
        s[at] = 1.0 * at
        for i in s:
            s[i] = s[i] + 1.0
    for n in range(9):
        more(3 * n % 16)
        if n == 5:
            s[15] = 4.0

@program("numbers of numpy")
def _(o: World) -> None:
    for n in range(9):
        o.in_place(np.float32(1 + n / 20))

@program("half floats")
def _(o: World) -> None:
    for n in range(9):
        o.half(1 - n / 50)

@program("prints")
def _(o: World) -> None:
    for n in range(9):
        o.says(n)

@program("errors in the middle")
def _(o: World) -> None:
    for n in range(9):
        o.in_place(1.0)
        with suppress(AssertionError):
            o.checked(0.5 if n % 4 == 3 else 9.0)
        with suppress(Exception):
            o.back("not a number")
        o.total()

@program("an error at the end")
def _(o: World) -> None:
    for _ in range(9):
        o.in_place(1.0)
    o.checked(9.0)
    with suppress(AssertionError):
        o.checked(0.1)
    o.z.fill(1)

@program("an interrupt")
def _(o: World) -> None:
    for n in range(9):
        o.in_place(1.0)
        if n == 7:
            raise KeyboardInterrupt
        o.total()

@program("launches that nobody watches")
def _(o: World) -> None:
    for n in range(9):
        o.in_place(1.0)
        o.total()
        if n % 3 == 1:
            with unwatched():
                o.in_place(2.0)
                o.there()
    with unwatched():
        o.total()

@program("another session")
def _(o: World) -> None:
    for _ in range(6):
        o.in_place(1.0)
    World({"arch": qd.cpu, "offline_cache": False}).total()
